//! Tensors in the memory of a device, from C.

use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;

use crate::{build, run};

/// `y = x + w`, of three rows, and `curved = tanh(relu(x))`, whose Tanh is the host's.
fn model() -> Model {
    Model::default()
        .input("x", Type::Float, &[-1, 2])
        .weight("w", &[3, 2], &[0.5, -0.5, 0.5, -0.5, 0.5, -0.5])
        .node("Add", &["x", "w"], &["y"])
        .node("Relu", &["x"], &["positive"])
        .node("Tanh", &["positive"], &["curved"])
        .output("y", Type::Float, &[3, 2])
        .output("curved", Type::Float, &[-1, 2])
}

#[test]
fn tensors_stay_on_devices() {
    let folder = Folder::empty();
    folder.write("model.onnx", model().finish());
    let plugin = places::plugin("simdev").to_str().expect("a plain path").to_owned();
    let wishes = ["-o", "model.byoc", "--backend", "simdev,json", "--plugin", &plugin];
    folder.byoc(&[&["compile", "model.onnx"], &wishes[..]].concat()).success();
    let source = places::checkout().join("tests/tests/embed/devices.c");
    let plain: &[&str] = &["cc", "-std=c99", "-pedantic"];
    let cpp: &[&str] = &["c++", "-x", "c++", "-std=c++20", "-pedantic"];
    let sanitized: &[&str] = &["cc", "-std=c99", "-fsanitize=address,undefined"];
    for compiler in [plain, cpp, sanitized] {
        let log = folder.path().join("log");
        let _ = std::fs::remove_file(&log);
        build(compiler, &source, folder.path());
        let found = run(&folder, &["model.byoc", &plugin, "log"]);
        assert_eq!(found.success(), "0 wrong\n", "{compiler:?}: {found:?}");
        golden("embed/devices.txt", &String::from_utf8(places::read(&log)).expect("text"));
    }
}
