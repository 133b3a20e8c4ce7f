//! What is told to those who lack a data set, sizes or convolutions, or want a whole model that is none.

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
    let explained = folder.byoc(&[&["explain", "model.onnx"], &BACKENDS[..]].concat());
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
    let explained = folder.byoc(&[&["explain", "model.onnx"], &BACKENDS[..]].concat());
    let reason = "kendryte: region_start: the region would start with MatMul, not with Conv";
    assert!(explained.success().contains(reason), "{}", explained.stdout);
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte"]).fails(
        4,
        "error: [B401] no backend of the list kendryte takes node 'make_y' (MatMul): kendryte: region_start: the region \
         would start with MatMul, not with Conv\n  hint: Add a host backend at the end of the list; byoc plugin list \
         shows what there is",
    );
    Ok(())
}

fn no_whole_model() -> Needed<()> {
    let whole = ["--backend-opt", "kendryte.require-whole-model=true"];
    let digits = digits::k210_only()?;
    compile(&digits.model, &digits.calibration, &whole);
    let digits = digits::mixed()?;
    let folder = Folder::empty();
    let fixed = ["compile", text(&digits.model), "-o", "model.byoc", "--dataset", text(&digits.calibration)];
    folder.byoc(&[&fixed, &BACKENDS[..], &whole].concat()).fails(
        1,
        "error: [B306] backend 'kendryte' failed on region byoc_main_kendryte_0: the region is not the whole model, and \
         require-whole-model is set\n  hint: byoc explain shows which nodes were refused and why",
    );
    assert!(!folder.path().join("model.byoc").exists());
    Ok(())
}
