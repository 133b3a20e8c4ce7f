//! Operators that find elements by index, and those that make shapes and ranges.

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::super::builder::{Builder, Size, Value, elements, fixed};
use super::super::values::{self, Mood};

/// The smallest size of an axis in any run.
fn least(size: &Size) -> usize {
    *size.iter().min().expect("runs")
}

/// Indices into an axis, of either type.
fn indices(builder: &mut Builder, size: &Size, dims: &[Size]) -> Option<Value> {
    let below = least(size);
    let dtype = builder.random.of(&[DType::I64, DType::I64, DType::I32]);
    (below > 0).then(|| builder.leaf(dtype, dims, Mood::Index(below)))
}

pub(crate) fn gather(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let axis = builder.random.below(x.rank());
    let shape = builder.shape(0, 2);
    let picked = indices(builder, &x.dims[axis], &shape)?;
    let dims: Vec<_> = x.dims[..axis].iter().chain(&picked.dims).chain(&x.dims[axis + 1..]).copied().collect();
    let attributes = vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank())))];
    let y = builder.node(op, &[&x.name, &picked.name], attributes, x.dtype, dims);
    builder.keeps(&y, &[&x]);
    Some(())
}

pub(crate) fn gather_elements(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| !x.empty());
    let axis = builder.random.below(x.rank());
    let mut dims: Vec<_> = x.dims.iter().map(|size| fixed(1 + builder.random.below(least(size).max(1)))).collect();
    dims[axis] = builder.size();
    let picked = indices(builder, &x.dims[axis], &dims)?;
    let attributes = vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank())))];
    let y = builder.node(op, &[&x.name, &picked.name], attributes, x.dtype, dims);
    builder.keeps(&y, &[&x]);
    Some(())
}

/// Rows of indices that lie in each of the axes from `first` on, as a constant.
fn rows(builder: &mut Builder, axes: &[Size], shape: &[usize], distinct: bool) -> Option<String> {
    let limits: Vec<_> = axes.iter().map(least).collect();
    if limits.contains(&0) {
        return None;
    }
    let count: usize = shape.iter().product();
    let mut entries = Vec::new();
    for row in 0..count {
        for (place, &limit) in limits.iter().enumerate() {
            // Where the same place is written twice, either may win.
            let index = if distinct && place == 0 { row } else { builder.random.below(limit) };
            if index >= limit {
                return None;
            }
            let negative = builder.random.chance(30) && !distinct && axes[place] == fixed(limit);
            entries.push(if negative { index as i64 - limit as i64 } else { index as i64 });
        }
    }
    let mut tensor = values::ints(&entries);
    tensor.shape = shape.iter().map(|&size| size as i64).chain([axes.len() as i64]).collect();
    Some(builder.structural(tensor))
}

pub(crate) fn gather_nd(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let depth = 1 + builder.random.below(x.rank());
    let shape: Vec<usize> = (0..builder.random.below(3)).map(|_| 1 + builder.random.below(3)).collect();
    let picked = rows(builder, &x.dims[..depth], &shape, false)?;
    let dims: Vec<_> = shape.into_iter().map(fixed).chain(x.dims[depth..].iter().copied()).collect();
    let y = builder.node(op, &[&x.name, &picked], vec![], x.dtype, dims);
    builder.keeps(&y, &[&x]);
    Some(())
}

pub(crate) fn scatter_nd(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let depth = 1 + builder.random.below(x.rank());
    let reduction = builder.random.of(&["none", "none", "add", "mul", "max", "min"]);
    let count = 1 + builder.random.below(3);
    let places = rows(builder, &x.dims[..depth], &[count], reduction == "none")?;
    let dims: Vec<_> = [fixed(count)].into_iter().chain(x.dims[depth..].iter().copied()).collect();
    if !dims.iter().all(|size| builder.declarable(size)) {
        return None;
    }
    let mood = builder.mood();
    let updates = builder.leaf(x.dtype, &dims, mood);
    let attributes = vec![("reduction", Attribute::String(reduction.into()))];
    let y = builder.node(op, &[&x.name, &places, &updates.name], attributes, x.dtype, x.dims.clone());
    if reduction == "none" || !x.dtype.is_float() {
        builder.keeps(&y, &[&x, &updates]);
    }
    Some(())
}

pub(crate) fn shape(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |_| true);
    let rank = x.rank() as i64;
    let mut attributes = vec![];
    let (mut start, mut end) = (0, rank);
    if builder.random.chance(50) {
        start = builder.random.between(-rank - 1, rank + 1);
        attributes.push(("start", Attribute::Int(start)));
    }
    if builder.random.chance(50) {
        end = builder.random.between(-rank - 1, rank + 1);
        attributes.push(("end", Attribute::Int(end)));
    }
    let place = |bound: i64| if bound < 0 { bound + rank } else { bound }.clamp(0, rank);
    let count = (place(end) - place(start)).max(0) as usize;
    let y = builder.node(op, &[&x.name], attributes, DType::I64, vec![fixed(count)]);
    builder.exact(&y, true);
    Some(())
}

/// How many elements there are.
pub(crate) fn size(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |_| true);
    let y = builder.node(op, &[&x.name], vec![], DType::I64, vec![]);
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn constant_of_shape(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let sizes: Vec<_> = (0..builder.random.below(4)).map(|_| builder.random.below(4)).collect();
    let entries: Vec<_> = sizes.iter().map(|&size| size as i64).collect();
    let shape = builder.structural(values::ints(&entries));
    let (mut dtype, mut attributes) = (DType::F32, vec![]);
    if builder.random.chance(70) {
        dtype = builder.dtype(types);
        let value = values::scalar(dtype, 1.0);
        attributes.push(("value", Attribute::Tensor { dtype, shape: vec![1], hex: to_hex(&value.bytes) }));
    }
    let y = builder.node(op, &[&shape], attributes, dtype, sizes.into_iter().map(fixed).collect());
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn range(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (start, step) = (builder.random.between(-5, 5), builder.random.of(&[1, 2, 3, -1, -2]));
    let limit = start + step * builder.random.between(-1, 9) + builder.random.between(0, 1);
    let unit = if dtype.is_float() { 0.5 } else { 1.0 };
    let bounds = [start, limit, step].map(|value| builder.structural(values::scalar(dtype, value as f64 * unit)));
    let count = ((limit - start) as f64 / step as f64).ceil().max(0.0) as usize;
    let dims = vec![fixed(count)];
    assert!(elements(&dims) < 20);
    let y = builder.node(op, &[&bounds[0], &bounds[1], &bounds[2]], vec![], dtype, dims);
    builder.exact(&y, true);
    Some(())
}
