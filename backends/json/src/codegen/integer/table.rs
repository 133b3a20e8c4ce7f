//! Functions of one element between `DequantizeLinear` and `QuantizeLinear`: a table of 256 bytes, made by the reference kernels.

use byoc_plugin_api::{DType, to_hex};
use ndarray::{Array1, ArrayD, IxDyn};

use super::super::graph::{Graph, Search};
use super::Scaling;
use crate::program::{Op, Step};
use crate::reference::{self, Array};

/// Steps of functions of one element, in order, and the value that the first one reads.
pub(super) struct Chain {
    pub(super) steps: Vec<usize>,
    pub(super) start: usize,
}

/// Functions of one element, whose other inputs are constant numbers.
const FUNCTIONS: &[&str] = &[
    "Abs",
    "Ceil",
    "Celu",
    "Clip",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Softplus",
    "Sqrt",
    "Swish",
    "Tanh",
];

/// The functions behind each other whose result a step quantises.
pub(super) fn chain(search: &Search<'_, '_>, quantise: &Step) -> Option<Chain> {
    let mut chain = Chain { steps: Vec::new(), start: quantise.input(0)? };
    while let Some((at, step)) = search.producer(chain.start).filter(|(_, step)| is_function(search.graph, step)) {
        chain.steps.insert(0, at);
        chain.start = step.input(0)?;
    }
    (!chain.steps.is_empty()).then_some(chain)
}

fn is_function(graph: &Graph<'_>, step: &Step) -> bool {
    let constant = |value: &Option<usize>| value.is_none_or(|value| graph.scalar(value).is_some());
    step.onnx().is_some_and(|op| FUNCTIONS.contains(&op)) && step.inputs.iter().skip(1).all(constant)
}

/// The table of the steps between the bytes `x` and the result of `quantise`.
pub(super) fn of(search: &Search<'_, '_>, from: &Scaling, x: usize, steps: &[usize], quantise: &Step) -> Option<Op> {
    let graph = search.graph;
    let (scale, zero) = (graph.scalar(from.scale)?, number(graph, from.zero)?);
    let signed = graph.values[x].dtype == DType::I8;
    let element = |byte: u8| if signed { f32::from(byte as i8) } else { f32::from(byte) };
    let numbers: Vec<f32> = (0..=u8::MAX).map(|byte| (element(byte) - zero) * scale).collect();
    let mut values = Array::from_f64(DType::F32, Array1::from(numbers).mapv(f64::from).into_dyn());
    for &step in steps {
        let step = &graph.steps[step];
        let others =
            step.inputs.iter().skip(1).map(|value| value.map_or(Some(None), |value| one(graph, value).map(Some)));
        let others: Vec<Option<Array<'static>>> = others.collect::<Option<_>>()?;
        let inputs = [Some(values)].into_iter().chain(others).collect();
        values = reference::compute(&step.node()?, inputs, &[Some(DType::F32)]).ok()?.into_iter().next()?;
    }
    let mut inputs = vec![Some(values), Some(one(graph, quantise.input(1)?)?)];
    let dtype = graph.values[quantise.output(0)?].dtype;
    if let Some(zero) = quantise.input(2) {
        let zero = f64::from(number(graph, Some(zero))?);
        inputs.push(Some(Array::from_f64(dtype, ArrayD::from_elem(IxDyn(&[]), zero))));
    }
    let bytes = reference::compute(&quantise.node()?, inputs, &[Some(dtype)]).ok()?.into_iter().next()?;
    let table: Vec<u8> = bytes.to_ints().into_iter().map(|value| value as u8).collect();
    (table.len() == 256).then(|| Op::Lookup { table: to_hex(&table) })
}

/// A constant number as an array without dimensions.
fn one(graph: &Graph<'_>, value: usize) -> Option<Array<'static>> {
    let number = f64::from(graph.scalar(value)?);
    Some(Array::from_f64(DType::F32, ArrayD::from_elem(IxDyn(&[]), number)))
}

/// The number of a constant integer, 0 where it is absent.
fn number(graph: &Graph<'_>, value: Option<usize>) -> Option<f32> {
    match value {
        None => Some(0.0),
        Some(value) => match graph.ints(value)?.as_slice() {
            [number] => Some(*number as f32),
            _ => None,
        },
    }
}
