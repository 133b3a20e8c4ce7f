//! What becomes of a case on both sides, and whether that is the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use byoc_core::diagnostic::Diagnostic;
use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

use super::compare;
use super::graph::Case;
use super::oracle::Oracle;
use super::random::Random;
use super::values;

/// What can be said of a case.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Both give the same.
    Same,
    /// onnxruntime does not run it.
    OracleRefuses(String),
    /// byoc says with a code that it does not compile it.
    Refused(Diagnostic),
    /// byoc fails where it may not: by panic, or at run.
    Breaks(String),
    /// An output is another one.
    Differs(Difference),
}

/// Where two results part.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) output: usize,
    pub(crate) run: usize,
    pub(crate) what: String,
    pub(crate) found: Tensor,
    pub(crate) expected: Tensor,
}

/// How byoc compiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    Usual,
    Unfused,
    Reference,
}

impl Manner {
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Manner::Usual => &[],
            Manner::Unfused => &[("json.fusion", "false")],
            Manner::Reference => &[("json.kernels", "reference")],
        }
    }
}

/// Both sides.
pub(crate) struct Judge {
    pub(crate) oracle: Oracle,
    pub(crate) registry: Registry,
}

/// Why byoc has no result.
enum Failure {
    Compile(Diagnostic),
    Broken(String),
}

impl Judge {
    /// Runs the case on both sides.
    pub(crate) fn verdict(&self, case: &Case, manner: Manner) -> Verdict {
        let expected = match self.oracle.ask(case) {
            Ok(expected) => expected,
            Err(reason) => return self.without_oracle(case, manner, reason),
        };
        let found = match self.run(case, manner) {
            Ok(found) => found,
            Err(Failure::Compile(error)) => return Verdict::Refused(error),
            Err(Failure::Broken(what)) => return Verdict::Breaks(what),
        };
        let Some(first) = first_difference(case, &found, &expected) else { return Verdict::Same };
        match self.noise(case, &expected) {
            Some(noise) if !compare::beyond(case, &found, &expected, &noise) => Verdict::Same,
            _ => Verdict::Differs(first),
        }
    }

    /// A case that onnxruntime does not run must not make byoc panic.
    fn without_oracle(&self, case: &Case, manner: Manner, reason: String) -> Verdict {
        match self.run(case, manner) {
            Err(Failure::Broken(what)) if what.starts_with("panic") => Verdict::Breaks(what),
            _ => Verdict::OracleRefuses(reason),
        }
    }

    fn run(&self, case: &Case, manner: Manner) -> Result<Vec<Vec<Tensor>>, Failure> {
        let folder = places::temporary_in_memory();
        let model = places::write(folder.path(), "case.onnx", case.to_onnx());
        let artifact = folder.path().join("case.byoc");
        let attempt = || {
            engine::compile_with(&model, &artifact, &self.registry, &["json"], manner.settings())
                .map_err(Failure::Compile)?;
            let broken = |error: Diagnostic| Failure::Broken(error.to_string());
            let mut session = engine::load(&artifact, &self.registry, 1).map_err(broken)?;
            let run = |run: usize| {
                let outputs = engine::run(&mut session, &case.inputs(run)).map_err(broken)?;
                Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
            };
            (0..case.runs).map(run).collect()
        };
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Err(Failure::Broken(format!("panic: {}", text.unwrap_or_default())))
        })
    }

    /// How much onnxruntime's own results move when floats of the inputs move by what rounding them may do; the largest
    /// of several attempts, element by element. `None` where it cannot be said.
    fn noise(&self, case: &Case, expected: &[Vec<Tensor>]) -> Option<Vec<Vec<Vec<f64>>>> {
        const ATTEMPTS: u64 = 4;
        let step = compare::tolerance(case).step;
        let zero = |tensor: &Tensor| vec![0.0; values::numbers(tensor).len()];
        let mut noise: Vec<Vec<Vec<f64>>> = expected.iter().map(|outputs| outputs.iter().map(zero).collect()).collect();
        for attempt in 0..ATTEMPTS {
            let mut random = Random::new(attempt);
            let mut moved = case.clone();
            for leaf in moved.leaves.iter_mut().filter(|leaf| !leaf.structural && leaf.dtype().is_float()) {
                for tensor in &mut leaf.values {
                    let size = if tensor.dtype == DType::F16 { compare::STEP_F16.max(step) } else { step };
                    *tensor = values::mapped(tensor, |_, value| {
                        if value.is_finite() { value * (1.0 + size * random.of(&[-1.0, 0.0, 1.0])) } else { value }
                    });
                }
            }
            let outputs = self.oracle.ask(&moved).ok()?;
            for (run, (outputs, expected)) in outputs.iter().zip(expected).enumerate() {
                for (index, (output, expected)) in outputs.iter().zip(expected).enumerate() {
                    compare::widen(&mut noise[run][index], output, expected)?;
                }
            }
        }
        Some(noise)
    }
}

fn first_difference(case: &Case, found: &[Vec<Tensor>], expected: &[Vec<Tensor>]) -> Option<Difference> {
    for (run, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
            if let Err(what) = compare::same(case, found, expected) {
                return Some(Difference { output, run, what, found: found.clone(), expected: expected.clone() });
            }
        }
    }
    None
}
