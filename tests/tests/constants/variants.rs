//! Variants of a model in one file: what they have in common is in it once, what they do not have in common is priced, and the file
//! is the same whichever way it came about.

mod merged;
mod verbs;

use byoc_tests::folder::{Folder, WithPlugin};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::program::Outcome;
use serde_json::Value;

/// Sides of the weights: a file of any of them is large beside what is around it.
const SIDE: i64 = 256;

/// Bytes of one of the two weights.
const WEIGHT: u64 = (SIDE * SIDE * 4) as u64;

fn numbers(seed: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed as u64);
    (0..SIDE * SIDE).map(|_| random.f32() - 0.5).collect()
}

/// `y = relu(x v) w`.
fn model(seed: usize) -> Model {
    Model::default()
        .input("x", Type::Float, &[2, SIDE])
        .weight("v", &[SIDE, SIDE], &numbers(seed))
        .weight("w", &[SIDE, SIDE], &numbers(seed + 1))
        .node("MatMul", &["x", "v"], &["a"])
        .node("Relu", &["a"], &["b"])
        .node("MatMul", &["b", "w"], &["y"])
        .output("y", Type::Float, &[2, SIDE])
}

/// A folder with `model.onnx`, and the plugin whose backends take products and differ in where they keep weights.
pub(super) struct Bench(WithPlugin);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(WithPlugin::empty("claim_variants"));
        bench.folder().write("model.onnx", model(1).finish());
        bench
    }

    fn folder(&self) -> &Folder {
        &self.0.folder
    }

    /// The program with the plugin.
    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.0.byoc(arguments)
    }

    /// Compiles these variants into a file, and returns the report.
    #[track_caller]
    fn compile(&self, output: &str, variants: &[&str], flags: &[&str]) -> Value {
        let mut arguments = vec!["compile", "model.onnx", "-o", output, "--json"];
        variants.iter().for_each(|variant| arguments.extend(["--variant", variant]));
        arguments.extend(flags);
        serde_json::from_str(self.byoc(&arguments).success()).expect("a report")
    }

    fn size(&self, name: &str) -> u64 {
        self.read(name).len() as u64
    }

    fn read(&self, name: &str) -> Vec<u8> {
        places::read(&self.folder().path().join(name))
    }
}

/// What a report counts, by name.
fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// All bytes that a report tells of are those of the file.
fn adds_up(report: &Value) -> bool {
    let of =
        |variant: &Value| ["own_constants", "own_code", "graph"].map(|name| count(variant, name)).iter().sum::<u64>();
    let variants: u64 = report["variants"].as_array().expect("variants").iter().map(of).sum();
    let around = ["shared_constants", "shared_code", "frame"].map(|name| count(report, name)).iter().sum::<u64>();
    variants + around == count(report, "file_bytes")
}

/// How often the bytes stand in the file.
fn copies(file: &[u8], bytes: &[u8]) -> usize {
    let probe = &bytes[bytes.len() / 2..][..64];
    file.windows(probe.len()).filter(|window| *window == probe).count()
}

fn original(seed: usize) -> Vec<u8> {
    numbers(seed).iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Two variants that read the originals: each weight is in the file once.
#[test]
fn equal_constants_are_once() {
    let bench = Bench::new();
    let report = bench.compile("m.byoc", &["gpu=blas,cpu", "npu=csource,cpu"], &[]);
    assert_eq!(count(&report, "shared_constants"), 2 * WEIGHT);
    assert!(count(&report, "file_bytes") * 100 <= 2 * WEIGHT * 102, "{report}");
    assert!(adds_up(&report), "{report}");
    let file = bench.read("m.byoc");
    for seed in [1, 2] {
        assert_eq!(copies(&file, &original(seed)), 1);
    }
}

/// A variant that packs beside one that reads the originals: both forms are in the file and priced, unless backends are asked to give
/// way.
#[test]
fn two_forms_are_priced_and_given_up_where_that_is_asked() {
    let bench = Bench::new();
    let variants = ["npu=panels,cpu", "gpu=blas,cpu"];
    let both = bench.compile("both.byoc", &variants, &[]);
    assert_eq!((count(&both, "shared_constants"), count(&both, "weights")), (0, 2 * WEIGHT));
    for variant in both["variants"].as_array().expect("two") {
        assert_eq!(count(variant, "own_constants"), 2 * WEIGHT);
    }
    let several = &both["in_several_forms"];
    assert_eq!((count(several, "constants"), count(several, "bytes")), (2, 2 * WEIGHT));
    assert!(adds_up(&both), "{both}");
    let once = bench.compile("once.byoc", &variants, &["--share"]);
    assert_eq!(count(&once, "shared_constants"), 2 * WEIGHT);
    assert_eq!(count(&once["in_several_forms"], "bytes"), 0);
    assert!(adds_up(&once), "{once}");
    assert!(count(&once, "file_bytes") * 100 <= 2 * WEIGHT * 102, "{once}");
    // A backend that insists keeps its form, and the price stays.
    let kept = bench.compile("kept.byoc", &variants, &["--share", "--backend-opt", "panels.honour=false"]);
    assert_eq!(count(&kept["in_several_forms"], "bytes"), 2 * WEIGHT);
    for file in ["both.byoc", "once.byoc", "kept.byoc"] {
        bench.byoc(&["verify", file, "--model", "model.onnx"]).success();
    }
}

/// Three targets, three forms: the original, panels of 8 columns, panels of 16.
#[test]
fn two_packed_forms_are_priced_by_variant() {
    let bench = Bench::new();
    let flags = ["--backend-opt", "wide:panels.layout=panels-16/1"];
    let variants = ["narrow=panels,cpu", "wide=panels,cpu", "gpu=blas,cpu"];
    let report = bench.compile("m.byoc", &variants, &flags);
    assert_eq!(count(&report["in_several_forms"], "bytes"), 4 * WEIGHT);
    assert!(adds_up(&report), "{report}");
    let inspected: Value =
        serde_json::from_str(bench.folder().byoc(&["inspect", "m.byoc", "--constants", "--json"]).success())
            .expect("JSON");
    let constants = inspected["constants"].as_array().expect("constants");
    let of = |name: &str| constants.iter().find(|row| row["names"][0] == name).unwrap_or_else(|| panic!("{name}"));
    let forms = of("v")["forms"].as_array().expect("forms");
    let told: Vec<_> =
        forms.iter().map(|form| format!("{} {} {}", form["fate"], form["layout"], form["variants"])).collect();
    let expected =
        [r#""packed" "panels-8/1" ["narrow"]"#, r#""packed" "panels-16/1" ["wide"]"#, r#""stored" null ["gpu"]"#];
    assert_eq!(told, expected);
    assert_eq!(count(of("v"), "beyond_one_form"), 2 * WEIGHT);
    // All give way: one form, for all three.
    let shared = bench.compile("s.byoc", &variants, &[&flags[..], &["--share"]].concat());
    assert_eq!(count(&shared, "shared_constants"), 2 * WEIGHT);
    assert!(count(&shared, "file_bytes") * 100 <= 2 * WEIGHT * 103, "{shared}");
}

/// What one variant has in its code, as it says, and another one stored: both are there, and the ledger tells.
#[test]
fn embedded_in_one_and_stored_for_another() {
    let bench = Bench::new();
    let report = bench.compile("m.byoc", &["npu=embedder,cpu", "gpu=blas,cpu"], &[]);
    assert!(adds_up(&report), "{report}");
    let [npu, gpu] = &report["variants"].as_array().expect("two")[..] else { panic!("{report}") };
    assert!(count(npu, "own_code") > 2 * WEIGHT && count(npu, "own_constants") == 0, "{npu}");
    assert_eq!(count(gpu, "own_constants"), 2 * WEIGHT);
    assert_eq!(copies(&bench.read("m.byoc"), &original(1)), 2);
    bench.byoc(&["verify", "m.byoc", "--model", "model.onnx"]).success();
}
