//! Values of 16 bits (f16, bf16) are computed as f32, in which all kernels are: operators that compute get twins of f32 of what they
//! read and write, and those that only move elements follow where they move such twins alone. Between two of them nothing is rounded;
//! what leaves the region, and what another operator reads, is. Constants keep their 16 bits in the file.

use std::collections::HashMap;

use byoc_plugin_api::{DType, bf16, f16};

use super::graph::Graph;
use crate::program::{Op, Step};

/// Operators that have kernels of f32 and whose results are floats.
const COMPUTE: &[&str] = &[
    "Abs",
    "Add",
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "Ceil",
    "Celu",
    "Clip",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Div",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GridSample",
    "GroupNormalization",
    "GRU",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "MatMul",
    "Max",
    "MaxPool",
    "Mean",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Pow",
    "RMSNormalization",
    "RNN",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Resize",
    "RotaryEmbedding",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

/// Operators that move elements and make none; a Cast to f32 is one where the elements are there in f32.
const MOVE: &[&str] = &[
    "Concat",
    "DepthToSpace",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Pad",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
];

pub(super) fn run(graph: &mut Graph<'_>) {
    if !graph.values.iter().any(|value| is_narrow(value.dtype)) {
        return;
    }
    let steps = std::mem::take(&mut graph.steps);
    let mut widen = Widen { graph, steps: Vec::new(), twins: HashMap::new() };
    steps.into_iter().for_each(|step| widen.add(step));
    graph.steps = widen.steps;
    graph.prune();
}

/// Whether a type is one of 16 bits that is computed as f32.
pub(super) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Whether a number stays finite, if it is, when it is rounded to a type of 16 bits.
pub(super) fn stays_finite(number: f32, dtype: DType) -> bool {
    let most = if dtype == DType::F16 { f16::MAX.to_f32() } else { bf16::MAX.to_f32() };
    !number.is_finite() || number.abs() <= most
}

struct Widen<'g, 'r> {
    graph: &'g mut Graph<'r>,
    steps: Vec<Step>,
    /// The twin of f32 for a value of 16 bits.
    twins: HashMap<usize, usize>,
}

impl Widen<'_, '_> {
    fn add(&mut self, mut step: Step) {
        if !self.is_for_f32(&step) {
            return self.steps.push(step);
        }
        let name = step.name.clone();
        for value in step.inputs.iter_mut().flatten() {
            *value = self.wide(*value, &name);
        }
        let mut narrow = Vec::new();
        for value in step.outputs.iter_mut().flatten() {
            if !is_narrow(self.graph.values[*value].dtype) {
                continue;
            }
            let twin = self.twin(*value);
            narrow.push(convert(&name, twin, *value));
            *value = twin;
        }
        self.steps.push(step);
        self.steps.extend(narrow);
    }

    fn is_for_f32(&self, step: &Step) -> bool {
        let Some(op) = step.onnx() else { return false };
        let dtype = |value: usize| self.graph.values[value].dtype;
        if COMPUTE.contains(&op) {
            return step.inputs.iter().chain(&step.outputs).flatten().any(|&value| is_narrow(dtype(value)));
        }
        let moves = MOVE.contains(&op) || op == "Cast" && step.output(0).is_some_and(|y| dtype(y) == DType::F32);
        // All that it moves is there as f32: what is not, as a cache that new keys are put behind, would be widened only to be moved.
        let mut narrow = step.inputs.iter().flatten().filter(|&&value| is_narrow(dtype(value)));
        let mut moved = false;
        let there = narrow.all(|value| {
            let constant = self.graph.is_constant(*value);
            let twin = self.twins.contains_key(value);
            moved |= twin && !constant;
            twin || constant
        });
        moves && there && moved
    }

    /// The value as f32: itself, its twin, or a conversion.
    fn wide(&mut self, value: usize, reader: &str) -> usize {
        if !is_narrow(self.graph.values[value].dtype) {
            return value;
        }
        if let Some(&twin) = self.twins.get(&value) {
            return twin;
        }
        if self.graph.constant(value).is_some() {
            let twin = self.graph.widen(value);
            self.twins.insert(value, twin);
            return twin;
        }
        let twin = self.twin(value);
        self.steps.push(convert(reader, value, twin));
        twin
    }

    fn twin(&mut self, value: usize) -> usize {
        let shape = self.graph.values[value].shape.clone();
        let twin = self.graph.add_value(DType::F32, shape, false);
        self.twins.insert(value, twin);
        twin
    }
}

fn convert(name: &str, from: usize, to: usize) -> Step {
    Step { name: name.to_owned(), op: Op::Convert, inputs: vec![Some(from)], outputs: vec![Some(to)] }
}
