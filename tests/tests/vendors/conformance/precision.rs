//! A backend that computes with fewer bits than the model has: it says so, and passes while it is right. The product in C with its
//! matrix in `bf16`.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;

use super::{Tested, c_plugin};

/// Rounds what is packed to the 8 bits of `bf16`.
const ROUNDED: (&str, &str) = (
    "float value = element(&matrix->tensor, row, column);",
    "float value = element(&matrix->tensor, row, column); uint32_t bits; memcpy(&bits, &value, 4); \
     bits = (bits + 0x8000u) & 0xffff0000u; memcpy(&value, &bits, 4);",
);
/// Declares it.
const DECLARED: (&str, &str) = (
    "\\\"constant_access\\\":\\\"both\\\",",
    "\\\"constant_access\\\":\\\"both\\\",\\\"precision\\\":[{\\\"ops\\\":[\\\"MatMul\\\"],\\\"noise_db\\\":45.0}],",
);
const WRITE: &str = "y[row * sizes->columns + column] = sum;";

#[test]
fn it_passes_where_it_is_declared_and_right() {
    let folder = places::temporary();
    let undeclared = Tested::plain(&c_plugin(folder.path(), &[ROUNDED]), &[]);
    assert_eq!(undeclared.code, Some(1));
    assert!(undeclared.first_failure().1.contains("elements differ"), "{:?}", undeclared.first_failure());
    let declared = Tested::plain(&c_plugin(folder.path(), &[ROUNDED, DECLARED]), &[]);
    assert_eq!((declared.code, declared.failures()), (Some(0), vec![]));
    let wrong = (WRITE, "y[row * sizes->columns + column] = sum + 1;");
    let wrong = Tested::plain(&c_plugin(folder.path(), &[ROUNDED, DECLARED, wrong]), &[]);
    assert!(wrong.first_failure().1.contains("dB above the noise, not 45.0"), "{:?}", wrong.first_failure());
}

/// What a vendor says of single cases holds for these alone.
#[test]
fn a_tolerance_of_some_cases() {
    let folder = Folder::empty();
    let plugin = c_plugin(folder.path(), &[ROUNDED]);
    let file = folder.write("cases.toml", "[[expect]]\ncase = \"dense: *\"\ntolerance = { noise_db = 45 }\n");
    let tested = Tested::plain(&plugin, &["--case", file.to_str().expect("plain")]);
    assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
    let file = folder.write("cases.toml", "[[expect]]\ncase = \"dnse: *\"\ntolerance = { noise_db = 45 }\n");
    let tested = Tested::plain(&plugin, &["--case", file.to_str().expect("plain")]);
    assert!(tested.failures().contains(&("expectations", "no case is called 'dnse: *'")), "{:?}", tested.failures());
}

/// The vendor's customers see it: in `plugin info`, beside the region, and in what `verify` compares with.
#[test]
fn users_are_told_and_verify_compares_with_it() {
    let folder = Folder::empty();
    let weights: Vec<f32> = (0..12).map(|at| 0.1 + at as f32 / 7.0).collect();
    let model = Model::default().opset(21).input("x", Type::Float, &[2, 3]).output("y", Type::Float, &[2, 4]);
    let model = model.weight("w", &[3, 4], &weights).weight("b", &[4], &[0.1, 0.2, 0.3, 0.4]);
    let model = model.node("MatMul", &["x", "w"], &["p"]).node("Add", &["p", "b"], &["y"]);
    folder.write("model.onnx", model.finish());
    for (changes, code) in [(&[ROUNDED][..], 6), (&[ROUNDED, DECLARED], 0)] {
        let plugin = c_plugin(folder.path(), changes);
        let plugin = plugin.to_str().expect("plain");
        folder
            .byoc(&["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu", "--plugin", plugin])
            .success();
        let verified = folder.byoc(&["verify", "m.byoc", "--model", "model.onnx", "--plugin", plugin]);
        assert_eq!(verified.code, Some(code), "{}", verified.stdout);
        let strict = folder.byoc(&[
            "verify",
            "m.byoc",
            "--model",
            "model.onnx",
            "--plugin",
            plugin,
            "--rtol",
            "1e-6",
            "--atol",
            "1e-6",
        ]);
        assert_eq!(strict.code, Some(6), "{}", strict.stdout);
        let told = folder.byoc(&["plugin", "info", "cmatmul", "--plugin", plugin]);
        assert_eq!(told.success().contains("precise to MatMul: 45.0 dB above the noise"), code == 0);
        let explained = folder.byoc(&["explain", "model.onnx", "--backend", "cmatmul,cpu", "--plugin", plugin]);
        assert_eq!(explained.success().contains("cmatmul is precise to MatMul: 45.0 dB above the noise\n"), code == 0);
        let regions = folder.byoc(&["inspect", "m.byoc", "--regions"]);
        assert_eq!(regions.success().contains("precise  45.0 dB above the noise"), code == 0);
        std::fs::remove_file(folder.path().join("m.byoc")).expect("it is ours");
    }
}
