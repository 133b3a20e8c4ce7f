//! What is told to those who lack a data set, sizes or convolutions, or want a whole model that is none.

use byoc_plugin_api::Attribute;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{digits, npz};

use crate::models::{compile, text};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("without_a_data_set_there_is_no_file", without_a_data_set),
        trial("data_of_another_shape_are_named", other_shape),
        trial("open_sizes_are_named", open_sizes),
        trial("a_model_without_convolutions_goes_to_the_host", no_convolution),
        trial("a_part_is_no_whole_model", no_whole_model),
        trial("a_model_that_goes_elsewhere_is_no_whole_model", elsewhere),
        trial("two_regions_are_no_whole_model", two_regions),
    ]
}

const BACKENDS: [&str; 2] = ["--backend", "kendryte,json"];

/// A convolution of an image of these sizes, written as in ONNX.
fn conv(folder: &Folder, batch: i64) {
    let model = Model::default()
        .input("x", Type::Float, &[batch, 1, 8, 8])
        .weight("w", &[2, 1, 1, 1], &[0.5, -1.0])
        .node("Conv", &["x", "w"], &["y"])
        .output("y", Type::Float, &[batch, 2, 8, 8]);
    folder.write("model.onnx", model.finish());
}

fn without_a_data_set() -> Needed<()> {
    let folder = Folder::empty();
    conv(&folder, 1);
    folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"], &BACKENDS[..]].concat()).fails(
        2,
        "error: [B704] backend 'kendryte' needs a data set to choose the ranges of region byoc_main_kendryte_0\n  \
         hint: Give byoc compile --dataset DIR or --dataset FILE.npz with samples of the model's inputs",
    );
    assert!(!folder.path().join("model.byoc").exists());
    Ok(())
}

fn other_shape() -> Needed<()> {
    let folder = Folder::empty();
    conv(&folder, 1);
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 4, 8], &[0.5; 64]))]);
    let outcome =
        folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc", "--dataset", "data.npz"], &BACKENDS[..]].concat());
    outcome.fails(
        2,
        "error: [B701] 'data.npz': the array for input 'x' has shape [2,1,4,8], the model takes [1,1,8,8]\n  hint: Its \
         shape must be [N,1,1,8,8] or [N,1,8,8] for N samples",
    );
    Ok(())
}

/// With a batch of any size the host backend takes the convolution, and `explain` says why.
fn open_sizes() -> Needed<()> {
    let folder = Folder::empty();
    conv(&folder, -1);
    let explained = folder.byoc(&[&["explain", "model.onnx", "--nodes"], &BACKENDS[..]].concat());
    let reason = "every size must be fixed by --shape or --dim";
    assert!(explained.success().contains(reason), "{}", explained.stdout);
    Ok(())
}

fn no_convolution() -> Needed<()> {
    let folder = Folder::empty();
    let model = Model::default()
        .input("x", Type::Float, &[1, 4])
        .weight("w", &[4, 2], &[1.0, 0.5, -1.0, 0.25, 2.0, -0.5, 0.0, 1.0])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, 2]);
    folder.write("model.onnx", model.finish());
    let explained = folder.byoc(&[&["explain", "model.onnx", "--nodes"], &BACKENDS[..]].concat());
    let reason = "kendryte: cannot begin a region, as Conv or Pad or Sub or Div or Mul can";
    assert!(explained.success().contains(reason), "{}", explained.stdout);
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte"]).fails(
        4,
        "error: [B401] no backend of the list kendryte takes node 'make_y' (MatMul): kendryte: cannot begin a region, \
         as Conv or Pad or Sub or Div or Mul can\n  hint: Add a host backend at the end of the list; byoc plugin list \
         shows what there is",
    );
    Ok(())
}

fn no_whole_model() -> Needed<()> {
    let digits = digits::k210_only()?;
    compile(&digits.model, &digits.calibration, &WHOLE);
    let digits = digits::mixed()?;
    let folder = Folder::empty();
    let fixed = ["compile", text(&digits.model), "-o", "model.byoc", "--dataset", text(&digits.calibration)];
    let outcome = folder.byoc(&[&fixed, &BACKENDS[..], &WHOLE].concat());
    let message = outcome.stderr.lines().next().unwrap_or_default();
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(message.starts_with("error: [B402] kendryte.require-whole-model: node '"), "{message}");
    assert!(message.contains(") goes to json (kendryte: "), "{message}");
    assert!(!folder.path().join("model.byoc").exists());
    Ok(())
}

const WHOLE: [&str; 2] = ["--backend-opt", "kendryte.require-whole-model=true"];

/// That a model is refused as one kmodel, for this reason.
fn refuses_whole(model: Model, backends: &str, reason: &str) {
    let folder = Folder::empty();
    folder.write("model.onnx", model.finish());
    let fixed = ["compile", "model.onnx", "-o", "model.byoc", "--backend", backends];
    let expected = format!(
        "error: [B402] kendryte.require-whole-model: {reason}\n  hint: byoc explain has the reason for each node; without \
         require-whole-model the rest runs on the other backends of the list"
    );
    folder.byoc(&[&fixed[..], &WHOLE].concat()).fails(4, &expected);
    assert!(!folder.path().join("model.byoc").exists());
}

/// A convolution without bias: sizes of the input, of the weights and of the output, and its attributes.
fn image(input: &[i64], weights: &[i64], output: &[i64], attributes: &[(&str, &[i64])]) -> Model {
    let count = weights.iter().product::<i64>();
    let numbers: Vec<_> = (0..count).map(|at| (at % 7) as f32 / 8.0 - 0.375).collect();
    let attributes: Vec<_> = attributes.iter().map(|&(name, list)| (name, Attribute::Ints(list.to_vec()))).collect();
    Model::default()
        .input("x", Type::Float, input)
        .weight("w", weights, &numbers)
        .node_with("Conv", &["x", "w"], &["y"], &attributes)
        .output("y", Type::Float, output)
}

/// No node is the backend's, so that nothing asks it for code.
fn elsewhere() -> Needed<()> {
    let around: (&str, &[i64]) = ("pads", &[1, 1, 1, 1]);
    let refused = |model: Model, reason: &str| {
        refuses_whole(model, "kendryte,json", &format!("node 'make_y' (Conv) goes to json (kendryte: conv: {reason})"));
    };
    let kernel = image(&[1, 1, 28, 28], &[4, 1, 5, 5], &[1, 4, 24, 24], &[]);
    refused(kernel, "shape: a kernel of 5x5, only 1x1 and 3x3 have code");
    let columns = image(&[1, 3, 480, 640], &[4, 3, 3, 3], &[1, 4, 480, 640], &[around]);
    refused(columns, "limit: columns of the convolution's input (640 against a limit of 512)");
    let rows = image(&[1, 3, 257, 320], &[4, 3, 3, 3], &[1, 4, 257, 320], &[around]);
    refused(rows, "limit: rows of the convolution's input (257 against a limit of 256)");
    let small = image(&[1, 4, 3, 3], &[4, 4, 3, 3], &[1, 4, 3, 3], &[around]);
    refused(small, "limit: columns of the convolution's input (3 against a limit of 4)");
    let apart: [(&str, &[i64]); 2] = [("pads", &[2, 2, 2, 2]), ("dilations", &[2, 2])];
    let dilated = image(&[1, 4, 8, 8], &[4, 4, 3, 3], &[1, 4, 8, 8], &apart);
    refused(dilated, "attribute: dilations [2, 2], only 1 has code");
    let large = image(&[1, 64, 128, 256], &[64, 64, 3, 3], &[1, 64, 128, 256], &[around]);
    let memory = "limit: rows of KPU RAM for maps that are needed at the same time (65536 against a limit of 32768)";
    refused(large, memory);
    let earlier = "node 'make_y' (Conv) goes to json, which is before kendryte in the list";
    refuses_whole(image(&[1, 4, 8, 8], &[4, 4, 3, 3], &[1, 4, 8, 8], &[around]), "json,kendryte", earlier);
    without_convolutions();
    Ok(())
}

/// Models of which no region could start.
fn without_convolutions() {
    let model = Model::default()
        .input("x", Type::Float, &[1, 4])
        .weight("w", &[4, 2], &[1.0, 0.5, -1.0, 0.25, 2.0, -0.5, 0.0, 1.0])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, 2]);
    let start = "cannot begin a region, as Conv or Pad or Sub or Div or Mul can";
    refuses_whole(model, "kendryte,json", &format!("node 'make_y' (MatMul) goes to json (kendryte: {start})"));
    let model = Model::default()
        .input("x", Type::Float, &[1, 4, 8, 8])
        .node("Relu", &["x"], &["r"])
        .node("Exp", &["r"], &["y"])
        .output("y", Type::Float, &[1, 4, 8, 8]);
    refuses_whole(model, "kendryte,json", &format!("node 'make_r' (Relu) goes to json (kendryte: {start})"));
    let model = Model::default().input("x", Type::Float, &[1, 4, 8, 8]).node("Exp", &["x"], &["y"]).output(
        "y",
        Type::Float,
        &[1, 4, 8, 8],
    );
    refuses_whole(model, "kendryte,json", "node 'make_y' (Exp) goes to json (kendryte: no pattern matches)");
}

/// All nodes are the backend's, in two kmodels.
fn two_regions() -> Needed<()> {
    let numbers: Vec<_> = (0..16).map(|at| at as f32 / 8.0 - 1.0).collect();
    let model = Model::default()
        .input("x", Type::Float, &[1, 4, 8, 8])
        .input("z", Type::Float, &[1, 4, 8, 8])
        .weight("w", &[4, 4, 1, 1], &numbers)
        .node("Conv", &["x", "w"], &["y"])
        .node("Conv", &["z", "w"], &["v"])
        .output("y", Type::Float, &[1, 4, 8, 8])
        .output("v", Type::Float, &[1, 4, 8, 8]);
    refuses_whole(model, "kendryte,json", "node 'make_v' (Conv) is in another region than 'make_y' (Conv)");
    Ok(())
}
