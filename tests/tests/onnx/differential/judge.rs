//! What becomes of a case on both sides, and whether that is the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

use super::compare;
use super::graph::{Case, Leaf, Node};
use super::oracle::Oracle;
use super::random::Random;
use super::values;

/// What can be said of a case.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Both give the same, in so many elements.
    Same(usize),
    /// onnxruntime does not run it.
    OracleRefuses(String),
    /// byoc cannot know a shape before it runs, and says so.
    Refused(Diagnostic),
    /// byoc fails where it may not: by panic, at run, or because it takes a valid graph for another one.
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
            Err(Failure::Compile(error)) if error.code == Code::ShapeUnknown => return Verdict::Refused(error),
            Err(Failure::Compile(error)) => return Verdict::Breaks(error.to_string()),
            Err(Failure::Broken(what)) => return Verdict::Breaks(what),
        };
        let same = Verdict::Same(expected.iter().flatten().map(|tensor| values::numbers(tensor).len()).sum());
        let Some(first) = first_difference(case, &found, &expected) else { return same };
        if self.is_noise(case, &found, &expected) { same } else { Verdict::Differs(first) }
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

    /// Whether onnxruntime's own results move as far when floats move by what rounding them may do: by the largest of
    /// several attempts, element by element.
    fn is_noise(&self, case: &Case, found: &[Vec<Tensor>], expected: &[Vec<Tensor>]) -> bool {
        // Of two numbers that cancel out, both may move alike for some attempts.
        const ATTEMPTS: u64 = 32;
        let step = compare::tolerance(case).step;
        let zero = |tensor: &Tensor| vec![0.0; values::numbers(tensor).len()];
        let mut noise: Vec<Vec<Vec<f64>>> = expected.iter().map(|outputs| outputs.iter().map(zero).collect()).collect();
        (0..ATTEMPTS).any(|attempt| {
            let Ok(outputs) = self.oracle.ask(&moved(case, step, Random::new(attempt))) else { return false };
            let all = outputs.iter().flatten().zip(expected.iter().flatten()).zip(noise.iter_mut().flatten());
            let widened = all.map(|((output, expected), noise)| compare::widen(noise, output, expected));
            widened.collect::<Option<Vec<()>>>().is_some() && !compare::beyond(case, found, expected, &noise)
        })
    }
}

/// The case with its floats, and those that its nodes compute, a little larger or smaller.
fn moved(case: &Case, step: f64, mut random: Random) -> Case {
    let mut moved = case.clone();
    let mut factor = |dtype: DType| {
        let step = if dtype == DType::F16 { compare::STEP_F16.max(step) } else { step };
        1.0 + step * random.of(&[-1.0, 0.0, 1.0])
    };
    for leaf in moved.leaves.iter_mut().filter(|leaf| !leaf.structural && leaf.dtype().is_float()) {
        for tensor in &mut leaf.values {
            let change = |_, value: f64| if value.is_finite() { value * factor(tensor.dtype) } else { value };
            *tensor = values::mapped(tensor, change);
        }
    }
    for mut node in std::mem::take(&mut moved.nodes) {
        let Some(dtype) = node.rounds else {
            moved.nodes.push(node);
            continue;
        };
        let value = std::mem::take(&mut node.outputs[0]);
        let [unmoved, by] = ["unmoved", "by"].map(|prefix| format!("{prefix}_{value}"));
        let values = vec![values::scalar(dtype, factor(dtype))];
        moved.leaves.push(Leaf { name: by.clone(), dims: vec![], constant: true, structural: true, values });
        node.outputs[0].clone_from(&unmoved);
        let inputs = vec![unmoved, by];
        let product = Node { op: "Mul", inputs, outputs: vec![value], attributes: vec![], rounds: None };
        moved.nodes.extend([node, product]);
    }
    moved
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
