//! The constant_updater: one claim for each constant.

use byoc_plugin_api::{Claims, Error, Options, Region};

use crate::patterns;

/// Claims every operand for the host: cublasLt reads matrices and their transposes in place. The numbers of a GELU are
/// embedded, as the code names the function; what is multiplied by 0 is unused.
pub(crate) fn constant_updater(region: &Region, options: &Options, claims: &mut Claims<'_>) -> Result<(), Error> {
    let matched = patterns::read(region, options).map_err(|refusal| Error::new(refusal.to_string()))?;
    let product = &matched.product;
    let added = [product.c.as_ref().map(|c| c.from), product.bias];
    for constant in &region.constants {
        let value = constant.value;
        if [product.x.from, product.w.from].contains(&value) || added.contains(&Some(value)) {
            claims.host(constant.id)?;
        } else if matched.numbers.contains(&value) {
            claims.embedded(constant.id)?;
        } else {
            claims.unused(constant.id)?;
        }
    }
    Ok(())
}
