//! The rules of ownership, each on the smallest model that shows it.

mod external;

use std::sync::Arc;

use byoc_plugin_api::{Claim, ClaimSink, Constant, ConstantId, DType, Node, Options, Packed, Region, SCHEMA, Value};
use bytes::Bytes;

use super::*;
use crate::artifact::Artifact;
use crate::artifact::manifest::{ClaimKind, ConstantFile, External, Fate};
use crate::codegen::{Generated, GeneratedRegion, Recorder};
use crate::constants::{ConstantRef, View};
use crate::diagnostic::{Code, Result};
use crate::ir::{Graph, Model, TensorType, ValueId};
use crate::partition::RegionPlan;
use crate::spool::Spool;

/// Numbers that repeat nowhere, the same in every run.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

fn packed(layout: &str, shape: &[usize]) -> Claim {
    Claim::Packed(Packed::new(layout, DType::U8, shape).aligned(64))
}

/// What one backend does in one region: its code, and a claim (with packed bytes) for each constant it reads.
struct Case {
    backend: usize,
    code: Vec<u8>,
    claims: Vec<(ConstantRef, Claim, Vec<u8>)>,
}

impl Case {
    fn new(backend: usize, constant: &ConstantRef, claim: Claim) -> Case {
        Case { backend, code: b"code".to_vec(), claims: vec![(constant.clone(), claim, Vec::new())] }
    }

    fn packing(backend: usize, constant: &ConstantRef, claim: Claim, bytes: &[u8]) -> Case {
        Case { backend, code: b"code".to_vec(), claims: vec![(constant.clone(), claim, bytes.to_vec())] }
    }

    fn with_code(self, code: Vec<u8>) -> Case {
        Case { code, ..self }
    }
}

const NAMES: [&str; 2] = ["acme", "zeta"];

fn region(symbol: &str, constants: usize) -> Region {
    let value = |name: String| Value { name, dtype: DType::F32, shape: vec![1.into()] };
    let mut values = vec![value("x".into()), value("y".into())];
    values.extend((0..constants).map(|index| value(format!("w{index}"))));
    let node = Node {
        name: "n".into(),
        op: "Add".into(),
        domain: String::new(),
        inputs: vec![Some(0)],
        outputs: vec![Some(1)],
        attributes: Default::default(),
    };
    let constant = |index| Constant { id: ConstantId(index as u64), value: index + 2, inline: None, shared: false };
    Region {
        schema: SCHEMA.into(),
        symbol: symbol.into(),
        values,
        inputs: vec![0],
        outputs: vec![1],
        constants: (0..constants).map(constant).collect(),
        nodes: vec![node],
        ..Region::default()
    }
}

/// A chain of regions, x to y, over the constants of `model`.
fn generated(mut model: Model, cases: Vec<Case>) -> Generated {
    let mut spool = Spool::new(&crate::whole::Scratch::temporary()).expect("spool");
    let ty = Some(TensorType { dtype: DType::F32, shape: vec![1.into()] });
    let mut graph = Graph { name: "main".into(), ..Graph::default() };
    let mut last = graph.add_value("x", ty.clone());
    graph.inputs.push(last);
    let mut regions = Vec::new();
    for (index, case) in cases.into_iter().enumerate() {
        let symbol = format!("byoc_main_{}_{index}", NAMES[case.backend]);
        let region = region(&symbol, case.claims.len());
        let code = spool.append("code", &case.code).expect("code");
        let mut recorder = Recorder::new(&region, NAMES[case.backend], &mut spool);
        for (constant, (_, claim, bytes)) in region.constants.iter().zip(&case.claims) {
            recorder.claim(constant.id, claim).expect("claim");
            if !bytes.is_empty() {
                recorder.write(bytes).expect("write");
            }
        }
        let claims = recorder.finish(Ok(())).expect("claims");
        let next = graph.add_value(format!("y{index}"), ty.clone());
        let constants = case.claims.into_iter().map(|(constant, _, _)| constant).collect();
        let (inputs, outputs) = (vec![last], vec![next]);
        let plan = RegionPlan {
            entry: 0,
            backend: case.backend,
            nodes: Default::default(),
            region,
            constants,
            inputs,
            outputs,
        };
        regions.push(GeneratedRegion { plan, code, claims, notes: Vec::new() });
        last = next;
    }
    graph.outputs.push(last);
    // Constants that are outputs of the model stand in a graph that the test has prepared.
    if let Some(prepared) = model.entries.pop() {
        for &id in &prepared.outputs {
            let value = prepared.value(id).clone();
            graph.values.push(value);
            graph.outputs.push(ValueId(graph.values.len() - 1));
        }
    }
    model.entries = vec![graph];
    Generated { model: model.into(), regions, spool }
}

fn backends() -> Vec<BackendIdentity> {
    let identity = |name: &str| BackendIdentity {
        name: name.into(),
        version: "1.0".into(),
        code_version: 1,
        abi_version: 1,
        domain: None,
        options: Options::default(),
        candidates: false,
    };
    NAMES.into_iter().map(identity).collect()
}

fn settled(model: Model, cases: Vec<Case>) -> Result<Settled> {
    settle(generated(model, cases), &backends(), &SettleOptions::default())
}

/// A model with constants of that many random bytes each.
fn model(sizes: &[usize]) -> (Model, Vec<ConstantRef>) {
    let mut model = Model::default();
    let insert = |(index, &size): (usize, &usize)| {
        let bytes = Bytes::from(noise(index as u64 + 1, size));
        model.constants.insert(&format!("fc{index}.weight"), DType::U8, &[size], bytes)
    };
    let constants = sizes.iter().enumerate().map(insert).collect();
    (model, constants)
}

/// The rows without what is always the same: fate, section, readers, owner, note.
fn rows(settled: &Settled) -> Vec<String> {
    let row = |row: crate::artifact::manifest::LedgerRow| {
        let stored = row.stored.map(|stored| format!(" const/{stored}")).unwrap_or_default();
        let readers: Vec<_> = row.readers.iter().map(|name| name.trim_start_matches("byoc_main_")).collect();
        let owner = row.owner.unwrap_or_default();
        let note = row.note.map(|note| format!(" ({note})")).unwrap_or_default();
        format!("{}: {:?}{stored} [{}] {owner}{note}", row.id, row.fate, readers.join(" "))
    };
    settled.ledger().rows.into_iter().map(row).collect()
}

/// What a test does with a model of two constants of 2000 and 100 bytes.
type Cases = fn(&[ConstantRef]) -> Vec<Case>;

/// What is done, the rows of the ledger that follow, and the bytes that are stored.
const HOMES: [(&str, Cases, &[&str], u64); 13] = [
    (
        "one reader",
        |c| vec![Case::new(0, &c[0], Claim::Host)],
        &["0: Stored const/0 [acme_0] byoc", "1: Dropped [] "],
        2000,
    ),
    (
        "many readers",
        |c| vec![Case::new(0, &c[0], Claim::Host), Case::new(1, &c[0], Claim::Host)],
        &["0: Stored const/0 [acme_0 zeta_1] byoc", "1: Dropped [] "],
        2000,
    ),
    (
        "embedded only",
        |c| vec![Case::new(0, &c[0], Claim::Embedded)],
        &["0: Embedded [acme_0] acme", "1: Dropped [] "],
        0,
    ),
    (
        "embedded here, read there",
        |c| vec![Case::new(0, &c[0], Claim::Embedded), Case::new(1, &c[0], Claim::Host)],
        &["0: Stored const/0 [zeta_1] byoc (also embedded in the code of byoc_main_acme_0)", "1: Dropped [] "],
        2000,
    ),
    (
        "unused",
        |c| vec![Case::new(0, &c[0], Claim::Unused)],
        &["0: Dropped []  (claimed as unused by byoc_main_acme_0)", "1: Dropped [] "],
        0,
    ),
    (
        "packed only",
        |c| vec![Case::packing(0, &c[0], packed("a/1", &[3]), b"abc")],
        &["0: Packed const/0 [acme_0] acme", "1: Dropped [] "],
        3,
    ),
    (
        "packed twice the same",
        |c| {
            vec![
                Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"),
                Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"),
            ]
        },
        &["0: Packed const/0 [acme_0 acme_1] acme", "1: Dropped [] "],
        3,
    ),
    (
        "packed in two layouts",
        |c| {
            vec![
                Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"),
                Case::packing(1, &c[0], packed("z/1", &[4]), b"abcd"),
            ]
        },
        &[
            "0: Packed const/0 [acme_0] acme",
            "0: Packed const/1 [zeta_1] zeta (4 B more than one form alone)",
            "1: Dropped [] ",
        ],
        7,
    ),
    (
        "two layouts of equal bytes",
        |c| {
            vec![
                Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"),
                Case::packing(1, &c[0], packed("z/1", &[3]), b"abc"),
            ]
        },
        &["0: Packed const/0 [acme_0 zeta_1] acme", "1: Dropped [] "],
        3,
    ),
    (
        "packed and read",
        |c| vec![Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"), Case::new(1, &c[0], Claim::Host)],
        &[
            "0: Stored const/0 [zeta_1] byoc",
            "0: Packed const/1 [acme_0] acme (3 B more than the original alone)",
            "1: Dropped [] ",
        ],
        2003,
    ),
    (
        "packed into what it was",
        |c| vec![Case::packing(0, &c[0], packed("a/1", &[20, 100]), &noise(1, 2000)), Case::new(1, &c[0], Claim::Host)],
        &["0: Stored const/0 [zeta_1 acme_0] byoc", "1: Dropped [] "],
        2000,
    ),
    (
        "packed into another constant",
        |c| vec![Case::packing(0, &c[1], packed("a/1", &[2000]), &noise(1, 2000)), Case::new(1, &c[0], Claim::Host)],
        &[
            "0: Stored const/0 [zeta_1] byoc",
            "1: Viewed const/0 [acme_0] byoc (packed it has the bytes of another constant)",
        ],
        2000,
    ),
    (
        "views of one base",
        |c| {
            let view = |view| Case::new(0, &ConstantRef { base: c[0].base, view }, Claim::Host);
            vec![
                view(View::contiguous(&[20, 100])),
                view(View::contiguous(&[20, 100]).transpose(&[1, 0])),
                view(View { shape: vec![10], strides: vec![-1], offset: 99 }),
            ]
        },
        &["0: Stored const/0 [acme_0 acme_1 acme_2] byoc", "1: Dropped [] "],
        2000,
    ),
];

#[test]
fn every_stored_constant_has_one_home() {
    for (what, cases, expected, stored) in HOMES {
        let (model, constants) = model(&[2000, 100]);
        let settled = settled(model, cases(&constants)).expect(what);
        assert_eq!(rows(&settled), expected, "{what}");
        assert_eq!(settled.ledger().totals.stored, stored, "{what}");
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("m.byoc");
        let (contents, ledger) = settled.into_contents();
        contents.write(&path, &mut |_, _, _| {}).expect(what);
        let artifact = Artifact::open(&path).expect(what);
        artifact.verify_digests().expect(what);
        assert_eq!(Ledger::of(artifact.manifest()), ledger, "{what}");
    }
}

#[test]
fn sums_say_what_sharing_saves() {
    let (mut model, c) = model(&[2000, 100, 50]);
    model.constants.insert("tied.weight", DType::U8, &[2000], noise(1, 2000).into());
    model.constants.insert("tied.again", DType::U8, &[2000], noise(1, 2000).into());
    let cases = vec![
        Case::new(0, &c[0], Claim::Host),
        Case::new(1, &c[0], Claim::Host),
        Case::new(1, &c[1], Claim::Embedded),
        Case::packing(0, &c[0], packed("a/1", &[3]), b"abc"),
    ];
    let mut settled = settled(model, cases).expect("settled");
    settled.mark_folded([c[2].base, c[0].base]);
    let totals = settled.ledger().totals;
    assert_eq!(
        totals,
        Totals {
            unique: 2100,
            stored: 2003,
            external: 0,
            packed: 3,
            embedded: 100,
            folded: 50,
            dropped: 0,
            unshared: 6003
        }
    );
    assert_eq!(totals.saved(), 4000);
}

/// What the sections would take without deduplication, each case on constants of 2000 B (under two names) and of 100 B.
#[test]
fn without_deduplication_every_reader_and_every_name_has_a_copy() {
    type Cases = fn(&[ConstantRef]) -> Vec<Case>;
    let part = |shape: &[usize], strides: &[i64]| View { shape: shape.into(), strides: strides.into(), offset: 0 };
    let cases: [(&str, Cases, u64); 9] = [
        ("names", |c| vec![Case::new(0, &c[0], Claim::Host)], 4000),
        ("readers", |c| (0..3).map(|i| Case::new(i % 2, &c[0], Claim::Host)).collect(), 6000),
        ("packed, by names", |c| vec![Case::packing(0, &c[0], packed("a/1", &[300]), &noise(5, 300))], 600),
        (
            "packed, by readers",
            |c| (0..3).map(|i| Case::packing(i % 2, &c[0], packed("a/1", &[300]), &noise(5, 300))).collect(),
            900,
        ),
        (
            "packed and stored",
            |c| {
                let packing = Case::packing(0, &c[0], packed("a/1", &[300]), &noise(5, 300));
                vec![packing, Case::new(1, &c[0], Claim::Host)]
            },
            4300,
        ),
        ("embedded, by names", |c| vec![Case::new(0, &c[0], Claim::Embedded)], 2000),
        ("embedded by two", |c| (0..2).map(|i| Case::new(i, &c[0], Claim::Embedded)).collect(), 0),
        ("embedded and stored", |c| vec![Case::new(0, &c[1], Claim::Embedded), Case::new(1, &c[1], Claim::Host)], 100),
        ("dropped", |c| vec![Case::new(0, &c[0], Claim::Unused)], 0),
    ];
    for (what, cases, expected) in cases {
        let (mut model, c) = model(&[2000, 100]);
        model.constants.insert("tied.weight", DType::U8, &[2000], noise(1, 2000).into());
        let totals = settled(model, cases(&c)).expect(what).ledger().totals;
        assert_eq!(totals.unshared, expected, "{what}");
    }
    let views = [
        ("a slice", vec![part(&[10], &[1])], 100),
        ("slices", vec![part(&[60], &[1]), part(&[80], &[1])], 140),
        ("a broadcast", vec![part(&[5, 100], &[0, 1])], 500),
    ];
    for (what, views, expected) in views {
        let (model, c) = model(&[100]);
        let read = |view| Case::new(0, &ConstantRef { base: c[0].base, view }, Claim::Host);
        let totals = settled(model, views.into_iter().map(read).collect()).expect(what).ledger().totals;
        assert_eq!(totals.unshared, expected, "{what}");
    }
}

/// One element is stored, and the model has all of them, under each name.
#[test]
fn without_deduplication_a_splat_is_as_large_as_the_model_has_it() {
    let mut model = Model::default();
    let mut graph = Graph::default();
    for (name, shape) in [("zeros", vec![8, 8]), ("more", vec![100])] {
        let bytes = vec![0; shape.iter().product::<usize>() * 4];
        let constant = model.constants.insert(name, DType::F32, &shape, bytes.into());
        graph.add_constant(name, DType::F32, constant);
    }
    let id = graph.values[0].constant.clone().expect("a constant");
    graph.outputs.push(ValueId(0));
    model.entries.push(graph);
    let mut generated = generated(model, vec![Case::new(0, &id, Claim::Host)]);
    let model = Arc::make_mut(&mut generated.model);
    let more = model.constants.insert("more", DType::F32, &[100], vec![0; 400].into());
    model.entries[0].add_constant("more", DType::F32, more);
    let settled = settle(generated, &backends(), &SettleOptions::default()).expect("settled");
    let Ledger { rows, totals } = settled.ledger();
    assert_eq!((rows[0].bytes, rows[0].model_bytes), (4, 256 + 400));
    assert_eq!((totals.stored, totals.unshared), (4, 656));
}

#[test]
fn outputs_that_are_constants_keep_them() {
    let (mut model, c) = model(&[2000]);
    let mut graph = Graph::default();
    let id = graph.add_constant("copy", DType::U8, ConstantRef { base: c[0].base, view: View::contiguous(&[40, 50]) });
    graph.outputs.push(id);
    model.entries.push(graph);
    let settled = settled(model, vec![Case::new(0, &c[0], Claim::Embedded)]).expect("settled");
    assert_eq!(rows(&settled), ["0: Stored const/0 [main/copy] byoc (also embedded in the code of byoc_main_acme_0)"]);
    let manifest = settled.into_contents().0.manifest;
    let entry = &manifest.entries[0];
    assert_eq!((entry.outputs[1].value, entry.outputs[1].name.as_str()), (entry.constants[0].value, "copy"));
    assert_eq!(entry.values[entry.constants[0].value].shape, [40.into(), 50.into()]);
    assert_eq!(manifest.regions[0].constants[0].claim, ClaimKind::Embedded);
    assert_eq!(manifest.ledger[0].fate, Fate::Stored);
}

#[test]
fn splats_and_empty_constants_are_constants_too() {
    let mut model = Model::default();
    let zeros = model.constants.insert("zeros", DType::F32, &[8, 8], Bytes::from(vec![0; 256]));
    let empty = model.constants.insert("empty", DType::I64, &[0], Bytes::new());
    let scalar = model.constants.insert("scalar", DType::F32, &[], Bytes::from_static(&[0; 4]));
    let cases = [zeros, empty, scalar].iter().map(|c| Case::new(0, c, Claim::Host)).collect();
    let settled = settled(model, cases).expect("settled");
    assert_eq!(settled.ledger().totals.stored, 4);
    assert_eq!(rows(&settled), ["0: Stored const/0 [acme_0 acme_2] byoc", "1: Stored const/1 [acme_1] byoc"]);
}

/// What the audit says: an error, or (warnings, notes).
fn audited(claim: Claim, code: Vec<u8>, allow_duplicates: bool, other: Claim) -> Result<(Vec<String>, Vec<String>)> {
    let (model, c) = model(&[8192, 8192]);
    let bytes = if let Claim::Packed(_) = claim { noise(9, 2048) } else { vec![] };
    let cases = vec![
        Case::packing(0, &c[0], claim, &bytes).with_code(code),
        Case::new(1, &c[1], other),
        Case::new(1, &c[0], Claim::Unused),
    ];
    let settled =
        settle(generated(model, cases), &backends(), &SettleOptions { allow_duplicates, ..SettleOptions::default() })?;
    let warnings = settled.warnings().iter().map(|warning| warning.message.clone()).collect();
    let rows = settled.ledger().rows.into_iter();
    Ok((warnings, rows.filter_map(|row| Some(format!("{}: {}", row.names.first()?, row.note?))).collect()))
}

#[test]
fn code_that_holds_what_the_file_stores_is_found() {
    let (own, other) = (noise(1, 8192), noise(2, 8192));
    let with = |before: usize, copy: &[u8]| [noise(77, before).as_slice(), copy, b"tail"].concat();
    let layout = || packed("a/1", &[2048]);
    let start = "acme: region byoc_main_acme_0 embeds";
    let errors = [
        (Claim::Host, with(4096, &own), "`fc0.weight` (8.0 KiB) verbatim at offset 4096 and claims Host"),
        (Claim::Host, with(7, &own[3..1027]), "1.0 KiB of `fc0.weight` (8.0 KiB) verbatim at offset 7 and claims Host"),
        (layout(), with(0, &own), "`fc0.weight` (8.0 KiB) verbatim at offset 0 and claims Packed"),
        (
            layout(),
            with(5, &noise(9, 2048)),
            "`fc0.weight` (2.0 KiB) packed as 'a/1' verbatim at offset 5 and claims Packed",
        ),
        (
            Claim::Unused,
            with(1, &other),
            "`fc1.weight` (8.0 KiB) verbatim at offset 1, and another region's claim has it stored",
        ),
        (
            Claim::Host,
            with(1, &[&own[..], &other].concat()),
            "`fc0.weight` (8.0 KiB) verbatim at offset 1 and claims Host (and 1 more such copies)",
        ),
    ];
    for (claim, code, expected) in errors {
        let error = audited(claim.clone(), code.clone(), false, Claim::Host).expect_err(expected);
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::DuplicateConstant, format!("{start} {expected}").as_str())
        );
        let (warnings, _) = audited(claim, code, true, Claim::Host).expect("allowed");
        let first = expected.trim_end_matches(" (and 1 more such copies)");
        assert_eq!(warnings[0], format!("{start} {first}"));
    }
    let place = "stands verbatim at offset 9 in the code of byoc_main_acme_0";
    let notes: [(Claim, Vec<u8>, Option<String>); 6] = [
        (Claim::Embedded, with(9, &own), Some(format!("fc0.weight: it {place}, as it claims"))),
        (Claim::Embedded, with(9, &own[..2048]), Some(format!("fc0.weight: 2.0 KiB of it {place}, as it claims"))),
        (
            Claim::Unused,
            with(9, &own),
            Some(format!(
                "fc0.weight: claimed as unused by byoc_main_acme_0, byoc_main_zeta_2; it {place}, and claims Unused"
            )),
        ),
        (Claim::Unused, with(9, &other), Some(format!("fc1.weight: it {place}, which was not given it"))),
        (Claim::Host, with(9, &own[..1023]), None),
        (Claim::Host, vec![0; 9000], None),
    ];
    for (claim, code, expected) in notes {
        let (warnings, notes) = audited(claim, code, false, Claim::Embedded).expect("no error");
        assert!(warnings.is_empty(), "{warnings:?}");
        let Some(expected) = expected else {
            assert!(notes.is_empty(), "{notes:?}");
            continue;
        };
        assert!(notes.contains(&expected), "{notes:?}");
    }
}
