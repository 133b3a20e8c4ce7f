//! The node cases of the onnx package, one test a case: as they are (`node`), with those inputs as constants that decide
//! shapes (`node_const_shape`), with every input but the first as a constant (`node_const_tail`), and with all of them so
//! (`node_const_all`), where nothing of a usual size may be left to run. Cases that do not pass stand in
//! `nodes.expected`, each with how it fails and why; a listed case that passes fails the run.

pub(crate) mod cases;

use std::collections::BTreeMap;
use std::sync::Arc;

use byoc_core::onnx::functions::{FUNCTIONS, FunctionDef};
use byoc_core::ops::attributes::{AttributeDef, Default, List};
use byoc_core::ops::{self, OpDef, REWRITTEN};
use byoc_plugin_api::DType;
use byoc_plugin_api::small::{self, Round};
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, places};
use serde_json::{Value, json};

use self::cases::{Case, case_trial, expected_failures};

/// Folders of test data; all of them expect the outputs of the case of the same name in the first.
const FOLDERS: [&str; 4] = ["node", "node_const_shape", "node_const_tail", ALL_CONSTANT];

/// What does not pass.
pub(crate) const LIST: &str = "nodes.expected";

/// The one in which no case has an input.
const ALL_CONSTANT: &str = "node_const_all";

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let mut expected = expected_failures(LIST);
    let mut trials = Vec::new();
    let mut all_there = true;
    let found = std::thread::scope(|scope| {
        FOLDERS.map(|folder| scope.spawn(move || cases(folder))).map(|cases| cases.join().expect("they can be listed"))
    });
    for (folder, found) in FOLDERS.into_iter().zip(found) {
        match found {
            Ok(found) => trials.extend(found.into_iter().map(|case| {
                let listed = expected.remove(&case.name);
                case_trial(case, &registry, LIST, listed)
            })),
            Err(Skip(reason)) => {
                all_there = false;
                trials.push(trial(folder, || Err(Skip(reason))));
            }
        }
    }
    if all_there {
        trials.push(trial("every_listed_case_exists", move || {
            assert!(expected.is_empty(), "nodes.expected lists cases that there are not: {:?}", expected.keys());
            Ok(())
        }));
    }
    trials.push(trial("every_operator_is_tested", every_operator_is_tested));
    trials.push(trial("operators_have_the_form_that_onnx_says", operators_have_the_form_that_onnx_says));
    trials.push(trial("small_types_have_the_numbers_of_ml_dtypes", small_types_have_the_numbers_of_ml_dtypes));
    trials
}

/// No case is left out for its operator where core knows that operator.
fn every_operator_is_tested() -> Needed<()> {
    let skipped = places::read(&data::test_data(FOLDERS[0])?.join("skipped.json"));
    let skipped: BTreeMap<String, String> = serde_json::from_slice(&skipped).expect("names and reasons");
    let operators = skipped.iter().filter_map(|(case, reason)| Some((case, reason.strip_prefix("operator ")?)));
    let known = |operator: &str| {
        let (domain, name) = operator.rsplit_once('.').unwrap_or(("", operator));
        ops::find(domain, name).is_some()
    };
    let known: Vec<_> = operators.filter(|(_, operator)| known(operator)).collect();
    assert!(known.is_empty(), "tests/python/zoo/node_cases.py leaves out {known:?}");
    Ok(())
}

/// Arity, attributes and small element types of every operator, in every version of the operator set, are those of ONNX's schemas.
fn operators_have_the_form_that_onnx_says() -> Needed<()> {
    let any = |count: usize| if count == usize::MAX { Value::Null } else { count.into() };
    let attributes = |list: List| -> Vec<Value> {
        list.iter().map(|AttributeDef { name, kind, default, since, until, .. }| {
            let kind = format!("{kind:?}").to_lowercase();
            let (required, default) = match default {
                Default::Int(value) => (false, json!(value)),
                Default::Float(value) => (false, json!(value)),
                Default::Ints(values) => (false, json!(values)),
                Default::String(value) => (false, json!(value)),
                Default::Absent | Default::Shapes => (false, Value::Null),
                Default::Required => (true, Value::Null),
            };
            json!({
                "name": name, "kind": kind, "since": since, "until": until, "required": required, "default": default,
            })
        })
        .collect()
    };
    let older = |def: &OpDef| -> Vec<Value> {
        def.older.iter().map(|&(before, inputs, outputs)| json!([before, any(inputs), any(outputs)])).collect()
    };
    let operator = |def: &OpDef| {
        json!({
            "domain": def.domain, "name": def.name, "since": def.since, "inputs": [any(def.inputs.0), any(def.inputs.1)],
            "outputs": any(def.outputs), "older": older(def), "attributes": attributes(def.attributes),
            "small": def.small.iter().chain(def.opaque).map(|dtype| dtype.name()).collect::<Vec<_>>(),
        })
    };
    let function = |def: &FunctionDef| {
        json!({
            "domain": def.domain, "name": def.name, "since": def.since, "inputs": [any(def.inputs.0), any(def.inputs.1)],
            "outputs": any(def.outputs), "older": [], "attributes": attributes(def.attributes),
        })
    };
    let operators: Vec<_> = ops::all().chain(REWRITTEN).map(operator).collect();
    let folder = places::temporary();
    let functions: Vec<_> = FUNCTIONS.iter().map(function).collect();
    let newest: BTreeMap<_, _> = ops::DOMAINS.iter().map(|domain| (domain.name, domain.newest)).collect();
    let list = json!({"newest": newest, "operators": operators, "functions": functions});
    let list = places::write(folder.path(), "operators.json", list.to_string());
    assert_eq!(data::script("operator_schemas.py", &[&list])?, "");
    Ok(())
}

/// The numbers of every code, and the codes of many numbers, are those of the library that onnx uses.
fn small_types_have_the_numbers_of_ml_dtypes() -> Needed<()> {
    let number = |value: &Value| -> f64 {
        let text = || value.as_str().expect("a number or a text").parse().expect("inf or nan");
        // All of them are exact in `f32`, which the reader of JSON may miss by a bit of `f64`.
        f64::from(value.as_f64().unwrap_or_else(text) as f32)
    };
    let found: Value = serde_json::from_str(&data::script("small_types.py", &[])?).expect("JSON");
    for dtype in DType::all().filter(|dtype| dtype.is_asked_for() && dtype.is_number()) {
        let (numbers, codes) = (&found[dtype.name()]["numbers"], &found[dtype.name()]["codes"]);
        let numbers = numbers.as_array().expect("a list");
        assert_eq!(numbers.len(), 1 << dtype.bits(), "{dtype}");
        for (code, expected) in numbers.iter().map(number).enumerate() {
            let ours = small::decode(dtype, code as u8).expect("a number");
            assert!(ours == expected || ours.is_nan() && expected.is_nan(), "{dtype} {code}: {ours} and {expected}");
        }
        for pair in codes.as_array().expect("a list") {
            let ours = small::encode(dtype, number(&pair[0]), false, Round::Up).map(u64::from);
            assert_eq!(ours, pair[1].as_u64(), "{dtype} {}", pair[0]);
        }
    }
    Ok(())
}

fn cases(folder: &str) -> Needed<Vec<Case>> {
    let root = data::test_data(folder)?;
    let base = data::test_data(FOLDERS[0])?;
    let names = places::list(&root).into_iter().filter(|name| root.join(name).is_dir());
    let case = |name: String| Case {
        folder: root.join(&name),
        outputs: base.join(&name).join("outputs.npz"),
        name: format!("{folder}/{name}"),
        all_constant: folder == ALL_CONSTANT,
    };
    Ok(names.map(case).collect())
}
