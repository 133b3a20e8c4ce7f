//! Which constants the artifact refers to in the model's files, and which it stores all the same.

use std::path::Path;

use super::*;
use crate::ir::SourceFile;

/// Settles the cases with `sources` as the files that the model was read from; the artifact's folder is `folder`.
fn referring(mut model: Model, sources: Vec<SourceFile>, cases: Vec<Case>, folder: &Path) -> Result<Settled> {
    model.sources = sources;
    let options = SettleOptions { refer_from: Some(folder.to_owned()), ..SettleOptions::default() };
    settle(generated(model, cases), &backends(), &options)
}

/// A file of `folder` with that content, as the importer has it.
fn source(folder: &Path, name: &str, content: &[u8]) -> SourceFile {
    std::fs::write(folder.join(name), content).expect("write");
    let path = folder.canonicalize().expect("a folder").join(name);
    SourceFile { path, bytes: Bytes::copy_from_slice(content), role: "a model" }
}

#[test]
fn what_stands_in_a_source_file_is_referred_to() {
    let folder = tempfile::tempdir().expect("folder");
    let inner = folder.path().join("out");
    std::fs::create_dir(&inner).expect("folder");
    let first = source(folder.path(), "first.onnx", &noise(7, 20_000));
    let second = source(folder.path(), "second.data", &noise(8, 9000));
    let mut model = Model::default();
    let mut add = |name: &str, bytes: Bytes| model.constants.insert(name, DType::U8, &[bytes.len()], bytes);
    let constants = [
        add("large", first.bytes.slice(3..8003)),
        add("small", first.bytes.slice(9000..9000 + 4095)),
        add("page", second.bytes.slice(4904..)),
        add("computed", noise(3, 8000).into()),
        add("aligned", first.bytes.slice(10_000..15_000)),
    ];
    let page = constants[4].clone();
    let original = first.bytes.slice(10_000..15_000);
    let mut cases: Vec<_> = constants.iter().map(|constant| Case::new(0, constant, Claim::Host)).collect();
    cases.push(Case::packing(1, &page, packed("zeta/1", &[5000]), &original));
    cases.push(Case::packing(0, &constants[3], packed("acme/1", &[6000]), &noise(9, 6000)));
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let expected = [
        Some(External { file: 0, offset: 3, digest: hash(&first.bytes[3..8003]) }),
        None,
        Some(External { file: 1, offset: 4904, digest: hash(&second.bytes[4904..]) }),
        None,
        None,
        None,
    ];
    let settled = referring(model, vec![first, second], cases, &inner).expect("settled");
    let totals = settled.ledger().totals;
    assert_eq!((totals.external, totals.stored), (8000 + 4096, 4095 + 8000 + 5000 + 6000));
    assert_eq!(totals.saved(), totals.unshared - totals.external - totals.stored);
    assert!(settled.print().contains("'large' u8[8000] 8000 B stored in ../first.onnx@3 for"), "{}", settled.print());
    let path = inner.join("m.byoc");
    let (contents, _) = settled.into_contents();
    contents.write(&path, &mut |_, _, _| {}).expect("written");
    let artifact = Artifact::open(&path).expect("open");
    let manifest = artifact.manifest();
    let found: Vec<_> = manifest.constants.iter().map(|stored| stored.external.clone()).collect();
    assert_eq!(found, expected);
    let file = |path: &str, bytes| ConstantFile { path: path.into(), bytes };
    assert_eq!(manifest.files, [file("../first.onnx", 20_000), file("../second.data", 9000)]);
    let stored = artifact.sections().filter(|section| section.name.starts_with("const/")).map(|section| section.name);
    assert_eq!(stored.collect::<std::collections::BTreeSet<_>>().len(), 4);
}

#[test]
fn a_file_that_is_mapped_twice_is_one() {
    let folder = tempfile::tempdir().expect("folder");
    let one = source(folder.path(), "shared.data", &noise(7, 20_000));
    let two = SourceFile { bytes: Bytes::copy_from_slice(&one.bytes), ..one.clone() };
    let mut model = Model::default();
    let mut add = |name: &str, bytes: Bytes| model.constants.insert(name, DType::U8, &[bytes.len()], bytes);
    let constants = [add("a", one.bytes.slice(..5000)), add("b", two.bytes.slice(5000..10_000))];
    let cases = constants.iter().map(|constant| Case::new(0, constant, Claim::Host)).collect();
    let settled = referring(model, vec![one, two], cases, folder.path()).expect("settled");
    let manifest = settled.into_contents().0.manifest;
    assert_eq!(manifest.files, [ConstantFile { path: "shared.data".into(), bytes: 20_000 }]);
    let places: Vec<_> = manifest.constants.iter().map(|stored| stored.place(&manifest.files)).collect();
    assert_eq!(places, ["shared.data@0", "shared.data@5000"]);
}

#[test]
fn what_cannot_be_read_again_is_not_referred_to() {
    let folder = tempfile::tempdir().expect("folder");
    let mut pipe = source(folder.path(), "pipe", &noise(7, 5000));
    pipe.path = "/dev/null".into();
    let mut model = Model::default();
    let constant = model.constants.insert("w", DType::U8, &[5000], pipe.bytes.clone());
    let error = referring(model, vec![pipe], vec![Case::new(0, &constant, Claim::Host)], folder.path());
    let error = error.expect_err("a device");
    assert_eq!(error.code, Code::ConstantSource);
    assert_eq!(error.message, "the artifact cannot refer to '/dev/null': it is no regular file");
}
