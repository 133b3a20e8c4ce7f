//! `byoc swap`: the file that comes of it is the one that a fresh compile would have written, and what cannot be swapped
//! is refused with the reason, before anything is written.

mod refused;

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::places;
use byoc_tests::tensor::Tensor;
use serde_json::{Value, json};

/// Numbers that differ from each other and from those of other seeds.
fn numbers(seed: usize, count: i64) -> Vec<f32> {
    (0..count as usize).map(|i| ((i * 37 + seed * 101) % 251) as f32 / 64.0 - 1.9).collect()
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
    swapped_is_fresh(&folder, &options, "swapped.byoc: 3 constants replaced, 1.2 KiB\n");
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

#[test]
fn a_swap_replaces_an_old_file() {
    let folder = folder(layers_of(1), layers_of(11), &[]);
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    folder.write("was.byoc", b"\x01old");
    folder.byoc(&["swap", "old.byoc", "--from", "new.onnx", "-o", "was.byoc"]).success();
    let [swapped, fresh] = ["was.byoc", "fresh.byoc"].map(|name| places::read(&folder.path().join(name)));
    assert!(swapped == fresh, "not the file of a fresh compile");
    assert_eq!(places::list(folder.path()), ["fresh.byoc", "new.onnx", "old.byoc", "old.onnx", "was.byoc"]);
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
        "schema": 1, "file": "swapped.byoc", "replaced": [{ "names": ["w2"], "bytes": 64 }], "bytes": 64, "merged": 0,
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
         'old.onnx' they differ\n  hint: Make a new artifact of 'old.onnx' with byoc compile",
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
         constants)\n  hint: Make a new artifact of the new models with byoc compile",
    );
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

#[test]
fn a_bias_that_one_convolution_folds_and_another_reads_is_not_replaced_in_one_only() {
    let model = |bias: usize| {
        Model::default()
            .input("x", Type::Float, &[1, 4, 9, 9])
            .weight("w1", &[8, 4, 3, 3], &numbers(1, 8 * 4 * 9))
            .weight("w2", &[8, 4, 3, 3], &numbers(2, 8 * 4 * 9))
            .weight("bias", &[8], &numbers(bias, 8))
            .weight("scale", &[8], &numbers(4, 8))
            .weight("shift", &[8], &numbers(5, 8))
            .weight("mean", &[8], &numbers(6, 8))
            .weight("variance", &[8], &numbers(7, 8).into_iter().map(|v| v.abs() + 0.5).collect::<Vec<_>>())
            .node("Conv", &["x", "w1", "bias"], &["conv"])
            .node("BatchNormalization", &["conv", "scale", "shift", "mean", "variance"], &["normal"])
            .node("Conv", &["x", "w2", "bias"], &["plain"])
            .node("Add", &["normal", "plain"], &["y"])
            .output("y", Type::Float, &[1, 8, 7, 7])
    };
    let folder = folder(model(3), model(13), &[]);
    folder.byoc(&SWAP).success();
    folder.byoc(&["compile", "new.onnx", "-o", "fresh.byoc"]).success();
    same_results(&folder, "swapped.byoc", "fresh.byoc");
}

/// Damage to what stays shows in the new file as it does in the old one.
#[test]
fn a_damaged_section_is_not_vouched_for() {
    let folder = folder(layers_of(1), layers(&numbers(21, 16), &numbers(2, 4), &numbers(3, 16)), &[]);
    let mut bytes = places::read(&folder.path().join("old.byoc"));
    let weight: Vec<u8> = numbers(3, 16).iter().flat_map(|value| value.to_le_bytes()).collect();
    let at = bytes.windows(weight.len()).position(|window| window == weight).expect("`w2` is stored as it is");
    bytes[at] ^= 1;
    folder.write("old.byoc", bytes);
    let swapped = folder.byoc(&SWAP);
    swapped.success();
    let outcome = folder.byoc(&["inspect", "swapped.byoc", "--verify-digests"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("its bytes do not have the digest of the header"), "{}", outcome.stderr);
}
