//! `byoc swap`: the file that comes of it is the one that a fresh compile would have written, and what cannot be swapped
//! is refused with the reason, before anything is written.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Message, Model, Type, tensor};
use byoc_tests::places;
use byoc_tests::tensor::Tensor;
use serde_json::{Value, json};

/// Numbers that differ from each other and from those of other seeds.
fn numbers(seed: usize, count: i64) -> Vec<f32> {
    (0..count as usize).map(|i| ((i * 37 + seed * 101) % 251) as f32 / 64.0 - 1.9).collect()
}

fn ints(name: &str, values: &[i64]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, Type::Int64, &[values.len() as i64]).bytes(9, bytes)
}

/// Two layers, the second without a bias: `y = relu(x * w1 + b) * w2`.
fn layers(w1: &[f32], b: &[f32], w2: &[f32]) -> Model {
    Model::default()
        .input("x", Type::Float, &[2, 4])
        .weight("w1", &[4, 4], w1)
        .weight("b", &[4], b)
        .weight("w2", &[4, 4], w2)
        .node("MatMul", &["x", "w1"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["hidden"])
        .node("MatMul", &["hidden", "w2"], &["y"])
        .output("y", Type::Float, &[2, 4])
}

fn layers_of(seed: usize) -> Model {
    layers(&numbers(seed, 16), &numbers(seed + 1, 4), &numbers(seed + 2, 16))
}

/// A convolution with a bias and a normalisation: its weights are packed, and the normalisation is folded into them.
fn convolution(weights: usize, bias: usize, scale: usize) -> Model {
    let vector = |seed: usize, name: &'static str| (name, numbers(seed, 8));
    let positive = |values: Vec<f32>| values.into_iter().map(|value| value.abs() + 0.5).collect::<Vec<_>>();
    let mut model = Model::default()
        .input("x", Type::Float, &[1, 4, 9, 9])
        .weight("conv.weight", &[8, 4, 3, 3], &numbers(weights, 8 * 4 * 9))
        .weight("norm.scale", &[8], &positive(numbers(scale, 8)))
        .weight("norm.variance", &[8], &positive(numbers(5, 8)));
    for (name, values) in [vector(bias, "conv.bias"), vector(7, "norm.bias"), vector(8, "norm.mean")] {
        model = model.weight(name, &[8], &values);
    }
    let norm = ["conv", "norm.scale", "norm.bias", "norm.mean", "norm.variance"];
    model.node("Conv", &["x", "conv.weight", "conv.bias"], &["conv"]).node("BatchNormalization", &norm, &["y"]).output(
        "y",
        Type::Float,
        &[1, 8, 7, 7],
    )
}

/// A folder with `old.onnx`, what it compiles to, `old.byoc`, and `new.onnx`.
fn folder(old: Model, new: Model, options: &[&str]) -> Folder {
    let folder = Folder::empty();
    folder.write("old.onnx", old.finish());
    folder.write("new.onnx", new.finish());
    folder.byoc(&[&["compile", "old.onnx", "-o", "old.byoc"], options].concat()).success();
    folder
}

const SWAP: [&str; 6] = ["swap", "old.byoc", "--from", "new.onnx", "-o", "swapped.byoc"];

/// Swaps, and asserts that the file is the one that a fresh compile writes.
#[track_caller]
fn swapped_is_fresh(folder: &Folder, options: &[&str], report: &str) {
    folder.byoc(&[&["compile", "new.onnx", "-o", "fresh.byoc"], options].concat()).success();
    assert_eq!(folder.byoc(&SWAP).success(), report);
    let [swapped, fresh] = ["swapped.byoc", "fresh.byoc"].map(|name| places::read(&folder.path().join(name)));
    assert!(swapped == fresh, "{}", folder.byoc(&["inspect", "swapped.byoc", "--constants"]).stdout);
}

#[track_caller]
fn inspect(folder: &Folder, file: &str) -> Value {
    let printed = folder.byoc(&["inspect", file, "--constants", "--json", "--verify-digests"]);
    serde_json::from_str(printed.success()).expect("JSON")
}

/// Runs both files on the same inputs and asserts the same outputs.
#[track_caller]
fn same_results(folder: &Folder, left: &str, right: &str) {
    let outputs = [left, right].map(|file| {
        folder.byoc(&["run", file, "--fill", "random", "-o", "out.npz"]).success();
        places::read(&folder.path().join("out.npz"))
    });
    assert!(outputs[0] == outputs[1], "{left} and {right} differ");
}

#[test]
fn swapped_weights_give_the_file_of_a_fresh_compile() {
    let folder = folder(layers_of(1), layers_of(11), &[]);
    swapped_is_fresh(&folder, &[], "swapped.byoc: 3 constants replaced, 144 B\n");
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

#[test]
fn what_a_backend_would_pack_can_be_swapped_where_it_does_not() {
    let options = ["--backend-opt", "json.pack=false"];
    let folder = folder(convolution(1, 2, 3), convolution(11, 12, 13), &options);
    swapped_is_fresh(&folder, &options, "swapped.byoc: 3 constants replaced, 1.2 KB\n");
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

#[test]
fn an_artifact_can_be_swapped_in_place() {
    let folder = folder(layers_of(1), layers_of(11), &[]);
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    folder.byoc(&["swap", "old.byoc", "--from", "new.onnx", "-o", "old.byoc"]).success();
    let [swapped, fresh] = ["old.byoc", "fresh.byoc"].map(|name| places::read(&folder.path().join(name)));
    assert!(swapped == fresh, "not the file of a fresh compile");
    assert_eq!(places::list(folder.path()), ["fresh.byoc", "new.onnx", "old.byoc", "old.onnx"]);
}

#[test]
fn nothing_to_replace_is_no_error() {
    let folder = folder(convolution(1, 2, 3), convolution(1, 2, 3), &[]);
    assert_eq!(folder.byoc(&SWAP).success(), "swapped.byoc: 0 constants replaced, 0 B\n");
    let [swapped, old] = ["swapped.byoc", "old.byoc"].map(|name| places::read(&folder.path().join(name)));
    assert!(swapped == old, "not the same file");
}

/// Only the constants that differ are counted, and the report for programs names them.
#[test]
fn the_report_names_what_was_replaced() {
    let new = layers(&numbers(1, 16), &numbers(2, 4), &numbers(9, 16));
    let folder = folder(layers_of(1), new, &[]);
    let printed = folder.byoc(&[&SWAP[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(printed.success()).expect("JSON");
    let size = places::read(&folder.path().join("swapped.byoc")).len();
    let expected = json!({
        "file": "swapped.byoc", "replaced": [{ "names": ["w2"], "bytes": 64 }], "bytes": 64, "merged": 0,
        "file_bytes": size,
    });
    assert_eq!(report, expected);
}

/// Constants that become equal are stored once, and the ledger is that of a fresh compile.
#[test]
fn constants_that_become_equal_become_one() {
    let w = numbers(11, 16);
    let folder = folder(layers_of(1), layers(&w, &numbers(12, 4), &w), &[]);
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    let report = "swapped.byoc: 3 constants replaced, 144 B; 1 became equal to another and is stored with it\n";
    assert_eq!(folder.byoc(&SWAP).success(), report);
    let [swapped, fresh] = ["swapped.byoc", "fresh.byoc"].map(|file| inspect(&folder, file));
    assert_eq!(swapped["constants"], fresh["constants"]);
    assert_eq!(swapped["totals"]["stored"], 64 + 16);
    same_results(&folder, "swapped.byoc", "fresh.byoc");
    // The way back is closed: both names share one constant now.
    folder.byoc(&["swap", "swapped.byoc", "--from", "old.onnx", "-o", "back.byoc"]).fails(
        1,
        "error: [B504] cannot swap `w1`: it and `w2` were equal when the model was compiled and share one constant; in \
         'old.onnx' they differ\n  hint: Compile 'old.onnx' in place of swapping",
    );
}

/// A constant that becomes equal to one that stays as it is.
#[test]
fn a_constant_that_becomes_equal_to_an_old_one_becomes_one_with_it() {
    let w = numbers(3, 16);
    let folder = folder(layers_of(1), layers(&w, &numbers(2, 4), &w), &[]);
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    folder.byoc(&SWAP).success();
    let [swapped, fresh] = ["swapped.byoc", "fresh.byoc"].map(|file| inspect(&folder, file));
    assert_eq!(swapped["constants"], fresh["constants"]);
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

/// A constant whose elements become equal is written out in full: the code was made for all of its elements.
#[test]
fn a_constant_that_becomes_uniform_is_stored_in_full() {
    let new = layers(&[0.5; 16], &numbers(2, 4), &numbers(3, 16));
    let folder = folder(layers_of(1), new, &[]);
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    assert_eq!(folder.byoc(&SWAP).success(), "swapped.byoc: 1 constant replaced, 64 B\n");
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

/// One element is stored for all; it can be another one.
#[test]
fn a_uniform_constant_can_have_another_value() {
    let of = |value: f32| layers(&numbers(1, 16), &[value; 4], &numbers(3, 16));
    let folder = folder(of(0.0), of(0.25), &[]);
    swapped_is_fresh(&folder, &[], "swapped.byoc: 1 constant replaced, 4 B\n");
}

#[test]
fn several_entries_take_their_constants_from_several_models() {
    let folder = Folder::empty();
    let shared = |seed| numbers(seed, 16);
    for (name, seed) in [("old", 1), ("new", 11)] {
        folder.write(&format!("{name}1.onnx"), layers(&shared(seed), &numbers(seed + 1, 4), &shared(20)).finish());
        folder.write(&format!("{name}2.onnx"), layers(&shared(seed), &numbers(seed + 1, 4), &shared(20)).finish());
        let (first, second) = (format!("a={name}1.onnx"), format!("b={name}2.onnx"));
        folder.byoc(&["compile", &first, &second, "-o", &format!("{name}.byoc")]).success();
    }
    let outcome = folder.byoc(&["swap", "old.byoc", "--from", "new1.onnx", "--from", "new2.onnx", "-o", "s.byoc"]);
    assert_eq!(outcome.success(), "s.byoc: 2 constants replaced, 80 B\n");
    let [swapped, fresh] = ["s.byoc", "new.byoc"].map(|name| places::read(&folder.path().join(name)));
    assert!(swapped == fresh, "not the file of a fresh compile");
    folder.byoc(&["swap", "old.byoc", "--from", "old1.onnx", "--from", "new2.onnx", "-o", "none.byoc"]).fails(
        1,
        "error: [B504] cannot swap `w1`: it is one constant in 'old.byoc' and several in the new models (and 1 more such \
         constants)\n  hint: Compile the new models in place of swapping",
    );
}

/// Asserts the error, and that it leaves no file and an old one as it was.
#[track_caller]
fn refused(old: Model, new: Model, message: &str) {
    let folder = folder(old, new, &[]);
    let expected = format!("error: [B504] cannot swap {message}");
    folder.byoc(&SWAP).fails(1, &expected);
    assert_eq!(places::list(folder.path()), ["new.onnx", "old.byoc", "old.onnx"], "a file is left");
    let before = places::read(&folder.path().join("old.byoc"));
    folder.byoc(&["swap", "old.byoc", "--from", "new.onnx", "-o", "old.byoc"]).fails(1, &expected);
    assert!(places::read(&folder.path().join("old.byoc")) == before, "the artifact has changed");
    assert_eq!(places::list(folder.path()), ["new.onnx", "old.byoc", "old.onnx"], "a file is left");
}

const COMPILE: &str = "\n  hint: Compile 'new.onnx' in place of swapping";
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
         hint: Compile the new models in place of swapping",
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
    refused(model(2.0), model(3.0), &format!("`scales`: it also went into the shapes of the model{COMPILE}"));
    let model = |size: i64| {
        Model::default()
            .input("x", Type::Float, &[24])
            .tensor(ints("shape", &[size, -1]))
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
            .tensor(tensor(name, ty, shape).bytes(9, bytes))
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

/// The first constant is named with the number of the others, and what is no artifact or no model is said as ever.
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
    assert!(no_artifact.stderr.starts_with("error: [B602] 'text.byoc' is damaged: "), "{}", no_artifact.stderr);
    let no_model = folder.byoc(&["swap", "old.byoc", "--from", "text.onnx", "-o", "out.byoc"]);
    assert_eq!(no_model.code, Some(1));
    assert!(no_model.stderr.starts_with("error: [B101] 'text.onnx' is not an ONNX model: "), "{}", no_model.stderr);
    assert!(!folder.path().join("out.byoc").exists());
}

/// Weights in a file beside the model are weights like any other.
#[test]
fn constants_may_stand_beside_the_model() {
    let model = |location: &str| {
        Model::default()
            .input("x", Type::Float, &[2, 4])
            .tensor(byoc_tests::onnx::external("w", &[4, 4], location))
            .node("MatMul", &["x", "w"], &["y"])
            .output("y", Type::Float, &[2, 4])
    };
    let bytes = |seed| Tensor::f32(&[4, 4], &numbers(seed, 16)).bytes;
    let folder = Folder::empty();
    for (name, seed) in [("old", 1), ("new", 11)] {
        folder.write(&format!("{name}.bin"), bytes(seed));
        folder.write(&format!("{name}.onnx"), model(&format!("{name}.bin")).finish());
    }
    folder.byoc(&["compile", "old.onnx", "-o", "old.byoc"]).success();
    swapped_is_fresh(&folder, &[], "swapped.byoc: 1 constant replaced, 64 B\n");
}
