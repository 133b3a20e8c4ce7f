//! Which variant of a file is loaded, what is told of it, and that nothing of another one is touched.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use byoc_core::artifact::ArtifactFile;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::TensorView;
use byoc_tests::folder::WithPlugin;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, npz, places};
use bytes::Bytes;
use serde_json::{Value, json};

/// Sides of the weights: their sections are many pages.
const SIDE: i64 = 192;

fn model() -> Model {
    let mut random = fastrand::Rng::with_seed(7);
    let mut weight = || (0..SIDE * SIDE).map(|_| random.f32() - 0.5).collect::<Vec<_>>();
    Model::default()
        .input("x", Type::Float, &[2, SIDE])
        .weight("v", &[SIDE, SIDE], &weight())
        .weight("w", &[SIDE, SIDE], &weight())
        .node("MatMul", &["x", "v"], &["a"])
        .node("Relu", &["a"], &["b"])
        .node("MatMul", &["b", "w"], &["y"])
        .output("y", Type::Float, &[2, SIDE])
}

/// A folder with `model.onnx` and `m.byoc`, whose variants are `npu` and `gpu`, by backends of a plugin, and `cpu`.
fn bench() -> WithPlugin {
    let bench = WithPlugin::empty("claim_variants");
    bench.folder.write("model.onnx", model().finish());
    let variants = ["--variant", "npu=panels,cpu", "--variant", "gpu=blas,cpu", "--variant", "cpu=cpu"];
    bench.byoc(&[&["compile", "model.onnx", "-o", "m.byoc"], &variants[..]].concat()).success();
    bench
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four"))).collect()
}

const NO_PANELS: &str = "region byoc_main_panels_0 needs the backend 'panels': there is no backend 'panels'";
const NO_BLAS: &str = "region byoc_main_blas_0 needs the backend 'blas': there is no backend 'blas'";

/// With the plugin the first is taken, without it the next that can be, with the same outputs; one line says so.
#[test]
fn the_next_variant_runs_where_a_plugin_is_missing() {
    let bench = bench();
    let run = ["run", "m.byoc", "--fill", "random", "-o"];
    let first = bench.byoc(&[&run[..], &["npu.npz"]].concat());
    assert_eq!((first.code, first.stderr.as_str()), (Some(0), "variant npu\n"));
    let next = bench.folder.byoc(&[&run[..], &["cpu.npz"]].concat());
    assert_eq!((next.code, next.stderr), (Some(0), format!("variant cpu; not npu: {NO_PANELS}; not gpu: {NO_BLAS}\n")));
    let outputs =
        ["npu.npz", "cpu.npz"].map(|name| floats(&npz::find(&npz::read(&bench.folder.path().join(name)), "y")));
    for (one, other) in outputs[0].iter().zip(&outputs[1]) {
        assert!((one - other).abs() <= 1e-4 * other.abs().max(1.0), "{one} {other}");
    }
    let named = bench.byoc(&[&run[..], &["gpu.npz", "--variant", "gpu"]].concat());
    assert_eq!((named.code, named.stderr.as_str()), (Some(0), ""));
    let json = bench.folder.byoc(&["bench", "m.byoc", "--repeat", "1", "--json"]);
    let json: Value = serde_json::from_str(json.success()).expect("JSON");
    let passed = |variant: &str, reason: &str| json!({ "variant": variant, "code": "B604", "reason": reason });
    assert_eq!(
        (&json["variant"], &json["passed_over"]),
        (&json!("cpu"), &json!([passed("npu", NO_PANELS), passed("gpu", NO_BLAS)]))
    );
}

/// Where none can be loaded the reasons of all are told, and a variant that is named is not replaced.
#[test]
fn nothing_that_can_be_loaded() {
    let bench = bench();
    bench.folder.byoc(&["extract", "m.byoc", "--variant", "npu", "--variant", "gpu", "-o", "two.byoc"]).success();
    let run = ["run", "two.byoc", "--fill", "ones"];
    bench.folder.byoc(&run).fails(
        3,
        &format!("error: [B604] no variant of 'two.byoc' can be loaded here: npu: {NO_PANELS}; gpu: {NO_BLAS}\n  hint: byoc check has the remedies"),
    );
    bench.folder.byoc(&["verify", "two.byoc", "--model", "model.onnx"]).fails(
        3,
        &format!("error: [B604] no variant of 'two.byoc' can be loaded here: npu: {NO_PANELS}; gpu: {NO_BLAS}\n  hint: byoc check has the remedies"),
    );
    let named = bench.folder.byoc(&["run", "m.byoc", "--fill", "ones", "--variant", "gpu"]);
    assert_eq!(named.code, Some(3));
    assert!(named.stderr.starts_with(&format!("error: [B604] {NO_BLAS}\n")), "{}", named.stderr);
    bench
        .folder
        .byoc(&["run", "m.byoc", "--fill", "ones", "--variant", "tpu"])
        .fails(2, "error: [B702] 'm.byoc' has no variant 'tpu'\n  hint: Did you mean 'cpu'?");
    let check = bench.folder.byoc(&["check", "two.byoc"]);
    assert_eq!(check.code, Some(3));
    assert!(check.stdout.ends_with("this machine cannot run it\n"), "{}", check.stdout);
}

/// What is wrong whatever the variant is an error at once.
#[test]
fn what_is_wrong_with_all_is_told_at_once() {
    let bench = bench();
    let fails = |arguments: &[&str], code: i32, error: &str| {
        bench.folder.byoc(&[&["run", "m.byoc", "--fill", "ones"], arguments].concat()).fails(code, error);
    };
    fails(
        &["--backend-opt", "acme.x=1"],
        2,
        "error: [B304] option 'acme.x' is not an option of running\n  hint: Give it to byoc compile, or name the .onnx model",
    );
    fails(
        &["--backend", "cpu"],
        2,
        "error: [B901] 'm.byoc' is compiled already, so it takes no --backend\n  hint: Leave the flag out, or name the .onnx model",
    );
    fails(
        &["--device", "sim:0"],
        3,
        "error: [B604] no variant of 'm.byoc' can be loaded here: npu: no region runs on sim:0; gpu: no region runs on sim:0; cpu: no region runs on sim:0\n  hint: byoc check has the remedies",
    );
    fails(
        &["--variant", "cpu", "--backend-opt", "blas.most=1"],
        2,
        "error: [B304] option 'blas.most' is not an option of running\n  hint: Give it to byoc compile, or name the .onnx model",
    );
    bench.folder.byoc(&["check", "m.byoc", "--backend-opt", "acme.x=1"]).fails(
        2,
        "error: [B304] option 'acme.x' is not an option of running\n  hint: Give it to byoc compile, or name the .onnx model",
    );
    bench.folder.byoc(&["run", "model.onnx", "--fill", "ones", "--variant", "cpu"]).fails(
        2,
        "error: [B901] 'model.onnx' is a model, so it takes no --variant\n  hint: Leave the flag out, or name the artifact",
    );
}

/// `check` says of each variant whether it runs and which is taken; `verify` compares those that run.
#[test]
fn each_variant_is_checked_and_verified() {
    let bench = bench();
    let check = bench.folder.byoc(&["check", "m.byoc", "--json"]);
    let check: Value = serde_json::from_str(check.success()).expect("JSON");
    assert_eq!((&check["runs"], &check["takes"]), (&json!(true), &json!("cpu")));
    let rows = check["variants"].as_array().expect("three");
    let runs: Vec<_> = rows.iter().map(|row| (row["variant"].as_str(), row["runs"].as_bool())).collect();
    assert_eq!(runs, [(Some("npu"), Some(false)), (Some("gpu"), Some(false)), (Some("cpu"), Some(true))]);
    assert!(
        rows[0]["reason"].as_str().is_some_and(|reason| reason.starts_with("there is no backend 'panels'")),
        "{rows:?}"
    );
    let one = bench.folder.byoc(&["check", "m.byoc", "--variant", "npu"]);
    assert_eq!(one.code, Some(3), "{}", one.stdout);
    let with_plugin = bench.byoc(&["check", "m.byoc"]);
    assert!(
        with_plugin.success().ends_with("this machine can run it, and takes variant npu\n"),
        "{}",
        with_plugin.stdout
    );
    let verify = bench.folder.byoc(&["verify", "m.byoc", "--model", "model.onnx", "--json"]);
    let verify: Value = serde_json::from_str(verify.success()).expect("JSON");
    let rows = verify["variants"].as_array().expect("three");
    assert_eq!(
        (&verify["matches"], &rows[0]["not_compared"], &rows[2]["matches"]),
        (&json!(true), &json!(NO_PANELS), &json!(true))
    );
    // What fails while it runs is an error, and not a variant that cannot be loaded.
    let reshaped = Model::default().input("x", Type::Float, &[6]).input("to", Type::Int64, &[2]).node(
        "Reshape",
        &["x", "to"],
        &["y"],
    );
    bench.folder.write("reshape.onnx", reshaped.output("y", Type::Float, &[-1, -1]).finish());
    bench
        .folder
        .byoc(&["compile", "reshape.onnx", "-o", "r.byoc", "--variant", "a=cpu", "--variant", "b=cpu"])
        .success();
    let failed = bench.folder.byoc(&["verify", "r.byoc", "--model", "reshape.onnx", "--fill", "ones"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains("[B703]"), "{}", failed.stderr);
    // Another model: exit code 6, and every variant is told.
    let other = Model::default().input("x", Type::Float, &[2, SIDE]).node("Relu", &["x"], &["y"]).output(
        "y",
        Type::Float,
        &[2, SIDE],
    );
    bench.folder.write("other.onnx", other.finish());
    let differs = bench.byoc(&["verify", "m.byoc", "--model", "other.onnx"]);
    assert_eq!((differs.code, differs.stdout.matches("  differs\n").count()), (Some(6), 3), "{}", differs.stdout);
}

/// What the child process is to load, and of which file.
const LOADS: &str = "BYOC_TESTS_LOADS";

/// Loading and running a variant reads no byte of what only another one has: those pages cannot be read, and the process would
/// end. So it does where the other one is loaded.
#[test]
fn nothing_of_another_variant_is_touched() {
    if let Some(loads) = std::env::var_os(LOADS) {
        let loads = loads.into_string().expect("text");
        let (variant, file) = loads.split_once(':').expect("two parts");
        return load_behind_a_fence(variant, Path::new(file));
    }
    let bench = bench();
    let file = bench.folder.path().join("m.byoc");
    let child = |variant: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "variants::nothing_of_another_variant_is_touched"]);
        command.env(LOADS, format!("{variant}:{}", file.display()));
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts")
    };
    assert!(child("cpu").success());
    assert_eq!(child("npu").signal(), Some(11), "the pages can be read");
}

/// Loads and runs `variant` where no page can be read that belongs only to others than `cpu`.
fn load_behind_a_fence(variant: &str, path: &Path) {
    let contents = places::read(path);
    let of_cpu = {
        let file = ArtifactFile::from_bytes(path, contents.clone().into()).expect("it opens");
        let cpu = file.variant("cpu").expect("it is there");
        let manifest = cpu.manifest().clone();
        let constants = manifest.constants.into_iter().map(|stored| stored.section);
        let code = manifest.regions.into_iter().map(|region| region.code);
        let mut sections: Vec<String> = constants.chain(code).collect();
        sections.extend(["graph".to_owned(), "graph/cpu".to_owned(), format!("graph/{variant}")]);
        sections
    };
    let file = ArtifactFile::from_bytes(path, contents.clone().into()).expect("it opens");
    let fenced: Vec<_> = file
        .sections()
        .filter(|section| !of_cpu.iter().any(|own| own == section.name) && !section.name.starts_with("__pad__"))
        .map(|section| section.offset as usize..(section.offset + section.bytes) as usize)
        .collect();
    let fence = Fence::around(&contents, &fenced);
    assert!(fence.pages > 30, "only {} pages", fence.pages);
    let file = ArtifactFile::from_bytes(path, Bytes::from_owner(fence)).expect("it opens");
    let artifact = file.variant(variant).expect("it is there");
    let registry = match variant {
        "cpu" => engine::embedded(),
        _ => engine::from_files(vec![places::plugin("claim_variants"), places::plugin("json")]),
    };
    let mut session = Session::load(artifact, &registry, &LoadOptions::default()).expect("it loads");
    let x = vec![0.5f32; 2 * SIDE as usize];
    session.run(&[TensorView::from_slice(&x, &[2, SIDE], &[SIDE, 1]).expect("a tensor")]).expect("it runs");
}

/// A copy of a file, with pages in it that cannot be read.
struct Fence {
    address: *mut u8,
    length: usize,
    pages: usize,
}

// SAFETY: plain memory with one owner, which nobody writes to.
unsafe impl Send for Fence {}

impl Fence {
    fn around(contents: &[u8], ranges: &[std::ops::Range<usize>]) -> Fence {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        const PAGE: usize = 4096;
        // SAFETY: new memory at no address of anybody's.
        let address = unsafe {
            mmap_anonymous(std::ptr::null_mut(), contents.len(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let address = address.expect("memory").cast::<u8>();
        // SAFETY: it has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(contents.as_ptr(), address, contents.len()) };
        let mut pages = 0;
        for range in ranges {
            let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
            if start < end {
                // SAFETY: these are pages of the memory, which nobody else has.
                unsafe { mprotect(address.add(start).cast(), end - start, MprotectFlags::empty()) }.expect("protected");
                pages += (end - start) / PAGE;
            }
        }
        Fence { address, length: contents.len(), pages }
    }
}

impl AsRef<[u8]> for Fence {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory is there as long as this; what cannot be read is what the test is about.
        unsafe { std::slice::from_raw_parts(self.address, self.length) }
    }
}
