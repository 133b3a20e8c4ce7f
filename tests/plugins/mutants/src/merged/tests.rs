//! A region gives what its nodes give one by one, and every bug shows in one of these regions.

use std::collections::BTreeMap;

use byoc_plugin_api::testing::{RegionBuilder, Tensor, run};

use super::{BUGS, Merged};

/// Regions, a node each line. `x` and `y` are inputs of some rows of 4, `r` is an input of one row; `w` and `v` are weights,
/// `b` and `c` rows that are constants. Names behind `->` are outputs.
const REGIONS: &[(&str, &str)] = &[
    ("residual", "s = Relu x; m = MatMul s w; t = Sigmoid m; z = Add t s -> z"),
    ("residual with both ends", "s = Relu x; m = MatMul s w; t = Sigmoid m; z = Add t s -> s z"),
    ("outputs in another order", "s = Relu x; t = Neg s; u = Sigmoid x -> u t s"),
    ("diamond", "s = Relu x; t = Sigmoid x; z = Sub s t; n = Neg z -> n"),
    ("two products", "m = MatMul x w; n = MatMul m v; a = Add n b; d = Add a c; z = Relu d -> z"),
    ("squares", "s = Neg x; q = Mul s s; d = Add q q; z = Sub c d -> q z"),
    ("value that is read later", "s = Sigmoid x; t = Add s y; z = Mul s t -> z"),
    ("broadcast inner value", "s = Neg r; z = Add s x -> z"),
    ("relu that is not alone", "n = Neg x; s = Relu n; z = Sub n s -> z"),
    ("input that is read again late", "n = Neg y; s = Add n x; z = Mul s y -> z"),
    ("constant that is read twice", "m = Mul x c; z = Add m c -> z"),
    ("relu at the end", "s = Add x y; m = MatMul s w; z = Relu m -> z"),
    ("product and sum", "m = Mul x y; s = Add m x; z = Sub s m -> z"),
    ("sigmoid of sigmoid", "s = Sigmoid x; z = Sigmoid s -> z"),
    ("long", "a = Neg x; d = Sigmoid a; e = Mul d y; f = Neg e; g = Sigmoid f; h = Add g a; z = Sub h e -> z h"),
];

/// A region of some rows.
fn build(text: &str) -> RegionBuilder {
    let (nodes, outputs) = text.split_once("->").expect("outputs");
    let mut net = RegionBuilder::new("mutant-merged");
    let mut values = BTreeMap::new();
    for node in nodes.split(';') {
        let (name, node) = node.trim().split_once(" = ").expect("a node");
        let mut words = node.split_whitespace();
        let op = words.next().expect("an operator");
        let operands: Vec<usize> = words.map(|word| operand(&mut net, &mut values, word)).collect();
        let is_row = operands.iter().all(|&value| net.ty(value).shape.len() == 1);
        let value = net.node(op, &operands, if is_row { "f32[4]" } else { "f32[n,4]" }, "");
        values.insert(name.to_owned(), value);
    }
    let outputs: Vec<usize> = outputs.split_whitespace().map(|name| values[name]).collect();
    net.with(&outputs)
}

fn operand(net: &mut RegionBuilder, values: &mut BTreeMap<String, usize>, name: &str) -> usize {
    if let Some(&value) = values.get(name) {
        return value;
    }
    let value = match name {
        "x" | "y" => net.input("f32[n,4]"),
        "r" => net.input("f32[4]"),
        "w" | "v" => net.weight("f32[4,4]"),
        _ => net.weight("f32[4]"),
    };
    values.insert(name.to_owned(), value);
    value
}

/// The outputs of a region that is run with one number of rows and then with another.
fn outputs(net: &RegionBuilder, bug: &str) -> Vec<Vec<f32>> {
    let compiled = net.compile(&Merged, &[("bug", bug)]).expect("it is taken");
    let mut loaded = compiled.load(1).expect("it loads");
    let mut found = Vec::new();
    for rows in [2, 3] {
        let symbols = [("n", rows)];
        let results = run(net, loaded.as_mut(), &net.inputs(rows as u64, &symbols), &symbols).expect("it runs");
        found.extend(results.iter().map(Tensor::to_vec::<f32>));
    }
    found
}

/// The same, of regions of one node each.
fn one_by_one(net: &RegionBuilder) -> Vec<Vec<f32>> {
    let mut found = Vec::new();
    for rows in [2, 3] {
        let symbols = [("n", rows)];
        let region = &net.region;
        let mut known: BTreeMap<usize, Tensor> = BTreeMap::new();
        known.extend(region.inputs.iter().copied().zip(net.inputs(rows as u64, &symbols)));
        known.extend(region.constants.iter().map(|constant| constant.value).zip(net.constants.iter().cloned()));
        for node in &region.nodes {
            let mut alone = RegionBuilder::new("mutant-merged");
            let operands: Vec<Tensor> = node.inputs.iter().flatten().map(|value| known[value].clone()).collect();
            let inputs: Vec<usize> =
                operands.iter().map(|tensor| alone.input((tensor.dtype(), tensor.sizes()))).collect();
            let result = node.output(0).expect("a result");
            let value = alone.node(&node.op, &inputs, (operands[0].dtype(), net.sizes_for(result, &symbols)), "");
            let results = alone.with(&[value]).results(&Merged, &[], &operands, &[]);
            known.insert(result, results[0].clone());
        }
        found.extend(region.outputs.iter().map(|value| known[value].to_vec::<f32>()));
    }
    found
}

/// Whether two lists of outputs are the same, NaN of outputs that were not written included.
fn is_same(left: &[Vec<f32>], right: &[Vec<f32>]) -> bool {
    let close = |a: &f32, b: &f32| (a - b).abs() <= 1e-6;
    left.iter().flatten().zip(right.iter().flatten()).all(|(a, b)| close(a, b))
}

#[test]
fn a_region_gives_what_its_nodes_give() {
    for (name, text) in REGIONS {
        let net = build(text);
        assert!(is_same(&outputs(&net, "none"), &one_by_one(&net)), "{name}");
    }
}

#[test]
fn every_bug_shows() {
    for (bug, _) in &BUGS[1..] {
        let shows = |text: &str| {
            let net = build(text);
            !is_same(&outputs(&net, bug), &outputs(&net, "none"))
        };
        let found: Vec<_> = REGIONS.iter().filter(|(_, text)| shows(text)).map(|(name, _)| *name).collect();
        assert!(!found.is_empty(), "{bug} shows in no region");
        assert!(found.len() < REGIONS.len(), "{bug} shows everywhere");
    }
}
