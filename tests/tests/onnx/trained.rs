//! Trained models that published packages carry, one test a model: each compiles, and one session of it computes what
//! onnxruntime does at two sizes of its inputs, whose shapes are the model's own. The packages are downloaded.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use byoc_core::diagnostic::Code;
use byoc_core::plugin::Registry;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, npz, places};

/// Sizes that are fixed by name when a model is compiled, because how many dimensions a value has depends on them.
type Fixed = &'static [(&'static str, usize)];

/// Models, and the exporter that each names: Paddle's newer one names none, and neither does what has rewritten `swift_f0`.
const MODELS: [(&str, &str, Fixed); 21] = [
    ("aecmos_1", "pytorch", &[("batch_size", 1)]),
    ("aecmos_2", "pytorch", &[("batch_size", 1)]),
    ("aecmos_3", "pytorch", &[("batch_size", 1)]),
    ("basic_pitch", "tf2onnx", &[]),
    ("ddddocr_common", "pytorch", &[]),
    ("ddddocr_det", "pytorch", &[]),
    ("dnsmos_p808", "keras2onnx", &[]),
    ("magika", "tf2onnx", &[]),
    ("nudenet", "pytorch", &[]),
    ("orinet", "pytorch", &[]),
    ("pdnsmos", "keras2onnx", &[]),
    ("plcmos", "pytorch", &[("batch_size", 1)]),
    ("rapidocr_cls", "PaddlePaddle", &[]),
    ("rapidocr_det", "", &[]),
    ("rapidocr_rec", "", &[]),
    ("silero_vad_16k_op15", "pytorch", &[("sequence", 576)]),
    ("silero_vad_half", "pytorch", &[("sequence", 576)]),
    ("silero_vad_ifless", "pytorch", &[]),
    ("silero_vad_openvino", "spox", &[]),
    ("silero_vad_sequence", "pytorch", &[]),
    ("swift_f0", "", &[]),
];

/// A model for two sampling rates, in which the branch for the other rate has values of other ranks at every size, and how it is
/// refused.
const REFUSED: (&str, Code) = ("silero_vad", Code::ShapeUnknown);

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let model = |(name, exporter, fixed): (&'static str, &'static str, Fixed)| {
        let registry = Arc::clone(&registry);
        trial(name, move || agrees(name, exporter, fixed, &registry))
    };
    let mut trials: Vec<_> = MODELS.into_iter().map(model).collect();
    let (name, code) = REFUSED;
    let registry = Arc::clone(&registry);
    trials.push(trial(name, move || {
        let (model, scratch) = (data::test_data(&format!("trained/{name}"))?.join("model.onnx"), places::temporary());
        let artifact = scratch.path().join("model.byoc");
        let error = engine::compile(&model, &artifact, &registry, &["json"]).err().expect("branches of several ranks");
        assert_eq!(error.code, code, "{error}");
        Ok(())
    }));
    trials
}

#[test]
fn models_are_of_many_exporters() {
    let exporters: BTreeSet<_> =
        MODELS.iter().map(|(_, exporter, _)| exporter).filter(|name| !name.is_empty()).collect();
    assert_eq!((MODELS.len(), exporters.len()), (21, 5), "{exporters:?}");
}

fn agrees(name: &str, exporter: &str, fixed: Fixed, registry: &Registry) -> Needed<()> {
    let folder = data::test_data(&format!("trained/{name}"))?;
    assert_eq!(places::read(&folder.join("exporter.txt")), exporter.as_bytes());
    let (model, scratch) = (folder.join("model.onnx"), places::temporary());
    let artifact = scratch.path().join("model.byoc");
    let start = Instant::now();
    let report = engine::compile_fixed(&model, &artifact, registry, fixed).expect("compiles");
    let compile_ms = start.elapsed().as_millis();
    let size = places::read(&model).len();
    let mut session = engine::load(&artifact, registry, 2).expect("loads");
    for suffix in ["", "_second"] {
        let outputs = engine::run(&mut session, &npz::read(&folder.join(format!("inputs{suffix}.npz")))).expect("runs");
        let expected = npz::read(&folder.join(format!("outputs{suffix}.npz")));
        assert_eq!(outputs.len(), expected.len(), "{suffix}");
        for (output, found) in &outputs {
            let expected = npz::find(&expected, output);
            if let Err(what) = compare(found, &expected, close(&expected)) {
                panic!("'{output}'{suffix} {what}");
            }
        }
    }
    let all_ms = start.elapsed().as_millis();
    println!("trained/{name}: {} bytes of {size}, compiled in {compile_ms} ms of {all_ms}", report.file_bytes);
    Ok(())
}

/// Values that cancel out are as exact as the sum's terms: so the largest output is the measure.
fn close(expected: &Tensor) -> Tolerance {
    Tolerance { relative: 1e-3, absolute: 1e-4 * expected.scale() }
}
