//! Chooses the values in NCHW16c: those that a convolution writes, and those computed from them, as long as the kernels
//! support it. Conversions are inserted at the borders only.

use std::collections::HashMap;

use byoc_plugin_api::Dim;

use super::graph::Graph;
use crate::kernels::{BLOCK, MAX_BLOCKED_LRN};
use crate::program::{Op, Step};

/// Chooses layouts, marks values and inserts conversions.
pub(super) fn run(graph: &mut Graph<'_>) {
    let steps = std::mem::take(&mut graph.steps);
    let mut layout = Layout { graph, steps: Vec::new(), twins: HashMap::new() };
    for step in steps {
        layout.add(step);
    }
    let outputs = layout.graph.outputs.clone();
    let outputs = outputs.into_iter().map(|value| layout.get(value, false)).collect();
    let steps = layout.steps;
    graph.outputs = outputs;
    graph.steps = steps;
}

struct Layout<'g, 'r> {
    graph: &'g mut Graph<'r>,
    steps: Vec<Step>,
    /// The same tensor in the other layout.
    twins: HashMap<usize, usize>,
}

impl Layout<'_, '_> {
    fn add(&mut self, mut step: Step) {
        let (inputs, output) = match &step.op {
            Op::Conv(conv) => (conv.kind.input_blocked(), conv.kind.output_blocked()),
            _ if self.prefers_blocked(&step) => (true, true),
            _ => (false, false),
        };
        let is_conv = matches!(step.op, Op::Conv(_));
        for (position, value) in step.inputs.iter_mut().enumerate() {
            let Some(value) = value else { continue };
            // Weights and vectors stay as they are; the residual of a convolution has the layout of its result.
            let wanted = match position {
                1 if is_conv => false,
                3 if is_conv => output,
                _ => inputs,
            };
            // The image of a convolution may be a constant; other steps read constants as they are.
            let image = if is_conv { self.graph.shape(*value).len() == 4 } else { self.is_image(*value) };
            if !wanted || image {
                *value = self.get(*value, wanted);
            }
        }
        for &value in step.outputs.iter().flatten() {
            self.graph.values[value].blocked = output;
        }
        self.steps.push(step);
    }

    /// Whether the value is a tensor of rank 4 that a step computes, or the region receives.
    fn is_image(&self, value: usize) -> bool {
        self.graph.shape(value).len() == 4 && !self.graph.is_constant(value)
    }

    /// The value in the wanted layout, converted if need be.
    fn get(&mut self, value: usize, blocked: bool) -> usize {
        if self.graph.values[value].blocked == blocked {
            return value;
        }
        if let Some(&twin) = self.twins.get(&value) {
            return twin;
        }
        let known = self.graph.values[value].clone();
        let same_bytes = is_vector(&known.shape, blocked);
        let twin = self.graph.add_value(known.dtype, known.shape, blocked);
        let op = match (same_bytes, blocked) {
            (true, _) => Op::View,
            (false, true) => Op::ToBlocked,
            (false, false) => Op::FromBlocked,
        };
        let name = self.steps.last().map_or_else(|| "input".into(), |step| step.name.clone());
        self.steps.push(Step { name, op, inputs: vec![Some(value)], outputs: vec![Some(twin)] });
        self.twins.insert(value, twin);
        self.twins.insert(twin, value);
        twin
    }

    /// Whether a step other than a convolution should work on NCHW16c: it can, and an input is so already.
    fn prefers_blocked(&self, step: &Step) -> bool {
        let is_blocked = |value: &usize| self.graph.values[*value].blocked;
        if !step.inputs.iter().flatten().any(is_blocked) {
            return false;
        }
        match &step.op {
            Op::Pool(_) | Op::GlobalPool { .. } | Op::Affine { .. } | Op::Unary { .. } => true,
            Op::Lrn { size, .. } => *size <= MAX_BLOCKED_LRN,
            Op::Binary { .. } => self.binary_fits(step),
            Op::Concat { axis: 1 } => {
                let (last, others) = step.inputs.split_last().unwrap_or((&None, &[]));
                let whole = |value: &Option<usize>| {
                    let channels = value.and_then(|value| self.graph.shape(value).get(1)?.fixed());
                    channels.is_some_and(|channels| channels.is_multiple_of(BLOCK))
                };
                let images = step.inputs.iter().flatten().all(|&value| self.is_image(value));
                images && last.is_some() && others.iter().all(whole)
            }
            _ => false,
        }
    }

    /// Both operands are images of the result's size, images of one pixel, or single numbers.
    fn binary_fits(&self, step: &Step) -> bool {
        let Some(y) = step.output(0) else { return false };
        let out = self.graph.shape(y);
        let one = Dim::Fixed(1);
        out.len() == 4
            && step.inputs.iter().flatten().all(|&value| {
                let shape = self.graph.shape(value);
                let number = shape.iter().all(|dim| *dim == one);
                let pixel = shape.len() == 4 && shape[..2] == out[..2] && shape[2..] == [one.clone(), one.clone()];
                number || (self.is_image(value) && (shape == out || pixel))
            })
    }
}

/// Whether an image has one pixel and its channels are the same in both layouts. A last block that is not full is there
/// in NCHW16c only: such an image is a view of it, not the other way round.
fn is_vector(shape: &[Dim], to_blocked: bool) -> bool {
    let [n, c, h, w] = shape else { return false };
    let one = Dim::Fixed(1);
    let whole = c.fixed().is_some_and(|c| c.is_multiple_of(BLOCK));
    *h == one && *w == one && (whole || (*n == one && !to_blocked))
}
