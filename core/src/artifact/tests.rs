//! What is written is read; what is damaged is refused, in one line; nothing half-written is left.

#[cfg(feature = "compiler")]
mod code;
mod control;
mod external;
mod ledger;
mod list;
mod variants;

use std::collections::BTreeMap;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;

use byoc_plugin_api::{ConstantId, DType, Dim, Options};
use bytes::Bytes;

use super::manifest::*;
use super::*;
use crate::constants::View;

fn view(shape: &[usize], strides: &[i64]) -> View {
    View { shape: shape.to_vec(), strides: strides.to_vec(), offset: 0 }
}

/// Numbers that compress to nothing and repeat nowhere, the same in every run.
fn noise(seed: u64, len: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect::<Vec<_>>().into()
}

fn region(large: usize) -> Region {
    let info = |name: &str| ValueInfo { name: name.into(), dtype: DType::F32, shape: vec![Dim::Symbolic("n".into())] };
    let binding = |id, claim, used: Option<(usize, View)>, layout: Option<&str>| Binding {
        id: ConstantId(id),
        claim,
        used: used.map(|(constant, view)| ConstantUse { constant, view }),
        layout: layout.map(Into::into),
    };
    Region {
        symbol: "byoc_main_acme_0".into(),
        backend: "acme".into(),
        backend_version: "2.1".into(),
        code_version: 3,
        abi_version: 1,
        domain: None,
        options: Options::default(),
        code: code_section("byoc_main_acme_0"),
        chosen: None,
        notes: Vec::new(),
        precision: None,
        strings: false,
        constants: vec![
            binding(0, ClaimKind::Host, Some((0, view(&[2, 3], &[3, 1]))), None),
            binding(1, ClaimKind::Host, Some((0, view(&[3, 2], &[1, 3]))), None),
            binding(2, ClaimKind::Packed, Some((1, view(&[large], &[1]))), Some("acme/1")),
            binding(3, ClaimKind::Embedded, None, None),
            binding(4, ClaimKind::Host, Some((2, view(&[0, 4], &[4, 1]))), None),
        ],
        inputs: vec![info("x")],
        outputs: vec![info("y")],
    }
}

fn entry() -> Entry {
    let ty = |shape: &[Dim]| ValueType { dtype: DType::F32, shape: shape.to_vec(), list: None };
    Entry {
        name: "main".into(),
        inputs: vec![Port { name: "x".into(), value: 0 }],
        outputs: vec![Port { name: "y".into(), value: 2 }, Port { name: "c".into(), value: 1 }],
        values: vec![ty(&[Dim::Symbolic("n".into())]), ty(&[3.into(), 2.into()]), ty(&[Dim::Symbolic("n".into())])],
        constants: vec![ConstantValue { value: 1, used: ConstantUse { constant: 0, view: view(&[3, 2], &[1, 3]) } }],
        calls: vec![Call { region: 0, inputs: vec![0], outputs: vec![2] }],
        ..Entry::default()
    }
}

/// The node of a region.
fn node() -> Vec<NodeSummary> {
    vec![NodeSummary { name: "n".into(), op: "MatMul".into() }]
}

/// One region that reads a matrix as it is, transposed and packed, and one output that is a constant.
fn sample(large: usize) -> Contents {
    let row = |id, fate, stored| LedgerRow {
        id,
        transposed: vec![],
        names: vec![format!("w{id}")],
        dtype: DType::F32,
        shape: vec![2, 3],
        bytes: 24,
        model_bytes: 24,
        digest: "00".into(),
        readers: vec!["byoc_main_acme_0".into()],
        owner: None,
        fate,
        stored,
        compiled_in: vec![],
        note: None,
    };
    let stored = |index, dtype, shape: &[usize], layout: Option<&str>, alignment| Stored {
        section: constant_section(index),
        dtype,
        shape: shape.to_vec(),
        layout: layout.map(Into::into),
        alignment,
        external: None,
    };
    let backend = BackendRequirement { name: "acme".into(), version: "2.1".into(), code_version: 3, abi_version: 1 };
    let manifest = Manifest {
        format: PLAIN_FORMAT,
        producer: "byoc test".into(),
        requirements: Requirements { backends: vec![backend], cpu_features: vec![] },
        entries: vec![entry()],
        regions: vec![region(large)],
        constants: vec![
            stored(0, DType::F32, &[2, 3], None, 0),
            stored(1, DType::U8, &[large], Some("acme/1"), 512),
            stored(2, DType::I64, &[0, 4], None, 0),
        ],
        files: vec![],
    };
    let ledger = vec![row(0, Fate::Stored, Some(0)), row(1, Fate::Packed, Some(1)), row(2, Fate::Stored, Some(2))];
    let mut contents = Contents { manifest, ledger, nodes: vec![node()], sections: vec![] };
    let sources = [noise(1, 24), noise(2, large), Bytes::new()];
    for (stored, bytes) in contents.manifest.constants.iter().zip(sources) {
        contents.sections.push(Section {
            name: stored.section.clone(),
            dtype: stored.dtype,
            shape: stored.shape.clone(),
            bytes,
            digest: None,
            alignment: stored.alignment,
        });
    }
    contents.sections.push(Section::of_bytes("code/byoc_main_acme_0", Bytes::from_static(b"machine code")));
    contents
}

fn silent() -> impl FnMut(usize, usize, &str) {
    |_, _, _| {}
}

fn bytes_of(contents: &Contents) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write::Plan::new(contents).expect("plan").stream(&mut out, &mut silent()).expect("stream");
    out.into_inner()
}

fn open(bytes: impl Into<Bytes>) -> crate::diagnostic::Result<Artifact> {
    Artifact::from_bytes(Path::new("m.byoc"), bytes.into())
}

/// The sample, opened.
pub(super) fn written(large: usize) -> Artifact {
    open(bytes_of(&sample(large))).expect("it opens")
}

#[test]
fn what_is_written_is_read_aligned_and_without_a_copy() {
    let contents = sample(70_001);
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.byoc");
    std::fs::write(&path, "old").expect("old");
    let mut steps = Vec::new();
    let size =
        contents.write(&path, &mut |done, total, name| steps.push((done, total, name.to_owned()))).expect("write");
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    assert_eq!(steps.last().map(|(done, total, _)| total - done), Some(1));
    let artifact = Artifact::open(&path).expect("open");
    assert_eq!(artifact.size(), size);
    assert_eq!(artifact.manifest(), &contents.manifest);
    assert_eq!(artifact.ledger().expect("it fits"), contents.ledger);
    artifact.verify_digests().expect("digests");
    for section in &contents.sections {
        assert_eq!(artifact.section(&section.name).expect("section"), section.bytes);
    }
    for section in artifact.sections() {
        let alignment = if section.name.starts_with(PAD) {
            1
        } else if section.bytes >= 1 << 20 {
            4096
        } else if section.bytes >= 4096 {
            256
        } else {
            64
        };
        assert_eq!(section.offset % alignment, 0, "{}", section.name);
        assert_eq!(section.digest.is_none(), section.name.starts_with(PAD));
    }
    let transposed = artifact.constant(&contents.manifest.entries[0].constants[0].used, "y").expect("constant");
    let original = artifact.section("const/0").expect("section");
    assert_eq!(transposed[4..8], original[12..16]);
    assert_eq!(
        artifact.section("const/9").expect_err("none").message,
        format!("'{}' has no section 'const/9'", path.display())
    );
}

#[test]
fn the_same_contents_give_the_same_bytes() {
    assert!(bytes_of(&sample(5000)) == bytes_of(&sample(5000)));
}

type Change = fn(&mut Contents);

/// Each change of the contents, and what is said of the file that it makes.
const UNFIT: [(Change, &str); 26] = [
    (|c| c.sections[0].shape = vec![7], "section 'const/0': f32[7] is not 24 bytes"),
    (|c| c.sections[1].alignment = 8192, "section 'const/1': cannot align to 8192"),
    (
        |c| {
            let twice = c.sections[3].clone();
            c.sections.push(twice)
        },
        "it has two sections 'code/byoc_main_acme_0'",
    ),
    (|c| c.sections[0].dtype = DType::I32, "section 'const/0': it is i32[2, 3], and the graph says f32[2, 3]"),
    (|c| c.sections[3].name = "code/x".into(), "it has no section 'code/byoc_main_acme_0'"),
    (|c| c.sections.push(Section::of_bytes("const/7", noise(7, 8))), "section 'const/7': nothing refers to it"),
    (|c| c.manifest.constants[2].section = "const/0".into(), "section 'const/0': two things refer to it"),
    (|c| c.manifest.constants[0].section = "code/x".into(), "it has no section 'code/x'"),
    (|c| c.manifest.constants[0].section = GRAPH.into(), "section 'graph': two things refer to it"),
    (
        |c| c.manifest.regions[0].code = "const/0".into(),
        "region 'byoc_main_acme_0': its code is in section 'const/0', which does not start with 'code/'",
    ),
    (
        |c| c.manifest.regions[0].code_version = 4,
        "region 'byoc_main_acme_0': its backend 'acme' is not among the requirements",
    ),
    (|c| c.manifest.regions[0].constants[1].id = ConstantId(0), "region 'byoc_main_acme_0': constant 0 is bound twice"),
    (
        |c| c.manifest.regions[0].constants[2].layout = None,
        "region 'byoc_main_acme_0': constant 2: its claim does not fit what is bound",
    ),
    (
        |c| c.manifest.regions[0].constants[3].claim = ClaimKind::Host,
        "region 'byoc_main_acme_0': constant 3: its claim does not fit what is bound",
    ),
    (
        |c| c.manifest.regions[0].constants[0].used = Some(ConstantUse { constant: 3, view: view(&[], &[]) }),
        "region 'byoc_main_acme_0': constant 0: it refers to constant 3 of 3",
    ),
    (
        |c| c.manifest.regions[0].constants[0].used = Some(ConstantUse { constant: 1, view: view(&[], &[]) }),
        "region 'byoc_main_acme_0': constant 0: it is claimed as the original, and 'const/1' is packed",
    ),
    (
        |c| c.manifest.regions[0].constants[0].used = Some(ConstantUse { constant: 0, view: view(&[7], &[1]) }),
        "region 'byoc_main_acme_0': constant 0: its view leaves the 6 elements of 'const/0'",
    ),
    (
        |c| c.manifest.entries[0].values[1].shape = vec![6.into()],
        "entry 'main': value 1 is not of the type of 'const/0'",
    ),
    (|c| c.manifest.entries[0].calls.clear(), "entry 'main': 'y' is value 2, which is not computed"),
    (
        |c| c.manifest.entries[0].calls[0].inputs = vec![2],
        "entry 'main': 'byoc_main_acme_0' reads value 2, which is not computed before it",
    ),
    (|c| c.manifest.entries[0].calls[0].outputs = vec![1], "entry 'main': value 1 is made twice"),
    (|c| c.manifest.entries[0].calls[0].region = 1, "entry 'main': it calls region 1 of 1"),
    (|c| c.manifest.entries[0].calls[0].outputs = vec![9], "entry 'main': it refers to value 9 of 3"),
    (
        |c| c.manifest.entries[0].values[2].dtype = DType::F16,
        "entry 'main': value 2 is not of the type that 'byoc_main_acme_0' has for 'y'",
    ),
    (|c| c.ledger[0].stored = None, "section 'const/0': the ledger has 0 rows for it, not 1"),
    (
        |c| {
            c.manifest.regions[0].constants.pop();
        },
        "section 'const/2': it has no reader",
    ),
];

#[test]
fn contents_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.byoc");
    for (change, expected) in UNFIT {
        let mut contents = sample(64);
        change(&mut contents);
        let error = contents.write(&path, &mut silent()).expect_err(expected);
        assert_eq!(error.message, format!("cannot write '{}': {expected}", path.display()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    }
}

/// A constant of elements that share bytes: other readers find its bytes, and no view of it moves elements.
#[test]
fn elements_that_share_bytes_stay_as_they_lie() {
    let plain = view(&[2, 3], &[3, 1]);
    let shared = |seen: View| {
        let mut contents = sample(64);
        (contents.manifest.constants[0].dtype, contents.sections[0].dtype) = (DType::U4, DType::U4);
        contents.sections[0].bytes = noise(1, 3);
        let bindings = contents.manifest.regions[0].constants.iter_mut().filter_map(|binding| binding.used.as_mut());
        bindings.filter(|used| used.constant == 0).for_each(|used| used.view = plain.clone());
        let entry = &mut contents.manifest.entries[0];
        let shape = seen.shape.iter().copied().map(Dim::Fixed).collect();
        entry.values[1] = ValueType { dtype: DType::U4, shape, list: None };
        entry.constants[0].used.view = seen;
        contents
    };
    let artifact = open(bytes_of(&shared(plain.clone()))).expect("opens");
    let section = artifact.sections().find(|section| section.name == "const/0").expect("it is stored");
    assert_eq!((section.dtype, section.shape, section.bytes), (DType::U8, &[3][..], 3));
    let used = &artifact.manifest().entries[0].constants[0].used;
    assert_eq!(artifact.constant(used, "c").expect("its elements"), noise(1, 3));
    for moved in [view(&[3, 2], &[1, 3]), View { offset: 2, ..view(&[2], &[1]) }, view(&[2, 3], &[0, 1])] {
        let cause = "entry 'main': its view of 'const/0' moves elements that share bytes";
        assert_eq!(write::Plan::new(&shared(moved)).err().as_deref(), Some(cause));
    }
}

/// The file with one section's or the header's text changed and every length kept.
fn patched(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes_of(&sample(64));
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("text");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

/// A piece of the file, what is put in its place, and what is then said.
const DAMAGE: [(&str, &str, &str); 8] = [
    (r#""byoc_format":"1""#, r#""byoc_format":"x""#, "'m.byoc' is damaged: its format is 'x'"),
    (r#""byoc_format":"#, r#""byoc_FORMAT":"#, "'m.byoc' is not an artifact: its header has no 'byoc_format'"),
    (
        r#""producer":"byoc"#,
        r#""producer":"acme"#,
        "'m.byoc' is damaged: section 'graph': its format and producer are not those of the header",
    ),
    (r#""b3:const/1""#, r#""b3:const/8""#, "'m.byoc' is damaged: section 'const/1': the header has no digest of it"),
    (
        r#""const/1":{"dtype":"U8""#,
        r#""const/1":{"dtype":"I8""#,
        "'m.byoc' is damaged: section 'const/1': it is i8[64], and the graph says u8[64]",
    ),
    (r#""const/0":{"#, r#""c0nst/0":{"#, "'m.byoc' is damaged: section 'c0nst/0': the header has no digest of it"),
    (r#""graph":{"#, r#""grape":{"#, "'m.byoc' is damaged: section 'grape': the header has no digest of it"),
    (
        r#""__pad__/0":{"dtype":"U8""#,
        r#""__pad__/0":{"dtype":"I8""#,
        "'m.byoc' is damaged: section '__pad__/0': it is not valid padding",
    ),
];

#[test]
fn damage_is_named() {
    for (from, to, expected) in DAMAGE {
        assert_eq!(open(patched(from, to)).expect_err(expected).message, expected);
    }
    let newer = open(patched(r#""byoc_format":"1""#, r#""byoc_format":"7""#)).expect_err("newer");
    assert_eq!(
        newer.to_string(),
        "[B603] 'm.byoc' is written in format 7; this byoc reads formats up to 2. Update byoc, or compile the model again with this one"
    );
    let mut bytes = bytes_of(&sample(64));
    let at = open(bytes.clone()).expect("sound").sections().find(|found| found.name == GRAPH).expect("graph").offset;
    bytes[at as usize + 9] ^= 1;
    let expected = "'m.byoc' is damaged: section 'graph': its bytes do not have the digest of the header";
    assert_eq!(open(bytes).expect_err(expected).message, expected);
    let cases = [("code/b", b"machine code".as_slice()), ("const/0", &noise(1, 24)), ("const/1", &noise(2, 64))];
    for (section, content) in cases {
        let mut bytes = bytes_of(&sample(64));
        let at = bytes.windows(content.len()).rposition(|window| window == content).expect("content");
        bytes[at] ^= 1;
        let error = open(bytes).expect("header and graph are sound").verify_digests().expect_err(section);
        let place = format!("'m.byoc' is damaged: section '{section}");
        assert!(error.message.starts_with(&place), "{error}");
        assert!(error.message.ends_with("its bytes do not have the digest of the header"), "{error}");
    }
}

/// What a reader gets: nothing, or exactly what was written.
fn same_or_refused(damaged: Vec<u8>, sound: &Artifact, names: &BTreeMap<String, Bytes>) {
    let Ok(artifact) = open(damaged) else { return };
    if artifact.verify_digests().is_err() {
        return;
    }
    assert_eq!(artifact.manifest(), sound.manifest());
    assert_eq!(artifact.sections().count(), sound.sections().count());
    for (name, bytes) in names {
        assert_eq!(&artifact.section(name).expect("section"), bytes);
    }
}

#[test]
fn no_change_of_any_byte_goes_unseen() {
    let bytes = bytes_of(&sample(64));
    let sound = open(bytes.clone()).expect("open");
    let names: BTreeMap<String, Bytes> =
        sound.sections().map(|info| (info.name.to_owned(), sound.section(info.name).expect("section"))).collect();
    let mut random = fastrand::Rng::with_seed(7);
    for at in 0..bytes.len() {
        for change in [1u8 << random.u8(..8), random.u8(..) | 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            same_or_refused(damaged, &sound, &names);
        }
    }
    for length in 0..bytes.len() {
        open(bytes[..length].to_vec()).expect_err("cut short");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    open(longer).expect_err("a byte too many");
}

/// A disk of that many bytes.
struct Full(u64, Cursor<Vec<u8>>);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.position() + bytes.len() as u64 > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1.seek(to)
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_strikes() {
    let whole = bytes_of(&sample(300_000)).len() as u64;
    for room in [0, 100, 4096, 5000, whole / 2, whole - 1] {
        let mut disk = Full(room, Cursor::default());
        let plan = write::Plan::new(&sample(300_000)).expect("plan");
        let error = plan.stream(&mut disk, &mut silent()).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn what_cannot_be_written_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().expect("folder");
    let place = dir.path().display();
    let error = sample(64).write(dir.path(), &mut silent()).expect_err("a folder");
    assert_eq!(error.message, format!("cannot write '{place}': it is not a regular file"));
    let error = sample(64).write(&dir.path().join("no/m.byoc"), &mut silent()).expect_err("no folder");
    assert!(error.message.starts_with(&format!("cannot write '{place}/no/m.byoc': No such file")), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    sample(64).write(Path::new("/dev/null"), &mut silent()).expect_err("a device");
}
