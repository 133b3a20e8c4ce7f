//! Files that are cut at the border of a section, or put together of the sections of others, with digests that fit and with
//! digests that do not: every verb refuses them, or they are whole in all that the verb reads.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::repack::{Repacked, split};
use byoc_tests::trial::Needed;
use serde_json::Value;

use super::bases::some;
use super::program::{Call, ends_well};

/// Every verb that reads an artifact, with every view of it.
const VERBS: [Call<'_>; 14] = [
    &["run", "bad.byoc", "--fill", "random"],
    &["run", "bad.byoc", "--fill", "ones", "-o", "out.npz", "--profile", "--json"],
    &["bench", "bad.byoc", "--fill", "ones", "--warmup", "0", "--repeat", "1"],
    &["verify", "bad.byoc", "--fill", "ones", "--reference", "whole.npz"],
    &["verify", "bad.byoc", "--fill", "ones", "--model", "model.onnx"],
    &["check", "bad.byoc"],
    &["check", "bad.byoc", "--json"],
    &["inspect", "bad.byoc"],
    &["inspect", "bad.byoc", "--constants", "--regions", "--sections", "--plugins", "--json"],
    &["inspect", "bad.byoc", "--constants", "--regions", "--sections", "--plugins"],
    &["inspect", "bad.byoc", "--region", "byoc_main_json_0"],
    &["inspect", "bad.byoc", "--verify-digests"],
    &["swap", "bad.byoc", "--from", "model.onnx", "-o", "swapped.byoc"],
    &["tune", "bad.byoc", "--device", "cuda:0", "-o", "tuned.byoc"],
];

/// Two artifacts whose sections have the same names, and the same sizes where `model` is what it was.
fn folder() -> (Folder, Vec<u8>, Vec<u8>) {
    let base = some(&["blocked"]).swap_remove(0);
    let folder = Folder::compiled(base.model);
    let whole = places::read(&folder.path().join("model.byoc"));
    folder.byoc(&["run", "model.byoc", "--fill", "ones", "-o", "whole.npz"]).success();
    let weights: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let other = Model::default()
        .input("x", Type::Float, &[2, 3])
        .weight("w", &[3, 4], &weights)
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[2, 4]);
    folder.write("other.onnx", other.finish());
    folder.byoc(&["compile", "other.onnx", "-o", "other.byoc"]).success();
    let other = places::read(&folder.path().join("other.byoc"));
    (folder, whole, other)
}

/// What every verb says of every file must be an answer or an error.
pub(crate) fn every_verb() -> Needed<()> {
    let (folder, whole, other) = folder();
    let mut files = cut(&whole);
    files.extend(swapped(&whole));
    files.extend(spliced(&whole, &other));
    let mut wrong = Vec::new();
    for (name, bytes) in &files {
        for verb in VERBS {
            folder.write("bad.byoc", bytes);
            if let Err(cause) = ends_well(folder.path(), verb, &[("LD_LIBRARY_PATH", "/nonexistent")]) {
                wrong.push(format!("{name}: {cause}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len() * VERBS.len(), wrong.join("\n"));
    Ok(())
}

/// Files that end where a section begins or ends, or a byte before or behind it. None of them is an artifact.
pub(crate) fn cut_files_are_refused() -> Needed<()> {
    let (folder, whole, _) = folder();
    for (name, bytes) in cut(&whole) {
        folder.write("bad.byoc", &bytes);
        let is = if bytes.is_empty() { "not an artifact" } else { "damaged" };
        for verb in VERBS {
            if verb[0] == "tune" {
                continue;
            }
            let outcome = folder.byoc(verb);
            assert_eq!(outcome.code, Some(1), "{name}: {verb:?}: {}", outcome.stderr);
            assert!(
                outcome.stderr.starts_with(&format!("error: [B602] 'bad.byoc' is {is}: ")),
                "{name}: {}",
                outcome.stderr
            );
        }
    }
    Ok(())
}

/// Where sections begin and end in a file.
fn borders(file: &[u8]) -> Vec<usize> {
    let (header, _) = split(file);
    let data = 8 + header.len();
    let header: Value = serde_json::from_slice(header).expect("a header");
    let entries = header.as_object().expect("an object").values().filter_map(|entry| entry["data_offsets"].as_array());
    let mut borders: Vec<usize> = entries.flatten().map(|at| data + at.as_u64().expect("an offset") as usize).collect();
    borders.extend([0, 8]);
    borders.sort_unstable();
    borders.dedup();
    borders
}

fn cut(whole: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lengths = borders(whole).into_iter().flat_map(|at| [at.saturating_sub(1), at, at + 1]);
    let mut lengths: Vec<usize> = lengths.filter(|&length| length < whole.len()).collect();
    lengths.dedup();
    lengths.into_iter().map(|length| (format!("cut at {length}"), whole[..length].to_vec())).collect()
}

/// Two sections have each other's bytes: of the same length or not, with their digests or with those of the places.
fn swapped(whole: &[u8]) -> Vec<(String, Vec<u8>)> {
    let artifact = Repacked::read(whole);
    let count = artifact.sections.len();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
    let each = pairs.map(|(one, other)| {
        let mut artifact = artifact.clone();
        let name = format!("{} for {}", artifact.sections[one].name, artifact.sections[other].name);
        let bytes = [one, other].map(|at| artifact.sections[at].bytes.clone());
        let shapes = [one, other].map(|at| (artifact.sections[at].dtype.clone(), artifact.sections[at].shape.clone()));
        for (at, from) in [(one, 1), (other, 0)] {
            artifact.sections[at].bytes.clone_from(&bytes[from]);
            (artifact.sections[at].dtype, artifact.sections[at].shape) = shapes[from].clone();
        }
        (name, artifact.write())
    });
    each.collect()
}

/// Parts of one file and parts of another: each section of the one in the other, and the bytes up to a border followed by
/// those behind it.
fn spliced(whole: &[u8], other: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (one, two) = (Repacked::read(whole), Repacked::read(other));
    let mut files = Vec::new();
    for section in &two.sections {
        let Some(at) = one.sections.iter().position(|known| known.name == section.name) else { continue };
        let mut artifact = one.clone();
        artifact.sections[at] = section.clone();
        files.push((format!("{} of another file", section.name), artifact.write()));
    }
    for at in borders(whole).into_iter().filter(|&at| at < other.len()) {
        files.push((format!("another file from {at} on"), [&whole[..at], &other[at..]].concat()));
        files.push((format!("another file up to {at}"), [&other[..at], &whole[at..]].concat()));
    }
    files.push(("two files".into(), [whole, other].concat()));
    files
}
