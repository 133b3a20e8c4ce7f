//! Whole models: what they compile to, that they compute the right values, and what that costs.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byoc_core::plugin::Registry;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{self, Model, Type};
use byoc_tests::program::byoc;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, npz, places, sample};

/// An artifact has at most 1.01 times the bytes of the model's different weights.
const MOST_PERCENT: u64 = 101;

/// Models of fewer bytes may add [`SMALL_FILE`].
const SMALL_MODEL: u64 = 1 << 20;

/// Header and graph of a small model: the header fills pages of 4 KiB, sections start at multiples of 64 bytes.
const SMALL_FILE: u64 = 32 * 1024;

/// Most anonymous memory of a compile of the largest model, in MiB.
const COMPILE_MIB: u64 = 256;

/// Most anonymous memory of a process that loads and runs the largest model, in MiB: its values, but not its weights.
const RUN_MIB: u64 = 128;

/// Models whose weights the onnx package generates inside the graph, with the relative tolerance of its own runner.
pub(crate) const LIGHT: [(&str, f64); 9] = [
    ("bvlc_alexnet", 1e-3),
    ("densenet121", 2e-3),
    ("inception_v1", 1e-3),
    ("inception_v2", 1e-3),
    ("resnet50", 1e-3),
    ("shufflenet", 1e-3),
    ("squeezenet", 1e-3),
    ("vgg19", 1e-3),
    ("zfnet512", 1e-3),
];

/// Models with random weights, and outputs that onnxruntime computed.
const SEEDED: [&str; 9] = [
    "densenet121",
    "dynamic_mlp",
    "inception_v1",
    "inception_v2",
    "mobilenet_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "tiny_mlp",
];

/// Those of more than 200 MB, half of which are in a sample.
const LARGE: [&str; 7] =
    ["bert_base", "bvlc_alexnet", "gpt2_small", "vgg19", "mlp_4x4096", "zfnet512", "mlp_4x4096_b64"];

/// Models that onnxruntime's tool has quantised: groups of QuantizeLinear and DequantizeLinear, its own operators on integers, and dynamic. With how many times the
/// bytes of the weights the file may have, and how far the signal is above the noise in dB. Where two sides round a sum
/// otherwise, an element may become its neighbour, and what follows with it: by that the reference kernels differ from the
/// fast ones as much.
const QUANTISED: [(&str, f64, f64); 12] = [
    ("mobilenet_v2_qdq", 1.01, 30.0),
    ("mobilenet_v2_qdq_7_bits", 1.01, 30.0),
    ("mobilenet_v2_dynamic", 1.01, 30.0),
    ("resnet50_qdq", 1.01, 18.0),
    ("resnet50_qdq_7_bits", 1.01, 18.0),
    ("resnet50_dynamic", 1.01, 30.0),
    ("bert_base_qdq", 1.01, 20.0),
    // 24.8 on a processor without VNNI, for which onnxruntime has other kernels, more than 25 on one with it.
    ("bert_base_dynamic", 1.01, 24.0),
    ("mlp_4_bits", 1.01, 60.0),
    ("mlp_blocks", 1.01, 60.0),
    ("net_operators", 1.01, 30.0),
    ("lstm_dynamic", 1.01, 30.0),
];

/// Models with sizes that the inputs or only the run tells, with control flow, and with sequences.
const FREE: [&str; 26] = [
    "free/bert_2_layers",
    "free/detector",
    "free/functions",
    "free/gradients",
    "free/slopes",
    "control/branches",
    "control/growing",
    "control/nested",
    "control/scan",
    "control/scan_axes",
    "control/transducer",
    "control/decoder",
    "sequences/collected",
    "sequences/mapped",
    "sequences/parts",
    "sequences/optional",
    "sequences/nested",
    "exported/detector",
    "exported/gru",
    "exported/lstm_tagger",
    "exported/selective_scan",
    "exported/swin",
    "exported/t5",
    "exported/unet",
    "exported/whisper_decoder",
    "exported/whisper_encoder",
];

pub(crate) fn trials() -> Vec<Trial> {
    let embedded = Arc::new(engine::embedded());
    let dynamic = Arc::new(engine::from_files(vec![places::plugin("json")]));
    let mut trials = Vec::new();
    for (name, relative) in LIGHT {
        let registry = Arc::clone(&embedded);
        trials.push(trial(format!("light/{name}"), move || light(name, relative, &registry)));
    }
    for name in SEEDED.into_iter().chain(sample::every(2, LARGE)) {
        let (embedded, dynamic) = (Arc::clone(&embedded), Arc::clone(&dynamic));
        trials.push(trial(format!("seeded/{name}"), move || seeded(name, &embedded, &dynamic)));
    }
    for (name, most, noise) in sample::every(2, QUANTISED) {
        let registry = Arc::clone(&embedded);
        trials.push(trial(format!("quantised/{name}"), move || quantised(name, most, noise, &registry)));
    }
    for name in FREE {
        let registry = Arc::clone(&embedded);
        trials.push(trial(name, move || free(name, &registry)));
    }
    trials.push(trial("peak_memory", peak_memory));
    trials.push(trial("safetensors_reads_the_weights", safetensors_reads_the_weights));
    trials
}

/// The model computes what the onnx package says. Each of its weights is one value repeated, and takes no more room in
/// the artifact than in the model.
fn light(name: &str, relative: f64, registry: &Registry) -> Needed<()> {
    let folder = data::test_data(&format!("light/{name}"))?;
    let scratch = places::temporary();
    let (model, artifact) = (folder.join("model.onnx"), scratch.path().join("model.byoc"));
    let report = engine::compile(&model, &artifact, registry, &["json"]).expect("compiles");
    let size = places::read(&model).len() as u64;
    assert!(report.file_bytes <= size + SMALL_FILE, "{} bytes for a model of {size}", report.file_bytes);
    let tolerance = |_: &Tensor| Tolerance { relative, absolute: 1e-7 };
    run_and_compare(&folder, "", &artifact, registry, tolerance);
    Ok(())
}

/// Everything that is promised of an artifact, for one model.
fn seeded(name: &str, embedded: &Registry, dynamic: &Registry) -> Needed<()> {
    let folder = data::test_data(&format!("seeded/{name}"))?;
    let model = folder.join("model.onnx");
    let unique: u64 = data::script("unique_bytes.py", &[&model])?.trim().parse().expect("a number");
    let scratch = places::temporary();
    let [first, second] = ["embedded.byoc", "dynamic.byoc"].map(|name| scratch.path().join(name));
    let start = Instant::now();
    let report = engine::compile(&model, &first, embedded, &["json"]).expect("compiles");
    let compile_ms = start.elapsed().as_millis();
    engine::compile(&model, &second, dynamic, &["json"]).expect("compiles with the plugin");
    assert!(same_bytes(&first, &second), "two compiles, one by the plugin, give different bytes");
    let most = unique * MOST_PERCENT / 100 + if unique < SMALL_MODEL { SMALL_FILE } else { 0 };
    let ratio = report.file_bytes as f64 / unique as f64;
    assert!(report.file_bytes <= most, "{} bytes for {unique} bytes of weights: {ratio:.4}", report.file_bytes);
    let load_ms = load_ms(&first, embedded);
    println!("seeded/{name}: {ratio:.4} x the weights, compiled in {compile_ms} ms, loaded in {load_ms:.1} ms");
    let suffixes: &[&str] = if folder.join("inputs_b5.npz").exists() { &["", "_b5"] } else { &[""] };
    for suffix in suffixes {
        // Values that cancel out are as exact as the sum's terms, not as the sum: so the largest output is the measure.
        let close = |expected: &Tensor| Tolerance { relative: 1e-3, absolute: 1e-4 * expected.scale() };
        let found = run_and_compare(&folder, suffix, &first, embedded, close);
        let by_plugin = run_and_compare(&folder, suffix, &second, dynamic, close);
        assert!(found == by_plugin, "the plugin computes other bits than the embedded backend");
    }
    Ok(())
}

/// A quantised model gets in as it is: each of its weights is stored as the model has it, and what comes out is what
/// onnxruntime makes of it.
fn quantised(name: &str, most: f64, noise: f64, registry: &Registry) -> Needed<()> {
    let folder = data::test_data(&format!("quantised/{name}"))?;
    let (model, scratch) = (folder.join("model.onnx"), places::temporary());
    let artifact = scratch.path().join("model.byoc");
    let unique: u64 = data::script("unique_bytes.py", &[&model])?.trim().parse().expect("a number");
    let report = engine::compile(&model, &artifact, registry, &["json"]).expect("compiles");
    let ratio = report.file_bytes as f64 / unique as f64;
    let mut session = engine::load(&artifact, registry, 2).expect("loads");
    let outputs = engine::run(&mut session, &npz::read(&folder.join("inputs.npz"))).expect("runs");
    let expected = npz::read(&folder.join("outputs.npz"));
    for (output, found) in &outputs {
        let above = signal_to_noise(found, &npz::find(&expected, output));
        println!("quantised/{name}: {ratio:.4} x the weights, '{output}' {above:.1} dB above the noise");
        assert!(above >= noise, "'{output}' is {above:.1} dB above the noise, expected {noise}");
    }
    assert!(ratio <= most, "{} bytes for {unique} bytes of weights: {ratio:.4}", report.file_bytes);
    Ok(())
}

/// One artifact and one session compute what onnxruntime does for inputs of all sizes, one after the other and back again.
fn free(name: &str, registry: &Registry) -> Needed<()> {
    let folder = data::test_data(name)?;
    let scratch = places::temporary();
    let artifact = scratch.path().join("model.byoc");
    engine::compile(&folder.join("model.onnx"), &artifact, registry, &["json"]).expect("compiles");
    let mut session = engine::load(&artifact, registry, 2).expect("loads");
    let files = places::list(&folder);
    let suffixes: Vec<_> = files.iter().filter_map(|file| file.strip_prefix("inputs")?.strip_suffix(".npz")).collect();
    assert!(suffixes.len() > 2, "{files:?}");
    for suffix in suffixes.iter().chain(suffixes.iter().rev()) {
        let outputs = engine::run(&mut session, &npz::read(&folder.join(format!("inputs{suffix}.npz")))).expect("runs");
        let expected = npz::read(&folder.join(format!("outputs{suffix}.npz")));
        // A sequence has as many tensors.
        assert_eq!(outputs.len(), expected.len(), "{suffix}");
        for (output, found) in &outputs {
            let expected = npz::find(&expected, output);
            let close = Tolerance { relative: 1e-3, absolute: 1e-4 * expected.scale() };
            if let Err(what) = compare(found, &expected, close) {
                panic!("'{output}'{suffix} {what}");
            }
        }
    }
    Ok(())
}

/// In dB; infinite where both are the same.
fn signal_to_noise(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.shape, expected.shape);
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let noise = power(&mut found.floats().zip(expected.floats()).map(|(found, expected)| found - expected));
    10.0 * (power(&mut expected.floats()) / noise).log10()
}

/// The least of three, for the report only: the first one also waits for the disk, and other tests run beside it.
fn load_ms(artifact: &Path, registry: &Registry) -> f64 {
    let once = |_| {
        let start = Instant::now();
        drop(engine::load(artifact, registry, 1).expect("loads"));
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..3).map(once).fold(f64::INFINITY, f64::min)
}

fn run_and_compare(
    folder: &Path,
    suffix: &str,
    artifact: &Path,
    registry: &Registry,
    tolerance: impl Fn(&Tensor) -> Tolerance,
) -> Vec<(String, Tensor)> {
    let mut session = engine::load(artifact, registry, 2).expect("loads");
    let inputs = npz::read(&folder.join(format!("inputs{suffix}.npz")));
    let outputs = engine::run(&mut session, &inputs).expect("runs");
    let expected = npz::read(&folder.join(format!("outputs{suffix}.npz")));
    assert_eq!(outputs.len(), expected.len());
    for (name, found) in &outputs {
        let expected = npz::find(&expected, name);
        if let Err(what) = compare(found, &expected, tolerance(&expected)) {
            panic!("'{name}'{suffix} {what}");
        }
    }
    outputs
}

/// Compares two files piece by piece.
fn same_bytes(one: &Path, other: &Path) -> bool {
    let open = |path: &Path| std::fs::File::open(path).expect("the artifact is there");
    let (mut one, mut other) = (open(one), open(other));
    let mut pieces = [vec![0; 1 << 20], vec![0; 1 << 20]];
    loop {
        let [a, b] = &mut pieces;
        let fill = |file: &mut std::fs::File, piece: &mut Vec<u8>| {
            piece.clear();
            file.by_ref().take(1 << 20).read_to_end(piece).expect("readable");
        };
        fill(&mut one, a);
        fill(&mut other, b);
        if a != b {
            return false;
        }
        if a.is_empty() {
            return true;
        }
    }
}

/// Compiles the largest model and runs the result, each in a process of its own. Neither may hold the weights.
fn peak_memory() -> Needed<()> {
    let model = data::test_data("seeded/vgg19")?.join("model.onnx");
    let scratch = places::temporary();
    let output = scratch.path().join("model.byoc");
    let compile = peak_mib(byoc(&["compile"]).arg(model).arg("-o").arg(&output));
    let run = peak_mib(byoc(&["run", "--fill", "random", "--threads", "2"]).arg(output));
    println!("peak_memory: {compile} MiB of anonymous memory to compile vgg19, {run} MiB to load and run it");
    assert!(compile <= COMPILE_MIB, "{compile} MiB to compile");
    assert!(run <= RUN_MIB, "{run} MiB to run");
    Ok(())
}

/// Runs a command and looks at `RssAnon` in `/proc/<pid>/status` every millisecond: memory that belongs to no file, so
/// neither the mapped model nor the mapped artifact counts. The kernel keeps no highest value of it, so a peak shorter
/// than a millisecond goes unseen.
fn peak_mib(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let exit = loop {
        peak = peak.max(anonymous_kib(&status).unwrap_or(0));
        if let Some(exit) = child.try_wait().expect("the child is ours") {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(exit.success(), "{exit}");
    assert!(peak > 0, "the child was never looked at");
    peak / 1024
}

fn anonymous_kib(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// A reader of the public format, which knows nothing of byoc, finds every stored constant of the graph section, and in
/// each of them the bytes of the weights that the ledger names.
fn safetensors_reads_the_weights() -> Needed<()> {
    let folder = Folder::compiled(aliases());
    folder.write("ledger.json", folder.byoc(&["inspect", "model.byoc", "--constants", "--json"]).success());
    let [artifact, model, ledger] = ["model.byoc", "model.onnx", "ledger.json"].map(|name| folder.path().join(name));
    let printed = data::script("verify_safetensors.py", &[&artifact, &model, &ledger])?;
    let found: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let artifact = byoc_core::artifact::Artifact::open(&artifact).expect("opens");
    let stored = &artifact.manifest().constants;
    assert_eq!(found.as_object().expect("an object").len(), stored.len());
    for constant in stored {
        let entry = &found[&constant.section];
        assert_eq!(entry["dtype"].as_str(), constant.dtype.safetensors_name(), "{}", constant.section);
        assert_eq!(entry["shape"], serde_json::json!(constant.shape), "{}", constant.section);
    }
    let entry_of = |name: &str| {
        let has =
            |entry: &&serde_json::Value| entry["names"].as_array().is_some_and(|names| names.contains(&name.into()));
        found.as_object().expect("an object").values().find(has).unwrap_or_else(|| panic!("'{name}' is not stored"))
    };
    assert_eq!(entry_of("packed")["fate"], "packed");
    assert_eq!(entry_of("host")["fate"], "stored");
    assert_eq!(entry_of("host"), entry_of("reshaped"), "one constant under two names");
    assert_eq!(entry_of("tied")["names"], serde_json::json!(["tied"]), "stored once, and read transposed as well");
    Ok(())
}

/// A model with a weight that the host backend packs, one under two names and shapes that is read in two ways, and one that is
/// read as it is and transposed.
fn aliases() -> Model {
    let weight = |model: Model, name: &str, shape: &[i64], seed: i64| {
        let elements: i64 = shape.iter().product();
        let values: Vec<f32> = (0..elements).map(|i| ((i * 31 + seed) % 9973) as f32 / 9973.0 - 0.5).collect();
        model.weight(name, shape, &values)
    };
    let sizes: Vec<u8> = [512i64, 64].iter().flat_map(|size| size.to_le_bytes()).collect();
    let mut model = Model::default().input("x", Type::Float, &[1, 16, 6, 6]);
    for (name, shape, seed) in [
        ("packed", &[32, 16, 3, 3][..], 1),
        ("host", &[512, 64], 2),
        ("reshaped", &[512 * 64], 2),
        ("tied", &[64, 48], 3),
    ] {
        model = weight(model, name, shape, seed);
    }
    model
        .tensor(onnx::tensor("sizes", Type::Int64, &[2], sizes))
        .tensor(onnx::tensor("first_axis", Type::Int64, &[1], 0i64.to_le_bytes().to_vec()))
        .node("Conv", &["x", "packed"], &["image"])
        .node("Flatten", &["image"], &["flat"])
        .node("MatMul", &["flat", "host"], &["first"])
        .node("Reshape", &["reshaped", "sizes"], &["again"])
        .node("Transpose", &["flat"], &["column"])
        .node("Mul", &["column", "again"], &["rows"])
        .node("ReduceSum", &["rows", "first_axis"], &["second"])
        .node("Add", &["first", "second"], &["sum"])
        .node("MatMul", &["sum", "tied"], &["inner"])
        .node("Transpose", &["tied"], &["turned"])
        .node("MatMul", &["inner", "turned"], &["y"])
        .output("y", Type::Float, &[1, 64])
}
