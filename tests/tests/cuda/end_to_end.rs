//! Whole models on CUDA's backends alone, as a user compiles them on a machine without a GPU: nothing of them is left to the
//! host, a run copies inputs and outputs and nothing else, and every weight is stored once. What they compute is shown on
//! stand-ins, which run the same sources on the processor; that it runs on a GPU, by the GPU suite.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use byoc_core::artifact::Artifact;
use byoc_core::runtime::planned_copies;
use byoc_nvidia_standins::with_cutlass;
use byoc_plugin_api::Attribute;
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::program::{byoc, outcome};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places, sample};
use half::f16;
use serde_json::Value;

/// The backends, in the order that the documentation gives.
const BACKENDS: &str = "cutlass,cublas,cuda,json";

/// An artifact has at most 1.01 times the bytes of the model's different weights.
const MOST_PERCENT: u64 = 101;

/// Models of f32, with how many regions they may become: what is merged today stays merged.
const MODELS: [(&str, usize); 3] = [("bert_base", 123), ("gpt2_small", 110), ("resnet50", 68)];

/// What runs in f16, of which sizes.
const NARROW: [(&str, &[&str]); 3] = [
    ("free/bert_2_layers", &["--dim", "batch=1", "--dim", "length=128"]),
    ("seeded/bert_base", &[]),
    ("seeded/resnet50", &[]),
];

/// The one that is in no sample: a layer of a transformer is like the next, so that two of them show what twelve do.
const LONGEST: &str = "seeded/bert_base";

pub(crate) fn trials() -> Vec<Trial> {
    let wide = MODELS.map(|(name, most)| trial(format!("f32/{name}"), move || f32(name, most)));
    let some = sample::every(3, MODELS);
    let right = some.into_iter().map(|(name, _)| trial(format!("right/{name}"), move || right(name)));
    // In f16 a model takes up to a minute and a half.
    let narrow = sample::every(3, MODELS);
    let narrow = narrow.into_iter().map(|(name, most)| trial(format!("f16/{name}"), move || f16(name, most)));
    let right_narrow = sample::every(2, NARROW.into_iter().filter(|(name, _)| sample::is_all() || *name != LONGEST));
    let right_narrow = right_narrow
        .into_iter()
        .map(|(name, sizes)| trial(format!("right_in_f16/{name}"), move || right_in_f16(name, sizes)));
    let steps = trial("a_profile_has_the_steps_of_regions_on_a_device", a_profile_has_the_steps_of_regions_on_a_device);
    let bias = trial("a_bias_after_folding", a_bias_after_folding);
    let part = trial("a_part_of_a_constant_at_any_offset", a_part_of_a_constant_at_any_offset);
    let ranges = trial("kernels_for_ranges_of_rows", kernels_for_ranges_of_rows);
    wide.into_iter().chain(right).chain(narrow).chain(right_narrow).chain([bias, part, ranges, steps]).collect()
}

/// A weight that is some columns of a larger one, which begins at no multiple of 16 bytes: it is laid out anew for kernels that
/// read 16 bytes at once.
fn a_part_of_a_constant_at_any_offset() -> Needed<()> {
    let weights: Vec<f32> = (0..64 * 256u16).map(|i| f32::from(i % 251) / 256.0 - 0.5).collect();
    let wide: Vec<u8> = weights.iter().flat_map(|value| value.to_le_bytes()).collect();
    let narrow: Vec<u8> = weights.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
    for (ty, bytes, from) in [(Type::Float16, &narrow, 3), (Type::Float16, &narrow, 8), (Type::Float, &wide, 3)] {
        let folder = Folder::empty();
        // Computed of nothing else, so that the part is one of what is stored.
        let model = Model::default().input("x", ty, &[4, 64]).tensor(tensor("w", ty, &[64, 256], bytes.clone()));
        let model = model.ints("starts", &[1], &[from]).ints("ends", &[1], &[from + 64]).ints("axes", &[1], &[1]);
        let model = model.node("Slice", &["w", "starts", "ends", "axes"], &["part"]);
        let model = model.node("MatMul", &["x", "part"], &["p"]).node("MatMul", &["x", "w"], &["all"]);
        let model = model.output("p", ty, &[4, 64]).output("all", ty, &[4, 256]);
        folder.write("model.onnx", model.finish());
        let path = folder.path().join("model.onnx");
        let path = path.to_str().expect("a plain path");
        let artifact = compiled_on_the_host(folder.path(), path, &[]);
        on_the_host(folder.path(), &["verify", &artifact, "--model", path, "--atol", "1e-2", "--rtol", "1e-2"]);
    }
    Ok(())
}

/// What C++ source could not cope with elsewhere: a bias in f32 beside a product in f16, folded to f16 or left in f32. It
/// stands in the file once, in the one form that the kernel reads.
fn a_bias_after_folding() -> Needed<()> {
    let compiler = data::compiler()?;
    let bias: Vec<f32> = (0..64u8).map(|i| f32::from(i * 3) / 8.0 - 9.0).collect();
    let weights: Vec<f32> = (0..64 * 64u16).map(|i| f32::from(i % 251) / 64.0 - 2.0).collect();
    let product = || {
        let model = Model::default().input("x", Type::Float16, &[4, 64]).weight("w32", &[64, 64], &weights);
        let model = model.weight("b", &[64], &bias).cast("w32", Type::Float16, "w");
        model.node("MatMul", &["x", "w"], &["p"])
    };
    let folded = product().cast("b", Type::Float16, "b16").node("Add", &["p", "b16"], &["y"]);
    let left = product().cast("p", Type::Float, "p32").node("Add", &["p32", "b"], &["s"]).cast("s", Type::Float16, "y");
    let wide: Vec<u8> = bias.iter().flat_map(|value| value.to_le_bytes()).collect();
    let narrow: Vec<u8> = bias.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
    for (name, model, expected) in [("folded", folded, [1, 0]), ("left", left, [0, 1])] {
        let folder = Folder::empty();
        folder.write("model.onnx", model.output("y", Type::Float16, &[4, 64]).finish());
        let mut command = byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "cutlass,json"]);
        command.args(["--backend-opt", "cutlass.arch=sm_80", "--plugin"]).arg(places::plugin("cutlass"));
        compiler.set(&mut command);
        outcome(command.current_dir(folder.path())).success();
        let path = folder.path().join("model.byoc");
        let artifact = Artifact::open(&path).expect("opens");
        let backends: Vec<_> = artifact.manifest().regions.iter().map(|region| region.backend.as_str()).collect();
        assert_eq!(backends, ["cutlass"], "{name}");
        let file = places::read(&path);
        let times = |bytes: &[u8]| file.windows(bytes.len()).filter(|window| *window == bytes).count();
        assert_eq!([times(&narrow), times(&wide)], expected, "{name}: in f16, in f32");
    }
    Ok(())
}

/// The outputs that onnxruntime computed.
fn right(name: &str) -> Needed<()> {
    let folder = data::test_data(&format!("seeded/{name}"))?;
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (inputs, outputs) = (path("inputs.npz"), path("outputs.npz"));
    let expected = ["--reference", &outputs, "--input", &inputs, "--atol", "1e-3", "--rtol", "1e-3"];
    runs_on_the_host(name, &path("model.onnx"), &[], &expected);
    Ok(())
}

/// In f16, what the reference kernels compute. f16 keeps 11 bits, and each layer rounds what it gives to the next.
fn right_in_f16(name: &str, sizes: &[&str]) -> Needed<()> {
    let scratch = places::temporary();
    let model = half(name, scratch.path())?;
    let model = model.to_str().expect("a plain path");
    let expected = ["--model", model, "--atol", "1e-2", "--rtol", "2e-2"];
    runs_on_the_host(&format!("{name} in f16"), model, sizes, &expected);
    Ok(())
}

/// On stand-ins for the driver, cublasLt, NVRTC and CUTLASS's templates for `sm_80`: every other line of a source is what a GPU
/// runs.
fn runs_on_the_host(name: &str, model: &str, sizes: &[&str], expected: &[&str]) {
    let scratch = places::temporary();
    let start = Instant::now();
    let artifact = compiled_on_the_host(scratch.path(), model, sizes);
    let compiled = start.elapsed().as_secs_f64();
    on_the_host(scratch.path(), &[&["verify", &artifact][..], expected].concat());
    println!("{name}: compiled in {compiled:.1} s, all in {:.1} s", start.elapsed().as_secs_f64());
}

/// The artifact of a model for the device of the stand-ins, in that folder.
fn compiled_on_the_host(folder: &Path, model: &str, sizes: &[&str]) -> String {
    let artifact = folder.join("model.byoc").to_str().expect("a plain path").to_owned();
    let arch = ["--backend-opt", "cutlass.arch=sm_80", "--backend-opt", "cuda.arch=sm_80"];
    on_the_host(
        folder,
        &[&["compile", model, "-o", &artifact, "--backend", "cutlass,cublas,cuda"][..], &arch, sizes].concat(),
    );
    artifact
}

/// What a command prints on stand-ins. What they compile is kept in that folder.
fn on_the_host(folder: &Path, arguments: &[&str]) -> String {
    let mut command = byoc(arguments);
    for plugin in ["cutlass", "cublas", "cuda"] {
        command.arg("--plugin").arg(places::plugin(plugin));
    }
    for name in ["CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
        command.env_remove(name);
    }
    command.env("BYOC_CUDA_PATH", with_cutlass()).env("STANDIN_CAPABILITY", "80");
    outcome(command.env("BYOC_CACHE_DIR", folder)).success().to_owned()
}

/// A product of rows that only a run tells has a kernel for each range of them, of which each run launches one.
fn kernels_for_ranges_of_rows() -> Needed<()> {
    let folder = Folder::empty();
    let weights: Vec<f32> = (0..64 * 1024u32).map(|i| (i % 251) as f32 / 2048.0).collect();
    let model = Model::default()
        .input("x", Type::Float16, &[-1, 64])
        .weight("w32", &[64, 1024], &weights)
        .cast("w32", Type::Float16, "w")
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float16, &[-1, 1024]);
    folder.write("model.onnx", model.finish());
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (model, artifact) = (path("model.onnx"), compiled_on_the_host(folder.path(), &path("model.onnx"), &[]));
    for (rows, kernel) in [(1, "k0"), (256, "k0"), (257, "k1"), (2049, "k1")] {
        let shape = format!("x:{rows}x64");
        let profile = ["run", &artifact, "--fill", "random", "--shape", &shape, "--profile", "--json"];
        let report: Value = serde_json::from_str(&on_the_host(folder.path(), &profile)).expect("JSON");
        let steps = report["regions"][0]["steps"].as_array().expect("steps");
        let launched: Vec<_> = steps.iter().map(|step| step["kernel"].as_str().expect("a name")).collect();
        assert_eq!(launched, [kernel], "{rows} rows");
        let expected = ["--model", &model, "--shape", &shape, "--atol", "1e-2", "--rtol", "1e-2"];
        on_the_host(folder.path(), &[&["verify", &artifact][..], &expected].concat());
    }
    Ok(())
}

/// A profile has the launches of each region with the nodes that they compute, whichever backend it is of, and a trace has them
/// within their regions. A unit of work of the stand-ins takes a millisecond.
fn a_profile_has_the_steps_of_regions_on_a_device() -> Needed<()> {
    let folder = Folder::empty();
    let weights: Vec<f32> = (0..64 * 64u16).map(|i| f32::from(i % 251) / 2048.0).collect();
    let pads = [("pads", Attribute::Ints(vec![1; 4]))];
    let model = Model::default()
        .input("x", Type::Float, &[1, 8, 8, 8])
        .weight("filters", &[8, 8, 3, 3], &weights[..576])
        .weight("w", &[64, 64], &weights)
        .node_with("Conv", &["x", "filters"], &["c"], &pads)
        .node("Relu", &["c"], &["r"])
        .node_with("Flatten", &["r"], &["f"], &[("axis", Attribute::Int(2))])
        .node("MatMul", &["f", "w"], &["p"])
        .node("Exp", &["p"], &["e"])
        .node("Softmax", &["e"], &["s"])
        .output("s", Type::Float, &[8, 64]);
    folder.write("model.onnx", model.finish());
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let artifact = compiled_on_the_host(folder.path(), &path("model.onnx"), &[]);
    let trace = path("trace.json");
    let profile = ["run", &artifact, "--fill", "ones", "--profile", "--json", "--trace", &trace];
    let report: Value = serde_json::from_str(&on_the_host(folder.path(), &profile)).expect("JSON");
    let mut told = Vec::new();
    for region in report["regions"].as_array().expect("regions") {
        let steps = region["steps"].as_array().expect("steps");
        let seconds = |of: &Value| of["seconds"].as_f64().expect("a time");
        let sum: f64 = steps.iter().map(seconds).sum();
        assert!((sum - seconds(region)).abs() < 1e-9 && sum > 0.0, "{region}");
        told.extend(steps.iter().map(|step| format!("{}: {} {}", region["backend"], step["kernel"], step["nodes"])));
    }
    golden("cuda/steps.txt", &(told.join("\n") + "\n"));
    let trace: Value = serde_json::from_slice(&places::read(Path::new(&trace))).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert_eq!(events.iter().filter(|event| event["cat"] == "step").count(), told.len(), "{trace}");
    Ok(())
}

/// The same model with every f32 as f16, written into `folder`.
fn half(name: &str, folder: &Path) -> Needed<PathBuf> {
    let half = folder.join("half.onnx");
    data::script("half.py", &[&data::test_data(name)?.join("model.onnx"), &half])?;
    Ok(half)
}

fn f32(name: &str, most: usize) -> Needed<()> {
    let folder = data::test_data(&format!("seeded/{name}"))?;
    on_the_device(name, &folder.join("model.onnx"), most, &[])
}

fn f16(name: &str, most: usize) -> Needed<()> {
    let scratch = places::temporary();
    let half = half(&format!("seeded/{name}"), scratch.path())?;
    // One architecture: templates of CUTLASS take seconds each.
    let arch = ["--backend-opt", "cutlass.arch=sm_90a", "--backend-opt", "cuda.arch=sm_90a"];
    on_the_device(&format!("{name} in f16"), &half, most, &arch)
}

fn on_the_device(name: &str, model: &Path, most: usize, options: &[&str]) -> Needed<()> {
    let (compiler, scratch) = (data::compiler()?, places::temporary());
    let path = scratch.path().join("model.byoc");
    let [model_text, path_text] = [model, &path].map(|path| path.to_str().expect("a plain path").to_owned());
    let mut command = byoc(&["compile", &model_text, "-o", &path_text, "--backend", BACKENDS]);
    for plugin in ["cutlass", "cublas", "cuda"] {
        command.arg("--plugin").arg(places::plugin(plugin));
    }
    compiler.set(command.args(options));
    let start = Instant::now();
    outcome(&mut command).success();
    let seconds = start.elapsed().as_secs_f64();
    let artifact = Artifact::open(&path).expect("opens");
    let manifest = artifact.manifest();
    let on_host: Vec<_> = manifest.regions.iter().filter(|region| region.domain.is_none()).collect();
    assert!(
        on_host.is_empty(),
        "on the host: {:#?}",
        on_host.iter().map(|region| artifact.nodes_of(region)).collect::<Vec<_>>()
    );
    let entry = &manifest.entries[0];
    let copies = planned_copies(manifest, entry);
    assert_eq!(copies.len(), entry.inputs.len() + entry.outputs.len(), "{copies:#?}");
    let regions = manifest.regions.len();
    assert!(regions <= most, "{regions} regions");
    let unique: u64 = data::script("unique_bytes.py", &[model])?.trim().parse().expect("a number");
    let bytes = std::fs::metadata(&path).expect("it was written").len();
    assert!(bytes <= unique * MOST_PERCENT / 100, "{bytes} bytes for {unique} bytes of weights");
    let codes: BTreeSet<_> = manifest.regions.iter().map(|region| &region.code).collect();
    let ratio = bytes as f64 / unique as f64;
    println!(
        "{name}: {regions} regions of {} codes, {ratio:.4} x the weights, compiled in {seconds:.1} s",
        codes.len()
    );
    Ok(())
}
