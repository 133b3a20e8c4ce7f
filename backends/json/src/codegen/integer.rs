//! Quantised nodes become kernels of 8-bit integers: nodes by themselves, and groups of `DequantizeLinear`, an operator and
//! `QuantizeLinear`, in which no number is a float any more.

use byoc_plugin_api::DType;

use super::graph::Graph;
use crate::kernels::Activation;
use crate::program::integer::product;
use crate::program::{Op, Step};

pub(super) mod channels_last;
pub(super) mod finish;
pub(super) mod groups;
pub(super) mod nodes;
mod products;
mod table;

/// Whether the value is of a type of 8 bits.
fn is_bytes(graph: &Graph<'_>, value: usize) -> bool {
    matches!(graph.values[value].dtype, DType::U8 | DType::I8)
}

/// Elements of a value, if they are all known.
fn elements(graph: &Graph<'_>, value: usize) -> Option<usize> {
    Some(graph.fixed_shape(value)?.iter().product())
}

/// Whether the value is one number of single precision.
fn is_scale(graph: &Graph<'_>, value: usize) -> bool {
    graph.values[value].dtype == DType::F32 && elements(graph, value) == Some(1)
}

/// Whether the zero point is one element of 8 bits, or absent.
fn is_zero(graph: &Graph<'_>, value: Option<usize>) -> bool {
    value.is_none_or(|value| is_bytes(graph, value) && elements(graph, value) == Some(1))
}

/// The scale and the zero point that all elements of a tensor have.
#[derive(Clone, Copy, Debug)]
struct Scaling {
    scale: usize,
    zero: Option<usize>,
}

impl Scaling {
    /// Those at inputs 1 and 2 of a step.
    fn of(graph: &Graph<'_>, step: &Step) -> Option<Scaling> {
        let (scale, zero) = (step.input(1)?, step.input(2));
        (is_scale(graph, scale) && is_zero(graph, zero)).then_some(Scaling { scale, zero })
    }

    /// Those of a `QuantizeLinear` of numbers of single precision to 8 bits, with one scale.
    fn quantising(graph: &Graph<'_>, step: &Step) -> Option<Scaling> {
        let plain = step.int("block_size", 0) == 0 && matches!(step.int("precision", 0), 0 | 1);
        let fits = graph.is_fast(step.input(0)?) && is_bytes(graph, step.output(0)?);
        (step.onnx() == Some("QuantizeLinear") && plain && fits).then(|| Scaling::of(graph, step))?
    }

    /// Whether both stand for the same numbers.
    fn is(&self, graph: &Graph<'_>, other: &Scaling) -> bool {
        let same = |a: usize, b: usize| a == b || graph.scalar(a).is_some_and(|number| graph.scalar(b) == Some(number));
        let zero = |scaling: &Scaling| match scaling.zero {
            None => Some(vec![0]),
            Some(zero) => graph.ints(zero),
        };
        let zeros = self.zero == other.zero || zero(self).is_some_and(|given| zero(other) == Some(given));
        same(self.scale, other.scale) && zeros
    }
}

/// The clamp that a step's activation is, if there is one and it is one.
fn clamp(step: &Step) -> Option<Activation> {
    let act = match &step.op {
        Op::Unary { function: crate::kernels::Unary::Act(act) } => *act,
        _ => return None,
    };
    act.as_clamp().map(|_| act)
}

/// The inputs of a product.
fn inputs(pairs: &[(usize, Option<usize>)]) -> Vec<Option<usize>> {
    let mut inputs = vec![None; product::COUNT];
    pairs.iter().for_each(|&(position, value)| inputs[position] = value);
    inputs
}
