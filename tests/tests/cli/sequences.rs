//! Sequences and optionals in the files and reports of the program.

use byoc_tests::folder::Folder;
use byoc_tests::npz;
use byoc_tests::onnx::{Model, Type, list};
use byoc_tests::tensor::Tensor;
use serde_json::{Value, json};

/// `s` without its last tensor, and how many there are; `o` as it is.
fn compiled() -> Folder {
    let mut model = Model::default().opset(18);
    model.graph.input.extend([list("s", false, true), list("o", true, false)]);
    let model = model.node("SequenceErase", &["s"], &["t"]).node("SequenceLength", &["t"], &["n"]);
    let model = model.node("Identity", &["o"], &["p"]).output("t", Type::Float, &[2]).output("n", Type::Int64, &[]);
    let folder = Folder::compiled(model.output("p", Type::Float, &[2]));
    let [a, b] = [row(1.0), row(3.0)];
    npz::write(&folder.path().join("in.npz"), &[("s.0", &a), ("s.1", &b), ("o", &b)]);
    npz::write(&folder.path().join("rows.npz"), &[("s", &Tensor::f32(&[1, 2], &[5.0, 6.0]))]);
    folder
}

fn row(first: f32) -> Tensor {
    Tensor::f32(&[2], &[first, first + 1.0])
}

#[test]
fn tensors_of_sequences_have_numbers_behind_their_names() {
    let folder = compiled();
    let shown = folder.run(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"]);
    let names: Vec<_> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["t.0", "n", "p"], "{shown}");
    let outputs = npz::read(&folder.path().join("out.npz"));
    assert_eq!((outputs.len(), npz::find(&outputs, "t.0"), npz::find(&outputs, "p")), (3, row(1.0), row(3.0)));
    // The slices of one array are a sequence, too, and an optional may be left out.
    let report = folder.run(&["run", "model.byoc", "-i", "rows.npz", "--json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let outputs: Vec<_> =
        report["outputs"].as_array().expect("a list").iter().map(|it| (&it["name"], &it["dtype"])).collect();
    let [t, n, p, list, int, optional] = ["t", "n", "p", "seq(f32[2])", "i64", "optional(f32[2])"].map(|it| json!(it));
    assert_eq!(outputs, [(&n, &int), (&t, &list), (&p, &optional)]);
    folder.run(&["verify", "model.byoc", "-i", "in.npz", "--model", "model.onnx"]);
    folder.run(&["verify", "model.byoc", "--model", "model.onnx"]);
    folder.run(&["bench", "model.byoc", "--fill", "random", "--repeat", "2"]);
}

#[test]
fn what_is_missing_is_named() {
    let folder = compiled();
    let outcome = folder.byoc(&["run", "model.byoc"]);
    let message = "error: [B701] input 's' is not given";
    assert_eq!((outcome.code, outcome.stderr.lines().next()), (Some(2), Some(message)));
    let hint = "Give its tensors as 's.0', 's.1' and so on, or make it up with --fill random";
    assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    npz::write(&folder.path().join("gap.npz"), &[("s.0", &row(1.0)), ("s.2", &row(2.0))]);
    let outcome = folder.byoc(&["run", "model.byoc", "-i", "gap.npz"]);
    let message = "error: [B701] input 's' has 's.2' and no 's.1'";
    assert_eq!((outcome.code, outcome.stderr.lines().next()), (Some(2), Some(message)));
}

#[test]
fn types_are_shown() {
    let folder = compiled();
    for file in ["model.byoc", "model.onnx"] {
        let shown = folder.run(&["inspect", file]);
        assert!(shown.contains("s: seq(f32[2])") && shown.contains("o: optional(f32[2])"), "{shown}");
    }
    let rows = folder.run(&["explain", "model.onnx", "--nodes"]);
    let row = rows.lines().find(|line| line.contains("SequenceErase")).unwrap_or_default();
    assert!(row.contains("byoc") && rows.contains("byoc itself: 3 nodes"), "{rows}");
}
