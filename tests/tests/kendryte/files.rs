//! kmodel files outside of artifacts: taken out, shown, run, and told apart from what is none.

use std::path::PathBuf;

use byoc_tests::folder::Folder;
use byoc_tests::tensor::Tensor;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{digits, npz, places};
use serde_json::{Value, json};

use crate::models::compile;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_kmodel_runs_like_its_region", a_kmodel_runs_like_its_region),
        trial("a_kmodel_is_shown", a_kmodel_is_shown),
        trial("other_versions_are_told_what_reads_them", other_versions),
        trial("versions_4_and_5_are_shown_only", later_versions),
        trial("a_kmodel_goes_to_a_board_in_several_forms", forms),
        trial("damaged_kmodels_are_errors", damaged),
    ]
}

/// Takes the kmodel of a region out of `model.byoc`.
pub(crate) fn extract(folder: &Folder, symbol: &str) -> PathBuf {
    folder.byoc(&["inspect", "model.byoc", "--region", symbol, "--extract", "model.kmodel"]).success();
    folder.path().join("model.kmodel")
}

/// What a command that prints JSON says.
fn report(folder: &Folder, arguments: &[&str]) -> Value {
    serde_json::from_str(folder.byoc(&[arguments, &["--json"]].concat()).success()).expect("JSON")
}

/// The file alone takes pixels; the artifact takes what they are normalised to.
fn a_kmodel_runs_like_its_region() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (folder, _) = compile(&digits.model, &digits.calibration, &[]);
    extract(&folder, "byoc_main_kendryte_0");
    let picture = &digits.inputs[0];
    let pixels: Vec<u8> = digits::floats(picture).iter().map(|x| (x * 255.0).round() as u8).collect();
    let run = |file: &str, input: &Tensor, output: &str| {
        npz::write(&folder.path().join("in.npz"), &[("input", input)]);
        folder.byoc(&["run", file, "-i", "in.npz", "-o", output]).success();
        npz::read(&folder.path().join(output))[0].1.clone()
    };
    let region = run("model.byoc", picture, "region.npz");
    let file = run("model.kmodel", &Tensor::new(byoc_plugin_api::DType::U8, vec![1, 1, 32, 32], pixels), "file.npz");
    assert_eq!(region.bytes, file.bytes);
    Ok(())
}

fn a_kmodel_is_shown() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (folder, _) = compile(&digits.model, &digits.calibration, &[]);
    let kmodel = extract(&folder, "byoc_main_kendryte_0");
    let shown = report(&folder, &["inspect", "model.kmodel"]);
    assert_eq!(shown["format"], "kmodel v3");
    assert_eq!(shown["file_bytes"], places::read(&kmodel).len());
    assert_eq!(shown["inputs"], json!([{ "name": "input", "dtype": "u8", "shape": [1, 1, 32, 32] }]));
    assert_eq!(shown["outputs"], json!([{ "name": "output0", "dtype": "f32", "shape": [1, 10] }]));
    let titles: Vec<_> =
        shown["tables"].as_array().expect("tables").iter().map(|table| table["title"].as_str()).collect();
    assert_eq!(titles, [Some("memory"), Some("layers")]);
    let layers = shown["tables"][1]["rows"].as_array().expect("rows");
    let kinds: Vec<_> = layers.iter().filter_map(|row| row[1].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "K210_CONV").count(), 9, "{kinds:?}");
    assert_eq!((kinds.first(), kinds.last()), (Some(&"K210_CONV"), Some(&"SOFTMAX")));
    Ok(())
}

fn other_versions() -> Needed<()> {
    let folder = Folder::empty();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let cases = [
        (words(&[1, 0]), 1, "the SDK reads it with kpu_model_load_from_buffer"),
        (words(&[0x4b4d_444c, 5]), 5, "the nncase 1.x that wrote it reads it"),
        (words(&[0x4b4d_444c, 6]), 6, "nncase 2.x reads it, for the K230"),
    ];
    for (bytes, version, hint) in cases {
        folder.write("other.kmodel", bytes);
        for verb in ["inspect", "run"] {
            let expected = format!(
                "error: [B606] backend 'kendryte' cannot read 'other.kmodel': the file is a kmodel of version {version}, \
                 only version 3 is supported\n  hint: {hint}"
            );
            folder.byoc(&[verb, "other.kmodel"]).fails(1, &expected);
        }
    }
    Ok(())
}

/// The end of the name says the form.
fn forms() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (folder, _) = compile(&digits.model, &digits.calibration, &[]);
    let kmodel = places::read(&extract(&folder, "byoc_main_kendryte_0"));
    let region = ["inspect", "model.byoc", "--region", "byoc_main_kendryte_0", "--extract"];
    for name in ["digits.h", "digits.kfpkg"] {
        folder.byoc(&[&region[..], &[name]].concat()).success();
    }
    let header = String::from_utf8(places::read(&folder.path().join("digits.h"))).expect("text");
    let start = format!(
        "#pragma once\n\n#include <stdint.h>\n\n#define DIGITS_SIZE {0}u\n\nstatic const uint8_t digits[{0}] \
         __attribute__((aligned(256))) = {{\n    0x03, 0x00, 0x00, 0x00, 0x01,",
        kmodel.len()
    );
    assert!(header.starts_with(&start), "{}", &header[..200]);
    let package = places::read(&folder.path().join("digits.kfpkg"));
    let has = |text: &str| package.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(package.starts_with(b"PK") && has("flash-list.json") && has("digits.kmodel"));
    Ok(())
}

/// A version 4 without nodes: its contents are shown, and it does not run.
fn later_versions() -> Needed<()> {
    let folder = Folder::empty();
    let header = [0x4b4d_444c, 4, 0, 1, 0, 4096, 0, 0, 0, 0].map(u32::to_le_bytes);
    folder.write("later.kmodel", header.concat());
    let shown = report(&folder, &["inspect", "later.kmodel"]);
    assert_eq!(shown["format"], "kmodel v4");
    assert_eq!(shown["tables"][0]["rows"][3], json!(["main memory", "4096 bytes"]));
    folder.byoc(&["run", "later.kmodel"]).fails(
        1,
        "error: [B703] backend 'kendryte' cannot load 'later.kmodel': the file is a kmodel of version 4, only version 3 is \
         supported\n  hint: nncase 0.2 reads it, and so does MaixPy built with V4 support",
    );
    Ok(())
}

/// The crate's own tests damage every byte of the headers; here each way of failing comes out of the program.
fn damaged() -> Needed<()> {
    let digits = digits::k210_only()?;
    let (folder, _) = compile(&digits.model, &digits.calibration, &[]);
    let whole = places::read(&extract(&folder, "byoc_main_kendryte_0"));
    for at in (0..220).step_by(4) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        folder.write("damaged.kmodel", &bytes);
        for arguments in [&["inspect", "damaged.kmodel"][..], &["run", "damaged.kmodel", "--fill", "zeros"]] {
            let outcome = folder.byoc(arguments);
            let is_error = outcome.code == Some(1) && outcome.stderr.starts_with("error: [B");
            assert!(outcome.code == Some(0) || is_error, "byte {at}: {outcome:?}");
        }
    }
    for length in [0, 3, 27, 100, whole.len() / 2] {
        folder.write("damaged.kmodel", &whole[..length]);
        let outcome = folder.byoc(&["run", "damaged.kmodel"]);
        assert!(outcome.code == Some(1) && outcome.stderr.starts_with("error: [B606] "), "{outcome:?}");
    }
    Ok(())
}
