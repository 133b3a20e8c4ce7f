//! What a user does from the first command on, through the program itself.

use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, small};
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
    assert_eq!(places::list(&folder.path().join("tour")), [".gitignore", "model.byoc", "model.onnx"]);
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
    golden("explain_nodes.txt", &run(&folder, &["explain", "model.onnx", "--nodes"]));
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

/// A model with a constant of every fate: stored under two names, one element for many, packed, embedded, computed into
/// another, looked at only.
fn fates() -> Model {
    let numbers = |count: usize, step: f32| (0..count).map(|i| i as f32 * step - 1.0).collect::<Vec<_>>();
    let norm = ["plain", "scale", "shift", "mean", "variance"];
    Model::default()
        .input("x", Type::Float, &[1, 16, 8, 8])
        .weight("conv.weight", &[16, 16, 3, 3], &numbers(16 * 16 * 9, 0.01))
        .weight("scale", &[16], &numbers(16, 0.5))
        .weight("shift", &[16], &numbers(16, 0.25))
        .weight("mean", &[16], &[0.125; 16])
        .weight("variance", &[16], &numbers(16, 0.75).iter().map(|value| value + 2.0).collect::<Vec<_>>())
        .weight("first", &[6, 6], &numbers(36, 0.125))
        .weight("tied", &[6, 6], &numbers(36, 0.125))
        .weight("ones", &[1, 16, 6, 6], &[1.0; 576])
        .weight("exponent", &[6], &numbers(6, 0.3))
        .weight("factor", &[], &[0.75])
        .node("Conv", &["x", "conv.weight"], &["plain"])
        .node("BatchNormalization", &norm, &["normal"])
        .node("MatMul", &["normal", "first"], &["once"])
        .node("MatMul", &["once", "tied"], &["twice"])
        .node("Max", &["twice", "ones"], &["larger"])
        .node("Exp", &["exponent"], &["power"])
        .node("Add", &["larger", "power"], &["sum"])
        .node("Mul", &["sum", "factor"], &["y"])
        .output("y", Type::Float, &[1, 16, 6, 6])
}

/// The ledger as a table and as JSON: what became of each constant, and totals that agree in both.
#[test]
fn the_ledger_tells_what_became_of_every_constant() {
    let folder = Folder::compiled(fates());
    let printed = json(&folder, &["inspect", "model.byoc", "--constants"]);
    let region = &json(&folder, &["inspect", "model.byoc", "--regions"])["regions"][0];
    let nodes = region["nodes"].as_array().expect("a list").iter().map(|node| node["op"].as_str().expect("a text"));
    let expected = ["Conv", "BatchNormalization", "MatMul", "MatMul", "Max", "Add", "Mul"];
    assert_eq!(nodes.collect::<Vec<_>>(), expected);
    let layouts: Vec<String> = region["constants"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|constant| Some(constant["layout"].as_str()?.to_owned()))
        .collect();
    // Layouts depend on the processor.
    let steady = |text: &str| layouts.iter().fold(steady(text), |text, layout| text.replace(layout, "LAYOUT"));
    let table = run(&folder, &["inspect", "model.byoc", "--constants"]);
    golden("ledger.txt", &steady(&table));
    let rows = serde_json::to_string_pretty(&printed["constants"]).expect("JSON");
    golden("ledger.json", &steady(&rows));
    let totals = &printed["totals"];
    let number = |name: &str| totals[name].as_u64().unwrap_or_else(|| panic!("{name} in {totals}"));
    assert_eq!(number("file"), places::read(&folder.path().join("model.byoc")).len() as u64);
    assert_eq!(number("without_deduplication"), number("file") + number("saved"));
    // The second name of the tied weight, and all but one element of the constant that is the same throughout.
    assert_eq!(number("saved"), 36 * 4 + 575 * 4);
    let rows = printed["constants"].as_array().expect("a list");
    let sum = |fates: &[&str]| {
        let rows = rows.iter().filter(|row| fates.iter().any(|fate| row["fate"] == *fate));
        rows.map(|row| row["bytes"].as_u64().expect("a number")).sum::<u64>()
    };
    assert_eq!(number("weights"), sum(&["stored", "packed", "embedded"]));
    assert_eq!([number("embedded"), number("dropped")], [sum(&["embedded"]), sum(&["dropped"])]);
    assert_eq!(number("folded"), sum(&["folded"]));
    let last = table.lines().last().expect("a line");
    assert!(
        last.starts_with("weights ") && last.contains(", file ") && last.ends_with(" without deduplication"),
        "{last}"
    );
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
    for verb in ["compile", "run", "bench", "verify", "inspect", "explain", "swap", "plugin", "quickstart"] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is missing in\n{help}");
        assert!(run(&folder, &[verb, "--help"]).contains("Usage: byoc"));
    }
    // What is read and written comes first, and what hardly anybody needs last.
    let place = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing in\n{text}"));
    let help = run(&folder, &["run", "--help"]);
    let parts = [
        "  -i, --input",
        "  -o, --output",
        "  --print-top",
        "\nBackends:",
        "\nShapes:",
        "\nSeldom needed:",
        "\nExamples:",
    ];
    assert!(parts.iter().map(|part| place(&help, part)).is_sorted(), "{help}");
    for verb in [&["check"][..], &["inspect"], &["plugin", "list"], &["plugin", "info"]] {
        assert!(!run(&folder, &[verb, &["--help"]].concat()).contains("--in-process"), "{verb:?} compiles nothing");
    }
    assert!(!run(&folder, &["verify", "--help"]).contains("--verify-digests"), "it always does");
    let page = run(&folder, &["man", "compile"]);
    let title = format!(".TH byoc-compile 1  \"byoc {}\"", env!("CARGO_PKG_VERSION"));
    assert!([&title, ".SH EXAMPLES\n"].iter().all(|part| page.contains(*part)), "{page}");
}
