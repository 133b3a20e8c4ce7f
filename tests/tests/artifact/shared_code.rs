//! A network repeats its layers, and a backend whose code has no names in it gives equal layers equal code: it stands in
//! the file once, and everybody who reads the file finds it.

use std::collections::BTreeSet;

use byoc_core::artifact::Artifact;
use byoc_tests::folder::WithPlugin;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::program::Outcome;

/// Three layers of one form with weights of their own, and a fourth of another form.
fn model(scale: f32) -> Vec<u8> {
    let mut model = Model::default().input("x", Type::Float, &[4, 4]);
    let mut last = "x".to_owned();
    for layer in 0..3 {
        let weights: Vec<f32> = (0..16).map(|i| scale * (i as f32 - 8.0 + layer as f32) / 16.0).collect();
        let name = |what: &str| format!("{what}{layer}");
        model = model
            .weight(&name("w"), &[4, 4], &weights)
            .weight(&name("b"), &[4], &[0.5, -0.5, 0.25, layer as f32])
            .node("MatMul", &[&last, &name("w")], &[&name("product")])
            .node("Add", &[&name("product"), &name("b")], &[&name("sum")])
            .node("Tanh", &[&name("sum")], &[&name("curved")]);
        last = name("curved");
    }
    model.node("Relu", &[&last], &["y"]).output("y", Type::Float, &[4, 4]).finish()
}

struct Bench(WithPlugin);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(WithPlugin::empty("simdev"));
        bench.0.folder.write("model.onnx", model(1.0));
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.0.byoc(arguments)
    }

    fn compile(&self, output: &str, named: &str) {
        let option = format!("simdev.named={named}");
        let arguments = ["compile", "model.onnx", "-o", output, "--backend", "simdev,json", "--backend-opt", &option];
        self.byoc(&arguments).success();
    }

    fn artifact(&self, name: &str) -> Artifact {
        Artifact::open(&self.0.folder.path().join(name)).expect("it opens")
    }
}

/// Bytes of the sections of code, and how many there are for simdev's regions.
fn code(artifact: &Artifact) -> (u64, usize) {
    let bytes = artifact.sections().filter(|section| section.name.starts_with("code/")).map(|section| section.bytes);
    let regions = artifact.manifest().regions.iter().filter(|region| region.backend == "simdev");
    (bytes.sum(), regions.map(|region| &region.code).collect::<BTreeSet<_>>().len())
}

#[test]
fn equal_layers_have_one_code() {
    let bench = Bench::new();
    bench.compile("named.byoc", "true");
    bench.compile("shared.byoc", "false");
    let [named, shared] = ["named.byoc", "shared.byoc"].map(|name| bench.artifact(name));
    // Three layers, and Relu.
    assert_eq!((code(&named).1, code(&shared).1), (4, 2));
    let layer =
        |artifact: &Artifact| artifact.section(&artifact.manifest().regions[0].code).expect("code").len() as u64;
    let names = 3 * layer(&named) + relu(&named) - 3 * layer(&shared) - relu(&shared);
    assert_eq!(code(&named).0 - code(&shared).0, names + 2 * layer(&shared), "two layers and four names less");
    shared.verify_digests().expect("whole");
    // Constants are those of each region all the same.
    for name in ["named.byoc", "shared.byoc"] {
        bench.byoc(&["verify", name, "--model", "model.onnx", "--atol", "0"]).success();
    }
    let told = bench.byoc(&["inspect", "shared.byoc"]);
    assert!(told.success().contains("\ncode of 7 regions, "), "{}", told.stdout);
    golden("equal_code/regions.txt", bench.byoc(&["inspect", "shared.byoc", "--regions"]).success());
    let told: serde_json::Value =
        serde_json::from_str(bench.byoc(&["inspect", "shared.byoc", "--json"]).success()).expect("JSON");
    let (found, bytes) = (&told["code"], &told["bytes"]);
    assert_eq!((&found["regions"], &found["bytes"]), (&7.into(), &code(&shared).0.into()));
    let without = bytes["file"].as_u64().expect("a number") + bytes["saved"].as_u64().expect("a number");
    assert_eq!(bytes["without_deduplication"], without + found["saved"].as_u64().expect("a number"));
}

fn relu(artifact: &Artifact) -> u64 {
    let region = artifact.manifest().regions.iter().rfind(|region| region.backend == "simdev").expect("it is the last");
    artifact.section(&region.code).expect("code").len() as u64
}

/// Other weights are those of the region, and the code stays shared.
#[test]
fn a_swap_keeps_what_is_shared() {
    let bench = Bench::new();
    bench.compile("shared.byoc", "false");
    bench.0.folder.write("other.onnx", model(2.0));
    bench.0.folder.byoc(&["swap", "shared.byoc", "--from", "other.onnx", "-o", "swapped.byoc"]).success();
    let (shared, swapped) = (bench.artifact("shared.byoc"), bench.artifact("swapped.byoc"));
    assert_eq!(code(&swapped), code(&shared));
    swapped.verify_digests().expect("whole");
    bench.byoc(&["verify", "swapped.byoc", "--model", "other.onnx", "--atol", "0"]).success();
}
