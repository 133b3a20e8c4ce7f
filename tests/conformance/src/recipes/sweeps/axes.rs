//! Operators that go along axes: reductions, normalisation, sums.

use byoc_plugin_api::{Attribute, DType};

use super::super::{INNER, Operand, Wish, any, filled, ints};
use super::{List, inserted, int, resized};
use crate::onnx::Fill;

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match op {
        "ReduceL1" | "ReduceL2" | "ReduceMax" | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum"
        | "ReduceSumSquare" | "ReduceLogSumExp" => reduce(wish, Fill::Any, found),
        "ReduceLogSum" => reduce(wish, Fill::Positive, found),
        "ArgMax" | "ArgMin" if wish.dtype == DType::I64 => place_of_most(wish, found),
        "Softmax" | "LogSoftmax" | "Hardmax" => softmax(wish, found),
        "CumSum" | "CumProd" => running(wish, found),
        "LayerNormalization" | "RMSNormalization" => layer(op, wish, found),
        "BatchNormalization" => batch(wish, found),
        "InstanceNormalization" => instance(wish, found),
        "GroupNormalization" => groups(wish, found),
        "LpNormalization" => length(wish, found),
        "LRN" if wish.shape.len() == 4 => neighbours(wish, found),
        _ => {}
    }
}

fn reduce(Wish { dtype, shape }: &Wish, fill: Fill, found: &mut List) {
    let x = |shape: &[usize]| filled(*dtype, shape, fill);
    let rank = shape.len();
    let (flat, kept) = (("keepdims", int(0)), ("keepdims", int(1)));
    for axis in 0..rank {
        let longer = inserted(shape, axis, INNER);
        found.add(&format!("axis {axis}"), vec![x(&longer), ints(&[axis as i64])], std::slice::from_ref(&flat));
        let from_end = axis as i64 - rank as i64 - 1;
        found.add(&format!("axis {from_end}"), vec![x(&longer), ints(&[from_end])], std::slice::from_ref(&flat));
    }
    let both = inserted(&inserted(shape, 0, INNER), rank + 1, 5);
    found.add("first and last axis", vec![x(&both), ints(&[0, -1])], std::slice::from_ref(&flat));
    found.add("one element", vec![x(&inserted(shape, rank, 1)), ints(&[-1])], std::slice::from_ref(&flat));
    found.add("100 elements", vec![x(&inserted(shape, rank, 100)), ints(&[-1])], std::slice::from_ref(&flat));
    for axis in (0..rank).filter(|&axis| shape[axis] == 1) {
        let operands = vec![x(&resized(shape, axis, INNER)), ints(&[axis as i64])];
        found.add(&format!("axis {axis}, kept"), operands, std::slice::from_ref(&kept));
    }
    if shape.is_empty() {
        found.add("all axes", vec![x(&[3, INNER])], std::slice::from_ref(&flat));
    }
    if shape.iter().all(|&size| size == 1) && rank > 0 {
        found.add("all axes, kept", vec![x(&vec![INNER; rank])], std::slice::from_ref(&kept));
    }
    let nothing = [("noop_with_empty_axes", int(1)), kept];
    found.add("noop_with_empty_axes", vec![x(shape)], &nothing);
    found.add("noop_with_empty_axes, no axis", vec![x(shape), ints(&[])], &nothing);
}

fn place_of_most(Wish { shape, .. }: &Wish, found: &mut List) {
    for axis in 0..=shape.len() {
        let longer = inserted(shape, axis, INNER);
        for last in [0, 1] {
            // Ties, of which the first one counts or the last one.
            let attributes = [("axis", int(axis as i64)), ("keepdims", int(0)), ("select_last_index", int(last))];
            let name = format!("axis={axis} select_last_index={last}");
            found.add(&name, vec![filled(DType::F32, &longer, Fill::Few)], &attributes);
        }
    }
    for axis in (0..shape.len()).filter(|&axis| shape[axis] == 1) {
        let attributes = [("axis", int(axis as i64)), ("keepdims", int(1))];
        found.add(&format!("axis={axis}, kept"), vec![any(DType::F32, &resized(shape, axis, INNER))], &attributes);
    }
}

fn softmax(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        found.add(&format!("axis={axis}"), vec![any(*dtype, shape)], &[("axis", int(axis as i64))]);
    }
    // The largest has to be taken off, or exponentials become infinite.
    found.add("large values", vec![filled(*dtype, shape, Fill::Large)], &[]);
}

fn running(Wish { dtype, shape }: &Wish, found: &mut List) {
    let place = |axis: usize| Operand::Ints(vec![axis as i64], vec![]);
    for axis in 0..shape.len() {
        for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let attributes = [("exclusive", int(exclusive)), ("reverse", int(reverse))];
            let name = format!("axis {axis} exclusive={exclusive} reverse={reverse}");
            found.add(&name, vec![any(*dtype, shape), place(axis)], &attributes);
        }
    }
}

fn layer(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |name: &str, axis: usize, epsilon: f32, fill: Fill| {
        let (x, scale) = (filled(*dtype, shape, fill), any(*dtype, &shape[axis..]));
        let operands = match op {
            "LayerNormalization" => vec![x, scale.clone(), scale],
            _ => vec![x, scale],
        };
        found.optional(name, operands, 2, &[("axis", int(axis as i64)), ("epsilon", Attribute::Float(epsilon))]);
    };
    for axis in 0..shape.len() {
        add(&format!("axis={axis}"), axis, 1e-5, Fill::Any);
    }
    if !shape.is_empty() {
        add("epsilon=0.5", shape.len() - 1, 0.5, Fill::Any);
        add("a mean far from zero", shape.len() - 1, 1e-5, Fill::Far);
    }
}

fn batch(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [_, channels, ..] = *shape.as_slice() else { return };
    let list = || any(*dtype, &[channels]);
    let operands = || vec![any(*dtype, shape), list(), list(), list(), filled(*dtype, &[channels], Fill::Positive)];
    found.add("epsilon=0.5", operands(), &[("epsilon", Attribute::Float(0.5))]);
    found.add("usual", operands(), &[]);
}

fn instance(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [_, channels, _, ..] = *shape.as_slice() else { return };
    let operands = || vec![any(*dtype, shape), any(*dtype, &[channels]), any(*dtype, &[channels])];
    found.add("usual", operands(), &[]);
    found.add("epsilon=0.5", operands(), &[("epsilon", Attribute::Float(0.5))]);
}

fn groups(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [_, channels, _, ..] = *shape.as_slice() else { return };
    for groups in [1, 2, 4].into_iter().filter(|groups| channels % groups == 0) {
        let operands = vec![any(*dtype, shape), any(*dtype, &[channels]), any(*dtype, &[channels])];
        found.add(&format!("num_groups={groups}"), operands, &[("num_groups", int(groups as i64))]);
    }
}

fn length(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        for p in [1, 2] {
            let attributes = [("axis", int(axis as i64)), ("p", int(p))];
            found.add(&format!("axis={axis} p={p}"), vec![filled(*dtype, shape, Fill::NonZero)], &attributes);
        }
    }
}

fn neighbours(Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |name: &str, attributes: &[(&str, Attribute)]| found.add(name, vec![any(*dtype, shape)], attributes);
    let float = |name: &'static str, value: f32| (name, Attribute::Float(value));
    add("size=5", &[("size", int(5))]);
    add("size=4", &[("size", int(4))]);
    add("alpha=0.5 beta=0.5 bias=2", &[("size", int(3)), float("alpha", 0.5), float("beta", 0.5), float("bias", 2.0)]);
}
