//! Quantised nodes by themselves.

use std::collections::HashMap;

use byoc_plugin_api::DType;

use super::super::graph::Graph;
use super::products::{self, Product};
use super::{Dequantised, Scaling, elements, inputs, is_scale, is_zero};
use crate::constants::Recipe;
use crate::kernels;
use crate::program::integer::product::{A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, BIAS, Y_SCALE, Y_ZERO};
use crate::program::{NBits, Op, Step};
use crate::reference::Packing;

/// Lowers every quantised node that has a fast kernel.
pub(in super::super) fn run(graph: &mut Graph<'_>) {
    for index in 0..graph.steps.len() {
        let step = graph.steps[index].clone();
        if let Some(step) = lower(graph, &step).filter(|step| step.op.check().is_ok()) {
            graph.steps[index] = step;
        }
    }
    fold_biases(graph);
}

/// Biases of 32 bits are constants: what they stand for is computed once.
fn fold_biases(graph: &mut Graph<'_>) {
    let biases: Vec<_> = graph.steps.iter().filter_map(|step| Some((step.output(0)?, bias(graph, step)?))).collect();
    let mut numbers = HashMap::new();
    for (value, recipe) in biases {
        numbers.extend(graph.derive(recipe).map(|derived| (value, derived)));
    }
    for input in graph.steps.iter_mut().flat_map(|step| &mut step.inputs).flatten() {
        *input = numbers.get(input).copied().unwrap_or(*input);
    }
}

/// How a vector of numbers is made of integers of 32 bits, if it is and they are constants.
fn bias(graph: &Graph<'_>, step: &Step) -> Option<Recipe> {
    let Op::Dequantize { axis } = step.op else { return None };
    let (integers, scale, zero) = (step.input(0)?, step.input(1)?, step.input(2));
    let [channels] = graph.fixed_shape(integers)?[..] else { return None };
    let numbers = Dequantised { integers, scale, zero, axis }.numbers(graph)?;
    let start = Some(numbers).filter(|_| graph.values[integers].dtype == DType::I32)?;
    Some(Recipe::Shift { channels, start: Some(start), parts: Vec::new() })
}

fn lower(graph: &mut Graph<'_>, step: &Step) -> Option<Step> {
    let (x, y) = (step.input(0)?, step.output(0)?);
    match step.onnx()? {
        "QuantizeLinear" => Scaling::quantising(graph, step).map(|_| Step { op: Op::Quantize, ..step.clone() }),
        "DequantizeLinear" => dequantise(graph, step),
        "DynamicQuantizeLinear" => graph.is_fast(x).then(|| Step { op: Op::DynamicQuantize, ..step.clone() }),
        "MatMulInteger" => {
            let product = products::gemm(graph, [x, step.input(1)?, y], false)?;
            integer(graph, step, product)
        }
        "ConvInteger" => {
            let product = products::conv(graph, step, [x, step.input(1)?, y])?;
            integer(graph, step, product)
        }
        "QLinearMatMul" => {
            let product = products::gemm(graph, [x, step.input(3)?, y], false)?;
            linear(graph, step, product)
        }
        "QLinearConv" => {
            let product = products::conv(graph, step, [x, step.input(3)?, y])?;
            linear(graph, step, product)
        }
        "com.microsoft.MatMulNBits" => nbits(graph, step),
        _ => None,
    }
}

/// A product with weights of a few bits.
fn nbits(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let packing = Packing::of(&step.node()?).ok()?;
    let (a, b, scales, zeros, bias, y) =
        (step.input(0)?, step.input(1)?, step.input(2)?, step.input(3), step.input(5), step.output(0)?);
    let zeros_fit = zeros.is_none_or(|zeros| matches!(graph.values[zeros].dtype, DType::F32 | DType::U8));
    let fast = [a, scales, y].into_iter().chain(bias).all(|value| graph.is_fast(value));
    let Packing { depth: k, columns: n, bits, block_size: block, bytes } = packing;
    let params = kernels::nbits::NBits { m: 1, n, k, bits, block, bytes };
    let inputs = vec![Some(a), Some(b), Some(scales), zeros, bias];
    let op = Op::NBits(NBits { k, n, bits, block, bytes });
    let fits = fast && zeros_fit && params.is_valid() && step.input(4).is_none();
    fits.then(|| Step { name: step.name.clone(), op, inputs, outputs: step.outputs.clone() })
}

fn dequantise(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let Dequantised { integers, scale, axis, .. } = Dequantised::of_integers(graph, step)?;
    let shape = graph.fixed_shape(scale)?;
    let each = match axis {
        None => Some(1),
        Some(axis) => graph.shape(integers).get(axis)?.fixed(),
    };
    let fits = shape.len() <= 1 && Some(shape.iter().product()) == each;
    fits.then(|| Step { op: Op::Dequantize { axis }, ..step.clone() })
}

/// Whether the value has one element, or one for each column.
fn by_column(graph: &Graph<'_>, value: Option<usize>, columns: usize, dtypes: &[DType]) -> bool {
    value.is_none_or(|value| {
        let fits = matches!(elements(graph, value), Some(count) if count == 1 || count == columns);
        fits && graph.shape(value).len() <= 1 && dtypes.contains(&graph.values[value].dtype)
    })
}

const BYTES: &[DType] = &[DType::U8, DType::I8];

/// `MatMulInteger`, `ConvInteger`: A, B and their zero points.
fn integer(graph: &Graph<'_>, step: &Step, product: Product) -> Option<Step> {
    let (a_zero, b_zero) = (step.input(2), step.input(3));
    if !is_zero(graph, a_zero) || !by_column(graph, b_zero, product.columns, BYTES) {
        return None;
    }
    let inputs = inputs(&[(A, Some(product.a)), (B, Some(product.b)), (A_ZERO, a_zero), (B_ZERO, b_zero)]);
    Some(Step { name: step.name.clone(), op: product.op, inputs, outputs: step.outputs.clone() })
}

/// `QLinearMatMul`, `QLinearConv`: each tensor with its scale and zero point, and a bias of i32.
fn linear(graph: &Graph<'_>, step: &Step, product: Product) -> Option<Step> {
    let input = |index: usize| step.input(index);
    let columns = product.columns;
    let scales = [1, 6].iter().all(|&index| input(index).is_some_and(|scale| is_scale(graph, scale)));
    let bias = input(8).is_none_or(|bias| elements(graph, bias) == Some(columns));
    let fits = scales
        && bias
        && is_zero(graph, input(2))
        && is_zero(graph, input(7))
        && by_column(graph, input(4), columns, &[DType::F32])
        && by_column(graph, input(5), columns, BYTES);
    let inputs = inputs(&[
        (A, Some(product.a)),
        (B, Some(product.b)),
        (A_ZERO, input(2)),
        (B_ZERO, input(5)),
        (A_SCALE, input(1)),
        (B_SCALE, input(4)),
        (BIAS, input(8)),
        (Y_SCALE, input(6)),
        (Y_ZERO, input(7)),
    ]);
    fits.then(|| Step { name: step.name.clone(), op: product.op, inputs, outputs: step.outputs.clone() })
}
