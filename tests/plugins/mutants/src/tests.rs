//! The tables of bugs are true: what they name is planted, and what is planted is named.

use std::collections::BTreeSet;
use std::path::Path;

use byoc_plugin_api::testing::{self, RegionBuilder, Tensor, run};
use byoc_plugin_api::{Attribute, OptionKind};

/// The text of every source file, those of folders included.
fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![std::fs::read_to_string(&path).expect("a source file")],
        })
        .collect()
}

/// The bugs of every backend but `none`, from what byoc is told.
fn bugs() -> Vec<String> {
    let mut bugs = Vec::new();
    for backend in byoc_plugin_api::registered() {
        let description = backend.describe();
        assert_eq!(description.options[0].default, "none", "{}", description.name);
        let OptionKind::Choice(names) = &description.options[0].kind else { panic!("bugs are a choice") };
        let once: BTreeSet<_> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "{}", description.name);
        bugs.extend(names[1..].iter().cloned());
    }
    bugs
}

#[test]
fn every_bug_is_planted() {
    let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).concat();
    let bugs = bugs();
    assert!(bugs.len() >= 90, "{}", bugs.len());
    for bug in &bugs {
        let named = bugs.iter().filter(|known| *known == bug).count();
        assert!(text.matches(&format!("\"{bug}\"")).count() > named, "'{bug}' is in a table only");
    }
    for planted in text.split("has(\"").skip(1).filter_map(|rest| rest.split_once('"')) {
        assert!(planted.0 == "NAME" || bugs.iter().any(|bug| bug == planted.0), "'{}' is in no table", planted.0);
    }
}

#[test]
fn what_a_bug_does_is_said() {
    let tables = [
        crate::windows::BACKEND.bugs,
        crate::products::BACKEND.bugs,
        crate::elementwise::BACKEND.bugs,
        crate::axes::BACKEND.bugs,
        crate::movement::BACKEND.bugs,
        crate::merged::BUGS,
    ];
    for (name, what) in tables.into_iter().flatten() {
        assert!(what.starts_with(char::is_uppercase) && !what.ends_with('.'), "{name}: {what}");
    }
}

/// What a region gives in two runs with other inputs, the second one with more rows; outputs that are not written are NaN.
fn outputs(net: &RegionBuilder, backend: &str, bug: &str) -> Vec<u32> {
    let compiled = net.compile(testing::backend(backend), &[("bug", bug)]).expect("it is taken");
    let mut loaded = compiled.load(1).expect("it loads");
    let mut found = Vec::new();
    for rows in [2, 3] {
        let symbols = [("n", rows)];
        let results = run(net, loaded.as_mut(), &net.inputs(rows as u64, &symbols), &symbols).expect("it runs");
        found.extend(results.iter().flat_map(Tensor::bytes).map(u32::from));
    }
    found
}

/// A node that reads inputs of these types; `results` are the types of what it gives.
fn one(op: &str, inputs: &[&str], results: &[&str], attributes: &[(&str, Attribute)]) -> RegionBuilder {
    let mut net = RegionBuilder::new("mutants");
    let inputs: Vec<_> = inputs.iter().map(|input| Some(net.input(*input))).collect();
    let results: Vec<_> = results.iter().map(|result| testing::Type::from(*result)).collect();
    let outputs = net.nodes(op, &inputs, &results, "");
    let node = net.region.nodes.last_mut().expect("a node");
    node.attributes.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    net.with(&outputs)
}

/// Bugs that want several runs, several outputs or equal elements to show, and those of operators that are functions.
#[test]
fn bugs_that_hide_show() {
    let block = |mode: &str| [("blocksize", Attribute::Int(2)), ("mode", Attribute::String(mode.into()))];
    let [dcr, crd] = ["DCR", "CRD"].map(|mode| one("DepthToSpace", &["f32[n,8,1,3]"], &["f32[n,2,2,6]"], &block(mode)));
    let zero = [("beta", Attribute::Float(0.0))];
    let gemm = one("Gemm", &["f32[n,40]", "f32[40,4]", "f32[4]"], &["f32[n,4]"], &zero);
    let parts = [("axis", Attribute::Int(1))];
    let split = one("Split", &["f32[n,5]"], &["f32[n,3]", "f32[n,2]"], &parts);
    let conv = one("Conv", &["f32[n,1,3,3]", "f32[2,1,2,2]", "f32[2]"], &["f32[n,2,2,2]"], &[]);
    let cases = [
        ("mutant-products", &gemm, &["beta-zero", "batch-remembered", "depth-32", "integer-result"][..]),
        ("mutant-windows", &conv, &["conv-stale-bias", "conv-batch-remembered", "conv-accumulates"]),
        ("mutant-elementwise", &one("Mul", &["f32[n,4]", "f32[4]"], &["f32[n,4]"], &[]), &["stale-operand"]),
        ("mutant-movement", &split, &["split-first", "split-uneven"]),
        ("mutant-movement", &dcr, &["depth-dcr-as-crd", "depth-block-transposed"]),
        ("mutant-movement", &crd, &["depth-crd-as-dcr"]),
        (
            "mutant-movement",
            &one("SpaceToDepth", &["f32[n,2,2,4]"], &["f32[n,8,1,2]"], &block("DCR")),
            &["space-order"],
        ),
    ];
    for (backend, net, bugs) in cases {
        for bug in bugs {
            assert_ne!(outputs(net, backend, bug), outputs(net, backend, "none"), "{bug}");
        }
    }
}

/// Of equal elements, the first one is the place, or the last one where that is asked for.
#[test]
fn places_of_equal_elements() {
    for (last, first_bug, second_bug) in
        [(0, "arg-last-ignored", "arg-last-always"), (1, "arg-last-always", "arg-last-ignored")]
    {
        let attributes = [("axis", Attribute::Int(1)), ("select_last_index", Attribute::Int(last))];
        let net = one("ArgMax", &["f32[1,4]"], &["i64[1,1]"], &attributes);
        let place = |bug: &str| {
            let compiled = net.compile(testing::backend("mutant-axes"), &[("bug", bug)]).expect("it is taken");
            compiled.run(&[Tensor::new("f32[1,4]", &[0.0, 2.0, 2.0, 1.0])], &[]).expect("it runs")[0].to_vec::<i64>()
        };
        let right = [1 + last];
        assert_eq!((place("none"), place(first_bug)), (right.to_vec(), right.to_vec()));
        assert_eq!(place(second_bug), [2 - last]);
    }
}
