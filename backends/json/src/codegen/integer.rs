//! Quantised nodes become kernels of 8-bit integers: nodes by themselves, and groups of `DequantizeLinear`, an operator and
//! `QuantizeLinear`, in which no number is a float any more.

use byoc_plugin_api::DType;

use super::graph::Graph;
use crate::constants::Numbers;
use crate::kernels::Activation;
use crate::program::integer::product;
use crate::program::{Op, Step};

mod by_channel;
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

/// What a `DequantizeLinear` reads, and with which scales.
pub(super) struct Dequantised {
    pub(super) integers: usize,
    pub(super) scale: usize,
    pub(super) zero: Option<usize>,
    /// The axis for whose elements there are scales of their own.
    axis: Option<usize>,
}

impl Dequantised {
    /// Of bytes.
    fn of(graph: &Graph<'_>, step: &Step) -> Option<Dequantised> {
        Dequantised::of_integers(graph, step).filter(|given| is_bytes(graph, given.integers))
    }

    /// Of bytes, or of integers of 32 bits.
    pub(super) fn of_integers(graph: &Graph<'_>, step: &Step) -> Option<Dequantised> {
        let (integers, scale, zero) = (step.input(0)?, step.input(1)?, step.input(2));
        let y = step.output(0)?;
        let plain = step.onnx() == Some("DequantizeLinear") && step.int("block_size", 0) == 0;
        let typed = is_bytes(graph, integers) || graph.values[integers].dtype == DType::I32;
        if !plain || !typed || graph.values[scale].dtype != DType::F32 || !graph.is_fast(y) {
            return None;
        }
        let count = elements(graph, scale)?;
        if zero.is_some_and(|zero| elements(graph, zero) != Some(count)) {
            return None;
        }
        let rank = graph.shape(integers).len() as i64;
        let axis = step.int("axis", 1);
        let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        Some(Dequantised { integers, scale, zero, axis: (count > 1).then_some(axis) })
    }

    /// What the step that writes a value dequantises.
    fn writing(graph: &Graph<'_>, producers: &[Option<usize>], value: usize) -> Option<Dequantised> {
        Dequantised::of(graph, &graph.steps[producers.get(value).copied()??])
    }

    /// The numbers, if all is constant and there is a scale for each element, or for all.
    pub(super) fn numbers(&self, graph: &Graph<'_>) -> Option<Numbers> {
        let id = |value: usize| graph.constant(value).map(|constant| constant.id);
        let (count, scales) = (elements(graph, self.integers)?, elements(graph, self.scale)?);
        let zero = self.zero.filter(|&zero| !graph.is_zero(zero)).map_or(Some(None), |zero| id(zero).map(Some))?;
        let numbers = Numbers::Integers { integers: id(self.integers)?, scale: id(self.scale)?, zero };
        (scales == 1 || scales == count).then_some(numbers)
    }

    /// The scaling that all elements have.
    fn scaling(&self) -> Option<Scaling> {
        self.axis.is_none().then_some(Scaling { scale: self.scale, zero: self.zero })
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
