//! The constant_updater: weights, biases and tables are in the kmodel, as bytes and words of another meaning; shapes and
//! axes are in its layers. So every constant is embedded.

use byoc_plugin_api::{Claims, Error, Region};

pub(crate) fn constant_updater(region: &Region, claims: &mut Claims<'_>) -> Result<(), Error> {
    region.constants.iter().try_for_each(|constant| claims.embedded(constant.id))
}
