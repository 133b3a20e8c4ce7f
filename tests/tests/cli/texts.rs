//! Texts and complex numbers in the files and reports of the program.

use byoc_core::onnx::write;
use byoc_plugin_api::DType;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use serde_json::{Value, json};

fn compiled() -> Folder {
    let model = Model::default().opset(20).input("x", Type::String, &[2]).input("c", Type::Complex64, &[2]);
    let model = model.tensor(write::texts("end", &[1], &["!"])).ints("shape", &[2], &[2, 1]);
    let model = model.node("StringConcat", &["x", "end"], &["y"]).node("Reshape", &["c", "shape"], &["z"]);
    let folder = Folder::compiled(model.output("y", Type::String, &[2]).output("z", Type::Complex64, &[2, 1]));
    npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::texts(&[2], &["a", "é"])), ("c", &complex(&[2]))]);
    folder
}

fn complex(shape: &[i64]) -> Tensor {
    Tensor::new(DType::C64, shape.to_vec(), [1f32, -2.0, 3.0, 0.5].map(f32::to_le_bytes).concat())
}

#[test]
fn texts_and_complex_numbers_are_read_shown_and_written() {
    let folder = compiled();
    let shown = folder.run(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"]);
    assert!(shown.contains("\"a!\" \"é!\"") && shown.contains("1-2i 3+0.5i"), "{shown}");
    let report = folder.run(&["run", "model.byoc", "-i", "in.npz", "--json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let first = |output: usize| report["outputs"][output]["first"].clone();
    assert_eq!([first(0), first(1)], [json!(["a!", "é!"]), json!([[1.0, -2.0], [3.0, 0.5]])]);
    let outputs = npz::read(&folder.path().join("out.npz"));
    assert_eq!(npz::find(&outputs, "y"), Tensor::texts(&[2], &["a!", "é!"]));
    assert_eq!(npz::find(&outputs, "z"), complex(&[2, 1]));
}

#[test]
fn sequences_hold_texts() {
    let model = Model::default().opset(20).input("x", Type::String, &[2]).input("at", Type::Int64, &[]);
    let model = model.node("SequenceConstruct", &["x", "x"], &["s"]).node("SequenceErase", &["s", "at"], &["t"]);
    let folder = Folder::compiled(model.output("t", Type::String, &[2]));
    let texts = Tensor::texts(&[2], &["", "é"]);
    let at = Tensor::new(DType::I64, vec![], 1i64.to_le_bytes().to_vec());
    npz::write(&folder.path().join("in.npz"), &[("x", &texts), ("at", &at)]);
    folder.run(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"]);
    assert_eq!(npz::read(&folder.path().join("out.npz")), [("t.0".to_owned(), texts)]);
}

#[test]
fn texts_are_the_same_or_not() {
    let folder = compiled();
    folder.run(&["verify", "model.byoc", "-i", "in.npz", "--model", "model.onnx"]);
    folder.run(&["verify", "model.byoc", "--model", "model.onnx"]);
    folder.run(&["bench", "model.byoc", "--fill", "random", "--repeat", "2"]);
    let other = Tensor::texts(&[2], &["a!", "e!"]);
    npz::write(&folder.path().join("other.npz"), &[("y", &other), ("z", &complex(&[2, 1]))]);
    let outcome = folder.byoc(&["verify", "model.byoc", "-i", "in.npz", "--reference", "other.npz"]);
    assert_eq!(outcome.code, Some(6));
    let mismatch = ": 1 of 2 differ, first [1]: \"é!\", expected \"e!\"";
    assert!(outcome.stdout.contains(mismatch), "{}", outcome.stdout);
}

#[test]
fn arrays_of_objects_are_refused() {
    let folder = compiled();
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n";
    let file = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    places::write(folder.path(), "x.npy", file);
    let outcome = folder.byoc(&["run", "model.byoc", "-i", "x=@x.npy", "--fill", "zeros"]);
    let message = "error: [B701] 'x.npy': it holds Python objects: save texts with NumPy's astype('U')";
    assert_eq!((outcome.code, outcome.stderr.lines().next()), (Some(2), Some(message)));
}
