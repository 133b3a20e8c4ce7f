//! Nodes that are a simpler one and a view: an element picked by a known index is a cut, and a transposition may move axes of one
//! element wherever it likes.

use byoc_plugin_api::{Attribute, Dim};

use super::graph::Graph;
use super::lower::{axis, movement};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    let steps = std::mem::take(&mut graph.steps);
    for step in steps {
        let found = picked(graph, &step).or_else(|| moved(graph, &step));
        let Some((op, shape)) = found.filter(|(op, _)| op.check().is_ok()) else {
            graph.steps.push(step);
            continue;
        };
        let dtype = step.output(0).map(|output| graph.values[output].dtype);
        let inner = dtype.map(|dtype| graph.add_value(dtype, shape, false));
        graph.steps.push(Step { name: step.name.clone(), op, inputs: step.inputs[..1].to_vec(), outputs: vec![inner] });
        graph.steps.push(Step { op: Op::View, inputs: vec![inner], ..step });
    }
}

/// A `Gather` of one element of an axis: a cut, which keeps the axis.
fn picked(graph: &Graph<'_>, step: &Step) -> Option<(Op, Vec<Dim>)> {
    let x = step.input(0).filter(|_| step.onnx() == Some("Gather"))?;
    let mut shape = graph.shape(x).to_vec();
    let [index] = graph.ints(step.input(1)?)?[..] else { return None };
    let axis = axis(step.int("axis", 0), shape.len())?;
    let size = i64::try_from(shape[axis].fixed()?).ok()?;
    if !(-size..size).contains(&index) || !movement::fits(graph, step) {
        return None;
    }
    let mut starts = vec![0; shape.len()];
    (starts[axis], shape[axis]) = (index, Dim::Fixed(1));
    Some((Op::Slice { starts, steps: vec![1; shape.len()] }, shape))
}

/// A `Transpose` of known sizes that moves axes of one element among the others: one that leaves them where they are. With other
/// sizes nothing reads through it, and what looks for a permutation is to find it.
fn moved(graph: &Graph<'_>, step: &Step) -> Option<(Op, Vec<Dim>)> {
    let x = step.input(0).filter(|_| step.onnx() == Some("Transpose"))?;
    let shape = graph.shape(x);
    graph.fixed_shape(x)?;
    let perm = movement::permutation(step, shape.len()).filter(|_| movement::fits(graph, step))?;
    let is_one = |axis: usize| shape[axis] == Dim::Fixed(1);
    let mut others = perm.iter().copied().filter(|&axis| !is_one(axis));
    let order: Vec<usize> =
        (0..shape.len()).map(|axis| if is_one(axis) { axis } else { others.next().unwrap_or(axis) }).collect();
    if order == perm {
        return None;
    }
    let Op::Reference { op, attributes } = &step.op else { return None };
    let mut attributes = attributes.clone();
    attributes.insert("perm".to_owned(), Attribute::Ints(order.iter().map(|&axis| axis as i64).collect()));
    let moved = order.iter().map(|&axis| shape[axis].clone()).collect();
    Some((Op::Reference { op: op.clone(), attributes }, moved))
}
