//! Images of integer convolutions have their channels last. What lies between two of them keeps that order where its kernel does not
//! care, or moves elements in that order as well as in the other; elsewhere the images are transposed.
//!
//! An image of more axes than four has its channels cut into several of them, as where they are shuffled.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::Dim;

use super::super::graph::Graph;
use super::elements;
use crate::program::{Op, Step};

/// From [N, C, ..., H, W] to [N, H, W, C, ...]: the axis of the first order for each axis of the last one.
fn last(rank: usize) -> Vec<usize> {
    [0, rank - 2, rank - 1].into_iter().chain(1..rank - 2).collect()
}

/// And back.
fn first(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(3..rank).chain([1, 2]).collect()
}

/// Transposes images for the steps that want their channels last.
pub(in super::super) fn run(graph: &mut Graph<'_>) {
    if !graph.steps.iter().any(|step| wants(graph, step)) {
        return;
    }
    let steps = std::mem::take(&mut graph.steps);
    let mut order = Order { graph, steps: Vec::new(), last: HashMap::new(), missing: HashSet::new() };
    for step in steps {
        order.add(step);
    }
    let outputs = order.graph.outputs.clone();
    outputs.into_iter().for_each(|value| order.first(value));
    graph.steps = order.steps;
    graph.prune();
}

/// Whether a step takes images with their channels last, and no others.
fn wants(graph: &Graph<'_>, step: &Step) -> bool {
    match step.op {
        Op::IntegerConv(_) | Op::IntegerPool(_) | Op::IntegerAverage(_) | Op::IntegerMean => true,
        // Of fewer axes the channels are the last one.
        Op::IntegerAffine { .. } => step.output(0).is_some_and(|y| graph.shape(y).len() == 4),
        _ => false,
    }
}

struct Order<'g, 'r> {
    graph: &'g mut Graph<'r>,
    steps: Vec<Step>,
    /// The same images with their channels last.
    last: HashMap<usize, usize>,
    /// Images that are there with their channels last only.
    missing: HashSet<usize>,
}

/// A step on images with their channels last.
struct InLast {
    /// The inputs that are such images.
    images: Vec<usize>,
    op: Op,
}

impl Order<'_, '_> {
    fn add(&mut self, mut step: Step) {
        if self.is_done(&step) {
            return;
        }
        let in_last = match wants(self.graph, &step) {
            true => Some(InLast { images: vec![0], op: step.op.clone() }),
            false => self.indifferent(&step).or_else(|| self.moves(&step)),
        };
        let Some(InLast { images, op }) = in_last else {
            step.inputs.iter().flatten().for_each(|&value| self.first(value));
            self.steps.push(step);
            return;
        };
        step.op = op;
        for (position, value) in step.inputs.iter_mut().enumerate() {
            let Some(value) = value else { continue };
            match images.contains(&position) {
                true => *value = self.last(*value),
                false => self.first(*value),
            }
        }
        // The others are numbers.
        let images = if matches!(step.op, Op::Split { .. }) { usize::MAX } else { 1 };
        for value in step.outputs.iter_mut().take(images).flatten() {
            let twin = self.twin(*value);
            self.missing.insert(*value);
            *value = twin;
        }
        self.steps.push(step);
    }

    /// Whether a transposition only says that what is there is in the other order.
    fn is_done(&mut self, step: &Step) -> bool {
        let (Op::Transpose { perm }, Some(x), Some(y)) = (&step.op, step.input(0), step.output(0)) else {
            return false;
        };
        if perm.len() != 4 {
            return false;
        }
        if *perm == first(4) && !self.missing.contains(&x) {
            self.last.insert(y, x);
            self.missing.insert(y);
            return true;
        }
        match self.last.get(&x).filter(|_| *perm == last(4)) {
            None => false,
            Some(&twin) => {
                self.steps.push(Step { op: Op::View, inputs: vec![Some(twin)], ..step.clone() });
                true
            }
        }
    }

    /// A step that takes images in either order, if one of them has its channels last.
    fn indifferent(&self, step: &Step) -> Option<InLast> {
        let y = step.output(0).filter(|&y| self.graph.shape(y).len() >= 4)?;
        let like = |position: usize| step.input(position).is_some_and(|x| self.graph.shape(x) == self.graph.shape(y));
        let number = |position: usize| step.input(position).is_some_and(|x| elements(self.graph, x) == Some(1));
        let mut op = step.op.clone();
        let images = match &mut op {
            Op::Quantize
            | Op::Dequantize { axis: None }
            | Op::DynamicQuantize
            | Op::Lookup { .. }
            | Op::Unary { .. } => {
                vec![0]
            }
            Op::Combine(_) => vec![0, 3],
            Op::Binary { .. } => (0..2).filter(|&position| like(position)).collect(),
            Op::Concat { axis } => {
                *axis = first(self.graph.shape(y).len())[*axis];
                (0..step.inputs.len()).collect()
            }
            _ => return None,
        };
        let others = matches!(op, Op::Binary { .. }) && !(0..2).all(|position| like(position) || number(position));
        let reached = images.iter().any(|&position| step.input(position).is_some_and(|x| self.missing.contains(&x)));
        let constant = images.iter().any(|&position| step.input(position).is_some_and(|x| self.graph.is_constant(x)));
        (reached && !others && !constant).then_some(InLast { images, op })
    }

    /// A step that moves elements of images with their channels last, as it does in the other order.
    fn moves(&self, step: &Step) -> Option<InLast> {
        let x = step.input(0).filter(|x| self.missing.contains(x))?;
        let rank = self.graph.shape(x).len();
        let op = match &step.op {
            Op::Slice { starts, steps } => {
                let ordered = |list: &[i64]| last(rank).into_iter().map(|axis| list[axis]).collect();
                Op::Slice { starts: ordered(starts), steps: ordered(steps) }
            }
            Op::Split { axis } => Op::Split { axis: first(rank)[*axis] },
            // Among the axes of channels.
            Op::Transpose { perm } if [0, rank - 2, rank - 1].iter().all(|&axis| perm[axis] == axis) => {
                let channels = perm[1..rank - 2].iter().map(|axis| axis + 2);
                Op::Transpose { perm: (0..3).chain(channels).collect() }
            }
            // The channels alone are cut into several axes, or joined again.
            Op::View => {
                let (from, to) = (self.graph.shape(x), self.graph.shape(step.output(0)?));
                let others =
                    |shape: &[Dim]| last(shape.len())[..3].iter().map(|&axis| shape[axis].clone()).collect::<Vec<_>>();
                (to.len() >= 4 && others(from) == others(to)).then_some(Op::View)?
            }
            _ => return None,
        };
        Some(InLast { images: vec![0], op })
    }

    /// The value that images have with their channels last.
    fn twin(&mut self, value: usize) -> usize {
        if let Some(&twin) = self.last.get(&value) {
            return twin;
        }
        let shape = self.graph.shape(value);
        let shape: Vec<Dim> = last(shape.len()).iter().map(|&axis| shape[axis].clone()).collect();
        let twin = self.graph.add_value(self.graph.values[value].dtype, shape, false);
        self.last.insert(value, twin);
        twin
    }

    /// Images with their channels last, transposed where they are not so yet.
    fn last(&mut self, value: usize) -> usize {
        if let Some(&twin) = self.last.get(&value) {
            return twin;
        }
        let twin = self.twin(value);
        self.transpose(value, twin, last(self.graph.shape(value).len()));
        twin
    }

    /// Makes sure that a value is there in the order of ONNX.
    fn first(&mut self, value: usize) {
        if self.missing.remove(&value) {
            let twin = self.last[&value];
            self.transpose(twin, value, first(self.graph.shape(value).len()));
        }
    }

    fn transpose(&mut self, from: usize, to: usize, perm: Vec<usize>) {
        let name = self.steps.last().map_or_else(|| "input".into(), |step| step.name.clone());
        // Where there is one pixel or one channel, nothing moves.
        let shape = self.graph.shape(from);
        let stays = perm.iter().filter(|&&axis| shape[axis] != Dim::Fixed(1)).is_sorted();
        let op = if stays { Op::View } else { Op::Transpose { perm } };
        self.steps.push(Step { name, op, inputs: vec![Some(from)], outputs: vec![Some(to)] });
    }
}
