//! Regions of a backend with limits: where they start, how much they read, and what the backend says of what was merged.

mod greedy;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, Constants, Description, Environment, Error, Executable, Options, Pattern, Refusal,
    RefusalCode, Region, RegionPolicy,
};

use super::testing::graph;
use super::{Crashes, explain, partition};
use crate::codegen;
use crate::ir::{Model, TypedModel};
use crate::plugin::{Origin, Registered, Selected, embedded};
use crate::spool::Spool;
use crate::whole::Scratch;

/// Takes operators by name, up to a number of nodes in a region, and counts how often it is asked.
#[derive(Default)]
struct Taker {
    name: &'static str,
    ops: &'static [&'static str],
    regions: RegionPolicy,
    most: Option<usize>,
    refuses_with: Option<RefusalCode>,
    asked: AtomicUsize,
    domain: Option<&'static str>,
    host: bool,
}

impl Backend for Taker {
    fn describe(&self) -> Description {
        let (name, regions, host) = (self.name.to_owned(), self.regions.clone(), self.host);
        Description { name, regions, domain: self.domain.map(str::to_owned), host, ..Description::default() }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(self.ops.iter().map(|op| Pattern::new(*op, format!("({op} ...)"))).collect())
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.most {
            Some(most) if candidate.nodes.len() > most => {
                let code = self.refuses_with.unwrap_or(RefusalCode::Other);
                Err(Refusal::new(code, format!("{} nodes, at most {most}", candidate.nodes.len())))
            }
            _ => Ok(()),
        }
    }

    fn codegen(&self, _: &Region, _: &Constants<'_>, _: &Options, code: &mut dyn Write) -> Result<(), Error> {
        Ok(code.write_all(self.name.as_bytes())?)
    }

    fn constant_updater(
        &self,
        _: &Region,
        _: &Constants<'_>,
        _: &[u8],
        _: &Options,
        _: &mut Claims<'_>,
    ) -> Result<(), Error> {
        unreachable!("no region has constants")
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        unreachable!("nothing is run")
    }
}

/// As an accelerator for convolutional networks: regions start with a convolution and have one input.
fn accelerator() -> Taker {
    let starts_with = vec!["Conv".to_owned()];
    Taker {
        name: "npu",
        ops: &["Conv", "Relu", "Add", "MaxPool", "Concat", "Softmax"],
        regions: RegionPolicy { merge: true, max_inputs: Some(1), starts_with, ..RegionPolicy::default() },
        ..Taker::default()
    }
}

/// Operator, inputs, outputs.
type Node = (&'static str, Vec<&'static str>, Vec<&'static str>);

struct Cut {
    /// The operators of each region of the first backend.
    regions: Vec<String>,
    /// Nodes that it does not have, with the reason.
    refused: Vec<(String, String)>,
    /// How often it was asked.
    asked: usize,
}

fn cut(backend: Taker, inputs: &[&str], nodes: &[Node], outputs: &[&str]) -> Cut {
    try_cut(backend, inputs, nodes, outputs).expect("partitions")
}

fn try_cut(backend: Taker, inputs: &[&str], nodes: &[Node], outputs: &[&str]) -> crate::diagnostic::Result<Cut> {
    let model = Model { entries: vec![graph(inputs, nodes, outputs)], ..Model::default() };
    let backend: &'static Taker = Box::leak(Box::new(backend));
    let backends = [selected(backend)];
    let partitioned = partition(TypedModel(model.into()), &backends, &Crashes::default())?;
    let graph = &partitioned.model.entries[0];
    let ops =
        |plan: &super::RegionPlan| plan.nodes.iter().map(|&node| graph.nodes[node].op.as_str()).collect::<Vec<_>>();
    let rows = explain(&partitioned, &backends).into_iter();
    Ok(Cut {
        regions: partitioned.regions.iter().map(|plan| ops(plan).join(" ")).collect(),
        refused: rows
            .flat_map(|row| row.refused.into_iter().map(move |(_, reason)| (row.op.clone(), reason)))
            .collect(),
        asked: backend.asked.load(Ordering::Relaxed),
    })
}

fn selected(backend: &'static Taker) -> Selected {
    let registered = Registered {
        description: backend.describe(),
        origin: Origin::Embedded,
        abi_version: 1,
        backend: embedded(backend).expect("a backend"),
    };
    Selected { registered, options: Options::default() }
}

fn start(op: &str) -> (String, String) {
    (op.to_owned(), format!("region_start: the region would start with {op}, not with Conv"))
}

/// `n` convolutions, one behind the other.
fn chain(names: &'static [&'static str]) -> Vec<Node> {
    names.windows(2).map(|pair| ("Conv", vec![pair[0]], vec![pair[1]])).collect()
}

#[test]
fn a_residual_block_is_one_region() {
    let nodes = [
        ("Conv", vec!["x"], vec!["a"]),
        ("Conv", vec!["a"], vec!["b"]),
        ("Add", vec!["a", "b"], vec!["c"]),
        ("Relu", vec!["c"], vec!["y"]),
    ];
    let cut = cut(accelerator(), &["x"], &nodes, &["y"]);
    assert_eq!(cut.regions, ["Conv Conv Add Relu"]);
    assert_eq!(cut.refused, []);
}

#[test]
fn branches_from_the_input_meet_in_one_region() {
    let nodes = [
        ("Conv", vec!["x"], vec!["a"]),
        ("Relu", vec!["a"], vec!["b"]),
        ("Conv", vec!["x"], vec!["c"]),
        ("Concat", vec!["b", "c"], vec!["d"]),
        ("MaxPool", vec!["d"], vec!["e"]),
        ("Conv", vec!["e"], vec!["f"]),
        ("Concat", vec!["f", "d"], vec!["g"]),
        ("Softmax", vec!["g"], vec!["y"]),
    ];
    let cut = cut(accelerator(), &["x"], &nodes, &["y"]);
    assert_eq!(cut.regions, ["Conv Relu Conv Concat MaxPool Conv Concat Softmax"]);
}

/// The branches are one group only when the second convolution of `c` brings them together, behind the node that needs it.
#[test]
fn a_later_merge_makes_an_earlier_one_possible() {
    let nodes = [
        ("Conv", vec!["x"], vec!["a"]),
        ("Conv", vec!["x"], vec!["b"]),
        ("Add", vec!["a", "b"], vec!["c"]),
        ("Conv", vec!["a", "b"], vec!["d"]),
        ("Relu", vec!["d"], vec!["y"]),
    ];
    let unlimited = RegionPolicy { max_inputs: None, ..accelerator().regions };
    let cut = cut(Taker { regions: unlimited, ..accelerator() }, &["x"], &nodes, &["c", "y"]);
    assert_eq!(cut.regions, ["Conv Conv Add Conv Relu"]);
}

#[test]
fn regions_begin_where_they_may() {
    let nodes = [
        ("MaxPool", vec!["x"], vec!["a"]),
        ("Relu", vec!["a"], vec!["b"]),
        ("Conv", vec!["b"], vec!["c"]),
        ("Relu", vec!["c"], vec!["y"]),
    ];
    let cut = cut(accelerator(), &["x"], &nodes, &["y"]);
    assert_eq!(cut.regions, ["Conv Relu"]);
    assert_eq!(cut.refused, [start("MaxPool"), start("Relu")]);
}

#[test]
fn what_stands_behind_another_backend_is_given_back() {
    let nodes = [
        ("Conv", vec!["x"], vec!["a"]),
        ("Exp", vec!["a"], vec!["b"]),
        ("Softmax", vec!["b"], vec!["c"]),
        ("Conv", vec!["c"], vec!["y"]),
    ];
    let cut = cut(accelerator(), &["x"], &nodes, &["a", "y"]);
    assert_eq!(cut.regions, ["Conv", "Conv"]);
    assert_eq!(cut.refused, [("Exp".into(), "no pattern matches".into()), start("Softmax")]);
}

#[test]
fn a_region_has_as_many_inputs_as_it_may() {
    let nodes = || {
        [
            ("Conv", vec!["x"], vec!["a"]),
            ("Conv", vec!["z"], vec!["b"]),
            ("Add", vec!["a", "b"], vec!["c"]),
            ("Relu", vec!["c"], vec!["y"]),
        ]
    };
    let one = cut(accelerator(), &["x", "z"], &nodes(), &["y"]);
    assert_eq!(one.regions, ["Conv", "Conv"]);
    assert_eq!(one.refused, [start("Add"), start("Relu")]);
    let any_start = RegionPolicy { starts_with: Vec::new(), ..accelerator().regions };
    let any = cut(Taker { regions: any_start.clone(), ..accelerator() }, &["x", "z"], &nodes(), &["y"]);
    assert_eq!(any.regions, ["Conv", "Conv", "Relu"]);
    let reason = "region_inputs: the region would have 2 tensor inputs, at most 1";
    assert_eq!(any.refused, [("Add".to_owned(), reason.to_owned())]);
    let alone = RegionPolicy { merge: false, ..any_start };
    let alone = cut(Taker { regions: alone, ..accelerator() }, &["x", "z"], &nodes(), &["y"]);
    assert_eq!((alone.regions, alone.refused), (any.regions, any.refused));
    let two = RegionPolicy { max_inputs: Some(2), ..accelerator().regions };
    let two = cut(Taker { regions: two, ..accelerator() }, &["x", "z"], &nodes(), &["y"]);
    assert_eq!(two.regions, ["Conv Conv Add Relu"]);
}

#[test]
fn a_backend_may_refuse_what_was_merged() {
    let regions = RegionPolicy { check_merged: true, ..accelerator().regions };
    let small = || Taker { regions: regions.clone(), most: Some(4), ..accelerator() };
    let long = cut(small(), &["a"], &chain(&["a", "b", "c", "d", "e", "f", "g", "h"]), &["h"]);
    assert_eq!(long.regions, ["Conv Conv Conv Conv", "Conv Conv Conv"]);
    // Each node alone, each with the region before it, and the two regions together.
    assert_eq!(long.asked, 7 + 6 + 1);
    let mut nodes = chain(&["a", "b", "c", "d", "e"]);
    nodes.push(("Relu", vec!["e"], vec!["y"]));
    let cut = cut(small(), &["a"], &nodes, &["y"]);
    assert_eq!(cut.regions, ["Conv Conv Conv Conv"]);
    let reason = format!("{}; merged with its neighbours: other: 5 nodes, at most 4", start("Relu").1);
    assert_eq!(cut.refused, [("Relu".to_owned(), reason)]);
}

#[test]
fn a_backend_that_cannot_answer_about_what_was_merged_ends_the_compile() {
    let regions = RegionPolicy { check_merged: true, ..accelerator().regions };
    for (code, message) in [
        (RefusalCode::Failed, "backend 'npu' failed while it checked node 'Conv_2': 3 nodes, at most 2"),
        (RefusalCode::Crashed, "backend 'npu' 3 nodes, at most 2 while checking node 'Conv_2'"),
    ] {
        let backend = Taker { regions: regions.clone(), most: Some(2), refuses_with: Some(code), ..accelerator() };
        let error = try_cut(backend, &["a"], &chain(&["a", "b", "c", "d"]), &["d"]).err().expect("no answer");
        assert_eq!(error.message, message);
    }
}

/// Without limits a group of unrelated nodes is one region, as far as no other backend stands between them.
#[test]
fn without_limits_everything_fits_together() {
    let nodes = [
        ("Relu", vec!["x"], vec!["a"]),
        ("Exp", vec!["a"], vec!["b"]),
        ("Add", vec!["a", "b"], vec!["c"]),
        ("Relu", vec!["z"], vec!["d"]),
    ];
    let regions = RegionPolicy { merge: true, ..RegionPolicy::default() };
    let cut = cut(Taker { regions, ..accelerator() }, &["x", "z"], &nodes, &["c", "d"]);
    assert_eq!(cut.regions, ["Relu Relu", "Add"]);
}

/// The operators of each region, with the backend's name before them.
fn placed(backends: [Taker; 3], nodes: &[Node], outputs: &[&str]) -> Vec<String> {
    let model = Model { entries: vec![graph(&["x"], nodes, outputs)], ..Model::default() };
    let backends = backends.map(|backend| selected(Box::leak(Box::new(backend))));
    let partitioned = partition(TypedModel(model.into()), &backends, &Crashes::default()).expect("partitions");
    let graph = &partitioned.model.entries[0];
    let text = |plan: &super::RegionPlan| {
        let ops: Vec<_> = plan.nodes.iter().map(|&node| graph.nodes[node].op.as_str()).collect();
        format!("{}: {}", backends[plan.backend].name(), ops.join(" "))
    };
    partitioned.regions.iter().map(text).collect()
}

/// Whatever their order: one backend of a device takes products, another one the rest.
#[test]
fn a_reshape_stays_on_the_device_where_a_neighbour_is_there() {
    let products = |domain| Taker { name: "products", ops: &["Gemm"], domain, ..Taker::default() };
    let regions = RegionPolicy { merge: true, ..RegionPolicy::default() };
    let rest = |domain| Taker {
        name: "rest",
        ops: &["Identity", "Relu"],
        regions: regions.clone(),
        domain,
        ..Taker::default()
    };
    let host = || Taker { name: "host", ops: &["Gemm", "Identity", "Relu", "Softmax"], host: true, ..Taker::default() };
    let between = [("Gemm", vec!["x"], vec!["a"]), ("Identity", vec!["a"], vec!["b"]), ("Gemm", vec!["b"], vec!["y"])];
    let on_device = ["products: Gemm", "rest: Identity", "products: Gemm"];
    let gpu = Some("gpu");
    assert_eq!(placed([products(gpu), rest(gpu), host()], &between, &["y"]), on_device);
    assert_eq!(placed([rest(gpu), products(gpu), host()], &between, &["y"]), on_device);
    // Another device is as far as the host, and so is what has no domain.
    let apart = ["products: Gemm", "host: Identity", "products: Gemm"];
    assert_eq!(placed([products(gpu), rest(Some("npu")), host()], &between, &["y"]), apart);
    assert_eq!(placed([products(None), rest(None), host()], &between, &["y"]), apart);
    // The neighbour of one that stays may stay; one between nodes of the host may not.
    let behind = [
        ("Gemm", vec!["x"], vec!["a"]),
        ("Identity", vec!["a"], vec!["b"]),
        ("Identity", vec!["b"], vec!["c"]),
        ("Softmax", vec!["c"], vec!["d"]),
        ("Identity", vec!["d"], vec!["e"]),
        ("Softmax", vec!["e"], vec!["y"]),
    ];
    let expected = ["products: Gemm", "rest: Identity Identity", "host: Softmax", "host: Identity", "host: Softmax"];
    assert_eq!(placed([products(gpu), rest(gpu), host()], &behind, &["y"]), expected);
    let single = Taker { name: "single", ops: &["Identity"], domain: gpu, ..Taker::default() };
    let alone =
        ["products: Gemm", "single: Identity", "single: Identity", "host: Softmax", "host: Identity", "host: Softmax"];
    assert_eq!(placed([products(gpu), single, host()], &behind, &["y"]), alone);
}

/// A backend is not asked where the weights of a region live that has none.
#[test]
fn nothing_is_claimed_where_there_are_no_constants() {
    let model = Model { entries: vec![graph(&["x"], &[("Relu", vec!["x"], vec!["y"])], &["y"])], ..Model::default() };
    let backends = [selected(Box::leak(Box::new(Taker { name: "plain", ops: &["Relu"], ..Taker::default() })))];
    let partitioned = partition(TypedModel(model.into()), &backends, &Crashes::default()).expect("partitions");
    let spool = Spool::new(&Scratch::temporary()).expect("a file");
    let generated = codegen::generate(partitioned, &backends, spool, &mut |_, _, _| ());
    let generated = generated.map_err(|failure| failure.diagnostic).expect("code");
    assert_eq!(generated.regions.len(), 1);
    assert_eq!(generated.spool.bytes(generated.regions[0].code).expect("code"), "plain");
    assert!(generated.regions[0].claims.is_empty());
}
