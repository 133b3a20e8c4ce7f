//! A decoder with a cache as two entries of one artifact, one for the prompt and one for a word at a time: each weight is stored once,
//! and the words that are decoded are those of onnxruntime, at several sizes of batch and prompt.

use byoc_core::artifact::Artifact;
use byoc_core::compile::{self, Request, Silent};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::DType;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, npz, places};

const ENTRIES: [&str; 2] = ["prefill", "decode"];

/// What the header, two graphs and the code of their regions may take.
const BESIDE_THE_WEIGHTS: u64 = 256 << 10;

/// Words that are decoded.
const STEPS: usize = 64;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("llama", llama)]
}

fn llama() -> Needed<()> {
    let folder = data::test_data("generation/llama")?;
    let unique = data::script("unique_bytes.py", &[&folder.join("decode.onnx")])?;
    let unique: u64 = unique.trim().parse().expect("a number");
    let (registry, scratch) = (engine::embedded(), places::temporary());
    let path = scratch.path().join("model.byoc");
    let sources = ENTRIES.map(|name| (name.to_owned(), folder.join(format!("{name}.onnx"))));
    let backends = registry.select(&["json".to_owned()], &[]).expect("it is there");
    let folding_backend = backends.last().cloned();
    let request = Request { folding_backend, ..Request::new(sources.into(), backends) };
    let report = compile::compile(&request, &path, &mut Silent).expect("compiles");
    let most = unique + BESIDE_THE_WEIGHTS;
    assert!(most < 2 * unique, "{most} bytes have room for {unique} bytes twice");
    assert!(report.file_bytes <= most, "{} bytes for {unique} bytes of weights", report.file_bytes);
    let artifact = Artifact::open(&path).expect("opens");
    let [mut prefill, mut decode] = ENTRIES.map(|name| session(&artifact, &registry, name));
    for batch in [1, 3] {
        let expected = npz::read(&folder.join(format!("batch_{batch}.npz")));
        decodes(&mut prefill, &mut decode, &expected);
    }
    Ok(())
}

fn session(artifact: &Artifact, registry: &Registry, entry: &str) -> Session {
    let options = LoadOptions { entry: Some(entry.to_owned()), threads: 2, ..LoadOptions::default() };
    Session::load(artifact.clone(), registry, &options).expect("loads")
}

/// Decodes greedily what follows the prompt, and compares the words and the last scores.
fn decodes(prefill: &mut Session, decode: &mut Session, expected: &[(String, Tensor)]) {
    let prompt = npz::find(expected, "prompt");
    let (batch, length) = (prompt.shape[0] as usize, prompt.shape[1]);
    let given = [("tokens".to_owned(), prompt), ("places".to_owned(), integers(&[length], 0..length))];
    let mut outputs = engine::run(prefill, &given).expect("runs");
    let mut chosen = vec![best(&outputs[0].1)];
    for step in 1..STEPS as i64 {
        let words = integers(&[batch as i64, 1], chosen[chosen.len() - 1].iter().copied());
        let place = integers(&[1], [length + step - 1]);
        let mut given = vec![("tokens".to_owned(), words), ("places".to_owned(), place)];
        let cache = outputs.into_iter().skip(1);
        given.extend(cache.map(|(name, tensor)| (name.replace("present", "past"), tensor)));
        outputs = engine::run(decode, &given).expect("runs");
        chosen.push(best(&outputs[0].1));
    }
    let by_sequence = (0..batch).flat_map(|row| chosen.iter().map(move |words| words[row]));
    let found = integers(&[batch as i64, STEPS as i64], by_sequence);
    assert_eq!(found, npz::find(expected, "chosen"));
    let scores = npz::find(expected, "logits");
    let close = Tolerance { relative: 1e-3, absolute: 1e-4 * scores.scale() };
    compare(&outputs[0].1, &scores, close).unwrap_or_else(|what| panic!("the last scores: {what}"));
}

fn integers(shape: &[i64], values: impl IntoIterator<Item = i64>) -> Tensor {
    Tensor::new(DType::I64, shape.to_vec(), values.into_iter().flat_map(i64::to_le_bytes).collect())
}

/// The best word behind the last place of each sequence.
fn best(scores: &Tensor) -> Vec<i64> {
    let words = scores.shape[2] as usize;
    let values: Vec<f64> = scores.floats().collect();
    let last =
        values.chunks_exact(scores.shape[1] as usize * words).map(|sequence| &sequence[sequence.len() - words..]);
    let place = |row: &[f64]| (0..words).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("there are words");
    last.map(|row| place(row) as i64).collect()
}
