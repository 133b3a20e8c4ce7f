//! cublas as users have it, through the program: a machine without CUDA compiles with it, is told what is missing, and stores
//! each weight once. Runs are on stand-ins for NVIDIA's libraries: they show what is called and that the numbers fit, and
//! nothing about a GPU.

use std::sync::LazyLock;

use byoc_core::artifact::Artifact;
use byoc_nvidia_standins::{both, shield};
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::program::{Outcome, byoc, outcome};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, places, sample};

/// An artifact has at most 1.01 times the bytes of the model's different weights.
const MOST_PERCENT: u64 = 101;

pub(crate) fn trials() -> Vec<Trial> {
    let once = ["bert_base", "gpt2_small", "mlp_4x4096"];
    let once = once.map(|name| trial(format!("once/{name}"), move || weights_once(name)));
    let right = ["mlp_4x4096", "dynamic_mlp"].map(|name| trial(format!("right/{name}"), move || right(name)));
    once.into_iter().chain(right).collect()
}

/// `y = x w + b` of f32, with `x` of an unknown number of rows.
fn layer(model: Model, x: &str, y: &str, rows: usize, columns: usize) -> Model {
    let (w, b, product) = (format!("{y}_w"), format!("{y}_b"), format!("{y}_product"));
    let values = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed) % 10_007) as f32 / 1000.0).collect()
    };
    let model = model.weight(&w, &[rows as i64, columns as i64], &values(rows * columns, rows));
    let model = model.weight(&b, &[columns as i64], &values(columns, columns));
    model.node("MatMul", &[x, &w], &[&product]).node("Add", &[&product, &b], &[y])
}

/// Where commands run, and what they find of CUDA.
struct Bench {
    folder: Folder,
    plugin: String,
}

/// `relu(x w + b)`, then a softmax that only the host has, then a product with the same weight.
fn model() -> Model {
    let weights: Vec<f32> = (0..64).map(|i| ((i * 5) % 17) as f32 / 8.0 - 1.0).collect();
    Model::default()
        .input("x", Type::Float, &[-1, 8])
        .weight("w", &[8, 8], &weights)
        .weight("b", &[8], &weights[..8])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["a"])
        .node("Softmax", &["a"], &["p"])
        .node("MatMul", &["p", "w"], &["y"])
        .output("y", Type::Float, &[-1, 8])
}

impl Bench {
    fn new(model: Model) -> Bench {
        let plugin = places::plugin("cublas").to_str().expect("a plain path").to_owned();
        let bench = Bench { folder: Folder::empty(), plugin };
        bench.folder.write("model.onnx", model.finish());
        bench
    }

    fn compiled(model: Model) -> Bench {
        let bench = Bench::new(model);
        bench.without(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "cublas,json"]).success();
        bench
    }

    /// Runs the program where there is no CUDA.
    fn without(&self, arguments: &[&str]) -> Outcome {
        static SHIELD: LazyLock<tempfile::TempDir> = LazyLock::new(places::temporary);
        self.run(arguments, &[("LD_LIBRARY_PATH", shield(SHIELD.path()).to_str().expect("a plain path"))])
    }

    /// Runs the program where there are stand-ins, with settings of theirs.
    fn standing_in(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Outcome {
        let folder = both().to_str().expect("a plain path");
        self.run(arguments, &[settings, &[("BYOC_CUDA_PATH", folder)]].concat())
    }

    fn run(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Outcome {
        self.run_exactly(&[arguments, &["--plugin", &self.plugin]].concat(), settings)
    }

    fn run_exactly(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Outcome {
        let mut command = byoc(arguments);
        for name in ["BYOC_CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        outcome(command.envs(settings.iter().copied()).current_dir(self.folder.path()))
    }

    /// What the stand-ins write down while a command runs.
    fn log(&self, arguments: &[&str]) -> String {
        let path = self.folder.path().join("log");
        let _ = std::fs::remove_file(&path);
        self.standing_in(arguments, &[("STANDIN_LOG", path.to_str().expect("a plain path"))]).success();
        String::from_utf8(places::read(&path)).expect("text")
    }
}

/// What a command says of folders of this machine.
fn plain(text: &str) -> String {
    text.replace(both().to_str().expect("a plain path"), "STANDINS")
}

#[test]
fn without_cuda() {
    let bench = Bench::compiled(model());
    golden("cublas/regions.txt", bench.without(&["inspect", "model.byoc", "--regions"]).success());
    bench.without(&["plugin", "info", "cublas"]).success();
    for arguments in
        [&["run", "model.byoc", "--fill", "ones", "--dim", "batch=2"][..], &["check", "--device", "cuda:0"]]
    {
        let found = bench.without(arguments);
        let missing = "error: [B604] backend 'cublas' cannot open cuda:0: there is no libcuda.so.1 in the loader's path\n  \
                       hint: Install NVIDIA's driver 525 or newer, or name the folder of libcuda.so.1 in BYOC_CUDA_PATH\n";
        assert_eq!((found.code, found.stderr.as_str()), (Some(3), missing));
    }
}

#[test]
fn on_standins() {
    let bench = Bench::compiled(model());
    let batch = ["--dim", "batch=3"];
    let verify = ["verify", "model.byoc", "--model", "model.onnx"];
    bench.standing_in(&[&verify[..], &batch].concat(), &[]).success();
    golden("cublas/check.txt", &plain(bench.standing_in(&["check", "--device", "cuda:0"], &[]).success()));
    let runs = ["bench", "model.byoc", "--warmup", "0", "--repeat", "3"];
    let log = bench.log(&[&runs[..], &batch].concat());
    golden("cublas/calls.txt", &log);
}

/// What cublasLt cannot be told is the host's, and `explain` says why.
#[test]
fn what_is_refused_goes_to_the_next_backend() {
    let model = Model::default()
        .input("x", Type::Float, &[2, 4])
        .input("i", Type::Int32, &[2, 4])
        .input("j", Type::Int32, &[4, 2])
        .weight("w", &[4, 4], &[0.5; 16])
        .node("MatMul", &["x", "w"], &["y"])
        .node("MatMul", &["i", "j"], &["k"])
        .output("y", Type::Float, &[2, 4])
        .output("k", Type::Int32, &[2, 2]);
    let bench = Bench::new(model);
    golden(
        "cublas/explain.txt",
        bench.without(&["explain", "model.onnx", "--backend", "cublas,json", "--nodes"]).success(),
    );
}

/// Every node of the model is in a region of one call.
#[test]
fn one_region_for_what_one_call_computes() {
    let start = || Model::default().input("x", Type::Float, &[-1, 8]);
    let number = |model: Model, name: &str, value: f32| model.weight(name, &[], &[value]);
    let numbers = |model: Model| {
        let all = [("three", 3.0), ("factor", 0.044715), ("scale", 0.797_884_6), ("one", 1.0), ("half", 0.5)];
        all.into_iter().fold(model, |model, (name, value)| number(model, name, value))
    };
    let residual = |model: Model| model.input("other", Type::Float, &[-1, 16]).node("Add", &["other", "h"], &["y"]);
    let in_pieces = layer(numbers(start()), "x", "h", 8, 16)
        .node("Pow", &["h", "three"], &["cube"])
        .node("Mul", &["factor", "cube"], &["term"])
        .node("Add", &["h", "term"], &["sum"])
        .node("Mul", &["scale", "sum"], &["scaled"])
        .node("Tanh", &["scaled"], &["tanh"])
        .node("Add", &["one", "tanh"], &["gate"])
        .node("Mul", &["half", "h"], &["halved"])
        .node("Mul", &["halved", "gate"], &["y"]);
    let gemm = start()
        .weight("w", &[8, 16], &[0.5; 128])
        .weight("c", &[16], &[0.25; 16])
        .node("Gemm", &["x", "w", "c"], &["g"])
        .node("Relu", &["g"], &["y"]);
    let cases = [
        ("a layer", layer(start(), "x", "y", 8, 16)),
        ("a residual", residual(layer(start(), "x", "h", 8, 16))),
        ("relu", layer(start(), "x", "h", 8, 16).node("Relu", &["h"], &["y"])),
        ("gelu in pieces", in_pieces),
        ("gemm", gemm),
    ];
    for (name, model) in cases {
        let bench = Bench::new(model.output("y", Type::Float, &[-1, 16]));
        bench.without(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "cublas"]).success();
        let artifact = Artifact::open(&bench.folder.path().join("model.byoc")).expect("opens");
        let regions = &artifact.manifest().regions;
        assert_eq!(regions.iter().map(|region| region.backend.as_str()).collect::<Vec<_>>(), ["cublas"], "{name}");
    }
}

/// GELU with erf is another function, which users may give up.
#[test]
fn gelu() {
    let model = Model::default().opset(20).input("x", Type::Float, &[-1, 8]);
    let model = layer(model, "x", "h", 8, 16).node("Gelu", &["h"], &["y"]);
    let bench = Bench::new(model.output("y", Type::Float, &[-1, 16]));
    let explain = ["explain", "model.onnx", "--backend", "cublas,json"];
    let reason = "GELU with erf; gelu-tanh=true approximates it with tanh (up to 4e-4 off)";
    let told = bench.without(&explain);
    assert!(told.success().contains(reason), "{told:?}");
    let allowed = bench.without(&[&explain[..], &["--backend-opt", "cublas.gelu-tanh=true"]].concat());
    assert!(!allowed.success().contains("GELU with erf"), "{allowed:?}");
}

#[test]
fn errors_of_the_device() {
    let bench = Bench::compiled(model());
    let run = ["run", "model.byoc", "--fill", "ones", "--dim", "batch=2"];
    let fails = |more: &[&str], settings: &[(&str, &str)], code: i32, expected: &str| {
        let found = bench.standing_in(&[&run[..], more].concat(), settings);
        assert_eq!((found.code, plain(&found.stderr)), (Some(code), format!("error: {expected}\n")));
    };
    fails(
        &["--device", "cuda:3"],
        &[],
        3,
        "[B604] backend 'cublas' cannot open cuda:3: the driver for CUDA 13.0 (STANDINS/libcuda.so.1) finds no device \
         cuda:3\n  hint: It finds cuda:0",
    );
    fails(
        &[],
        &[("STANDIN_MEMORY", "300")],
        1,
        "[B706] cuda:0 has no 512 bytes for constants: cuda:0 cannot allocate 512 bytes with 300 of 300 free: \
         CUDA_ERROR_OUT_OF_MEMORY: out of memory\n  hint: Use a smaller batch, or another device",
    );
    let fault = "earlier work on cuda:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was \
                 encountered\n  hint: CUDA accepts no more work from this process: start it again";
    let advice = "Run again with --sync-each to learn which region it was";
    let unknown = format!("[B706] cuda:0 cannot copy 'a': {fault}. {advice}");
    fails(&[], &[("STANDIN_FAULT", "4")], 1, &unknown);
    let known = format!("[B706] region byoc_main_cublas_0 failed on cuda:0: {fault}");
    fails(&["--sync-each"], &[("STANDIN_FAULT", "4")], 1, &known);
    fails(
        &["--backend-opt", "cublas.workspace=x"],
        &[],
        2,
        "[B304] backend 'cublas': option 'workspace' takes a whole number, not 'x'",
    );
    fails(
        &[],
        &[("STANDIN_REFUSE", "0")],
        1,
        "[B703] backend 'cublas' cannot prepare region byoc_main_cublas_0: cublasLt has no algorithm for M 2 N 8 K 8 of f32 \
         bias relu (CUBLAS_STATUS_NOT_SUPPORTED)\n  hint: Allow it more memory with cublas.workspace, or leave cublas out \
         of --backend",
    );
}

/// A sample of the kit, which finds one thing: the ReLU of cublasLt makes 0 of NaN, as `docs/backends/cublas.md` says.
#[test]
fn the_kit() {
    let bench = Bench { folder: Folder::empty(), plugin: places::plugin("cublas").display().to_string() };
    let folder = both().to_str().expect("a plain path");
    let shard = sample::shard(3);
    let arguments = ["plugin", "test", &bench.plugin, "--json", "--shard", &shard.to_string()];
    let tested = bench.run_exactly(&arguments, &[("BYOC_CUDA_PATH", folder)]);
    let report: serde_json::Value = serde_json::from_str(&tested.stdout).unwrap_or_else(|_| panic!("{tested:?}"));
    let cases = report["cases"].as_array().expect("a list");
    let text = |case: &serde_json::Value, field: &str| case[field].as_str().unwrap_or_default().to_owned();
    let failed = cases.iter().filter(|case| text(case, "result") == "fail");
    let others: Vec<_> = failed
        .filter(|case| {
            let (name, reason) = (text(case, "name"), text(case, "reason"));
            !(name.starts_with("relu: ") && name.ends_with(": special") && reason.ends_with(": 0e0, expected NaN"))
        })
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let passed = cases.iter().filter(|case| text(case, "result") == "pass").count();
    assert!(passed > 2000 / shard.count - 50, "{passed} of {} cases pass", cases.len());
}

/// A model from disk, compiled for cublas and the host.
fn compiled(name: &str) -> Needed<(std::path::PathBuf, tempfile::TempDir, u64)> {
    let folder = data::test_data(&format!("seeded/{name}"))?;
    let scratch = places::temporary();
    let registry = engine::from_files(vec![places::plugin("cublas"), places::plugin("json")]);
    let artifact = scratch.path().join("model.byoc");
    let report =
        engine::compile(&folder.join("model.onnx"), &artifact, &registry, &["cublas", "json"]).expect("compiles");
    Ok((folder, scratch, report.file_bytes))
}

/// The complaint with which this project began: the file is no larger than its weights.
fn weights_once(name: &str) -> Needed<()> {
    let (folder, _scratch, bytes) = compiled(name)?;
    let unique: u64 = data::script("unique_bytes.py", &[&folder.join("model.onnx")])?.trim().parse().expect("a number");
    /// Header and graph of a small model.
    const SMALL_FILE: u64 = 32 * 1024;
    assert!(bytes <= unique * MOST_PERCENT / 100 + SMALL_FILE, "{bytes} bytes for {unique} bytes of weights");
    Ok(())
}

/// The outputs that onnxruntime computed, on the stand-ins.
fn right(name: &str) -> Needed<()> {
    let (folder, scratch, _) = compiled(name)?;
    let bench =
        Bench { folder: Folder::within(scratch.path()), plugin: places::plugin("cublas").display().to_string() };
    let path = |name: &str| folder.join(name).display().to_string();
    let artifact = scratch.path().join("model.byoc").display().to_string();
    let (inputs, outputs) = (path("inputs.npz"), path("outputs.npz"));
    let verify = ["verify", &artifact, "--reference", &outputs, "--input", &inputs, "--atol", "1e-4"];
    bench.standing_in(&verify, &[]).success();
    Ok(())
}
