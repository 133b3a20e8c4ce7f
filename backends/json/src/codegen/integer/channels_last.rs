//! Images of integer convolutions have their channels last. What lies between two of them keeps that order where its kernel does not
//! care; elsewhere the images are transposed.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::Dim;

use super::super::graph::Graph;
use super::elements;
use crate::program::{Op, Step};

/// From [N, C, H, W], and back.
const LAST: [usize; 4] = [0, 2, 3, 1];
const FIRST: [usize; 4] = [0, 3, 1, 2];

/// Transposes images for the steps that want their channels last.
pub(in super::super) fn run(graph: &mut Graph<'_>) {
    if !graph.steps.iter().any(wants) {
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
}

/// Whether a step takes images with their channels last, and no others.
fn wants(step: &Step) -> bool {
    matches!(step.op, Op::IntegerConv(_) | Op::IntegerPool(_) | Op::IntegerAverage(_) | Op::IntegerMean)
}

struct Order<'g, 'r> {
    graph: &'g mut Graph<'r>,
    steps: Vec<Step>,
    /// The same images with their channels last.
    last: HashMap<usize, usize>,
    /// Images that are there with their channels last only.
    missing: HashSet<usize>,
}

impl Order<'_, '_> {
    fn add(&mut self, mut step: Step) {
        let images: Vec<usize> = match &step.op {
            _ if wants(&step) => vec![0],
            _ => self.indifferent(&step),
        };
        for (position, value) in step.inputs.iter_mut().enumerate() {
            let Some(value) = value else { continue };
            match images.contains(&position) {
                true => *value = self.last(*value),
                false => self.first(*value),
            }
        }
        if !images.is_empty() {
            if let Op::Concat { axis } = &mut step.op {
                *axis = FIRST[*axis];
            }
            if let Some(Some(y)) = step.outputs.first_mut() {
                let twin = self.twin(*y);
                self.missing.insert(*y);
                *y = twin;
            }
        }
        self.steps.push(step);
    }

    /// The inputs that a step takes in either order, if one of them has its channels last.
    fn indifferent(&self, step: &Step) -> Vec<usize> {
        let Some(y) = step.output(0).filter(|&y| self.graph.shape(y).len() == 4) else { return Vec::new() };
        let like = |position: usize| step.input(position).is_some_and(|x| self.graph.shape(x) == self.graph.shape(y));
        let number = |position: usize| step.input(position).is_some_and(|x| elements(self.graph, x) == Some(1));
        let images = match &step.op {
            Op::Quantize
            | Op::Dequantize { axis: None }
            | Op::DynamicQuantize
            | Op::Lookup { .. }
            | Op::Unary { .. } => {
                vec![0]
            }
            Op::Combine(_) => vec![0, 3],
            Op::Binary { .. } => (0..2).filter(|&position| like(position)).collect(),
            Op::Concat { .. } => (0..step.inputs.len()).collect(),
            _ => return Vec::new(),
        };
        let others = matches!(step.op, Op::Binary { .. }) && !(0..2).all(|position| like(position) || number(position));
        let reached = images.iter().any(|&position| step.input(position).is_some_and(|x| self.missing.contains(&x)));
        let constant = images.iter().any(|&position| step.input(position).is_some_and(|x| self.graph.is_constant(x)));
        if reached && !others && !constant { images } else { Vec::new() }
    }

    /// The value that images have with their channels last.
    fn twin(&mut self, value: usize) -> usize {
        if let Some(&twin) = self.last.get(&value) {
            return twin;
        }
        let shape: Vec<Dim> = LAST.iter().map(|&axis| self.graph.shape(value)[axis].clone()).collect();
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
        self.transpose(value, twin, &LAST);
        twin
    }

    /// Makes sure that a value is there in the order of ONNX.
    fn first(&mut self, value: usize) {
        if self.missing.remove(&value) {
            let twin = self.last[&value];
            self.transpose(twin, value, &FIRST);
        }
    }

    fn transpose(&mut self, from: usize, to: usize, perm: &[usize; 4]) {
        let name = self.steps.last().map_or_else(|| "input".into(), |step| step.name.clone());
        // Where there is one pixel or one channel, nothing moves.
        let one = |axis: usize| self.graph.shape(from)[axis] == Dim::Fixed(1);
        let (first, last) = if *perm == LAST { ([1, 1], [2, 3]) } else { ([3, 3], [1, 2]) };
        let stays = first.iter().all(|&axis| one(axis)) || last.iter().all(|&axis| one(axis));
        let op = if stays { Op::View } else { Op::Transpose { perm: perm.to_vec() } };
        self.steps.push(Step { name, op, inputs: vec![Some(from)], outputs: vec![Some(to)] });
    }
}
