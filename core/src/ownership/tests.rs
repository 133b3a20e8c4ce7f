//! Which constants the artifact refers to in the model's files, and which it stores all the same. The rules of ownership are
//! in `tests/filetests/settle` and `ledger`, each on the smallest model that shows it.

use std::path::Path;

use byoc_plugin_api::{Claim, ClaimSink, Constant, ConstantId, DType, Node, Options, Packed, Region, SCHEMA, Value};
use bytes::Bytes;

use super::*;
use crate::artifact::Artifact;
use crate::artifact::manifest::{ConstantFile, External};
use crate::codegen::{Generated, GeneratedRegion, Recorder, RegionConstant};
use crate::constants::ConstantRef;
use crate::diagnostic::{Code, Result};
use crate::ir::{self, Graph, Model, SourceFile, TensorType};
use crate::partition::RegionPlan;
use crate::plugin::BackendIdentity;
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
}

const NAMES: [&str; 2] = ["acme", "zeta"];

fn region(symbol: &str, constants: usize) -> Region {
    let value = |name: String| Value { name, dtype: DType::F32, shape: vec![1.into()] };
    let mut values = vec![value("x".into()), value("y".into())];
    values.extend((0..constants).map(|index| value(format!("w{index}"))));
    let node = Node {
        name: "n".into(),
        op: "Add".into(),
        inputs: vec![Some(0)],
        outputs: vec![Some(1)],
        attributes: Default::default(),
        ..Node::default()
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
    let mut spool = Spool::new(&crate::atomic_file::Scratch::temporary()).expect("spool");
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
        let sources: Vec<_> = case.claims.into_iter().map(|(constant, _, _)| constant).collect();
        let constants = region.constants.iter().zip(&sources).zip(claims);
        let constants = constants.map(|((constant, source), claim)| RegionConstant {
            id: constant.id,
            source: source.clone(),
            claim,
        });
        let constants = constants.collect();
        let (inputs, outputs) = (vec![last], vec![next]);
        let plan = RegionPlan {
            entry: 0,
            backend: case.backend,
            nodes: Default::default(),
            region,
            constants: sources,
            inputs,
            outputs,
        };
        regions.push(GeneratedRegion { plan, code, constants, notes: Vec::new() });
        graph.nodes.push(ir::Node {
            name: symbol,
            op: "Relu".into(),
            inputs: vec![Some(last)],
            outputs: vec![Some(next)],
            attributes: Default::default(),
            ..ir::Node::default()
        });
        last = next;
    }
    graph.outputs.push(last);
    model.entries = vec![graph];
    Generated { model: model.into(), regions, control: Vec::new(), spool }
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
        precision: Vec::new(),
    };
    NAMES.into_iter().map(identity).collect()
}

/// Settles the cases with `sources` as the files that the model was read from; the artifact's folder is `folder`.
fn referring(mut model: Model, sources: Vec<SourceFile>, cases: Vec<Case>, dir: &Path) -> Result<Settled> {
    model.sources = sources;
    let options = SettleOptions { refer_from: Some(dir.to_owned()), ..SettleOptions::default() };
    let generated = generated(model, cases);
    settle(&generated, &Storage::find(&generated)?, &backends(), &options)
}

/// A file of `folder` with that content, as the importer has it.
fn source(dir: &Path, name: &str, content: &[u8]) -> SourceFile {
    std::fs::write(dir.join(name), content).expect("write");
    let path = dir.canonicalize().expect("a folder").join(name);
    SourceFile { path, bytes: Bytes::copy_from_slice(content), role: "a model" }
}

#[test]
fn what_stands_in_a_source_file_is_referred_to() {
    let dir = tempfile::tempdir().expect("folder");
    let inner = dir.path().join("out");
    std::fs::create_dir(&inner).expect("folder");
    let first = source(dir.path(), "first.onnx", &noise(7, 20_000));
    let second = source(dir.path(), "second.data", &noise(8, 9000));
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
    let dir = tempfile::tempdir().expect("folder");
    let one = source(dir.path(), "shared.data", &noise(7, 20_000));
    let two = SourceFile { bytes: Bytes::copy_from_slice(&one.bytes), ..one.clone() };
    let mut model = Model::default();
    let mut add = |name: &str, bytes: Bytes| model.constants.insert(name, DType::U8, &[bytes.len()], bytes);
    let constants = [add("a", one.bytes.slice(..5000)), add("b", two.bytes.slice(5000..10_000))];
    let cases = constants.iter().map(|constant| Case::new(0, constant, Claim::Host)).collect();
    let settled = referring(model, vec![one, two], cases, dir.path()).expect("settled");
    let manifest = settled.into_contents().0.manifest;
    assert_eq!(manifest.files, [ConstantFile { path: "shared.data".into(), bytes: 20_000 }]);
    let places: Vec<_> = manifest.constants.iter().map(|stored| stored.place(&manifest.files)).collect();
    assert_eq!(places, ["shared.data@0", "shared.data@5000"]);
}

#[test]
fn what_cannot_be_read_again_is_not_referred_to() {
    let dir = tempfile::tempdir().expect("folder");
    let mut pipe = source(dir.path(), "pipe", &noise(7, 5000));
    pipe.path = "/dev/null".into();
    let mut model = Model::default();
    let constant = model.constants.insert("w", DType::U8, &[5000], pipe.bytes.clone());
    let error = referring(model, vec![pipe], vec![Case::new(0, &constant, Claim::Host)], dir.path());
    let error = error.expect_err("a device");
    assert_eq!(error.code, Code::ConstantSource);
    assert_eq!(error.message, "the artifact cannot refer to '/dev/null': it is not a regular file");
}
