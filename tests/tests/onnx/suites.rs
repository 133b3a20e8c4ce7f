//! The cases of three versions of the onnx package as published, one test a case: 1.23.2 generates them, the wheels of 1.22.0 and
//! 1.17.0 carry them. A case that is byte for byte that of another suite runs once and counts in both. Cases that do not pass stand in
//! `suites.expected`, each with how it fails and why; a listed case that passes fails the run. How many pass is in [`FIGURES`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, places};

use crate::nodes::cases::{Case, case_trial, expected_failures};
use crate::{models, nodes};

/// What does not pass.
const LIST: &str = "suites.expected";

/// Suite, group, cases that pass, and cases. What is called `_expanded` has its operator expanded by ONNX's function.
const FIGURES: [(&str, &str, usize, usize); 14] = [
    ("onnx-1.17.0", "node", 1001, 1031),
    ("onnx-1.17.0", "node_expanded", 250, 257),
    ("onnx-1.17.0", "pytorch-converted", 82, 82),
    ("onnx-1.17.0", "pytorch-operator", 35, 35),
    ("onnx-1.17.0", "real", 9, 9),
    ("onnx-1.17.0", "simple", 23, 23),
    ("onnx-1.22.0", "node", 1307, 1325),
    ("onnx-1.22.0", "node_expanded", 434, 440),
    ("onnx-1.22.0", "pytorch-converted", 82, 82),
    ("onnx-1.22.0", "pytorch-operator", 35, 35),
    ("onnx-1.22.0", "real", 9, 9),
    ("onnx-1.22.0", "simple", 23, 23),
    ("onnx-1.23.2", "node", 1386, 1404),
    ("onnx-1.23.2", "node_expanded", 474, 480),
];

/// By suite, group and name, the folder of test data that a case is run in.
type Suites = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

pub(crate) fn trials() -> Vec<Trial> {
    let suites = match suites() {
        Ok(suites) => suites,
        Err(Skip(reason)) => return vec![trial("cases", || Err(Skip(reason)))],
    };
    let registry = Arc::new(engine::embedded());
    let mut expected = expected_failures(LIST);
    let mut trials: Vec<_> = own_places(&suites)
        .into_iter()
        .map(|name| {
            let folder = data::test_data("suites").expect("it is there").join(&name);
            let listed = expected.remove(&name);
            let case = Case { outputs: folder.join("outputs.npz"), name, folder, all_constant: false };
            case_trial(case, &registry, LIST, listed)
        })
        .collect();
    trials.push(trial("every_listed_case_exists", move || {
        assert!(expected.is_empty(), "{LIST} lists cases that there are not: {:?}", expected.keys());
        Ok(())
    }));
    trials.push(trial("figures", move || {
        figures(&suites);
        Ok(())
    }));
    trials
}

fn suites() -> Needed<Suites> {
    let index = places::read(&data::test_data("suites")?.join("cases.json"));
    Ok(serde_json::from_slice(&index).expect("names by suite and group"))
}

/// The cases that run here and in no other module, each once.
fn own_places(suites: &Suites) -> BTreeSet<String> {
    let cases = suites.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
    cases.filter_map(|place| place.strip_prefix("suites/")).map(str::to_owned).collect()
}

/// What the lists leave is what is said to pass: each case is a test, here, in `nodes` or in `models`.
fn figures(suites: &Suites) {
    let lists = [expected_failures(LIST), expected_failures(nodes::LIST)];
    let passes = |place: &str| {
        if let Some(model) = place.strip_prefix("light/") {
            return models::LIGHT.iter().any(|(name, _)| *name == model);
        }
        let name = place.strip_prefix("suites/").unwrap_or(place);
        !lists.iter().any(|list| list.contains_key(name))
    };
    let groups = suites.iter().flat_map(|(suite, groups)| groups.iter().map(move |group| (suite, group)));
    let count = |cases: &BTreeMap<String, String>| cases.values().filter(|place| passes(place)).count();
    let found: Vec<_> =
        groups.map(|(suite, (group, cases))| (suite.as_str(), group.as_str(), count(cases), cases.len())).collect();
    assert_eq!(found, FIGURES);
}
