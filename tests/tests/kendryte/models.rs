//! The K210 from ONNX to results: how accurate and how small it is, what a whole model and a part of one become, and what
//! is told to those who lack something.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::path::{Path, PathBuf};

use byoc_core::plugin::Registry;
use byoc_tests::digits::{self, Digits, Score};
use byoc_tests::folder::Folder;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, netron, npz, places};
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("digits_stay_what_they_are", digits_stay_what_they_are),
        trial("a_method_that_loses_is_a_warning", a_method_that_loses_is_a_warning),
        trial("pictures_calibrate_as_well", pictures_calibrate_as_well),
        trial("no_weight_is_left_as_it_was", no_weight_is_left_as_it_was),
        trial("a_part_of_a_model_has_both_kinds_of_ownership", both_kinds_of_ownership),
        trial("too_many_weight_loads_are_split", || is_one_kmodel("kendryte/wide")),
        trial("a_mobilenet_is_one_kmodel", || is_one_kmodel("kendryte/mobilenet")),
    ]
}

/// A text path.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Compiles into `model.byoc` of a new folder.
pub(crate) fn compile(model: &Path, dataset: &Path, more: &[&str]) -> (Folder, PathBuf) {
    let folder = Folder::empty();
    let fixed = ["compile", text(model), "-o", "model.byoc", "--backend", "kendryte,json", "--dataset", text(dataset)];
    folder.byoc(&[&fixed, more].concat()).success();
    let artifact = folder.path().join("model.byoc");
    (folder, artifact)
}

fn score(digits: &Digits, artifact: &Path) -> Score {
    let mut session = engine::load(artifact, &registry(), 2).expect("loaded");
    digits.score(&digits.run(&mut session))
}

fn registry() -> Registry {
    engine::from_files(vec![places::plugin("kendryte"), places::plugin("json")])
}

/// The accuracy that onnxruntime's probabilities have.
fn float_accuracy(digits: &Digits) -> f64 {
    digits.score(&digits.expected).accuracy
}

fn size(path: &Path) -> f64 {
    places::read(path).len() as f64
}

/// A trained network of 8 convolutions, depthwise, residual and strided ones among them, over 597 pictures it was not
/// trained with; each method of calibration that keeps it.
fn digits_stay_what_they_are() -> Needed<()> {
    let digits = digits::k210_only()?;
    for method in ["minmax", "percentile", "l2"] {
        let option = format!("kendryte.calibrate-method={method}");
        let (folder, artifact) = compile(&digits.model, &digits.calibration, &["--backend-opt", &option]);
        let found = score(&digits, &artifact);
        println!("{method}: {found:?}, float {:.4}", float_accuracy(&digits));
        // Nine pictures of 597 that differ from the float model, six of them wrong where that one is right.
        assert!(found.agreement >= 0.985, "{method}: {found:?}");
        assert!(found.accuracy >= float_accuracy(&digits) - 0.01, "{method}: {found:?}");
        if method == "minmax" {
            let kmodel = crate::files::extract(&folder, "byoc_main_kendryte_0");
            netron::compare(&kmodel)?;
            let onnx = size(&digits.model);
            println!("kmodel {:.3}, artifact {:.3} of the ONNX file", size(&kmodel) / onnx, size(&artifact) / onnx);
            assert!(size(&kmodel) <= 0.31 * onnx && size(&artifact) <= 0.38 * onnx);
        }
    }
    Ok(())
}

/// A method that keeps less of a tensor than the default says so, tensor by tensor, and is worse indeed.
fn a_method_that_loses_is_a_warning() -> Needed<()> {
    let digits = digits::k210_only()?;
    let compiled = |method: &str| {
        let folder = Folder::empty();
        let option = format!("kendryte.calibrate-method={method}");
        let fixed = ["compile", text(&digits.model), "-o", "model.byoc", "--backend", "kendryte,json"];
        let outcome =
            folder.byoc(&[&fixed, &["--dataset", text(&digits.calibration), "--backend-opt", &option][..]].concat());
        outcome.success();
        (outcome.stderr, score(&digits, &folder.path().join("model.byoc")))
    };
    let (warnings, kept) = compiled("minmax");
    assert_eq!(warnings, "");
    let (warnings, lost) = compiled("kl");
    println!("kl: {lost:?}");
    assert!(lost.mean_error > kept.mean_error && lost.agreement <= kept.agreement, "{lost:?}, minmax {kept:?}");
    let first = warnings.lines().next().unwrap_or_default();
    let start = "warning: [B309] backend 'kendryte', region byoc_main_kendryte_0: calibrate-method kl keeps ";
    assert!(first.starts_with(start) && first.contains(" dB of '") && first.ends_with(" dB"), "{warnings}");
    Ok(())
}

/// Twenty PNG files in place of arrays: a pixel is the byte that the board gets.
fn pictures_calibrate_as_well() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (folder, artifact) = compile(&digits.model, &digits.pictures, &[]);
    let found = score(&digits, &artifact);
    assert!(found.agreement >= 0.97, "{found:?}");
    let report = folder.byoc(&["inspect", "model.byoc", "--region", "byoc_main_kendryte_0", "--json"]);
    let report: Value = serde_json::from_str(report.success()).expect("JSON");
    let tables = report["tables"].as_array().expect("tables");
    let input = tables
        .iter()
        .flat_map(|table| table["rows"].as_array().into_iter().flatten())
        .find(|row| row[0] == digits::INPUT);
    let input = input.unwrap_or_else(|| panic!("{report}"));
    assert_eq!([&input[1], &input[2], &input[4]], ["0", "1", "0"]);
    Ok(())
}

/// No initializer of the model is in the artifact as it stands in the ONNX file.
fn no_weight_is_left_as_it_was() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (_folder, artifact) = compile(&digits.model, &digits.calibration, &[]);
    let verbatim = |file: &Path| data::script("verbatim.py", &[&digits.model, file]);
    assert_eq!(verbatim(&artifact)?.trim(), "[]");
    // The script finds what is there.
    let host = places::temporary();
    let host = host.path().join("host.byoc");
    let json = engine::from_files(vec![places::plugin("json")]);
    engine::compile_with(
        &digits.model,
        &host,
        &json,
        &["json"],
        &[("json.pack", "false"), ("json.kernels", "reference")],
    )
    .expect("compiled");
    assert!(verbatim(&host)?.contains("stem.weight"));
    Ok(())
}

/// Convolutions for the K210, layer normalisation and attention for the host.
fn both_kinds_of_ownership() -> Needed<()> {
    let digits = digits::mixed()?;
    let (folder, artifact) = compile(&digits.model, &digits.calibration, &[]);
    let found = score(&digits, &artifact);
    println!("{found:?}, float {:.4}", float_accuracy(&digits));
    assert!(found.agreement >= 0.97, "{found:?}");
    assert!(found.accuracy >= float_accuracy(&digits) - 0.01, "{found:?}");
    assert!(found.mean_error <= 0.01, "{found:?}");
    // A picture is verified against the float kernels within five hundredths of a probability; noise, which no
    // calibration has seen, is not.
    npz::write(&folder.path().join("in.npz"), &[(digits::INPUT, &digits.inputs[0])]);
    let verify =
        ["verify", "model.byoc", "--model", text(&digits.model), "--atol", "0.05", "--rtol", "0", "-i", "in.npz"];
    folder.byoc(&verify).success();
    let ledger = folder.byoc(&["inspect", "model.byoc", "--constants", "--json"]);
    let ledger: Value = serde_json::from_str(ledger.success()).expect("JSON");
    let fates: Vec<_> = ledger["constants"].as_array().expect("rows").iter().map(|row| row["fate"].as_str()).collect();
    for fate in ["embedded", "packed"] {
        assert!(fates.contains(&Some(fate)), "{fates:?}");
    }
    Ok(())
}

/// A model of random weights compiles into one region, all of it on the K210, twice the same, and runs.
fn is_one_kmodel(name: &str) -> Needed<()> {
    let folder = data::test_data(name)?;
    let (first, artifact) = compile(&folder.join("model.onnx"), &folder.join("dataset.npz"), &[]);
    let (_second, again) = compile(&folder.join("model.onnx"), &folder.join("dataset.npz"), &[]);
    assert!(places::read(&artifact) == places::read(&again), "two compiles differ");
    let report = first.byoc(&["inspect", "model.byoc", "--regions", "--json"]);
    let report: Value = serde_json::from_str(report.success()).expect("JSON");
    let found: Vec<_> =
        report["regions"].as_array().expect("regions").iter().map(|row| row["backend"].as_str()).collect();
    assert_eq!(found, [Some("kendryte")]);
    first.byoc(&["run", "model.byoc", "--fill", "random", "--seed", "3"]).success();
    Ok(())
}
