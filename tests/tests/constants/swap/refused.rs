//! What `byoc swap` refuses: each constant that was used for more than what the file holds of it, by name and reason.

use super::*;

/// Asserts the error, and that it leaves no file and an old one as it was.
#[track_caller]
fn refused(old: Model, new: Model, message: &str) {
    let folder = folder(old, new, &[]);
    let expected = format!("error: [B504] cannot swap {message}");
    folder.byoc(&SWAP).fails(1, &expected);
    assert_eq!(places::list(folder.path()), ["new.onnx", "old.byoc", "old.onnx"], "a file is left");
    let before = places::read(&folder.path().join("old.byoc"));
    let swapped = folder.write("swapped.byoc", b"\x01old");
    folder.byoc(&SWAP).fails(1, &expected);
    assert!(places::read(&folder.path().join("old.byoc")) == before, "the artifact has changed");
    assert_eq!(places::read(&swapped), b"\x01old");
    assert_eq!(places::list(folder.path()), ["new.onnx", "old.byoc", "old.onnx", "swapped.byoc"], "a file is left");
}

const COMPILE: &str = "\n  hint: Make a new artifact of 'new.onnx' with byoc compile";
const OTHER: &str = "\n  hint: Was 'old.byoc' compiled from another model?";

#[test]
fn packed_constants_are_refused() {
    let (old, new) = (convolution(1, 2, 3), convolution(11, 2, 3));
    refused(old, new, &format!("`conv.weight`: it is packed by 'json' as '{}'{COMPILE}", conv_layout()));
}

/// The layout depends on the processor, so it is read from a file.
fn conv_layout() -> String {
    let folder = Folder::compiled(convolution(1, 2, 3));
    let printed = folder.byoc(&["inspect", "model.byoc", "--constants"]);
    let (_, layout) = printed
        .success()
        .split_once("conv.weight")
        .and_then(|(_, row)| row.split_once("packed as "))
        .expect("it is packed");
    layout.lines().next().expect("a line").to_owned()
}

/// The normalisation went into packed weights, though nobody reads it any more.
#[test]
fn constants_that_went_into_others_bytes_are_refused() {
    let (old, new) = (convolution(1, 2, 3), convolution(1, 2, 13));
    refused(old, new, &format!("`norm.scale`: it went into byoc_main_json_0{COMPILE}"));
}

/// One backend reads the bytes, another has computed something from them.
#[test]
fn constants_that_went_elsewhere_as_well_are_refused() {
    let model = |scale| {
        convolution(1, 2, scale).input("v", Type::Float, &[8]).node("Add", &["v", "norm.scale"], &["moved"]).output(
            "moved",
            Type::Float,
            &[1, 8],
        )
    };
    let folder = Folder::empty();
    folder.write("old.onnx", model(3).finish());
    folder.write("new.onnx", model(13).finish());
    let plugin = places::plugin("template");
    let plugin = plugin.to_str().expect("a plain path");
    let compile = ["compile", "old.onnx", "-o", "old.byoc", "--plugin", plugin, "--backend", "template,json"];
    folder.byoc(&compile).success();
    let rows = inspect(&folder, "old.byoc");
    let row = rows["constants"].as_array().into_iter().flatten().find(|row| row["names"][0] == "norm.scale");
    let row = row.expect("the row of the scale");
    assert_eq!([&row["fate"], &row["readers"][0]], ["stored", "byoc_main_template_0"], "{row}");
    let error = format!("error: [B504] cannot swap `norm.scale`: it also went into byoc_main_json_0{COMPILE}");
    folder.byoc(&SWAP).fails(1, &error);
}

#[test]
fn embedded_constants_are_refused() {
    let model = |factor: f32| {
        Model::default()
            .input("x", Type::Float, &[2])
            .weight("factor", &[], &[factor])
            .node("Mul", &["x", "factor"], &["y"])
            .output("y", Type::Float, &[2])
    };
    refused(model(2.5), model(3.5), &format!("`factor`: it is embedded in the code of byoc_main_json_0{COMPILE}"));
}

#[test]
fn constants_that_were_computed_into_others_are_refused() {
    let model = |seed| {
        Model::default()
            .input("x", Type::Float, &[8])
            .weight("a", &[8], &numbers(1, 8))
            .weight("c", &[8], &numbers(seed, 8))
            .node("Exp", &["c"], &["e"])
            .node("Add", &["a", "e"], &["sum"])
            .node("Mul", &["x", "sum"], &["y"])
            .output("y", Type::Float, &[8])
    };
    refused(model(2), model(12), &format!("`c`: it went into other constants{COMPILE}"));
}

/// Nobody reads what came of it, yet it had its part in the compile.
#[test]
fn constants_of_dead_nodes_are_refused() {
    let model = |seed| layers_of(1).weight("c", &[4], &numbers(seed, 4)).node("Mul", &["sum", "c"], &["dead"]);
    refused(model(1), model(2), &format!("`c`: it was used while the model was compiled{COMPILE}"));
}

/// Two models may have different constants under one name. As long as they stay, that does no harm.
#[test]
fn names_of_several_constants_are_refused() {
    let folder = Folder::empty();
    for (name, seed) in [("one", 1), ("two", 11), ("three", 21)] {
        folder.write(&format!("{name}.onnx"), layers_of(seed).finish());
    }
    folder.byoc(&["compile", "a=one.onnx", "b=two.onnx", "-o", "old.byoc"]).success();
    let swap = |models: [&str; 2]| {
        folder.byoc(&["swap", "old.byoc", "--from", models[0], "--from", models[1], "-o", "new.byoc"])
    };
    assert_eq!(swap(["one.onnx", "two.onnx"]).success(), "new.byoc: 0 constants replaced, 0 B\n");
    std::fs::remove_file(folder.path().join("new.byoc")).expect("it is there");
    swap(["one.onnx", "three.onnx"]).fails(
        1,
        "error: [B504] cannot swap `w1`: several constants of the artifact have that name (and 2 more such constants)\n  \
         hint: Make a new artifact of the new models with byoc compile",
    );
    assert!(!folder.path().join("new.byoc").exists());
}

/// One constant is stored for a reader, and shapes have it too.
#[test]
fn constants_that_decide_shapes_are_refused() {
    let model = |scale: f32| {
        Model::default()
            .input("x", Type::Float, &[1, 1, 4, 4])
            .weight("scales", &[4], &[1.0, 1.0, 2.0, scale])
            .node("Resize", &["x", "", "scales"], &["y"])
            .output("y", Type::Float, &[1, 1, 8, -1])
    };
    let message = "`scales`: it went into byoc_main_json_0, the shapes of the model";
    refused(model(2.0), model(3.0), &format!("{message}{COMPILE}"));
    let model = |size: i64| {
        Model::default()
            .input("x", Type::Float, &[24])
            .ints("shape", &[2], &[size, -1])
            .node("Reshape", &["x", "shape"], &["y"])
            .output("y", Type::Float, &[-1, -1])
    };
    refused(model(2), model(3), &format!("`shape`: it went into byoc_main_json_0, the shapes of the model{COMPILE}"));
}

#[test]
fn one_element_cannot_stand_for_several() {
    let of = |bias: &[f32]| layers(&numbers(1, 16), bias, &numbers(3, 16));
    let message = "`b`: all its elements are equal in 'old.byoc', which holds one of them; in 'new.onnx' they differ";
    refused(of(&[0.5; 4]), of(&numbers(2, 4)), &format!("{message}{COMPILE}"));
}

#[test]
fn equal_constants_must_stay_equal() {
    let (w, bias) = (numbers(1, 16), numbers(2, 4));
    let message =
        "`w1`: it and `w2` were equal when the model was compiled and share one constant; in 'new.onnx' they differ";
    refused(layers(&w, &bias, &w), layers(&numbers(5, 16), &bias, &numbers(6, 16)), &format!("{message}{COMPILE}"));
    let message =
        "`w2`: it and `w1` were equal when the model was compiled and share one constant; in 'new.onnx' they differ";
    refused(layers(&w, &bias, &w), layers(&w, &bias, &numbers(6, 16)), &format!("{message}{COMPILE}"));
}

#[test]
fn other_models_are_refused() {
    let product = |name: &str, ty: Type, shape: &[i64], count: i64| {
        let bytes: Vec<u8> = numbers(1, count).iter().flat_map(|value| value.to_le_bytes()).collect();
        Model::default()
            .input("x", ty, &[2, shape[0]])
            .tensor(tensor(name, ty, shape, bytes))
            .node("MatMul", &["x", name], &["y"])
            .output("y", ty, &[2, shape[1]])
    };
    let old = || product("w", Type::Float, &[4, 6], 24);
    for (ty, shape, is) in
        [(Type::Float, [4, 5], "f32[4,5]"), (Type::Float, [6, 4], "f32[6,4]"), (Type::Int32, [4, 6], "i32[4,6]")]
    {
        let new = product("w", ty, &shape, shape[0] * shape[1]);
        refused(old(), new, &format!("`w`: it is f32[4,6] in 'old.byoc' and {is} in 'new.onnx'{OTHER}"));
    }
    let renamed = product("v", Type::Float, &[4, 6], 24);
    let message = "`w`: 'new.onnx' has no constant of that name (and 1 more such constants)";
    refused(old(), renamed, &format!("{message}{OTHER}"));
    let splat = |count| {
        Model::default()
            .input("x", Type::Float, &[2, 1])
            .weight("w", &[1, count], &vec![0.5; count as usize])
            .node("Mul", &["x", "w"], &["y"])
            .output("y", Type::Float, &[2, count])
    };
    refused(splat(4), splat(5), &format!("`w`: it has another number of elements in 'new.onnx'{OTHER}"));
    let more = layers_of(1).weight("extra", &[4], &numbers(4, 4)).node("Mul", &["sum", "extra"], &["z"]);
    let more = more.output("z", Type::Float, &[2, 4]);
    refused(layers_of(1), more, &format!("`extra`: 'old.byoc' has no constant of that name{OTHER}"));
}

/// The first constant is named with the number of the others, and what is not an artifact or a model is said as ever.
#[test]
fn errors_name_the_first() {
    let (old, new) = (convolution(1, 2, 3), convolution(11, 12, 13));
    let message =
        format!("`conv.weight`: it is packed by 'json' as '{}' (and 2 more such constants){COMPILE}", conv_layout());
    refused(old, new, &message);
    let folder = folder(layers_of(1), layers_of(2), &[]);
    folder.write("text.byoc", "no artifact");
    folder.write("text.onnx", "no model");
    let no_artifact = folder.byoc(&["swap", "text.byoc", "--from", "new.onnx", "-o", "out.byoc"]);
    assert_eq!(no_artifact.code, Some(1));
    assert!(no_artifact.stderr.starts_with("error: [B602] 'text.byoc' is not an artifact: "), "{}", no_artifact.stderr);
    let no_model = folder.byoc(&["swap", "old.byoc", "--from", "text.onnx", "-o", "out.byoc"]);
    assert_eq!(no_model.code, Some(1));
    assert!(no_model.stderr.starts_with("error: [B101] 'text.onnx' is not an ONNX model: "), "{}", no_model.stderr);
    assert!(!folder.path().join("out.byoc").exists());
}
