//! Bytes that are a function of one other byte each, whatever lies between them: a table of 256, made by the reference kernels.
//!
//! `x * sigmoid(x)`, with what is quantised and dequantised on the way, is one such function of `x`.

use std::collections::HashMap;

use byoc_plugin_api::{DType, to_hex};
use ndarray::{Array1, ArrayD, IxDyn};

use super::super::graph::{Graph, Search};
use super::{Dequantised, Scaling};
use crate::program::{Op, Step};
use crate::reference::{self, Array};

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

/// Functions of two elements.
const OF_TWO: &[&str] = &["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Sum"];

/// Steps that a table stands for, at most.
const MOST: usize = 64;

/// The bytes furthest back that alone decide what the `QuantizeLinear` at `index` makes, and the table.
pub(super) fn of(search: &Search<'_, '_>, index: usize) -> Option<(usize, Op)> {
    let y = search.graph.steps[index].output(0)?;
    let (mut open, mut steps, mut found) = (sources(search, y)?, 0, None);
    while steps < MOST {
        if let [source] = open[..] {
            found = Some(source);
        }
        // Nothing that is open is made of what is written last.
        let Some(&last) = open.iter().max_by_key(|&&value| search.producer(value).map(|(at, _)| at)) else { break };
        let Some(before) = sources(search, last) else { break };
        steps += 1;
        open.retain(|&value| value != last);
        open.extend(before);
        open.sort_unstable();
        open.dedup();
    }
    let source = found?;
    let mut function = Function { search, source, bytes: HashMap::new() };
    let table = function.bytes(y)?;
    Some((source, Op::Lookup { table: to_hex(&table) }))
}

/// The bytes of the same shape that bytes are made of, element by element, each once.
fn sources(search: &Search<'_, '_>, bytes: usize) -> Option<Vec<usize>> {
    let graph = search.graph;
    let (_, step) = search.producer(bytes)?;
    let x = step.input(0)?;
    if let Op::Lookup { .. } = step.op {
        return Some(vec![x]);
    }
    known(graph, &Scaling::quantising(graph, step)?)?;
    let (mut sources, mut open, mut steps) = (Vec::new(), vec![x], 0);
    while let Some(value) = open.pop() {
        steps += 1;
        if number(search, value).is_some() {
            continue;
        }
        if graph.shape(value) != graph.shape(bytes) || steps > MOST {
            return None;
        }
        let (_, step) = search.producer(value)?;
        if let Some(given) = Dequantised::of(graph, step) {
            known(graph, &given.scaling()?)?;
            sources.push(given.integers);
        } else {
            open.extend(operands(graph, step)?);
        }
    }
    sources.sort_unstable();
    sources.dedup();
    Some(sources)
}

/// What a step is an elementwise function of, if it is one.
fn operands(graph: &Graph<'_>, step: &Step) -> Option<Vec<usize>> {
    let constant = |value: &Option<usize>| value.is_none_or(|value| graph.scalar(value).is_some());
    let (op, x) = (step.onnx()?, step.input(0)?);
    let one = FUNCTIONS.contains(&op) && step.inputs[1..].iter().all(constant);
    let two = OF_TWO.contains(&op) && step.inputs.len() == 2;
    let fast = step.outputs.iter().flatten().all(|&value| graph.is_fast(value));
    match (one && fast, two && fast) {
        (true, _) => Some(vec![x]),
        (_, true) => Some(vec![x, step.input(1)?]),
        _ => None,
    }
}

/// The constant number that a value is, as it is or dequantised.
fn number(search: &Search<'_, '_>, value: usize) -> Option<f32> {
    let graph = search.graph;
    if !graph.is_fast(value) {
        return None;
    }
    graph.scalar(value).or_else(|| {
        let given = Dequantised::of(graph, search.producer(value)?.1)?;
        let (scale, zero) = known(graph, &given.scaling()?)?;
        Some((integer(graph, Some(given.integers))? - zero) * scale)
    })
}

/// A scale and a zero point that are constant.
fn known(graph: &Graph<'_>, scaling: &Scaling) -> Option<(f32, f32)> {
    Some((graph.scalar(scaling.scale)?, integer(graph, scaling.zero)?))
}

/// The number of a constant integer, 0 where it is absent.
fn integer(graph: &Graph<'_>, value: Option<usize>) -> Option<f32> {
    match value {
        None => Some(0.0),
        Some(value) => match graph.ints(value)?.as_slice() {
            [number] => Some(*number as f32),
            _ => None,
        },
    }
}

/// Values as functions of each byte of `source`.
struct Function<'s, 'g, 'r> {
    search: &'s Search<'g, 'r>,
    source: usize,
    /// The tables of bytes on the way.
    bytes: HashMap<usize, [u8; 256]>,
}

impl Function<'_, '_, '_> {
    /// The table of bytes.
    fn bytes(&mut self, bytes: usize) -> Option<[u8; 256]> {
        if bytes == self.source {
            return Some(std::array::from_fn(|byte| byte as u8));
        }
        if let Some(&known) = self.bytes.get(&bytes) {
            return Some(known);
        }
        let (graph, step) = (self.search.graph, self.search.producer(bytes)?.1);
        let table = match &step.op {
            Op::Lookup { table } => {
                let table: [u8; 256] = byoc_plugin_api::from_hex(table)?.try_into().ok()?;
                self.bytes(step.input(0)?)?.map(|byte| table[usize::from(byte)])
            }
            _ => {
                let numbers = self.numbers(step.input(0)?)?;
                let (scale, zero) = known(graph, &Scaling::of(graph, step)?)?;
                let dtype = graph.values[bytes].dtype;
                let mut inputs = vec![Some(numbers), Some(one(scale))];
                if step.input(2).is_some() {
                    let zero = ArrayD::from_elem(IxDyn(&[]), f64::from(zero));
                    inputs.push(Some(Array::from_f64(dtype, zero)));
                }
                let made = reference::compute(&step.node()?, inputs, &[Some(dtype)]).ok()?.into_iter().next()?;
                let made: Vec<u8> = made.to_ints().into_iter().map(|value| value as u8).collect();
                made.try_into().ok()?
            }
        };
        self.bytes.insert(bytes, table);
        Some(table)
    }

    /// What a value is for each byte.
    fn numbers(&mut self, value: usize) -> Option<Array<'static>> {
        if let Some(number) = number(self.search, value) {
            return Some(one(number));
        }
        let (graph, step) = (self.search.graph, self.search.producer(value)?.1);
        if let Some(given) = Dequantised::of(graph, step) {
            let (scaling, signed) = (given.scaling()?, graph.values[given.integers].dtype == DType::I8);
            let (scale, zero) = known(graph, &scaling)?;
            let element = |byte: u8| if signed { f32::from(byte as i8) } else { f32::from(byte) };
            let numbers = self.bytes(given.integers)?.map(|byte| (element(byte) - zero) * scale);
            return Some(Array::from_f64(DType::F32, Array1::from_iter(numbers).mapv(f64::from).into_dyn()));
        }
        let operands = operands(graph, step)?;
        let others = step.inputs.iter().skip(operands.len());
        let others: Vec<_> = others.map(|value| value.and_then(|value| graph.scalar(value)).map(one)).collect();
        let inputs =
            operands.into_iter().map(|value| self.numbers(value).map(Some)).chain(others.into_iter().map(Some));
        let inputs: Vec<Option<Array<'static>>> = inputs.collect::<Option<_>>()?;
        reference::compute(&step.node()?, inputs, &[Some(DType::F32)]).ok()?.into_iter().next()
    }
}

/// A number as an array without dimensions.
fn one(number: f32) -> Array<'static> {
    Array::from_f64(DType::F32, ArrayD::from_elem(IxDyn(&[]), f64::from(number)))
}
