//! The node cases of the onnx package, one test a case: as they are (`node`), with those inputs as constants that decide
//! shapes (`node_const_shape`), with every input but the first as a constant (`node_const_tail`), and with all of them so
//! (`node_const_all`), where nothing of a usual size may be left to run. Cases that do not pass stand in
//! `nodes.expected`, each with how it fails and why; a listed case that passes fails the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byoc_core::artifact::Artifact;
use byoc_core::diagnostic::Diagnostic;
use byoc_core::onnx::functions::{FUNCTIONS, FunctionDef};
use byoc_core::ops::attributes::{AttributeDef, Default, List};
use byoc_core::ops::{self, OpDef, REWRITTEN};
use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_plugin_api::small::{self, Round};
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, npz, places};
use serde_json::{Value, json};

/// Folders of test data; all of them expect the outputs of the case of the same name in the first.
const FOLDERS: [&str; 4] = ["node", "node_const_shape", "node_const_tail", ALL_CONSTANT];

/// The one in which no case has an input.
const ALL_CONSTANT: &str = "node_const_all";

/// Bytes of a result up to which it is computed ahead whatever it is computed from.
const ALWAYS_FOLDED: usize = 64 << 10;

/// How a case failed.
enum Failure {
    /// Compiling or running it ended in an error.
    Error(Diagnostic),
    /// An output is not what it should be.
    Differs(String),
}

impl Failure {
    /// What the list says of such a failure.
    fn kind(&self) -> &'static str {
        match self {
            Failure::Error(error) => error.code.id(),
            Failure::Differs(_) => "differs",
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Differs(what) => f.write_str(what),
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(error: Diagnostic) -> Self {
        Failure::Error(error)
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let mut expected = expected_failures();
    let mut trials = Vec::new();
    let mut all_there = true;
    for folder in FOLDERS {
        match cases(folder) {
            Ok(found) => trials.extend(found.into_iter().map(|case| case_trial(case, &registry, &mut expected))),
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
            "outputs": def.outputs, "older": [], "attributes": attributes(def.attributes),
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

/// One case: the model and its inputs, and where the expected outputs are.
struct Case {
    name: String,
    folder: PathBuf,
    outputs: PathBuf,
    /// Whether everything can be computed when the model is compiled.
    all_constant: bool,
}

fn cases(folder: &str) -> Needed<Vec<Case>> {
    let (base, root) = (data::test_data(FOLDERS[0])?, data::test_data(folder)?);
    let names = places::list(&root).into_iter().filter(|name| root.join(name).is_dir());
    let case = |name: String| Case {
        folder: root.join(&name),
        outputs: base.join(&name).join("outputs.npz"),
        name: format!("{folder}/{name}"),
        all_constant: folder == ALL_CONSTANT,
    };
    Ok(names.map(case).collect())
}

fn case_trial(case: Case, registry: &Arc<Registry>, expected: &mut BTreeMap<String, String>) -> Trial {
    let (registry, listed) = (Arc::clone(registry), expected.remove(&case.name));
    trial(case.name.clone(), move || {
        match (check(&case, &registry), listed) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => panic!("it passes: take it out of nodes.expected"),
            (Err(failure), Some(kind)) if failure.kind() == kind => {}
            (Err(failure), Some(kind)) => panic!("nodes.expected says {kind}, found {failure}"),
            (Err(failure), None) => panic!("{failure}"),
        }
        Ok(())
    })
}

/// Compiles and runs a case, by the fast kernels and by the plain ones that are there to compare with.
fn check(case: &Case, registry: &Registry) -> Result<(), Failure> {
    ["fast", "reference"].into_iter().try_for_each(|kernels| check_with(kernels, case, registry))
}

fn check_with(kernels: &str, case: &Case, registry: &Registry) -> Result<(), Failure> {
    let folder = places::temporary_in_memory();
    let artifact = folder.path().join("case.byoc");
    let settings = [("json.kernels", kernels)];
    engine::compile_with(&case.folder.join("model.onnx"), &artifact, registry, &["json"], &settings)?;
    let mut session = engine::load(&artifact, registry, 1)?;
    let outputs = engine::run(&mut session, &npz::read(&case.folder.join("inputs.npz")))?;
    let (largest, left) = (outputs.iter().map(|(_, tensor)| tensor.bytes.len()).max(), session.times().len());
    // What stands quantised in a model stays so: none of its floats are stored.
    let widens = case.name.contains("/test_dequantizelinear");
    // Nothing runs control flow at compile time.
    let driven = Artifact::open(&artifact)?.manifest().entries.iter().any(|entry| !entry.control.is_empty());
    // Several nodes of a function may read a constant. None of them is computed ahead alone: the file would hold both forms.
    let function = ["causal_conv", "instancenorm", "nllloss", "sce"]
        .iter()
        .any(|name| case.name.contains(&format!("/test_{name}_")));
    // No file holds texts, so what reads or makes some is left.
    let texts = Artifact::open(&artifact)?.manifest().regions.iter().any(|region| region.strings);
    if case.all_constant && left > 0 && largest <= Some(ALWAYS_FOLDED) && !widens && !driven && !function && !texts {
        return Err(Failure::Differs(format!("{kernels} kernels: {left} regions are left to run")));
    }
    let expected = npz::read(&case.outputs);
    let names = |arrays: &[(String, Tensor)]| arrays.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(&outputs) != names(&expected) {
        return Err(Failure::Differs(format!("outputs {:?}, expected {:?}", names(&outputs), names(&expected))));
    }
    for ((name, found), (_, expected)) in outputs.iter().zip(expected) {
        let expected = match found.dtype {
            dtype if dtype == DType::BF16 || dtype.is_asked_for() => expected.reinterpret(dtype),
            _ => expected,
        };
        compare(found, &expected, tolerance(found.dtype))
            .map_err(|what| Failure::Differs(format!("{kernels} kernels: '{name}' {what}")))?;
    }
    Ok(())
}

/// What onnx's own runner allows, and for bf16 twice the distance between neighbours: onnx's reference rounds after
/// each step, we round once.
fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::BF16 => Tolerance { relative: 2f64.powi(-6), absolute: 1e-7 },
        _ => Tolerance { relative: 1e-3, absolute: 1e-7 },
    }
}

/// The list: a line `[how it fails] why`, then the cases of which that is true.
fn expected_failures() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx/nodes.expected");
    let text = String::from_utf8(places::read(&path)).expect("the list is text");
    let mut kind = None;
    let mut listed = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((how, why)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            assert!(!why.trim().is_empty(), "nodes.expected: [{how}] has no reason");
            kind = Some(how.to_owned());
        } else {
            let how = kind.clone().unwrap_or_else(|| panic!("nodes.expected: {line} stands under no reason"));
            assert!(listed.insert(line.to_owned(), how).is_none(), "nodes.expected lists {line} twice");
        }
    }
    listed
}
