//! What a command says beside its result: values that are made up, backends that are of no use, folders that are not there, and as much
//! of a model as can be explained.

use byoc_tests::folder::Folder;
use byoc_tests::npz;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::program::{byoc, outcome};
use byoc_tests::tensor::Tensor;

/// A convolution that kendryte takes, in front of `op` if there is one.
fn convolution(op: Option<(&str, &str)>) -> Model {
    let weight: Vec<f32> = (0..4 * 3 * 9).map(|i| i as f32 / 99.0 - 0.5).collect();
    let pads = [("pads", byoc_plugin_api::Attribute::Ints(vec![1; 4]))];
    let model = Model::default().input("x", Type::Float, &[1, 3, 16, 16]).weight("w", &[4, 3, 3, 3], &weight);
    let model = model.node_with("Conv", &["x", "w"], &[if op.is_some() { "c" } else { "y" }], &pads);
    let model = match op {
        Some((domain, name)) => {
            model.domain(domain, 1).node_of((domain, name), &["c"], &["s"], &[]).node("Abs", &["s"], &["y"])
        }
        None => model,
    };
    model.output("y", Type::Float, &[1, 4, 16, 16])
}

#[test]
fn values_that_nobody_asked_for_are_told() {
    let folder = Folder::compiled(small());
    let told = "input x: random values, seed 0\n";
    let verify = ["verify", "model.byoc", "--model", "model.onnx"];
    let bench = ["bench", "model.byoc", "--repeat", "1", "--warmup", "0"];
    for arguments in [&verify[..], &bench, &["verify", "model.byoc", "--model", "model.onnx", "--regions"]] {
        assert!(folder.run(arguments).ends_with(told), "{arguments:?}");
        for asked in [["--fill", "random"], ["--fill-range", "-1,1"]] {
            assert!(!folder.run(&[arguments, &asked].concat()).contains("random values"), "{arguments:?}");
        }
        let found: serde_json::Value =
            serde_json::from_str(&folder.run(&[arguments, &["--json"]].concat())).expect("JSON");
        let place = if arguments[0] == "bench" { &found["options"] } else { &found };
        assert_eq!(place["made_up_inputs"], serde_json::json!(["x"]), "{arguments:?}");
    }
    // A range alone asks for random values.
    folder.run(&["run", "model.byoc", "--fill-range", "x=0.5,0.5", "-o", "out.npz"]);
    npz::write_one(&folder.path().join("half.npy"), &Tensor::f32(&[2, 3], &[0.5; 6]));
    folder.run(&["run", "model.byoc", "-i", "half.npy", "-o", "same.npz"]);
    assert_eq!(npz::read(&folder.path().join("out.npz")), npz::read(&folder.path().join("same.npz")));
}

#[test]
fn a_reference_may_be_an_array_or_a_folder() {
    let folder = Folder::compiled(small());
    folder.run(&["run", "model.byoc", "--fill", "ones", "-o", "out.npz"]);
    let y = npz::find(&npz::read(&folder.path().join("out.npz")), "y");
    npz::write_one(&folder.path().join("y.npy"), &y);
    let verify = |reference: &str| folder.byoc(&["verify", "model.byoc", "--fill", "ones", "--reference", reference]);
    assert_eq!(verify("y.npy").success(), verify("out.npz").success());
    npz::write_one(
        &folder.path().join("y.npy"),
        &Tensor::f32(&y.shape, &vec![9e9; y.shape.iter().product::<i64>() as usize]),
    );
    assert_eq!(verify("y.npy").code, Some(6));
}

#[test]
fn backends_that_take_nothing_are_told() {
    let folder = Folder::compiled(small());
    let stderr = |model: &str, backends: &str| {
        let found = folder.byoc(&["compile", model, "-o", "out.byoc", "--backend", backends]);
        found.success();
        found.stderr
    };
    let none =
        "warning: [B403] backend 'kendryte' takes no node of the model\n  hint: See byoc explain for the reasons\n";
    assert_eq!(stderr("model.onnx", "kendryte,cpu"), none);
    let late = "warning: [B403] backend 'kendryte' is left no node of the model: json takes every one\n  hint: Name it before \
                json in --backend\n";
    assert_eq!(stderr("model.onnx", "cpu,kendryte"), late);
    // A host backend is there for what others leave.
    folder.write("conv.onnx", convolution(None).finish());
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[1, 3, 16, 16], &[0.5; 768]))]);
    let all = ["compile", "conv.onnx", "-o", "out.byoc", "--backend", "kendryte,cpu", "--dataset", "data.npz"];
    let found = folder.byoc(&all);
    found.success();
    assert!(!found.stderr.contains("B403"), "{}", found.stderr);
}

#[test]
fn what_is_before_an_unknown_operator_is_explained() {
    let folder = Folder::empty();
    folder.write("vendor.onnx", convolution(Some(("com.acme", "Swirl"))).finish());
    let found = folder.byoc(&["explain", "vendor.onnx", "--backend", "kendryte,cpu", "--nodes"]);
    assert_eq!(found.code, Some(4), "{}", found.stderr);
    assert!(found.stderr.starts_with("warning: [B102]"), "{}", found.stderr);
    let rows: Vec<Vec<&str>> = found.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let row =
        |op: &str| rows.iter().find(|row| row.contains(&op)).unwrap_or_else(|| panic!("{}", found.stdout)).join(" ");
    assert!(row("Conv").contains("byoc_main_kendryte_0"), "{}", found.stdout);
    assert!(row("com.acme.Swirl").contains("the operator is not known"), "{}", found.stdout);
    assert!(row("Abs").contains("not asked, since an operator before it"), "{}", found.stdout);
}

#[test]
fn entries_of_the_plugin_path_that_are_of_no_use_are_told() {
    let folder = Folder::compiled(small());
    let mut command = byoc(&["compile", "model.onnx", "-o", "out.byoc"]);
    let found = outcome(command.env("BYOC_PLUGIN_PATH", "/nowhere/plugins").current_dir(folder.path()));
    found.success();
    assert_eq!(
        found.stderr,
        "warning: [B301] '/nowhere/plugins', which BYOC_PLUGIN_PATH names, is not a folder\n  hint: Correct the variable, or make \
         the folder\n"
    );
}

#[test]
fn a_region_without_a_file_is_shown_as_the_artifact_has_it() {
    let folder = Folder::compiled(small());
    let one = folder.run(&["inspect", "model.byoc", "--region", "byoc_main_json_0"]);
    assert_eq!(one, folder.run(&["inspect", "model.byoc", "--regions"]));
    let json = folder.run(&["inspect", "model.byoc", "--region", "byoc_main_json_0", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["symbol"], "byoc_main_json_0");
}
