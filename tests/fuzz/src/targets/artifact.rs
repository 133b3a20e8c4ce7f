//! Artifacts: opened, their digests read, loaded and run.

use crate::{Target, artifact_file, models, run};

pub(crate) const TARGET: Target = Target {
    name: "artifact",
    seeds: models::artifacts,
    run: |input| run::artifact(input, &models::REGISTRY).is_ok(),
    mutate: artifact_file::bytes,
};
