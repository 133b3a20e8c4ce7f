//! What code generation of these backends has learnt for the constant_updater: which constants kernels read, and which ones
//! have decided what is computed.

use byoc_plugin_api::{Claims, ConstantId, Error, Job, Region};
use serde::{Deserialize, Serialize};

/// What becomes of the constants of a region; those that are not listed are not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learnt {
    /// Kernels or libraries read them as the host keeps them.
    pub host: Vec<ConstantId>,
    /// They are in the code, as what they have decided.
    pub embedded: Vec<ConstantId>,
}

impl Learnt {
    /// Of values of a region, of which those that are no constants do not count.
    pub fn of(region: &Region, host: &[usize], embedded: &[usize]) -> Learnt {
        let ids = |values: &[usize]| {
            let ids = values.iter().filter_map(|&value| region.constant(value));
            ids.map(|constant| constant.id).collect()
        };
        Learnt { host: ids(host), embedded: ids(embedded) }
    }
}

/// Claims each constant of the region as code generation has learnt.
///
/// # Errors
///
/// When what was learnt is damaged, and those of the claims.
pub fn constant_updater(job: &Job<'_>, learnt: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
    let learnt: Learnt = serde_json::from_slice(learnt)?;
    for constant in &job.region.constants {
        if learnt.host.contains(&constant.id) {
            claims.host(constant.id)?;
        } else if learnt.embedded.contains(&constant.id) {
            claims.embedded(constant.id)?;
        } else {
            claims.unused(constant.id)?;
        }
    }
    Ok(())
}
