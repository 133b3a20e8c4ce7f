//! Layers that are rarer than products and windows: transposed convolutions, recurrent layers, samples of images, sums of products.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, Value, elements, fixed, is_fixed};
use super::super::values::Mood;

fn ints(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|&value| value as i64).collect())
}

fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

/// An image of the graph, or a new one, whose channels are fixed.
fn image(builder: &mut Builder, types: &'static [DType], axes: (usize, usize)) -> Value {
    let ranks = (axes.0 + 2, axes.1 + 2);
    let fits = |x: &Value| is_fixed(&x.dims[1]) && x.dims[1][0] > 0 && x.tame && !x.empty();
    let found = builder.pick(types, ranks, fits);
    if (ranks.0..=ranks.1).contains(&found.rank()) && fits(&found) && builder.random.chance(60) {
        return found;
    }
    let (dtype, batch) = (builder.dtype(types), builder.size());
    let mut dims = vec![batch, fixed(builder.random.of(&[1, 2, 4]))];
    for _ in 0..builder.random.of(&[axes.0, axes.1]) {
        dims.push(fixed(builder.random.of(&[2, 3, 5])));
    }
    builder.leaf(dtype, &dims, Mood::Tame)
}

pub(crate) fn conv_transpose(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = image(builder, types, (1, 3));
    let axes = x.rank() - 2;
    let channels = x.dims[1][0];
    let group = if channels.is_multiple_of(2) && builder.random.chance(30) { 2 } else { 1 };
    let per_group = builder.random.of(&[1, 2, 3]);
    let pick = |builder: &mut Builder, from: &[usize]| (0..axes).map(|_| builder.random.of(from)).collect::<Vec<_>>();
    let (kernel, strides, dilations) =
        (pick(builder, &[1, 2, 3]), pick(builder, &[1, 2, 3]), pick(builder, &[1, 1, 1, 2]));
    let extra: Vec<_> = strides.iter().map(|&stride| builder.random.below(stride)).collect();
    let pads: Vec<_> = (0..2 * axes).map(|place| builder.random.below(kernel[place % axes])).collect();
    let output = |axis: usize| {
        x.dims[axis + 2].map(|size| {
            let full = strides[axis] * (size - 1) + (kernel[axis] - 1) * dilations[axis] + 1 + extra[axis];
            full.saturating_sub(pads[axis] + pads[axis + axes])
        })
    };
    let spatial: Vec<Size> = (0..axes).map(output).collect();
    if spatial.iter().any(|size| size.contains(&0)) {
        return None;
    }
    let weights: Vec<_> = [channels, per_group].into_iter().chain(kernel).map(fixed).collect();
    let w = builder.leaf(x.dtype, &weights, Mood::Tame);
    let filters = fixed(per_group * group);
    let b = if builder.random.chance(50) { builder.leaf(x.dtype, &[filters], Mood::Tame).name } else { String::new() };
    let attributes = vec![
        ("dilations", ints(&dilations)),
        ("group", Attribute::Int(group as i64)),
        ("output_padding", ints(&extra)),
        ("pads", ints(&pads)),
        ("strides", ints(&strides)),
    ];
    let dims: Vec<Size> = [x.dims[0], filters].into_iter().chain(spatial).collect();
    if elements(&dims) > 20_000 {
        return None;
    }
    builder.node(op, &[&x.name, &w.name, &b], attributes, x.dtype, dims);
    Some(())
}

/// Layers of new sequences: those of a graph seldom fit.
pub(crate) fn recurrent(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (steps, batch) = (builder.size(), builder.size());
    if steps.contains(&0) || batch.contains(&0) {
        return None;
    }
    let gates = match op {
        "LSTM" => 4,
        "GRU" => 3,
        _ => 1,
    };
    let (columns, hidden) = (builder.random.of(&[1, 2, 5]), builder.random.of(&[1, 3, 4]));
    let direction = builder.random.of(&["forward", "reverse", "bidirectional"]);
    let directions = fixed(if direction == "bidirectional" { 2 } else { 1 });
    let state = [directions, batch, fixed(hidden)];
    let shapes = [
        vec![steps, batch, fixed(columns)],
        vec![directions, fixed(gates * hidden), fixed(columns)],
        vec![directions, fixed(gates * hidden), fixed(hidden)],
        vec![directions, fixed(2 * gates * hidden)],
        vec![],
        state.to_vec(),
    ];
    let mut names = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let there = index < 3 || !shape.is_empty() && builder.random.chance(60);
        names.push(if there { builder.leaf(dtype, shape, Mood::Tame).name } else { String::new() });
    }
    let mut attributes = vec![("direction", text(direction)), ("hidden_size", Attribute::Int(hidden as i64))];
    let all = (dtype, vec![steps, directions, batch, fixed(hidden)]);
    let mut outputs = vec![all, (dtype, state.to_vec())];
    match op {
        "LSTM" => outputs.push((dtype, state.to_vec())),
        "GRU" => attributes.push(("linear_before_reset", Attribute::Int(builder.random.below(2) as i64))),
        _ => {}
    }
    builder.nodes_outputs(op, &names.iter().map(String::as_str).collect::<Vec<_>>(), attributes, outputs);
    Some(())
}

/// Samples within an image: at its edges, rounding decides.
pub(crate) fn grid_sample(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = image(builder, types, (2, 2));
    let (rows, columns) = (builder.random.of(&[1, 2, 3]), builder.random.of(&[1, 2, 4]));
    let grid = builder.leaf(x.dtype, &[x.dims[0], fixed(rows), fixed(columns), fixed(2)], Mood::Tame);
    let padding = builder.random.of(&["zeros", "border", "reflection"]);
    let mode = builder.random.of(&["linear", "cubic"]);
    let attributes = vec![
        ("align_corners", Attribute::Int(builder.random.below(2) as i64)),
        ("mode", text(mode)),
        ("padding_mode", text(padding)),
    ];
    let dims = vec![x.dims[0], x.dims[1], fixed(rows), fixed(columns)];
    builder.node(op, &[&x.name, &grid.name], attributes, x.dtype, dims);
    Some(())
}

pub(crate) fn lp_pool(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = image(builder, types, (1, 3));
    let power = ("p", Attribute::Int(builder.random.of(&[1, 2, 3])));
    let kernel: Vec<_> = x.dims[2..].iter().map(|_| builder.random.of(&[1, 2])).collect();
    let pooled = |(size, &kernel): (&Size, &usize)| size.map(|size| (size + 1).saturating_sub(kernel));
    let dims: Vec<Size> = x.dims[..2].iter().copied().chain(x.dims[2..].iter().zip(&kernel).map(pooled)).collect();
    if dims.iter().any(|size| size.contains(&0)) {
        return None;
    }
    builder.node(op, &[&x.name], vec![("kernel_shape", ints(&kernel)), power], x.dtype, dims);
    Some(())
}

/// A sum over the products with a new operand, and a turn of what is left.
pub(crate) fn einsum(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 4), |x| x.tame && !x.empty());
    if !(2..=4).contains(&x.rank()) || x.empty() || !builder.declarable(&x.dims[x.rank() - 1]) {
        return None;
    }
    let letters: String = "abcd".chars().take(x.rank()).collect();
    let last = x.rank() - 1;
    let columns = fixed(builder.random.of(&[1, 2, 5]));
    let y = builder.leaf(x.dtype, &[x.dims[last], columns], Mood::Tame);
    let kept: Vec<usize> = (0..last).rev().collect();
    let output: String = kept.iter().map(|&axis| &letters[axis..=axis]).collect();
    let equation = format!("{letters},{}z->{output}z", &letters[last..]);
    let dims = kept.iter().map(|&axis| x.dims[axis]).chain([columns]).collect();
    let z = builder.node(op, &[&x.name, &y.name], vec![("equation", text(&equation))], x.dtype, dims);
    builder.exact(&z, !x.dtype.is_float());
    Some(())
}

pub(crate) fn det(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, batch, rows) = (builder.dtype(types), builder.size(), fixed(builder.random.of(&[1, 2, 3])));
    let x = builder.leaf(dtype, &[batch, rows, rows], Mood::Tame);
    builder.node(op, &[&x.name], vec![], dtype, vec![batch]);
    Some(())
}
