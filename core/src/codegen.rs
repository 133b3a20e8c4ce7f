//! Stage 5: each region through its backend's codegen and constant_updater.

use byoc_plugin_api::Claim;

use crate::partition::{Partitioned, RegionPlan};
use crate::spool::{Spool, SpoolRange};

/// A claim as recorded, with the place of its packed bytes.
#[derive(Clone, Debug)]
pub struct RecordedClaim {
    /// What was claimed.
    pub claim: Claim,
    /// The bytes of a packed claim.
    pub packed: Option<SpoolRange>,
}

/// A region with its code and one claim for each constant, parallel to `plan.region.constants`.
#[derive(Clone, Debug)]
pub struct GeneratedRegion {
    /// The region.
    pub plan: RegionPlan,
    /// Its code.
    pub code: SpoolRange,
    /// Its claims.
    pub claims: Vec<RecordedClaim>,
}

/// Stage 5's result. `partitioned.regions` has moved into `regions`.
pub struct Generated {
    /// The graphs and constants.
    pub partitioned: Partitioned,
    /// The regions.
    pub regions: Vec<GeneratedRegion>,
    /// Where code and packed bytes lie until the artifact is written.
    pub spool: Spool,
}
