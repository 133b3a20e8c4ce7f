//! Models that are quantised already, by onnxruntime's tool: no data set, the scales of the file, and what onnxruntime computes of
//! the same file node by node.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::path::Path;

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::tensor::Tensor;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, digits, engine, netron, npz, places};
use serde_json::Value;

use crate::files::extract;
use crate::models::text;

/// The forms of the small nets: types of activations and weights, and whether each channel has a scale.
const FORMS: [&str; 4] = ["u8_s8", "u8_s8_channels", "u8_u8", "s8_s8_channels"];

/// What a net with several layers keeps of the signal, in decibels: where a sum is half way between two levels the chip and
/// onnxruntime may be a level apart, and later layers carry that on.
const CLOSE: [(&str, f64); 3] = [("chain", 50.0), ("layers", 45.0), ("mobilenet", 35.0)];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("a_mobilenet", || computes_the_same("kendryte_qdq/mobilenet")),
        trial("a_mobilenet_takes_the_room_of_its_integers", room),
        trial("digits_stay_what_they_are", digits_stay_what_they_are),
        trial("every_node_is_explained", explained),
        trial("the_input_has_the_scale_of_the_file", input_scale),
        trial("what_the_chip_cannot_hold_is_named", refused),
        trial("what_has_no_scale_is_named", || without_scale(&[])),
        trial("what_has_no_scale_is_calibrated", || without_scale(&["--dataset", "data.npz"])),
    ];
    for net in ["chain", "layers"] {
        for form in FORMS {
            trials
                .push(trial(format!("{net}/{form}"), move || computes_the_same(&format!("kendryte_qdq/{net}_{form}"))));
        }
    }
    trials
}

/// Compiles for the K210 alone, without samples, into `model.byoc` of a new folder.
fn compile(model: &Path) -> Folder {
    let folder = Folder::empty();
    let whole = ["--backend-opt", "kendryte.require-whole-model=true"];
    let fixed = ["compile", text(model), "-o", "model.byoc", "--backend", "kendryte"];
    let outcome = folder.byoc(&[&fixed[..], &whole].concat());
    outcome.success();
    assert_eq!(outcome.stderr, "");
    folder
}

fn report(folder: &Folder, arguments: &[&str]) -> Value {
    serde_json::from_str(folder.byoc(&[arguments, &["--json"]].concat()).success()).expect("JSON")
}

/// The outputs are levels of one scale: at most one level off, and near as a whole.
fn computes_the_same(name: &str) -> Needed<()> {
    let data = data::test_data(name)?;
    let folder = compile(&data.join("model.onnx"));
    folder.byoc(&["run", "model.byoc", "-i", text(&data.join("inputs.npz")), "-o", "out.npz"]).success();
    let floats = |path: &Path| digits::floats(&npz::find(&npz::read(path), "output"));
    let (found, expected) = (floats(&folder.path().join("out.npz")), floats(&data.join("outputs.npz")));
    let rows = scales(&folder);
    let step: f64 = rows.last().and_then(|row| row[3].as_str()).and_then(|step| step.parse().ok()).expect("a scale");
    let errors: Vec<_> = found.iter().zip(&expected).map(|(a, b)| f64::from(a - b)).collect();
    let levels = errors.iter().map(|error| (error / step).abs()).fold(0.0, f64::max);
    let signal: f64 = expected.iter().map(|&x| f64::from(x).powi(2)).sum();
    let above = 10.0 * (signal / errors.iter().map(|error| error * error).sum::<f64>()).log10();
    println!("{name}: {above:.1} dB above the noise, {levels:.2} levels at most");
    let kind = CLOSE.iter().find(|(kind, _)| name.contains(kind)).expect("one of them");
    assert!(above >= kind.1 && levels < 1.001, "{name}: {above:.1} dB, {levels:.2} levels");
    Ok(())
}

/// The rows of the table of scales.
fn scales(folder: &Folder) -> Vec<Value> {
    let report = report(folder, &["inspect", "model.byoc", "--region", "byoc_main_kendryte_0"]);
    let tables = report["tables"].as_array().expect("tables");
    let title = |table: &&Value| table["title"].as_str().is_some_and(|title| title.starts_with("bytes of values"));
    let table = tables.iter().find(title).expect("a table of scales");
    table["rows"].as_array().expect("rows").clone()
}

/// The file is as large as the integers and scales of the model, each of which is in it once, inside the kmodel.
fn room() -> Needed<()> {
    let model = data::test_data("kendryte_qdq/mobilenet")?.join("model.onnx");
    let unique: u64 = data::script("unique_bytes.py", &[&model])?.trim().parse().expect("a number");
    let folder = compile(&model);
    let size = places::read(&folder.path().join("model.byoc")).len() as u64;
    println!("{:.4} x the integers, biases and scales", size as f64 / unique as f64);
    assert!(size * 100 <= unique * 101, "{size} bytes for {unique}");
    let ledger = report(&folder, &["inspect", "model.byoc", "--constants"]);
    let fates: Vec<_> = ledger["constants"].as_array().expect("rows").iter().map(|row| row["fate"].as_str()).collect();
    assert!(fates.len() > 100 && fates.iter().all(|fate| *fate == Some("embedded")), "{fates:?}");
    Ok(())
}

/// A trained net, over 597 pictures that it was not trained with.
fn digits_stay_what_they_are() -> Needed<()> {
    let digits = digits::quantised()?;
    let folder = compile(&digits.model);
    let registry = engine::from_files(vec![places::plugin("kendryte")]);
    let mut session = engine::load(&folder.path().join("model.byoc"), &registry, 2).expect("loaded");
    let found = digits.score(&digits.run(&mut session));
    let quantised = digits.score(&digits.expected).accuracy;
    println!("{found:?}, onnxruntime {quantised:.4}");
    assert!(found.agreement >= 0.995 && found.accuracy >= quantised - 0.005, "{found:?}, onnxruntime {quantised}");
    assert!(found.mean_error < 0.002, "{found:?}");
    netron::compare(&extract(&folder, "byoc_main_kendryte_0"))
}

/// What stands around quantised tensors is taken with the layers.
fn explained() -> Needed<()> {
    let model = data::test_data("kendryte_qdq/layers_u8_s8")?.join("model.onnx");
    let folder = Folder::empty();
    let explained = folder.byoc(&["explain", text(&model), "--backend", "kendryte,json", "--nodes"]);
    let last = explained.success().trim_end().lines().last().expect("a line").to_owned();
    assert_eq!(last, "kendryte: 72 nodes in 1 region");
    Ok(())
}

/// Bytes into the kmodel alone are the integers that the file's scale makes of the pixels.
fn input_scale() -> Needed<()> {
    for form in ["u8_s8", "s8_s8_channels"] {
        let data = data::test_data(&format!("kendryte_qdq/chain_{form}"))?;
        let folder = compile(&data.join("model.onnx"));
        let row = &scales(&folder)[0];
        // The zero point of the file is 0, and -128 where it has signs.
        assert_eq!([&row[0], &row[4], &row[5]], ["input", "0", "the model's"]);
        let scale: f32 = row[3].as_str().and_then(|scale| scale.parse().ok()).expect("a number");
        extract(&folder, "byoc_main_kendryte_0");
        let picture = npz::find(&npz::read(&data.join("inputs.npz")), "input");
        let byte = |x: &f32| (x / scale).round_ties_even().clamp(0.0, 255.0) as u8;
        let bytes = digits::floats(&picture).iter().map(byte).collect();
        let bytes = Tensor::new(byoc_plugin_api::DType::U8, picture.shape.clone(), bytes);
        let run = |file: &str, input: &Tensor| {
            npz::write(&folder.path().join("in.npz"), &[("input", input)]);
            folder.byoc(&["run", file, "-i", "in.npz", "-o", "out.npz"]).success();
            npz::read(&folder.path().join("out.npz"))[0].1.clone()
        };
        assert_eq!(run("model.byoc", &picture).bytes, run("model.kmodel", &bytes).bytes);
    }
    Ok(())
}

/// A convolution of which the weights and the input `x` are quantised, the input with a zero point of that type.
fn convolution(model: Model, ty: Type, zero: Vec<u8>) -> Model {
    model
        .input("x", Type::Float, &[1, 1, 8, 8])
        .tensor(tensor("w", Type::Int8, &[2, 1, 1, 1], vec![100, 156]))
        .weight("s", &[], &[0.01])
        .tensor(tensor("z", ty, &[], zero))
        .node("QuantizeLinear", &["x", "s", "z"], &["q"])
        .node("DequantizeLinear", &["q", "s", "z"], &["d"])
        .node("DequantizeLinear", &["w", "s"], &["v"])
        .node("Conv", &["d", "v"], &["y"])
        .output("y", Type::Float, &[1, 2, 8, 8])
}

/// Activations of 16 bits: the nodes, the tensor and its type are in the error and in `explain`.
fn refused() -> Needed<()> {
    let folder = Folder::empty();
    let model = convolution(Model::default().opset(21), Type::Uint16, vec![3, 0]);
    folder.write("model.onnx", model.finish());
    let reason = "kendryte: quantized: type: 'q' is u16, only u8 and i8 have code";
    let explained = folder.byoc(&["explain", "model.onnx", "--backend", "kendryte,json", "--nodes"]);
    let explained = explained.success();
    for node in ["make_q ", "make_d "] {
        let row = explained.lines().find(|line| line.starts_with(node)).expect("a row");
        assert!(row.contains(" json ") && row.ends_with(reason), "{row}");
    }
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte"]).fails(
        4,
        &format!(
            "error: [B401] no backend of the list kendryte takes node 'make_q' (QuantizeLinear) and 1 more: {reason}\n  hint: Add a host backend at the end of the list; byoc plugin list shows what \
             there is"
        ),
    );
    Ok(())
}

/// A model of which only the weights and the input are quantised: a range is needed for what the convolution gives.
fn without_scale(more: &[&str]) -> Needed<()> {
    let folder = Folder::empty();
    let model = convolution(Model::default(), Type::Uint8, vec![3]);
    folder.write("model.onnx", model.finish());
    let pixels: Vec<f32> = (0..128).map(|index| index as f32 / 128.0).collect();
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 1, 8, 8], &pixels))]);
    let fixed = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte,json"];
    let outcome = folder.byoc(&[&fixed[..], more].concat());
    if more.is_empty() {
        outcome.fails(
            1,
            "error: [B306] backend 'kendryte' failed on region byoc_main_kendryte_0: the range of 'y' is not known: the \
             model has no scale for it\n  hint: Give samples of the model's inputs with --dataset",
        );
        return Ok(());
    }
    outcome.success();
    let rows = scales(&folder);
    assert_eq!(rows[0], serde_json::json!(["x", "-0.03", "2.52", "0.01", "3", "the model's"]));
    let quantised: Vec<_> = rows.iter().map(|row| (&row[0], row[5] == "the model's")).collect();
    assert_eq!(quantised, [(&Value::from("x"), true), (&Value::from("y"), false)]);
    Ok(())
}
