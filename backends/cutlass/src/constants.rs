//! The constant_updater: one claim for each constant, as code generation has learnt. What kernels read is left to the host, but
//! for the filters of convolutions, which are packed; what no step needs, such as what is multiplied by 0, is not needed.

use byoc_nvidia::claims;
use byoc_plugin_api::{Claims, Error, Job};

use crate::conv;

pub(crate) fn constant_updater(job: &Job<'_>, learnt: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
    match conv::is_one(job.region) {
        true => conv::constant_updater(job, &serde_json::from_slice(learnt)?, claims),
        false => claims::constant_updater(job, learnt, claims),
    }
}
