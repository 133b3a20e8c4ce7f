//! Lowers nodes to kernels: each node that has a fast kernel, independent of its neighbours.

use byoc_plugin_api::{DType, Dim};

use super::graph::Graph;
use super::window::Window;
use crate::kernels::{Activation, Binary, Broadcast, Math, Reduce, Unary};
use crate::program::{Gemm, Op, Pool, Step};

pub(super) mod movement;
mod sampling;
mod transposed;

/// Lowers every step that is still a node and has a fast kernel.
pub(super) fn run(graph: &mut Graph<'_>) {
    for index in 0..graph.steps.len() {
        // What the runtime would refuse stays a node.
        if let Some(step) = lower(graph, &graph.steps[index]).filter(|step| step.op.check().is_ok()) {
            graph.steps[index] = step;
        }
    }
}

fn lower(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let op = step.onnx()?;
    if let Some(op) = movement::lower(graph, step) {
        return Some(op);
    }
    let fast = step.inputs.iter().chain(&step.outputs).flatten();
    let (x, y) = (step.input(0)?, step.output(0)?);
    if !graph.is_fast(x) || !graph.is_fast(y) {
        return None;
    }
    if let Some(function) = function(graph, step) {
        return Some(with(step, Op::Unary { function }, 1));
    }
    if let Some(op) = reduction(graph, step) {
        return Some(with(step, op, 1));
    }
    if let Some(step) = sampling::lower(graph, step) {
        return Some(step);
    }
    if !fast.clone().all(|&value| graph.is_fast(value)) {
        return None;
    }
    match op {
        "MatMul" | "Gemm" => gemm(graph, step),
        "ConvTranspose" => transposed::lower(graph, step),
        "MaxPool" | "AveragePool" => Some(with(step, pool(graph, step)?, 1)),
        "GlobalAveragePool" | "GlobalMaxPool" if graph.shape(x).len() == 4 => {
            Some(with(step, Op::GlobalPool { max: op == "GlobalMaxPool" }, 1))
        }
        "Softmax" | "LogSoftmax" => {
            let axis = axis(step.int("axis", -1), graph.shape(x).len())?;
            Some(with(step, Op::Softmax { axis, log: op == "LogSoftmax" }, 1))
        }
        "LayerNormalization" | "RMSNormalization" => norm(graph, step),
        "LRN" if graph.shape(x).len() == 4 => {
            let size = usize::try_from(step.int("size", 1)).ok()?;
            let (alpha, beta, bias) = (step.float("alpha", 1e-4), step.float("beta", 0.75), step.float("bias", 1.0));
            Some(with(step, Op::Lrn { size, alpha, beta, bias }, 1))
        }
        _ => binary(graph, step),
    }
}

/// The step with another operator and its first `inputs` inputs.
fn with(step: &Step, op: Op, inputs: usize) -> Step {
    let inputs = step.inputs.iter().copied().take(inputs).collect();
    Step { name: step.name.clone(), op, inputs, outputs: step.outputs[..1].to_vec() }
}

/// `value` as an axis: negative ones count from the back.
pub(super) fn axis(value: i64, rank: usize) -> Option<usize> {
    let from_front = if value < 0 { value + rank as i64 } else { value };
    usize::try_from(from_front).ok().filter(|&axis| axis < rank)
}

/// The function of one element that a node is.
fn function(graph: &Graph<'_>, step: &Step) -> Option<Unary> {
    let act = |act: Activation| Some(Unary::Act(act));
    match step.onnx()? {
        "Relu" => act(Activation::Relu),
        "Clip" => act(Activation::Clip {
            min: end(graph, step.input(1), f32::NEG_INFINITY)?,
            max: end(graph, step.input(2), f32::INFINITY)?,
        }),
        "LeakyRelu" => act(Activation::LeakyRelu { alpha: finite(step.float("alpha", 0.01))? }),
        "Elu" => act(Activation::Elu { alpha: finite(step.float("alpha", 1.0))? }),
        "Sigmoid" => act(Activation::Sigmoid),
        "HardSigmoid" => act(Activation::HardSigmoid {
            alpha: finite(step.float("alpha", 0.2))?,
            beta: finite(step.float("beta", 0.5))?,
        }),
        "HardSwish" => act(Activation::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }),
        "Swish" if step.float("alpha", 1.0) == 1.0 => act(Activation::Silu),
        "Tanh" => act(Activation::Tanh),
        "Gelu" if step.text("approximate", "none") == "tanh" => act(Activation::GeluTanh),
        "Gelu" => act(Activation::GeluErf),
        "Softplus" => act(Activation::Softplus),
        "Mish" => act(Activation::Mish),
        "Exp" => Some(Unary::Exp),
        "Log" => Some(Unary::Log),
        "Sqrt" => Some(Unary::Sqrt),
        "Reciprocal" => Some(Unary::Reciprocal),
        "Erf" => Some(Unary::Erf),
        "Abs" => Some(Unary::Abs),
        "Neg" => Some(Unary::Neg),
        "Sin" => Some(Unary::Sin),
        "Cos" => Some(Unary::Cos),
        "Tan" => Some(Unary::Tan),
        "Floor" => Some(Unary::Floor),
        "Ceil" => Some(Unary::Ceil),
        "Round" => Some(Unary::Round),
        "Sign" => Some(Unary::Sign),
        _ => None,
    }
}

/// An end of a clip: `open` where it is absent; `None` where it is not a constant.
fn end(graph: &Graph<'_>, value: Option<usize>, open: f32) -> Option<f32> {
    value.map_or(Some(open), |value| graph.scalar(value).filter(|end| !end.is_nan()))
}

fn finite(value: f32) -> Option<f32> {
    Some(value).filter(|value| value.is_finite())
}

fn binary(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let function = match step.onnx()? {
        "Add" | "Sum" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "Max" => Binary::Max,
        "Min" => Binary::Min,
        "Pow" => Binary::Pow,
        _ => return None,
    };
    let [Some(a), Some(b)] = step.inputs[..] else { return None };
    let y = step.output(0)?;
    let ranks = [a, b, y].map(|value| graph.shape(value).len());
    let same = graph.shape(a) == graph.shape(b);
    // More axes than the kernel walks can be joined where all sizes are known.
    let joined = || Some(Broadcast::new(&graph.fixed_shape(y)?, &graph.fixed_shape(a)?, &graph.fixed_shape(b)?));
    let fits = same || ranks.iter().all(|&rank| rank <= 4) || joined().flatten().is_some();
    fits.then(|| with(step, Op::Binary { function, act: Activation::None }, 2))
}

fn gemm(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (a, b, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let rank = |value: usize| graph.shape(value).len();
    if !(2..=4).contains(&rank(a)) || !(2..=4).contains(&rank(b)) {
        return None;
    }
    let is_gemm = step.onnx()? == "Gemm";
    let alpha = if is_gemm { finite(step.float("alpha", 1.0))? } else { 1.0 };
    let flag = |name: &str| is_gemm && step.int(name, 0) != 0;
    let gemm = Gemm {
        trans_a: flag("transA"),
        trans_b: flag("transB"),
        packed: None,
        alpha,
        act: Activation::None,
        math: Math::F32,
    };
    let mut inputs = vec![Some(a), Some(b)];
    if let Some(c) = step.input(2).filter(|_| is_gemm && step.float("beta", 1.0) != 0.0) {
        if step.float("beta", 1.0) != 1.0 {
            return None;
        }
        match role(graph, c, y)? {
            Role::Bias => inputs.push(Some(c)),
            Role::Residual => inputs.extend([None, Some(c)]),
        }
    }
    Some(Step { name: step.name.clone(), op: Op::Gemm(gemm), inputs, outputs: step.outputs[..1].to_vec() })
}

/// How a tensor can be added to a matrix product.
pub(super) enum Role {
    /// One value for each column, or (as [M, 1]) for each row of a single product.
    Bias,
    /// A tensor of the same shape.
    Residual,
}

/// The part that `value` can take in a sum with the product `y`.
pub(super) fn role(graph: &Graph<'_>, value: usize, y: usize) -> Option<Role> {
    let (shape, out) = (graph.shape(value), graph.shape(y));
    if shape == out {
        return Some(Role::Residual);
    }
    let (&columns, lead) = (out.last().as_ref()?, &shape[..shape.len().saturating_sub(1)]);
    let one = Dim::Fixed(1);
    if shape.len() <= out.len() && shape.last() == Some(columns) && lead.iter().all(|dim| *dim == one) {
        return Some(Role::Bias);
    }
    let by_row = out.len() == 2 && shape.len() == 2 && shape[0] == out[0] && shape[1] == one;
    by_row.then_some(Role::Bias)
}

fn pool(graph: &Graph<'_>, step: &Step) -> Option<Op> {
    let max = step.onnx()? == "MaxPool";
    if step.output(1).is_some() || step.int("storage_order", 0) != 0 {
        return None;
    }
    let window = Window::of(step, graph.shape(step.input(0)?), graph.shape(step.output(0)?), None)?;
    Some(Op::Pool(Pool {
        max,
        count_include_pad: step.int("count_include_pad", 0) != 0,
        kernel: window.kernel,
        strides: window.strides,
        pads: window.pads,
        dilations: window.dilations,
    }))
}

fn norm(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (x, scale) = (step.input(0)?, step.input(1)?);
    let shape = graph.shape(x);
    let axis = axis(step.int("axis", -1), shape.len())?;
    let fits = |value: usize| graph.shape(value) == &shape[axis..];
    let only_y = step.outputs.get(1..).is_none_or(|rest| rest.iter().all(Option::is_none));
    if !fits(scale) || !step.input(2).is_none_or(fits) || !only_y {
        return None;
    }
    let rms = step.onnx()? == "RMSNormalization";
    let op = Op::LayerNorm { axis, eps: finite(step.float("epsilon", 1e-5))?, rms };
    Some(Step {
        name: step.name.clone(),
        op,
        inputs: vec![Some(x), Some(scale), step.input(2)],
        outputs: step.outputs[..1].to_vec(),
    })
}

/// A reduction over axes that are side by side.
fn reduction(graph: &Graph<'_>, step: &Step) -> Option<Op> {
    let function = match step.onnx()? {
        "ReduceMean" => Reduce::Mean,
        "ReduceSum" => Reduce::Sum,
        "ReduceMax" => Reduce::Max,
        "ReduceMin" => Reduce::Min,
        "ReduceProd" => Reduce::Prod,
        "ReduceSumSquare" => Reduce::SumSquare,
        "ReduceL1" => Reduce::L1,
        "ReduceL2" => Reduce::L2,
        _ => return None,
    };
    let rank = graph.shape(step.input(0)?).len();
    let mut axes: Vec<usize> = match step.input(1) {
        Some(axes) => graph.ints(axes)?.into_iter().map(|value| axis(value, rank)).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    axes.sort_unstable();
    axes.dedup();
    if axes.is_empty() {
        if step.int("noop_with_empty_axes", 0) != 0 {
            return None;
        }
        axes = (0..rank).collect();
    }
    let (from, to) = (*axes.first()?, *axes.last()? + 1);
    let is_image = graph.shape(step.output(0)?).len() == 4 && [from, to, rank] == [2, 4, 4];
    match (function, to - from == axes.len()) {
        (_, false) => None,
        // They may stay in NCHW16c.
        (Reduce::Mean, true) if is_image => Some(Op::GlobalPool { max: false }),
        (Reduce::Max, true) if is_image => Some(Op::GlobalPool { max: true }),
        (_, true) => Some(Op::Reduce { function, from, to }),
    }
}

/// Whether the value holds integers that index.
fn is_index(graph: &Graph<'_>, value: usize) -> bool {
    matches!(graph.values[value].dtype, DType::I64 | DType::I32)
}
