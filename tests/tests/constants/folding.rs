//! Folding and sharing: what is computed ahead of time never stands in the file beside what it was computed from, in one
//! entry or across several.

use byoc_core::artifact::Fate;
use byoc_core::artifact::Ledger;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, npz, places};

/// Rows and columns of the weight: 1 MiB.
const WIDTH: i64 = 512;
const BYTES: usize = (WIDTH * WIDTH * 4) as usize;

fn weight() -> Vec<f32> {
    // No element like another, all of them exact in f32 when they are doubled.
    (0..WIDTH * WIDTH).map(|i| (i as f32 - 131_072.0) / 262_144.0).collect()
}

fn model(rows: i64) -> Model {
    Model::default()
        .input("x", Type::Float, &[rows, WIDTH])
        .weight("w", &[WIDTH, WIDTH], &weight())
        .weight("two", &[], &[2.0])
        .weight("three", &[], &[3.0])
}

/// The ledger of a model that is compiled for the embedded backend, and the size of the file.
fn compile(model: Model) -> (Ledger, usize) {
    let folder = places::temporary();
    let (path, output) = (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
    let report = engine::compile(&path, &output, &engine::embedded(), &["json"]).expect("compiles");
    (report.ledger, places::read(&output).len())
}

/// What became of the constant of that name.
fn fates(ledger: &Ledger, name: &str) -> Vec<Fate> {
    let named = ledger.rows.iter().filter(|row| row.names.iter().any(|known| known == name));
    named.map(|row| row.fate).collect()
}

#[track_caller]
fn assert_once(size: usize) {
    assert!(size * 100 <= BYTES * 101, "{size} bytes for a weight of {BYTES}");
}

#[test]
fn readers_that_do_the_same_share_the_result() {
    let (ledger, size) = compile(
        model(2)
            .node("Mul", &["w", "two"], &["w0"])
            .node("Mul", &["w", "two"], &["w1"])
            .node("Mul", &["w", "two"], &["w2"])
            .node("MatMul", &["x", "w0"], &["a"])
            .node("MatMul", &["a", "w1"], &["b"])
            .node("MatMul", &["b", "w2"], &["y"])
            .output("y", Type::Float, &[2, WIDTH]),
    );
    assert_eq!(fates(&ledger, "w"), [Fate::Folded]);
    for name in ["w0", "w1", "w2"] {
        assert_eq!(fates(&ledger, name), [Fate::Packed], "{name}");
    }
    assert_once(size);
}

/// Weights that stand quantised in the model, in the form of one scale a column and by a `Cast`, are stored so.
#[test]
fn quantised_weights_stay_quantised() {
    const SIZE: i64 = 1024;
    let bytes: Vec<u8> = (0..SIZE * SIZE).map(|i| (i * i % 251) as u8).collect();
    let scales: Vec<f32> = (0..SIZE).map(|i| (i as f32 + 1.0) / 65_536.0).collect();
    for with in ["DequantizeLinear", "Cast"] {
        let model = Model::default()
            .input("x", Type::Float, &[2, SIZE])
            .tensor(tensor("w", Type::Int8, &[SIZE, SIZE], bytes.clone()))
            .weight("scales", &[SIZE], &scales);
        let model = match with {
            "Cast" => model.cast("w", Type::Float, "f").node("Mul", &["f", "scales"], &["d"]),
            _ => model.node("DequantizeLinear", &["w", "scales"], &["d"]),
        };
        let (ledger, size) = compile(model.node("MatMul", &["x", "d"], &["y"]).output("y", Type::Float, &[2, SIZE]));
        assert_eq!(fates(&ledger, "w"), [Fate::Stored], "{with}");
        let unique = bytes.len() + scales.len() * 4;
        assert!(size * 100 <= unique * 101, "{with}: {size} bytes for {unique}");
    }
}

#[test]
fn readers_that_differ_keep_the_original() {
    let scaled = |by: &str| {
        model(2)
            .node("Mul", &["w", "two"], &["w0"])
            .node("Mul", &["w", by], &["w1"])
            .node("MatMul", &["x", "w0"], &["a"])
            .node("MatMul", &["a", "w1"], &["y"])
            .output("y", Type::Float, &[2, WIDTH])
    };
    let plain = model(2)
        .node("Mul", &["w", "two"], &["w0"])
        .node("MatMul", &["x", "w0"], &["a"])
        .node("MatMul", &["a", "w"], &["y"])
        .output("y", Type::Float, &[2, WIDTH]);
    let returned = model(2)
        .node("Mul", &["w", "two"], &["w0"])
        .node("MatMul", &["x", "w0"], &["y"])
        .output("y", Type::Float, &[2, WIDTH])
        .output("w", Type::Float, &[WIDTH, WIDTH]);
    for (case, model) in [("two scales", scaled("three")), ("as it is", plain), ("an output", returned)] {
        let (ledger, size) = compile(model);
        assert_eq!(fates(&ledger, "w"), [Fate::Stored], "{case}");
        assert!(fates(&ledger, "w0").is_empty(), "{case}: nothing is computed");
        assert_once(size);
    }
}

/// A result that is small enough to be folded in any case is still no second copy of what somebody else reads.
#[test]
fn small_constants_are_not_kept_in_two_forms() {
    let bias: Vec<f32> = (0..WIDTH).map(|i| i as f32).collect();
    let (ledger, _) = compile(
        Model::default()
            .input("x", Type::Float, &[2, WIDTH])
            .weight("b", &[WIDTH], &bias)
            .weight("two", &[], &[2.0])
            .node("Mul", &["b", "two"], &["b2"])
            .node("Add", &["x", "b"], &["a"])
            .node("Add", &["a", "b2"], &["y"])
            .output("y", Type::Float, &[2, WIDTH]),
    );
    assert_eq!(fates(&ledger, "b"), [Fate::Stored]);
    assert!(fates(&ledger, "b2").is_empty());
}

/// Both entries scale the weight alike, under names of their own.
fn entry(rows: i64, scaled: &str) -> Model {
    model(rows)
        .node("Mul", &["w", "two"], &[scaled])
        .node("MatMul", &["x", scaled], &["a"])
        .node("Relu", &["a"], &["y"])
        .output("y", Type::Float, &[rows, WIDTH])
}

#[test]
fn entries_share_weights_and_what_is_folded_from_them() {
    let folder = Folder::empty();
    folder.write("a.onnx", entry(3, "wa").finish());
    folder.write("b.onnx", entry(1, "wb").finish());
    folder.byoc(&["compile", "prefill=a.onnx", "decode=b.onnx", "-o", "llm.byoc"]).success();
    assert_once(places::read(&folder.path().join("llm.byoc")).len());
    for (name, model, rows) in [("prefill", "a.onnx", 3), ("decode", "b.onnx", 1)] {
        let input: Vec<f32> = (0..rows * WIDTH).map(|i| (i % 97) as f32 / 97.0).collect();
        npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[rows, WIDTH], &input))]);
        folder.byoc(&["run", "llm.byoc", "--entry", name, "-i", "in.npz", "-o", "shared.npz"]).success();
        folder.byoc(&["compile", model, "-o", "alone.byoc"]).success();
        folder.byoc(&["run", "alone.byoc", "-i", "in.npz", "-o", "alone.npz"]).success();
        let output = |file: &str| npz::find(&npz::read(&folder.path().join(file)), "y");
        assert_eq!(output("shared.npz"), output("alone.npz"), "{name}");
        folder.byoc(&["verify", "llm.byoc", "--entry", name, "--model", model, "-i", "in.npz"]).success();
    }
    folder
        .byoc(&["run", "llm.byoc", "--fill", "ones"])
        .fails(2, "error: [B702] the file has several entries\n  hint: Choose one with --entry: prefill, decode");
    folder
        .byoc(&["run", "llm.byoc", "--entry", "train", "--fill", "ones"])
        .fails(2, "error: [B702] there is no entry 'train'\n  hint: The file has prefill, decode");
}
