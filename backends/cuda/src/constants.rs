//! The constant_updater: one claim for each constant.

use byoc_nvidia::program::Program;
use byoc_plugin_api::{Claims, Constants, Error, Region};

use crate::lower::lower;

/// Claims what kernels read for the host, and structural constants such as axes as embedded; the rest is unused.
pub(crate) fn constant_updater(
    region: &Region,
    constants: &Constants<'_>,
    code: &[u8],
    claims: &mut Claims<'_>,
) -> Result<(), Error> {
    let (program, _) = Program::read(code)?;
    let graph = lower(region, Some(constants)).map_err(|refusal| Error::new(refusal.to_string()))?;
    for constant in &region.constants {
        if program.constants.iter().any(|read| read.id == constant.id) {
            claims.host(constant.id)?;
        } else if graph.decided.contains(&constant.value) {
            claims.embedded(constant.id)?;
        } else {
            claims.unused(constant.id)?;
        }
    }
    Ok(())
}
