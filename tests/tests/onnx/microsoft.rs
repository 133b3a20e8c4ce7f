//! Operators of `com.microsoft`: one test a case, each against onnxruntime, and whole models as its tools leave them.

use std::path::Path;
use std::sync::Arc;

use byoc_core::plugin::Registry;
use byoc_core::runtime::Session;
use byoc_plugin_api::DType;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, npz, places};

type Named = Vec<(String, Tensor)>;

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let mut trials = Vec::new();
    match data::test_data("microsoft") {
        Ok(root) => {
            for name in places::list(&root) {
                let (folder, registry) = (root.join(&name), Arc::clone(&registry));
                trials.push(trial(name, move || {
                    ["fast", "reference"].iter().for_each(|kernels| check(&folder, &registry, kernels));
                    Ok(())
                }));
            }
        }
        Err(Skip(reason)) => trials.push(trial("microsoft", || Err(Skip(reason)))),
    }
    for suffix in ["", "_2"] {
        let registry = Arc::clone(&registry);
        trials.push(trial(format!("model/decoder{suffix}"), move || decoder(suffix, &registry)));
    }
    trials.push(trial("model/encoder", move || encoder(&registry)));
    trials
}

/// What differs between sums in another order, and for f16 with steps between that one side rounds.
fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F16 => Tolerance { relative: 5e-3, absolute: 5e-3 },
        _ => Tolerance { relative: 1e-4, absolute: 2e-5 },
    }
}

fn assert_equal(found: &Named, expected: &Named) {
    let names = |tensors: &Named| {
        let mut names: Vec<_> = tensors.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(found), names(expected));
    for (name, found) in found {
        if let Err(what) = compare(found, &npz::find(expected, name), tolerance(found.dtype)) {
            panic!("'{name}' {what}");
        }
    }
}

/// Compiles a model; loads it, with the bytes of the artifact.
fn open(model: &Path, registry: &Registry, kernels: &str) -> (Session, u64) {
    let scratch = places::temporary_in_memory();
    let artifact = scratch.path().join("case.byoc");
    let settings = [("json.kernels", kernels)];
    let report = engine::compile_with(model, &artifact, registry, &["json"], &settings).expect("compiles");
    (engine::load(&artifact, registry, 1).expect("loads"), report.file_bytes)
}

fn check(folder: &Path, registry: &Registry, kernels: &str) {
    let (mut session, _) = open(&folder.join("model.onnx"), registry, kernels);
    let found = engine::run(&mut session, &npz::read(&folder.join("inputs.npz"))).expect("runs");
    assert_equal(&found, &npz::read(&folder.join("outputs.npz")));
}

/// Every size of a batch and of a sequence, with one artifact.
fn encoder(registry: &Registry) -> Needed<()> {
    let folder = data::test_data("optimised/encoder")?;
    let model = folder.join("model.onnx");
    let (mut session, bytes) = open(&model, registry, "fast");
    for suffix in ["", "_3x4"] {
        let found = engine::run(&mut session, &npz::read(&folder.join(format!("inputs{suffix}.npz")))).expect("runs");
        assert_equal(&found, &npz::read(&folder.join(format!("outputs{suffix}.npz"))));
    }
    assert_size(bytes, &model);
    Ok(())
}

/// A prompt and the tokens behind it, each drawn from the logits of the one before, with what is present given as past.
fn decoder(suffix: &str, registry: &Registry) -> Needed<()> {
    let folder = data::test_data("optimised/decoder")?;
    let model = folder.join("model.onnx");
    let (mut session, bytes) = open(&model, registry, "fast");
    let mut inputs = npz::read(&folder.join(format!("inputs{suffix}.npz")));
    let expected = npz::read(&folder.join(format!("outputs{suffix}.npz")));
    let steps = npz::find(&expected, "tokens").shape[1];
    let mut drawn = Vec::new();
    let mut last = Named::new();
    for _ in 0..steps {
        last = engine::run(&mut session, &inputs).expect("runs");
        let tokens = most_likely(&npz::find(&last, "logits"));
        let samples = tokens.len() as i64;
        let mask = npz::find(&inputs, "attention_mask");
        let total = mask.shape[1] + 1;
        inputs = vec![
            ("input_ids".into(), integers(&[samples, 1], &tokens)),
            ("attention_mask".into(), integers(&[samples, total], &vec![1; (samples * total) as usize])),
        ];
        let present = last.iter().filter_map(|(name, tensor)| Some((name.strip_prefix("present")?, tensor)));
        inputs.extend(present.map(|(place, tensor)| (format!("past_key_values{place}"), tensor.clone())));
        drawn.push(tokens);
    }
    let samples = drawn[0].len();
    let tokens: Vec<i64> = (0..samples).flat_map(|sample| drawn.iter().map(move |step| step[sample])).collect();
    let tokens = integers(&[samples as i64, steps], &tokens);
    last.retain(|(name, _)| ["logits", "present.0.key"].contains(&name.as_str()));
    last.push(("tokens".into(), tokens));
    assert_equal(&last, &expected);
    assert_size(bytes, &model);
    Ok(())
}

/// Each weight is stored once, and there is little beside the weights.
fn assert_size(bytes: u64, model: &Path) {
    let model = places::read(model).len() as u64;
    assert!(bytes * 10 <= model * 13, "{bytes} bytes for a model of {model}");
}

fn integers(shape: &[i64], values: &[i64]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(DType::I64, shape.to_vec(), bytes)
}

/// The largest of the logits of the last token of each sample.
fn most_likely(logits: &Tensor) -> Vec<i64> {
    let [_, tokens, words] = logits.shape[..] else { panic!("logits of a token of a sample") };
    let numbers: Vec<f32> = logits.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let rows: Vec<_> = numbers.chunks(words as usize).collect();
    let last = rows.chunks(tokens as usize).filter_map(|sample| sample.last());
    let largest = |row: &&[f32]| {
        let row = row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        row.map_or(0, |(word, _)| word as i64)
    };
    last.map(largest).collect()
}
