//! One case of the onnx package: how it is compiled, run and compared, and the lists of those that do not pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byoc_core::artifact::Artifact;
use byoc_core::diagnostic::Diagnostic;
use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Trial, trial};
use byoc_tests::{engine, npz, places};

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

/// One case: the model and its inputs, and where the expected outputs are.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) outputs: PathBuf,
    /// Whether everything can be computed when the model is compiled.
    pub(crate) all_constant: bool,
}

/// The test of a case; a listed one fails as `listed` says.
pub(crate) fn case_trial(case: Case, registry: &Arc<Registry>, list: &'static str, listed: Option<String>) -> Trial {
    let registry = Arc::clone(registry);
    trial(case.name.clone(), move || {
        match (check(&case, &registry), listed) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => panic!("it passes: take it out of {list}"),
            (Err(failure), Some(kind)) if failure.kind() == kind => {}
            (Err(failure), Some(kind)) => panic!("{list} says {kind}, found {failure}"),
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
        compare(found, &expected, tolerance(found.dtype, case.name.ends_with("_expanded")))
            .map_err(|what| Failure::Differs(format!("{kernels} kernels: '{name}' {what}")))?;
    }
    Ok(())
}

/// What onnx's own runner allows, and twice the distance between neighbours for bf16, and for f16 where a function's steps are
/// nodes: what is expected was not rounded after the same steps.
fn tolerance(dtype: DType, expanded: bool) -> Tolerance {
    let relative = match dtype {
        DType::BF16 => 2f64.powi(-6),
        DType::F16 if expanded => 2f64.powi(-9),
        _ => 1e-3,
    };
    Tolerance { relative, absolute: 1e-7 }
}

/// The list: a line `[how it fails] why`, then the cases of which that is true.
pub(crate) fn expected_failures(list: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx").join(list);
    let text = String::from_utf8(places::read(&path)).expect("the list is text");
    let mut kind = None;
    let mut listed = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((how, why)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            assert!(!why.trim().is_empty(), "{list}: [{how}] has no reason");
            kind = Some(how.to_owned());
        } else {
            let how = kind.clone().unwrap_or_else(|| panic!("{list}: {line} stands under no reason"));
            assert!(listed.insert(line.to_owned(), how).is_none(), "{list} lists {line} twice");
        }
    }
    listed
}
