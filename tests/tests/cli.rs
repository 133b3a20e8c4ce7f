//! What a user does from the first command on, through the program itself.

use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::small;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::{npz, places};
use serde_json::Value;

/// What a command that goes well prints.
#[track_caller]
fn run(folder: &Folder, arguments: &[&str]) -> String {
    let outcome = folder.byoc(arguments);
    outcome.success();
    assert_eq!(outcome.stderr, "", "nothing to complain about");
    outcome.stdout
}

#[track_caller]
fn json(folder: &Folder, arguments: &[&str]) -> Value {
    let printed = run(folder, &[arguments, &["--json"]].concat());
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// The one command of the README: everything is there afterwards, and it says that the results hold.
#[test]
fn quickstart() {
    let folder = Folder::empty();
    let printed = run(&folder, &["quickstart", "--dir", "tour"]);
    assert_eq!(places::list(&folder.path().join("tour")), ["model.byoc", "model.onnx"]);
    for part in ["byoc compile", "byoc run", "byoc verify", "byoc inspect"] {
        assert!(printed.contains(part), "{part} is missing in\n{printed}");
    }
    let size = |name: &str| places::read(&folder.path().join("tour").join(name)).len() as f64;
    assert!(size("model.byoc") <= size("model.onnx") * 1.01 + 32768.0);
    let verified = json(&folder, &["verify", "tour/model.byoc", "--model", "tour/model.onnx"]);
    assert_eq!(verified["matches"], true, "{verified}");
}

#[test]
fn compile_run_and_verify() {
    let folder = Folder::compiled(small());
    let input: Vec<f32> = (0..6).map(|i| i as f32 - 2.5).collect();
    npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[2, 3], &input))]);
    let report = json(&folder, &["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"]);
    assert_eq!(report["outputs"][0]["name"], "y", "{report}");
    let weight = |row: usize, column: usize| (row * 4 + column) as f32 / 4.0 - 1.0;
    let bias = [0.5, -0.5, 0.25, -0.25];
    let element = |i: usize| {
        let (row, column) = (i / 4, i % 4);
        let sum: f32 = (0..3).map(|k| input[row * 3 + k] * weight(k, column)).sum();
        (sum + bias[column]).max(0.0)
    };
    let expected = Tensor::f32(&[2, 4], &(0..8).map(element).collect::<Vec<_>>());
    let outputs = npz::read(&folder.path().join("out.npz"));
    compare(&npz::find(&outputs, "y"), &expected, Tolerance { relative: 1e-6, absolute: 1e-6 }).expect("the same");
    npz::write(&folder.path().join("expected.npz"), &[("y", &expected)]);
    for reference in [&["--reference", "expected.npz"], &["--model", "model.onnx"]] {
        let verified = json(&folder, &[&["verify", "model.byoc", "-i", "in.npz"][..], reference].concat());
        assert_eq!(verified["matches"], true, "{verified}");
    }
    // A model is as good as the artifact.
    let report = json(&folder, &["run", "model.onnx", "-i", "in.npz", "-o", "again.npz"]);
    assert_eq!(report["outputs"][0]["name"], "y", "{report}");
    assert_eq!(places::read(&folder.path().join("again.npz")), places::read(&folder.path().join("out.npz")));
}

#[test]
fn reports_for_people() {
    let folder = Folder::compiled(small());
    golden("explain.txt", &run(&folder, &["explain", "model.onnx"]));
    golden("inspect_model.txt", &run(&folder, &["inspect", "model.onnx"]));
    golden("inspect_constants.txt", &steady(&run(&folder, &["inspect", "model.byoc", "--constants"])));
    golden("inspect_regions.txt", &steady(&run(&folder, &["inspect", "model.byoc", "--regions"])));
    golden("plugin_info.txt", &steady(&run(&folder, &["plugin", "info", "json"])));
}

/// The text without the version and without sizes that change with every change of a backend's code.
fn steady(text: &str) -> String {
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let line = |line: &str| match line.split_once(", file ").or_else(|| line.split_once("  code     ")) {
        Some((before, _)) => format!("{before} ...\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The text form of each stage, through the door that the command line has for it.
#[test]
fn stages_have_a_text_form() {
    let folder = Folder::compiled(small());
    for stage in ["onnx", "passes", "partition", "ownership"] {
        let text = run(&folder, &["compile", "model.onnx", "--stop-after", stage, "--print"]);
        golden(&format!("stage_{stage}.txt"), &text);
    }
    run(&folder, &["compile", "model.onnx", "-o", "again.byoc", "--dump-ir", "dump", "--check-reproducible"]);
    assert!(places::list(&folder.path().join("dump")).len() >= 5);
    assert_eq!(places::read(&folder.path().join("again.byoc")), places::read(&folder.path().join("model.byoc")));
}

/// A report as JSON has the same facts under stable names.
#[test]
fn reports_for_programs() {
    let folder = Folder::compiled(small());
    let explained = json(&folder, &["explain", "model.onnx"]);
    let nodes: Vec<_> = explained["nodes"].as_array().expect("a list").iter().map(|node| &node["op"]).collect();
    assert_eq!(nodes, ["MatMul", "Add", "Relu"], "{explained}");
    assert!(explained["nodes"].as_array().into_iter().flatten().all(|node| node["backend"] == "json"), "{explained}");
    let constants = json(&folder, &["inspect", "model.byoc", "--constants"]);
    let names: Vec<_> = constants["constants"].as_array().expect("a list").iter().map(|row| &row["names"][0]).collect();
    assert_eq!(names, ["w", "b"], "{constants}");
    let listed = json(&folder, &["plugin", "list"]);
    assert_eq!(listed["backends"][0]["origin"], "embedded", "{listed}");
    let measured = json(&folder, &["bench", "model.byoc", "--warmup", "1", "--repeat", "3"]);
    assert_eq!(measured["seconds"]["runs"], 3, "{measured}");
    assert!(measured["seconds"]["median"].as_f64().is_some_and(|seconds| seconds > 0.0), "{measured}");
    let report = json(&folder, &["compile", "model.onnx", "-o", "again.byoc"]);
    assert_eq!(report["file"], "again.byoc", "{report}");
}

#[test]
fn help_and_version() {
    let folder = Folder::empty();
    assert!(run(&folder, &["--version"]).starts_with("byoc "));
    let help = run(&folder, &["--help"]);
    for verb in ["compile", "run", "bench", "verify", "inspect", "explain", "plugin", "quickstart"] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is missing in\n{help}");
        assert!(run(&folder, &[verb, "--help"]).contains("Usage: byoc"));
    }
}
