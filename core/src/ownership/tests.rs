//! The rules of ownership, each on the smallest model that shows it.

mod external;

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
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
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
