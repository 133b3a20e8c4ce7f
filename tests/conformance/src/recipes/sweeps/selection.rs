//! Operators that choose by index, and those with scales of their own.

use byoc_plugin_api::{Attribute, DType};

use super::super::{INNER, Operand, Wish, any, below, filled, ints};
use super::{List, inserted, int, resized, word};
use crate::onnx::Fill;

/// Indices of both signs.
fn within(limit: usize, shape: &[usize]) -> Operand {
    filled(DType::I64, shape, Fill::Within(limit as i64))
}

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match op {
        "Gather" => gather(wish, found),
        "GatherElements" => gather_elements(wish, found),
        "GatherND" => gather_nd(wish, found),
        "ScatterElements" => scatter_elements(wish, found),
        "ScatterND" => scatter_nd(wish, found),
        "TopK" => top(wish, found),
        "OneHot" => one_hot(wish, found),
        "EyeLike" if wish.shape.len() == 2 => {
            for k in [-1, 2] {
                found.add(&format!("k={k}"), vec![any(wish.dtype, &wish.shape)], &[("k", int(k))]);
            }
        }
        "QuantizeLinear" | "DequantizeLinear" => scales(op, wish, found),
        _ => {}
    }
}

fn gather(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        let from = any(*dtype, &resized(shape, axis, INNER));
        let attributes = [("axis", int(axis as i64))];
        found.add(&format!("axis={axis}"), vec![from.clone(), below(INNER, &[shape[axis]])], &attributes);
        found.add(&format!("axis={axis} from the end"), vec![from, within(INNER, &[shape[axis]])], &attributes);
    }
    for axis in 0..=shape.len() {
        let from = any(*dtype, &inserted(shape, axis, INNER));
        let one = Operand::Ints(vec![-2], vec![]);
        found.add(&format!("axis={axis} of one index"), vec![from, one], &[("axis", int(axis as i64))]);
    }
    if let [rows, columns, rest @ ..] = shape.as_slice() {
        let from = any(*dtype, &[&[INNER], rest].concat());
        found.add("indices of two axes", vec![from, below(INNER, &[*rows, *columns])], &[("axis", int(0))]);
    }
}

fn gather_elements(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        let from = any(*dtype, &resized(shape, axis, INNER));
        found.add(&format!("axis={axis}"), vec![from, within(INNER, shape)], &[("axis", int(axis as i64))]);
    }
}

fn gather_nd(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [rows, rest @ ..] = shape.as_slice() else { return };
    let from = |front: &[usize]| any(*dtype, &[front, rest].concat());
    found.add("two indices each", vec![from(&[INNER, INNER]), within(INNER, &[*rows, 2])], &[]);
    found.add("batch_dims=1", vec![from(&[*rows, INNER]), within(INNER, &[*rows, 1])], &[("batch_dims", int(1))]);
}

fn scatter_elements(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in (0..shape.len()).filter(|&axis| shape[axis] > 0) {
        let one = resized(shape, axis, 1);
        for reduction in ["none", "add", "mul", "max", "min"] {
            let operands = vec![any(*dtype, shape), within(shape[axis], &one), any(*dtype, &one)];
            let attributes = [("axis", int(axis as i64)), ("reduction", word(reduction))];
            found.add(&format!("axis={axis} reduction={reduction}"), operands, &attributes);
        }
    }
}

fn scatter_nd(Wish { dtype, shape }: &Wish, found: &mut List) {
    let [rows, rest @ ..] = shape.as_slice() else { return };
    if *rows < 2 {
        return;
    }
    let update = any(*dtype, &[&[2], rest].concat());
    for reduction in ["none", "add", "max"] {
        let places = Operand::Ints(vec![-1, 0], vec![2, 1]);
        let operands = vec![any(*dtype, shape), places, update.clone()];
        found.add(&format!("reduction={reduction}"), operands, &[("reduction", word(reduction))]);
    }
}

fn top(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        for largest in [0, 1] {
            let from = any(*dtype, &resized(shape, axis, shape[axis] + 3));
            let attributes = [("axis", int(axis as i64)), ("largest", int(largest))];
            let name = format!("axis={axis} largest={largest}");
            found.add(&name, vec![from, ints(&[shape[axis] as i64])], &attributes);
        }
    }
}

fn one_hot(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in (0..shape.len()).filter(|&axis| shape[axis] > 0) {
        let mut front = shape.clone();
        let depth = front.remove(axis);
        let operands = vec![within(depth, &front), Operand::Ints(vec![depth as i64], vec![]), any(*dtype, &[2])];
        found.add(&format!("axis={axis}"), operands, &[("axis", int(axis as i64))]);
    }
}

/// Scales along an axis, and no zero point.
fn scales(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    let quantize = op == "QuantizeLinear";
    let (from, code) = match (quantize, *dtype) {
        (true, DType::I8 | DType::U8) => (DType::F32, *dtype),
        (false, DType::F32) => (DType::I8, DType::I8),
        _ => return,
    };
    let scale = |shape: &[usize]| filled(DType::F32, shape, Fill::Positive);
    for axis in 0..shape.len() {
        let list = [shape[axis]];
        let operands = vec![any(from, shape), scale(&list), any(code, &list)];
        found.add(&format!("axis={axis}"), operands, &[("axis", int(axis as i64))]);
    }
    if code == DType::I8 && !quantize {
        found.add("no zero point", vec![any(from, shape), scale(&[])], &[] as &[(&str, Attribute)]);
    }
}
