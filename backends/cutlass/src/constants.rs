//! The constant_updater: one claim for each constant, as the steps of the region say.

use byoc_plugin_api::{Claims, Constants, Error, Options, Region};

use crate::buffers::{Use, strides};
use crate::{conv, math, steps};

/// Claims what kernels read for the host. What no step reads, such as a factor of 0, is unused.
pub(crate) fn constant_updater(
    region: &Region,
    constants: &Constants<'_>,
    options: &Options,
    claims: &mut Claims<'_>,
) -> Result<(), Error> {
    if conv::is_one(region) {
        return conv::constant_updater(region, constants, math::tf32(options), claims);
    }
    let steps = steps::read(region, options, &strides(region, constants));
    let steps = steps.map_err(|refusal| Error::new(refusal.to_string()))?;
    let uses: Vec<_> = steps.iter().flat_map(steps::Step::uses).collect();
    for constant in &region.constants {
        let of_this = |wanted: Use| uses.contains(&(constant.value, wanted));
        if of_this(Use::Host) {
            claims.host(constant.id)?;
        } else if of_this(Use::Embedded) {
            claims.embedded(constant.id)?;
        } else {
            claims.unused(constant.id)?;
        }
    }
    Ok(())
}
