//! When two results are the same: integers and booleans to the bit, floats as far as their types and what rounding does
//! to the graph allow.

use byoc_core::ops::cast::from_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::{Tensor, Tolerance, compare};

use super::graph::Case;
use super::values::numbers;

/// What rounding does to an f16.
pub(crate) const STEP_F16: f64 = 1e-3;

/// How many times the measured noise of a graph a difference may be.
const NOISES: f64 = 16.0;

/// Elements beyond it do not widen what is allowed for the others: they would hide all of them.
const LARGE: f64 = 1e4;

/// What is allowed in a graph whose coarsest float is of some type.
pub(crate) struct Rule {
    /// In proportion to an element.
    relative: f64,
    /// In proportion to the largest element of its tensor that is not beyond [`LARGE`].
    of_largest: f64,
    /// By how much an input moves when its noise is measured.
    pub(crate) step: f64,
}

/// The rule for the coarsest float type of the graph.
pub(crate) fn tolerance(case: &Case) -> Rule {
    rule(case, None)
}

/// The rule for the coarsest float type of the graph and of one of its outputs.
fn rule(case: &Case, output: Option<DType>) -> Rule {
    let made = |(name, value): &(&str, Attribute)| match value {
        Attribute::Int(code) if *name == "to" => from_onnx(*code),
        Attribute::Tensor { dtype, .. } => Some(*dtype),
        _ => None,
    };
    let made = case.nodes.iter().flat_map(|node| node.attributes.iter().filter_map(made));
    let types: Vec<_> = case.leaves.iter().map(|leaf| leaf.dtype()).chain(made).chain(output).collect();
    if types.contains(&DType::BF16) {
        Rule { relative: 2e-2, of_largest: 4e-3, step: 8e-3 }
    } else if types.contains(&DType::F16) {
        Rule { relative: 4e-3, of_largest: 1e-3, step: STEP_F16 }
    } else if types.contains(&DType::F32) {
        Rule { relative: 2e-5, of_largest: 2e-6, step: 1e-6 }
    } else {
        Rule { relative: 1e-9, of_largest: 1e-10, step: 1e-11 }
    }
}

/// What is allowed for an output of the graph, without a look at its noise.
fn allowed(case: &Case, expected: &Tensor) -> Tolerance {
    if !expected.dtype.is_float() {
        return Tolerance::EXACT;
    }
    let rule = rule(case, Some(expected.dtype));
    let largest = expected.floats().map(f64::abs).filter(|value| *value <= LARGE).fold(0.0, f64::max);
    // The smallest numbers of a type have few digits, or are 0 to some processors.
    let least = if expected.dtype == DType::F16 { 1.2e-7 } else { 1e-30 };
    Tolerance { relative: rule.relative, absolute: least + rule.of_largest * largest }
}

/// Whether an element is another one, where a difference of `distance` is allowed.
fn differs(a: f64, b: f64, distance: f64) -> bool {
    !(a == b || a.is_nan() && b.is_nan() || b.is_finite() && (a - b).abs() <= distance)
}

/// Whether two outputs are the same, without a look at the graph's noise; if not, what differs.
pub(crate) fn same(case: &Case, found: &Tensor, expected: &Tensor) -> Result<(), String> {
    compare(found, expected, allowed(case, expected))
}

/// The elements that are not the same, noise apart.
pub(crate) fn differing(case: &Case, found: &Tensor, expected: &Tensor) -> Vec<usize> {
    let Tolerance { relative, absolute } = allowed(case, expected);
    let pairs = numbers(found).into_iter().zip(numbers(expected)).enumerate();
    pairs.filter(|(_, (a, b))| differs(*a, *b, absolute + relative * b.abs())).map(|(index, _)| index).collect()
}

/// Whether some element is further away than the graph's noise explains.
pub(crate) fn beyond(case: &Case, found: &[Vec<Tensor>], expected: &[Vec<Tensor>], noise: &[Vec<Vec<f64>>]) -> bool {
    let all = found.iter().zip(expected).zip(noise).flat_map(|((a, b), c)| a.iter().zip(b).zip(c));
    all.into_iter().any(|((found, expected), noise)| {
        if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
            return true;
        }
        let Tolerance { relative, absolute } = allowed(case, expected);
        let mut elements = numbers(found).into_iter().zip(numbers(expected)).zip(noise);
        elements.any(|((a, b), noise)| {
            // What is now a number and now not may be anything, and an infinity that comes and goes may be a number.
            let explained = noise.is_nan() || *noise == f64::INFINITY && !a.is_nan();
            !explained && differs(a, b, absolute + relative * b.abs() + NOISES * noise)
        })
    })
}

/// Widens the noise of an output by what one attempt shows. NaN stands for an element that is now a number and now not.
pub(crate) fn widen(noise: &mut [f64], moved: &Tensor, expected: &Tensor) -> Option<()> {
    if moved.shape != expected.shape {
        return None;
    }
    for ((noise, a), b) in noise.iter_mut().zip(numbers(moved)).zip(numbers(expected)) {
        let distance = match (a.is_nan(), b.is_nan()) {
            (true, true) => 0.0,
            (false, false) if a == b => 0.0,
            (false, false) => (a - b).abs(),
            _ => f64::NAN,
        };
        *noise = if noise.is_nan() || distance.is_nan() { f64::NAN } else { noise.max(distance) };
    }
    Some(())
}
