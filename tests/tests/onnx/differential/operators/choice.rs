//! Operators that choose elements by their values, and those that put or turn elements by place.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Value, fixed, is_fixed};
use super::super::values::{self, Mood};

/// NaN comes where the sort of each runtime puts it; so only usual values are compared.
pub(crate) fn top_k(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| x.exact && x.tame && !x.empty());
    let axis = builder.random.below(x.rank());
    let least = *x.dims[axis].iter().min().expect("runs");
    if x.empty() || !x.exact || !x.tame {
        return None;
    }
    let k = builder.random.below(least + 1);
    let given = builder.structural(values::ints(&[k as i64]));
    let mut attributes = vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank())))];
    if builder.random.chance(50) {
        attributes.push(("largest", Attribute::Int(0)));
    }
    let mut dims = x.dims.clone();
    dims[axis] = fixed(k);
    let types = vec![(x.dtype, dims.clone()), (DType::I64, dims)];
    let made = builder.nodes_outputs(op, &[&x.name, &given], attributes, types);
    builder.keeps(&made[0], &[&x]);
    builder.exact(&made[1], true);
    Some(())
}

pub(crate) fn one_hot(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let shape = builder.shape(1, 3);
    let depth = 1 + builder.random.below(5);
    // Some are in the new axis, some are not.
    let limit = depth + builder.random.below(3);
    let x = builder.leaf(DType::I64, &shape, Mood::Index(limit));
    let axis = builder.random.below(shape.len() + 1);
    let given = builder.structural(values::scalar(DType::I64, depth as f64));
    let pair = builder.leaf(dtype, &[fixed(2)], Mood::Tame);
    let attributes = vec![("axis", Attribute::Int(builder.signed_axis(axis, shape.len() + 1)))];
    let mut dims = shape;
    dims.insert(axis, fixed(depth));
    let y = builder.node(op, &[&x.name, &given, &pair.name], attributes, dtype, dims);
    builder.keeps(&y, &[&pair]);
    Some(())
}

/// Each place is written once, or the operation does not ask for an order.
pub(crate) fn scatter_elements(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 3), |x| !x.empty() && x.dims.iter().all(is_fixed));
    if x.empty() || !x.dims.iter().all(is_fixed) {
        return None;
    }
    let axis = builder.random.below(x.rank());
    let reduction = match x.dtype.is_float() {
        true => builder.random.of(&["none", "max", "min"]),
        false => builder.random.of(&["none", "add", "mul", "max", "min"]),
    };
    let mut dims = x.dims.clone();
    dims[axis] = if reduction == "none" { fixed(1) } else { fixed(1 + builder.random.below(4)) };
    let places = builder.leaf(DType::I64, &dims, Mood::Index(x.dims[axis][0]));
    let mood = builder.mood();
    let updates = builder.leaf(x.dtype, &dims, mood);
    let attributes = vec![
        ("axis", Attribute::Int(builder.signed_axis(axis, x.rank()))),
        ("reduction", Attribute::String(reduction.into())),
    ];
    let y = builder.node(op, &[&x.name, &places.name, &updates.name], attributes, x.dtype, x.dims.clone());
    builder.keeps(&y, &[&x, &updates]);
    Some(())
}

pub(crate) fn reverse_sequence(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 4), |x| !x.empty() && is_fixed(&x.dims[0]) && is_fixed(&x.dims[1]));
    if x.empty() || !is_fixed(&x.dims[0]) || !is_fixed(&x.dims[1]) {
        return None;
    }
    let batch = builder.random.below(2);
    let (sequences, steps) = (x.dims[batch][0], x.dims[1 - batch][0]);
    let lengths: Vec<_> = (0..sequences).map(|_| builder.random.below(steps + 1) as i64).collect();
    let lengths = builder.structural(values::ints(&lengths));
    let attributes =
        vec![("batch_axis", Attribute::Int(batch as i64)), ("time_axis", Attribute::Int(1 - batch as i64))];
    let y = builder.node(op, &[&x.name, &lengths], attributes, x.dtype, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

pub(crate) fn eye_like(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 2), |x| x.rank() == 2);
    let attributes = vec![("k", Attribute::Int(builder.random.between(-3, 3)))];
    let y = builder.node(op, &[&x.name], attributes, x.dtype, x.dims);
    builder.exact(&y, true);
    Some(())
}

/// Lets a sum read what has sizes that only a run knows; nothing else does.
pub(super) fn read_through(builder: &mut Builder, value: &Value) {
    builder.unread(std::slice::from_ref(value));
    if builder.random.chance(60) && matches!(value.dtype, DType::F32 | DType::I32 | DType::I64) {
        let attributes = vec![("keepdims", Attribute::Int(0))];
        let sum = builder.node("ReduceSum", &[&value.name], attributes, value.dtype, vec![]);
        builder.exact(&sum, !value.dtype.is_float());
    }
}

/// NonZero and Unique: how much they find is for a run to say.
pub(crate) fn found(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let least = usize::from(op == "Unique");
    let fits = |x: &Value| x.exact && (op != "Unique" || x.tame && !x.empty());
    let x = builder.pick(types, (least, 3), fits);
    if !fits(&x) {
        return None;
    }
    let count = fixed(x.dims.iter().map(|size| size[0]).product());
    if op == "NonZero" {
        let y = builder.node(op, &[&x.name], vec![], DType::I64, vec![fixed(x.rank()), count]);
        read_through(builder, &y);
        return Some(());
    }
    let mut attributes = vec![("sorted", Attribute::Int(builder.random.between(0, 1)))];
    let mut dims = vec![count];
    if builder.random.chance(40) {
        let axis = builder.random.below(x.rank());
        attributes.push(("axis", Attribute::Int(builder.signed_axis(axis, x.rank()))));
        dims = x.dims.clone();
    }
    let many = 1 + builder.random.below(4);
    let lists = [(x.dtype, dims), (DType::I64, vec![count]), (DType::I64, vec![count]), (DType::I64, vec![count])];
    let made = builder.nodes_outputs(op, &[&x.name], attributes, lists[..many].to_vec());
    builder.unread(&made);
    read_through(builder, &made[0]);
    Some(())
}

pub(crate) fn compress(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 3), |x| x.dims.iter().all(is_fixed));
    if !x.dims.iter().all(is_fixed) {
        return None;
    }
    let flat = builder.random.chance(30);
    let axis = builder.random.below(x.rank());
    let most = if flat { x.dims.iter().map(|size| size[0]).product() } else { x.dims[axis][0] };
    // A condition may be shorter than the axis.
    let length = builder.random.below(most.min(12) + 1);
    let condition = builder.leaf(DType::Bool, &[fixed(length)], Mood::Tame);
    let attributes = match flat {
        true => vec![],
        false => vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank())))],
    };
    let dims = if flat { vec![fixed(length)] } else { x.dims.clone() };
    let y = builder.node(op, &[&x.name, &condition.name], attributes, x.dtype, dims);
    builder.exact(&y, x.exact);
    read_through(builder, &y);
    Some(())
}
