//! Operators that only move what they read.

use byoc_plugin_api::{Attribute, DType};

use super::super::{Operand, Wish, any, ints, last, sizes};
use super::{List, inserted, int, list, resized, word};

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match op {
        "Transpose" => transpose(wish, found),
        "Concat" => concat(wish, found),
        "Split" => split(wish, found),
        "Slice" => slice(wish, found),
        "Pad" => pad(wish, found),
        "Expand" => expand(wish, found),
        "Tile" => tile(wish, found),
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => reshape(op, wish, found),
        "DepthToSpace" | "SpaceToDepth" => blocks(op, wish, found),
        "Trilu" => triangle(wish, found),
        "Resize" => resize(wish, found),
        _ => {}
    }
}

fn transpose(Wish { dtype, shape }: &Wish, found: &mut List) {
    let orders: &[&[usize]] = match shape.len() {
        2 => &[&[1, 0], &[0, 1]],
        3 => &[&[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1]],
        4 => &[&[0, 2, 3, 1], &[0, 3, 1, 2], &[0, 2, 1, 3], &[0, 1, 3, 2], &[3, 0, 2, 1]],
        _ => &[],
    };
    for order in orders {
        let mut from = shape.clone();
        order.iter().zip(shape).for_each(|(&axis, &size)| from[axis] = size);
        let perm: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
        let name: Vec<_> = order.iter().map(ToString::to_string).collect();
        found.add(&format!("perm={}", name.join(",")), vec![any(*dtype, &from)], &[("perm", list(&perm))]);
    }
}

fn concat(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        let size = shape[axis];
        let part = |size: usize| any(*dtype, &resized(shape, axis, size));
        let attributes = [("axis", int(axis as i64))];
        if size > 1 {
            found.add(&format!("axis={axis}"), vec![part(1), part(size - 1)], &attributes);
        }
        if size > 2 {
            found.add(&format!("axis={axis}, three"), vec![part(size - 2), part(1), part(1)], &attributes);
            found.add(&format!("axis={axis}, one of them empty"), vec![part(0), part(size)], &attributes);
        }
    }
}

fn split(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        let longer = any(*dtype, &resized(shape, axis, shape[axis] + 5));
        let parts = ints(&[shape[axis] as i64, 2, 3]);
        found.add(&format!("axis={axis}"), vec![longer, parts], &[("axis", int(axis as i64))]);
        found.more_outputs(&[*dtype; 2]);
    }
}

fn slice(Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |name: String, from: &[usize], places: [&[i64]; 4]| {
        let operands = [vec![any(*dtype, from)], places.iter().map(|values| ints(values)).collect()].concat();
        found.add(&name, operands, &[]);
    };
    for axis in 0..shape.len() {
        let (size, at) = (shape[axis], &[axis as i64][..]);
        let (end, longer) = (size as i64, |more: usize| resized(shape, axis, size + more));
        if size == 0 {
            continue;
        }
        add(format!("axis {axis} from 2"), &longer(3), [&[2], &[end + 2], at, &[1]]);
        add(format!("axis {axis} from the end"), &longer(3), [&[-end - 1], &[-1], at, &[1]]);
        add(format!("axis {axis} beyond the end"), &longer(1), [&[1], &[i64::MAX], at, &[1]]);
        add(format!("axis {axis} step 2"), &resized(shape, axis, 2 * size), [&[1], &[2 * end], at, &[2]]);
        add(format!("axis {axis} backwards"), &longer(1), [&[-1], &[0], at, &[-1]]);
        let beyond = longer(1);
        add(format!("axis {axis} backwards from beyond the end"), &beyond, [&[i64::MAX], &[0], at, &[-1]]);
        add(format!("axis {axis} step -2"), &resized(shape, axis, 2 * size), [&[-1], &[i64::MIN], at, &[-2]]);
    }
    if let [rows, .., columns] = shape.as_slice() {
        let mut from = last(shape, columns + 2);
        from[0] = rows + 1;
        let (ends, ranks) = ([*columns as i64 + 2, *rows as i64], [-1, 0]);
        add("two axes".into(), &from, [&[2, 0], &ends, &ranks, &[1, 1]]);
    }
}

fn pad(Wish { dtype, shape }: &Wish, found: &mut List) {
    let rank = shape.len();
    let pads = |axis: usize, before: i64, after: i64| {
        let mut pads = vec![0; 2 * rank];
        (pads[axis], pads[axis + rank]) = (before, after);
        ints(&pads)
    };
    for axis in (0..rank).filter(|&axis| shape[axis] > 5) {
        let inner = any(*dtype, &resized(shape, axis, shape[axis] - 3));
        let value = Operand::Number(if *dtype == DType::Bool { 1.0 } else { 3.0 }, *dtype);
        found.add(&format!("axis {axis} by 1 and 2"), vec![inner.clone(), pads(axis, 1, 2)], &[]);
        found.add(&format!("axis {axis} with a value"), vec![inner.clone(), pads(axis, 2, 1), value], &[]);
        for mode in ["reflect", "edge", "wrap"] {
            let operands = vec![inner.clone(), pads(axis, 2, 1)];
            found.add(&format!("axis {axis} mode={mode}"), operands, &[("mode", word(mode))]);
        }
        let longer = any(*dtype, &resized(shape, axis, shape[axis] + 1));
        found.add(&format!("axis {axis} by less than nothing"), vec![longer, pads(axis, -2, 1)], &[]);
        let (amounts, value) = (ints(&[1, 2]), Operand::Absent);
        found.add(&format!("axis {axis} alone"), vec![inner, amounts, value, ints(&[axis as i64])], &[]);
    }
}

fn expand(Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |name: &str, from: &[usize]| found.add(name, vec![any(*dtype, from), sizes(shape)], &[]);
    add("of one number", &[]);
    add("of all", shape);
    for axis in 0..shape.len() {
        add(&format!("axis {axis}"), &resized(shape, axis, 1));
    }
    if let [_, rest @ ..] = shape.as_slice() {
        add("of fewer axes", rest);
    }
}

fn tile(Wish { dtype, shape }: &Wish, found: &mut List) {
    for axis in 0..shape.len() {
        let count = [2, 3].into_iter().find(|count| shape[axis] > 0 && shape[axis] % count == 0);
        let Some(count) = count else { continue };
        let mut repeats = vec![1; shape.len()];
        repeats[axis] = count as i64;
        let part = any(*dtype, &resized(shape, axis, shape[axis] / count));
        found.add(&format!("axis {axis}, {count} times"), vec![part, ints(&repeats)], &[]);
    }
}

fn reshape(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    let elements = shape.iter().product::<usize>();
    let mut add = |name: &str, operands: Vec<Operand>, attributes: &[(&str, Attribute)]| {
        found.add(name, operands, attributes);
    };
    let data = |shape: &[usize]| any(*dtype, shape);
    match (op, shape.as_slice()) {
        ("Reshape", [first, rest @ ..]) if elements > 0 => {
            let reversed: Vec<usize> = shape.iter().rev().copied().collect();
            let open: Vec<i64> = std::iter::once(-1).chain(rest.iter().map(|&size| size as i64)).collect();
            add("one size left open", vec![data(&reversed), ints(&open)], &[]);
            let copied: Vec<i64> = std::iter::once(0).chain(rest.iter().map(|&size| size as i64)).collect();
            add("one size copied", vec![data(&[*first, elements / first]), ints(&copied)], &[]);
        }
        ("Flatten", &[rows, columns]) if rows > 0 && columns > 0 => {
            add("axis=2", vec![data(&[1, rows, columns, 1])], &[("axis", int(2))]);
            if rows == 1 {
                add("axis=0", vec![data(&[columns, 1])], &[("axis", int(0))]);
            }
        }
        ("Squeeze", _) => {
            add("last axis", vec![data(&inserted(shape, shape.len(), 1)), ints(&[-1])], &[]);
            let both = inserted(&inserted(shape, 0, 1), shape.len() + 1, 1);
            add("first and last axis", vec![data(&both), ints(&[0, -1])], &[]);
        }
        ("Unsqueeze", _) => {
            for axis in (0..shape.len()).filter(|&axis| shape[axis] == 1) {
                let mut from = shape.clone();
                from.remove(axis);
                add(&format!("axis {axis}"), vec![data(&from), ints(&[axis as i64])], &[]);
                let from_end = axis as i64 - shape.len() as i64;
                add(&format!("axis {from_end}"), vec![data(&from), ints(&[from_end])], &[]);
            }
        }
        _ => {}
    }
}

fn blocks(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    let &[batch, channels, height, width] = shape.as_slice() else { return };
    let size = ("blocksize", int(2));
    match op {
        "DepthToSpace" if height % 2 == 0 && width % 2 == 0 => {
            for mode in ["DCR", "CRD"] {
                let from = any(*dtype, &[batch, 4 * channels, height / 2, width / 2]);
                found.add(&format!("mode={mode}"), vec![from], &[size.clone(), ("mode", word(mode))]);
            }
        }
        "SpaceToDepth" if channels % 4 == 0 => {
            found.add("blocksize=2", vec![any(*dtype, &[batch, channels / 4, 2 * height, 2 * width])], &[size]);
        }
        _ => {}
    }
}

fn triangle(Wish { dtype, shape }: &Wish, found: &mut List) {
    if shape.len() < 2 {
        return;
    }
    for upper in [0, 1] {
        for k in [-2, 0, 1] {
            let operands = vec![any(*dtype, shape), Operand::Ints(vec![k], vec![])];
            found.add(&format!("upper={upper} k={k}"), operands, &[("upper", int(upper))]);
        }
    }
}

fn resize(Wish { dtype, shape }: &Wish, found: &mut List) {
    let &[batch, channels, height, width] = shape.as_slice() else { return };
    if !dtype.is_float() || height < 3 || width < 3 {
        return;
    }
    let from = |height: usize, width: usize| any(*dtype, &[batch, channels, height, width]);
    let forms = [
        ("nearest", "half_pixel", "round_prefer_floor"),
        ("nearest", "half_pixel", "round_prefer_ceil"),
        ("nearest", "asymmetric", "ceil"),
        ("nearest", "align_corners", "floor"),
        ("linear", "half_pixel", "floor"),
        ("linear", "asymmetric", "floor"),
        ("linear", "align_corners", "floor"),
        ("linear", "pytorch_half_pixel", "floor"),
        ("cubic", "half_pixel", "floor"),
    ];
    for (mode, transformation, nearest) in forms {
        let attributes = [
            ("mode", word(mode)),
            ("coordinate_transformation_mode", word(transformation)),
            ("nearest_mode", word(nearest)),
        ];
        for (name, image) in [("larger", from(height - 1, width - 2)), ("smaller", from(2 * height + 1, 3 * width))] {
            let operands = vec![image, Operand::Absent, Operand::Absent, sizes(shape)];
            found.add(&format!("mode={mode} {transformation} {nearest}, {name}"), operands, &attributes);
        }
    }
}
