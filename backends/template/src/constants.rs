//! The constant_updater: one claim for each constant.

use byoc_plugin_api::{Claims, Error, Region};

/// Claims every constant for the host: it is stored once, however many regions read it, and passed at load.
pub(crate) fn constant_updater(region: &Region, claims: &mut Claims<'_>) -> Result<(), Error> {
    region.constants.iter().try_for_each(|constant| claims.host(constant.id))
}
