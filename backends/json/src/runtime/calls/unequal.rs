//! Errors about symbols: sizes that must be equal for a region's code, and are not.

use byoc_plugin_api::{Dim, Error};

use super::Signature;
use crate::program::Op;

/// Two sizes of the inputs of a step that must be equal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unequal([(Dim, usize); 2]);

impl Unequal {
    /// The error with this as its reason.
    pub(super) fn explain(&self, mut error: Error) -> Error {
        let [(a, a_size), (b, b_size)] = &self.0;
        error.message += &format!(": {a} is {a_size} and {b} is {b_size}, which must be equal");
        error.hint("Give inputs in which the two are equal, or compile the model for these sizes")
    }
}

/// A shape as the region was compiled for, and as it is.
type Shape<'p> = (&'p [Dim], &'p [usize]);

impl<'p> Signature<'p> {
    /// The first two sizes of inputs that were taken as equal, as one of the two is a symbol, and are not.
    pub(super) fn unequal(&self) -> Option<Unequal> {
        let shapes: Vec<Shape<'p>> = (0..self.step.inputs.len()).filter_map(|index| self.shape_of(index)).collect();
        let (&first, others) = shapes.split_first()?;
        let out = self.output(0).ok()?;
        match &self.step.op {
            Op::Binary { .. } | Op::Choose => others.iter().find_map(|&other| broadcast(first, other, out)),
            Op::Reference { op, .. } if broadcasts(op) => others.iter().find_map(|&other| broadcast(first, other, out)),
            Op::Concat { axis } => others.iter().find_map(|&other| alike(first, other, *axis)),
            Op::Gemm(gemm) => {
                let (a, b) = (first, others.first().copied()?);
                let k = if gemm.packed.is_some() { None } else { inner(a, b, gemm.trans_a, gemm.trans_b) };
                k.or_else(|| broadcast(leading(a)?, leading(b)?, out.get(..out.len().checked_sub(2)?)?))
            }
            _ => None,
        }
    }

    fn shape_of(&self, index: usize) -> Option<Shape<'p>> {
        let value = self.input_value(index)?;
        Some((&value.shape, self.input(index).ok()?))
    }
}

/// Whether an operator of ONNX's own domain broadcasts all its inputs against each other.
fn broadcasts(op: &str) -> bool {
    let arithmetic = ["Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "And", "Where"];
    let comparison = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
    arithmetic.contains(&op) || comparison.contains(&op)
}

fn pair((a_dims, a): Shape<'_>, (b_dims, b): Shape<'_>, i: usize, j: usize) -> Option<Unequal> {
    let symbolic = a_dims[i].fixed().is_none() || b_dims[j].fixed().is_none();
    (symbolic && a[i] != b[j]).then(|| Unequal([(a_dims[i].clone(), a[i]), (b_dims[j].clone(), b[j])]))
}

/// The first axis, from behind, along which the two do not broadcast to `out`.
fn broadcast(a: Shape<'_>, b: Shape<'_>, out: &[usize]) -> Option<Unequal> {
    (1..=a.1.len().min(b.1.len()).min(out.len())).find_map(|back| {
        let (i, j) = (a.1.len() - back, b.1.len() - back);
        let fits = match (a.1[i], b.1[j]) {
            (1, size) | (size, 1) => size == out[out.len() - back],
            (x, y) => x == y,
        };
        if fits { None } else { pair(a, b, i, j) }
    })
}

/// The first axis but `axis` along which the two differ.
fn alike(a: Shape<'_>, b: Shape<'_>, axis: usize) -> Option<Unequal> {
    (0..a.1.len().min(b.1.len())).filter(|&i| i != axis).find_map(|i| pair(a, b, i, i))
}

/// The sizes that a product of matrices sums over.
fn inner(a: Shape<'_>, b: Shape<'_>, trans_a: bool, trans_b: bool) -> Option<Unequal> {
    let i = a.1.len().checked_sub(if trans_a { 2 } else { 1 })?;
    let j = b.1.len().checked_sub(if trans_b { 1 } else { 2 })?;
    if b.1.is_empty() { None } else { pair(a, b, i, j) }
}

/// All but the last two dimensions.
fn leading((dims, sizes): Shape<'_>) -> Option<Shape<'_>> {
    let rank = sizes.len().checked_sub(2)?;
    Some((&dims[..rank], &sizes[..rank]))
}
