//! ONNX files: read, compiled, loaded and run.

use byoc_core::ops::all;
use byoc_core::ops::control::CONTROL;
use byoc_core::ops::lists::LISTS;

use crate::{Target, models, protobuf, run};

pub(crate) const TARGET: Target = Target {
    name: "onnx",
    seeds: || models::files(),
    run: |input| {
        let with = |backends: &[&str]| {
            let artifact = models::compiled_if_small(input, &models::REGISTRY, backends);
            artifact.and_then(|artifact| run::artifact(&artifact, &models::REGISTRY)).is_ok()
        };
        // Little of what is tried could be run on a chip, so it is not asked for more than a part.
        if input.len() % 4 == 0 { with(&["kendryte", "json"]) } else { with(&["json"]) }
    },
    mutate: |input, other, rng, raw| {
        let others = CONTROL.iter().map(|op| op.name).chain(LISTS.iter().map(|op| op.name));
        let words: Vec<_> = all().map(|op| op.name).chain(others).collect();
        protobuf::bytes(input, other, &words, rng, raw)
    },
};
