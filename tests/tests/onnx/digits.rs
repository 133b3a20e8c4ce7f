//! The trained digits models: what they give for pictures that they were not trained with.

use byoc_tests::digits::{self, Digits};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{engine, places};

/// Test pictures.
const PICTURES: usize = 597;

/// Least accuracy of the float models: training is sound, whatever machine it ran on.
const LEAST_ACCURACY: f64 = 0.95;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("whole_in_f32", || in_f32(&digits::k210_only()?)), trial("mixed_in_f32", || in_f32(&digits::mixed()?))]
}

/// Without quantisation, the probabilities are onnxruntime's.
fn in_f32(digits: &Digits) -> Needed<()> {
    assert_eq!(digits.inputs.len(), PICTURES);
    let (registry, scratch) = (engine::embedded(), places::temporary());
    let artifact = scratch.path().join("digits.byoc");
    engine::compile(&digits.model, &artifact, &registry, &["json"]).expect("compiles");
    let mut session = engine::load(&artifact, &registry, 2).expect("loads");
    let score = digits.score(&digits.run(&mut session));
    assert!(score.accuracy >= LEAST_ACCURACY, "{score:?}");
    assert!(score.agreement == 1.0 && score.mean_error < 1e-6, "{score:?}");
    Ok(())
}
