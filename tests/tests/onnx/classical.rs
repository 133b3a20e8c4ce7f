//! Operators of `ai.onnx.ml`: one test a case, each against onnxruntime, and forests that scikit-learn has trained, whose nodes are
//! stored once and in no more room than the model takes.

use std::path::Path;
use std::sync::Arc;

use byoc_core::plugin::Registry;
use byoc_tests::tensor::{Tolerance, compare};
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, npz, places};

/// Sums are of f64 here, and of f32 there.
const TOLERANCE: Tolerance = Tolerance { relative: 1e-4, absolute: 2e-6 };

/// Near one half, the logarithm of nearly 1 has lost its digits there, and a root is taken of what is left.
const OF_PROBITS: Tolerance = Tolerance { relative: 1e-3, absolute: 5e-4 };

/// Trained forests.
const FORESTS: [&str; 2] = ["digits", "pixels"];

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let mut trials = Vec::new();
    match data::test_data("classical") {
        Ok(root) => {
            for name in places::list(&root) {
                let (folder, registry) = (root.join(&name), Arc::clone(&registry));
                trials.push(trial(name, move || check(&folder, &registry)));
            }
        }
        Err(Skip(reason)) => trials.push(trial("classical", || Err(Skip(reason)))),
    }
    for name in FORESTS {
        let registry = Arc::clone(&registry);
        trials.push(trial(format!("forest/{name}"), move || forest(name, &registry)));
    }
    trials
}

/// Compiles and runs a case; gives the bytes of the artifact.
fn run(folder: &Path, registry: &Registry) -> u64 {
    let scratch = places::temporary_in_memory();
    let artifact = scratch.path().join("case.byoc");
    let report = engine::compile(&folder.join("model.onnx"), &artifact, registry, &["json"]).expect("compiles");
    let mut session = engine::load(&artifact, registry, 1).expect("loads");
    let outputs = engine::run(&mut session, &npz::read(&folder.join("inputs.npz"))).expect("runs");
    let expected = npz::read(&folder.join("outputs.npz"));
    assert_eq!(outputs.len(), expected.len());
    // Of TreeEnsemble, the fourth post transform.
    let probits = ["PROBIT", "_4_0"].iter().any(|end| folder.to_string_lossy().ends_with(end));
    for (name, found) in &outputs {
        let tolerance = if probits { OF_PROBITS } else { TOLERANCE };
        if let Err(what) = compare(found, &npz::find(&expected, name), tolerance) {
            panic!("'{name}' {what}");
        }
    }
    report.file_bytes
}

fn check(folder: &Path, registry: &Registry) -> Needed<()> {
    run(folder, registry);
    Ok(())
}

/// The nodes are constants, which the artifact has once: it takes less room than the model, whose modes are texts.
fn forest(name: &str, registry: &Registry) -> Needed<()> {
    let folder = data::test_data(&format!("forest/{name}"))?;
    let (size, model) = (run(&folder, registry), places::read(&folder.join("model.onnx")).len() as u64);
    assert!(size * 100 <= model * 101, "{size} bytes for a model of {model}");
    Ok(())
}
