//! The other verbs on files with variants: `compile` and its flags, `swap`, `inspect`, `report`.

use serde_json::Value;

use super::{Bench, copies, model, original};

const TWO: [&str; 4] = ["--variant", "npu=panels,cpu", "--variant", "cpu=cpu"];

/// What is said of a compile of two variants with further flags, which writes nothing.
fn fails(bench: &Bench, flags: &[&str], code: i32, error: &str) {
    bench.byoc(&[&["compile", "model.onnx", "-o", "m.byoc"], &TWO[..], flags].concat()).fails(code, error);
    assert!(!bench.folder().path().join("m.byoc").exists());
}

/// Limits are for one variant or for all.
#[test]
fn limits_are_for_a_variant_or_for_all() {
    let bench = Bench::new();
    fails(
        &bench,
        &["--max-host-nodes", "5", "--max-host-nodes", "0"],
        2,
        "error: [B901] --max-host-nodes is given twice\n  hint: Leave one of them out",
    );
    fails(
        &bench,
        &["--max-host-nodes", "npu:5", "--max-host-nodes", "3", "--max-host-nodes", "npu:0"],
        2,
        "error: [B901] --max-host-nodes is given twice for the variant 'npu'\n  hint: Leave one of them out",
    );
    fails(
        &bench,
        &["--max-host-nodes", "5", "--max-host-nodes", "npu:0"],
        4,
        "error: [B402] variant 'npu': --max-host-nodes 0: 1 node goes to a host backend\n  hint: byoc explain has the reasons, node by node",
    );
    bench.byoc(&["explain", "model.onnx", "--backend-opt", "npu:cpu.pack=false"]).fails(
        2,
        "error: [B901] 'npu:cpu.pack=false' is not a value of --backend-opt <NAME.KEY=VALUE>: an option for one variant is one of byoc compile --variant\n  hint: `byoc explain --help` shows what there is",
    );
}

/// Flags for one variant, and what is wrong with them.
#[test]
fn flags_are_for_a_variant_or_for_all() {
    let bench = Bench::new();
    fails(
        &bench,
        &["--variant", "cpu=cpu"],
        2,
        "error: [B901] there are two variants 'cpu'\n  hint: Give each a name of its own",
    );
    fails(
        &bench,
        &["--backend-opt", "gpu:panels.layout=panels-16/1"],
        2,
        "error: [B901] --backend-opt is for the variant 'gpu', which no --variant names\n  hint: Correct the name, or leave it out for all variants",
    );
    fails(
        &bench,
        &["--max-host-nodes", "gpu:1"],
        2,
        "error: [B901] --max-host-nodes is for the variant 'gpu', which no --variant names\n  hint: Correct the name, or leave it out for all variants",
    );
    fails(
        &bench,
        &["--no-fallback=npu"],
        4,
        "error: [B402] variant 'npu': --no-fallback: 1 node goes to a host backend, first 'make_b' (Relu)\n  hint: byoc explain has the reasons, node by node",
    );
    fails(
        &bench,
        &["--require", "npu:cpu=MatMul"],
        4,
        "error: [B402] variant 'npu': --require json=MatMul: node 'make_a' (MatMul) goes to panels\n  hint: byoc explain has the reasons, node by node",
    );
    fails(
        &bench,
        &["--backend", "cpu"],
        2,
        "error: [B901] --variant <NAME=BACKEND,...> and --backend <NAME,...> exclude each other\n  hint: Leave one of them out",
    );
    // An option for all variants is for those that have the backend, one that is for a variant comes before it, and a wrong one is wrong.
    bench.compile("narrow.byoc", &["npu=panels,cpu", "cpu=cpu"], &[]);
    let flags = ["--backend-opt", "panels.layout=panels-16/1", "--backend-opt", "npu:panels.layout=panels-8/1"];
    bench.compile("same.byoc", &["npu=panels,cpu", "cpu=cpu"], &flags);
    assert!(bench.read("narrow.byoc") == bench.read("same.byoc"));
    fails(
        &bench,
        &["--backend-opt", "acme.x=1"],
        2,
        "error: [B304] option 'acme.x' belongs to no backend of the list panels,json\n  hint: Write --backend-opt BACKEND.KEY=VALUE",
    );
}

/// The same bytes again, as for one compile.
#[test]
fn a_second_compile_gives_the_same_bytes() {
    let bench = Bench::new();
    bench.compile("m.byoc", &["npu=panels,cpu", "gpu=blas,cpu"], &["--check-reproducible", "--share"]);
}

/// Other weights in all variants at once; or in none, where one of them has packed the old ones.
#[test]
fn weights_are_swapped_in_all_variants() {
    let bench = Bench::new();
    bench.folder().write("new.onnx", model(5).finish());
    bench.compile("old.byoc", &["gpu=blas,cpu", "npu=csource,cpu"], &[]);
    let swap = |file: &str| bench.folder().byoc(&["swap", file, "--from", "new.onnx", "-o", "swapped.byoc"]);
    assert_eq!(swap("old.byoc").success(), "swapped.byoc: 2 constants replaced, 512.0 KiB\n");
    let swapped = bench.read("swapped.byoc");
    assert_eq!([1, 2, 5, 6].map(|seed| copies(&swapped, &original(seed))), [0, 0, 1, 1]);
    let fresh =
        ["compile", "new.onnx", "-o", "fresh.byoc", "--variant", "gpu=blas,cpu", "--variant", "npu=csource,cpu"];
    bench.byoc(&fresh).success();
    assert!(swapped == bench.read("fresh.byoc"));
    bench.compile("packed.byoc", &["gpu=blas,cpu", "npu=panels,cpu"], &[]);
    swap("packed.byoc").fails(
        1,
        "error: [B504] cannot swap `v` in variant 'npu': it is packed by 'panels' as 'panels-8/1' (and 1 more such constants)\n  hint: Make a new artifact of 'new.onnx' with byoc compile",
    );
    assert!(bench.read("swapped.byoc") == swapped);
}

/// Each variant by itself, and all of them.
#[test]
fn inspect_shows_one_or_all() {
    let bench = Bench::new();
    bench.compile("m.byoc", &["npu=panels,cpu", "gpu=blas,cpu"], &[]);
    let json = |arguments: &[&str]| -> Value {
        let arguments = [&["inspect", "m.byoc", "--json"], arguments].concat();
        serde_json::from_str(bench.folder().byoc(&arguments).success()).expect("JSON")
    };
    let all = json(&["--regions"]);
    let parts = all["parts"].as_array().expect("two");
    assert_eq!(parts.iter().map(|part| part["variant"].as_str()).collect::<Vec<_>>(), [Some("npu"), Some("gpu")]);
    assert_eq!(parts[0]["regions"], json(&["--regions", "--variant", "npu"])["regions"]);
    assert!(parts[0]["regions"].as_array().expect("regions").iter().all(|region| region["nodes"][0]["op"].is_string()));
    let text = bench.folder().run(&["inspect", "m.byoc"]);
    assert!(text.starts_with("m.byoc: ") && text.contains(", variants npu, gpu, format 2\n"), "{text}");
    let one = bench.folder().run(&["inspect", "m.byoc", "--variant", "gpu"]);
    assert!(one.contains("\nblas "), "{one}");
    let region = ["inspect", "m.byoc", "--region", "byoc_main_json_0"];
    bench
        .folder()
        .byoc(&region)
        .fails(2, "error: [B702] 'm.byoc' has the variants npu, gpu\n  hint: Choose one with --variant");
    bench.folder().byoc(&[&region[..], &["--variant", "gpu"]].concat()).success();
    let page = bench.folder().byoc(&["report", "m.byoc", "--variant", "gpu", "-o", "page.html"]);
    page.success();
    bench.folder().byoc(&["inspect", "model.onnx", "--variant", "gpu"]).fails(
        2,
        "error: [B901] 'model.onnx' is a model; only an artifact has these parts\n  hint: Compile it first, or leave the flags out",
    );
}
