//! Constants in other files: found again, checked byte by byte, and refused by name where they are not what they were.

use super::*;
use crate::diagnostic::{Code, Result};

/// What the other file holds: the constant's 24 bytes at an address that is not a multiple of four.
fn weights() -> Vec<u8> {
    [&[1; 5][..], &noise(1, 24), &[2; 3]].concat()
}

/// The sample with its first constant in `weights.data`.
fn sample() -> Contents {
    let mut contents = super::sample(64);
    contents.manifest.files = vec![ConstantFile { path: "weights.data".into(), bytes: 32 }];
    let digest = blake3::hash(&noise(1, 24)).to_hex().to_string();
    contents.manifest.constants[0].external = Some(External { file: 0, offset: 5, digest });
    contents.sections.remove(0);
    contents
}

/// A folder with `m.byoc` and the file that it refers to.
fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("folder");
    sample().write(&dir.path().join("m.byoc"), &mut silent()).expect("write");
    std::fs::write(dir.path().join("weights.data"), weights()).expect("write");
    dir
}

fn attached(artifact: &Path, constants_from: Option<&Path>) -> Result<Artifact> {
    let mut artifact = Artifact::open(artifact)?;
    artifact.attach(constants_from)?;
    Ok(artifact)
}

#[test]
fn bytes_of_other_files_are_read_once_they_are_attached() {
    let dir = dir();
    let path = dir.path().join("m.byoc");
    let mut artifact = Artifact::open(&path).expect("open");
    assert!(artifact.sections().all(|section| section.name != "const/0"));
    artifact.verify_digests().expect("what is in the file is sound");
    let error = artifact.stored(0).expect_err("not attached");
    let expected = format!("'{}' has constants in other files, which are not attached", path.display());
    assert_eq!((error.code, error.message), (Code::ConstantSource, expected));
    artifact.attach(None).expect("attach");
    let copy = artifact.clone();
    std::fs::remove_file(dir.path().join("weights.data")).expect("remove");
    artifact.attach(None).expect("nothing is left to do");
    for artifact in [artifact, copy] {
        let bytes = artifact.stored(0).expect("attached");
        assert_eq!((&bytes, bytes.as_ptr().addr() % 4), (&noise(1, 24), 0));
        assert_eq!(artifact.stored(1).expect("in the file"), noise(2, 64));
        let used = &artifact.manifest().entries[0].constants[0].used;
        assert_eq!(artifact.constant(used, "y").expect("transposed")[4..8], bytes[12..16]);
        artifact.stored(3).expect_err("no such constant");
    }
}

#[test]
fn files_are_looked_for_by_name_and_by_path() {
    let dir = dir();
    let moved = tempfile::tempdir().expect("folder");
    let path = moved.path().join("m.byoc");
    let mut contents = sample();
    contents.manifest.files[0].path = "sub/weights.data".into();
    contents.write(&path, &mut silent()).expect("write");
    attached(&path, Some(dir.path())).expect("by name");
    std::fs::create_dir(dir.path().join("sub")).expect("folder");
    std::fs::rename(dir.path().join("weights.data"), dir.path().join("sub/weights.data")).expect("move");
    attached(&path, Some(dir.path())).expect("by path");
    let error = attached(&path, None).expect_err("not beside the artifact");
    let place = moved.path().display();
    let message = format!(
        "'{place}/m.byoc' takes constants from 'sub/weights.data': cannot open '{place}/sub/weights.data': No such file or \
         directory (os error 2)"
    );
    assert_eq!((error.code, error.message), (Code::ConstantSource, message));
    assert_eq!(error.hint.as_deref(), Some("Put the file back, or name its folder with --constants-from DIR"));
}

#[test]
fn other_files_than_those_of_the_compile_are_refused_by_name() {
    let dir = dir();
    let place = dir.path().display();
    let path = dir.path().join("m.byoc");
    let changed = |at: usize| {
        let mut bytes = weights();
        bytes[at] ^= 1;
        bytes
    };
    let cases = [
        (weights()[..31].to_vec(), "it has 31 bytes, not 32"),
        ([weights(), vec![0]].concat(), "it has 33 bytes, not 32"),
        (Vec::new(), "it has 0 bytes, not 32"),
        (changed(5), "`w0` differs"),
        (changed(28), "`w0` differs"),
    ];
    for (bytes, cause) in cases {
        std::fs::write(dir.path().join("weights.data"), bytes).expect("write");
        let error = attached(&path, None).expect_err(cause);
        let message =
            format!("'{place}/weights.data' is not the file that '{place}/m.byoc' was compiled from: {cause}");
        assert_eq!((error.code, error.message), (Code::ConstantSource, message));
    }
    // What nobody reads may change.
    std::fs::write(dir.path().join("weights.data"), changed(29)).expect("write");
    attached(&path, None).expect("the constant is as it was");
    std::fs::remove_file(dir.path().join("weights.data")).expect("remove");
    std::fs::create_dir(dir.path().join("weights.data")).expect("folder");
    let error = attached(&path, None).expect_err("a folder");
    let message = format!(
        "'{place}/m.byoc' takes constants from 'weights.data': cannot map '{place}/weights.data': it is not a regular file"
    );
    assert_eq!(error.message, message);
}

/// Each change of the contents, and what is said of the file that it makes.
const UNFIT: [(Change, &str); 12] = [
    (|c| external(c).file = 1, "constant 0: it is in file 1 of 1"),
    (|c| external(c).offset = 9, "constant 0: its 24 bytes at offset 9 leave the 32 bytes of 'weights.data'"),
    (
        |c| external(c).offset = u64::MAX,
        "constant 0: its 24 bytes at offset 18446744073709551615 leave the 32 bytes of 'weights.data'",
    ),
    (|c| c.manifest.files[0].bytes = 28, "constant 0: its 24 bytes at offset 5 leave the 28 bytes of 'weights.data'"),
    (|c| c.manifest.constants[0].shape = vec![usize::MAX, 8], "constant 0: its shape is too large"),
    (
        |c| c.manifest.constants[0].alignment = 64,
        "constant 0: it is packed or needs an alignment, and is in another file",
    ),
    (
        |c| c.manifest.constants[0].layout = Some("acme/1".into()),
        "constant 0: it is packed or needs an alignment, and is in another file",
    ),
    (|c| c.manifest.constants[0].section = "const/1".into(), "section 'const/1': its constant is in another file"),
    (|c| c.manifest.files.clear(), "constant 0: it is in file 0 of 0"),
    (|c| c.manifest.files[0].path = "..".into(), "it takes constants from '..', which is not a file name"),
    (
        |c| {
            let twice = c.manifest.files[0].clone();
            c.manifest.files.push(twice);
        },
        "it has the file 'weights.data' twice",
    ),
    (
        |c| c.manifest.files.push(ConstantFile { path: "other.data".into(), bytes: 1 }),
        "file 'other.data': it holds no constant",
    ),
];

fn external(contents: &mut Contents) -> &mut External {
    contents.manifest.constants[0].external.as_mut().expect("external")
}

#[test]
fn references_that_do_not_fit_are_refused() {
    for (change, expected) in UNFIT {
        let mut contents = sample();
        change(&mut contents);
        let error = write::Plan::new(&contents).err();
        assert_eq!(error.as_deref(), Some(expected));
    }
}

/// A reader that knows nothing of other files finds a constant without a section, and refuses the file.
#[test]
fn readers_that_know_no_other_files_refuse_the_artifact() {
    let mut contents = sample();
    contents.manifest.files.clear();
    contents.manifest.constants[0].external = None;
    assert_eq!(write::Plan::new(&contents).err().as_deref(), Some("it has no section 'const/0'"));
}
