//! Operators that reduce an axis, or normalise over one.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, fixed};
use super::super::values::{self, Mood};

fn reduced(dims: &[Size], axes: &[usize], keep: bool) -> Vec<Size> {
    let kept = dims.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
    kept.map(|(axis, size)| if axes.contains(&axis) { fixed(1) } else { *size }).collect()
}

/// The reductions.
pub(crate) fn reduce(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    // A mean of integers is exact in one and not in the other; one of no element is what nobody says.
    let x = builder.pick(types, (0, 4), |x| (op != "ReduceMean" || x.dtype.is_float()) && !x.empty());
    // Squares and products soon leave what a type holds.
    let steep = matches!(op, "ReduceProd" | "ReduceSumSquare" | "ReduceL1" | "ReduceL2");
    if x.empty() || op == "ReduceMean" && !x.dtype.is_float() || steep && !x.tame {
        return None;
    }
    // The logarithm of what rounding leaves where there is nothing is anything.
    if op == "ReduceLogSum" && !x.exact {
        return None;
    }
    let all: Vec<usize> = (0..x.rank()).collect();
    let axes = builder.random.shuffled(&all)[..builder.random.below(x.rank() + 1)].to_vec();
    let mut attributes = vec![];
    let keep = !builder.random.chance(50);
    if !keep || builder.random.chance(30) {
        attributes.push(("keepdims", Attribute::Int(i64::from(keep))));
    }
    let idle = builder.random.chance(30);
    if idle {
        attributes.push(("noop_with_empty_axes", Attribute::Int(1)));
    }
    let over = if axes.is_empty() && !idle { all } else { axes.clone() };
    let shown: Vec<_> = axes.iter().map(|&axis| builder.signed_axis(axis, x.rank())).collect();
    let given = match shown.is_empty() {
        true => String::new(),
        false => builder.structural(values::ints(&shown)),
    };
    let y = builder.node(op, &[&x.name, &given], attributes, x.dtype, reduced(&x.dims, &over, keep));
    let extreme = matches!(op, "ReduceMax" | "ReduceMin");
    if extreme {
        builder.keeps(&y, &[&x]);
    }
    builder.exact(&y, (extreme || !x.dtype.is_float()) && x.exact);
    Some(())
}

pub(crate) fn arg_max(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| x.exact && x.tame && !x.empty());
    if x.empty() {
        return None;
    }
    let axis = builder.random.below(x.rank());
    let keep = builder.random.chance(50);
    let mut attributes = vec![
        ("axis", Attribute::Int(builder.signed_axis(axis, x.rank()))),
        ("keepdims", Attribute::Int(i64::from(keep))),
    ];
    if builder.random.chance(40) {
        attributes.push(("select_last_index", Attribute::Int(1)));
    }
    let y = builder.node(op, &[&x.name], attributes, DType::I64, reduced(&x.dims, &[axis], keep));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn cum_sum(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let axis = builder.random.below(x.rank());
    let mut attributes = vec![];
    for name in ["exclusive", "reverse"] {
        if builder.random.chance(40) {
            attributes.push((name, Attribute::Int(1)));
        }
    }
    let axis = builder.signed_axis(axis, x.rank());
    let axis = builder.structural(values::scalar(DType::I64, axis as f64));
    let y = builder.node(op, &[&x.name, &axis], attributes, x.dtype, x.dims.clone());
    builder.exact(&y, !x.dtype.is_float());
    Some(())
}

pub(crate) fn softmax(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    // Which is the largest of elements that are rounded is for nobody to say; nor is where NaN stands among them.
    let sharp = op == "Hardmax";
    let x = builder.pick(types, (1, 4), |x| !sharp || x.exact && x.tame);
    if sharp && !(x.exact && x.tame) {
        return None;
    }
    let axis = builder.random.below(x.rank());
    let axis = Attribute::Int(builder.signed_axis(axis, x.rank()));
    let attributes = if builder.random.chance(80) { vec![("axis", axis)] } else { vec![] };
    builder.node(op, &[&x.name], attributes, x.dtype, x.dims);
    Some(())
}

/// The attributes of a normalisation from `axis` on.
fn normalised(builder: &mut Builder, axis: usize, rank: usize) -> Vec<(&'static str, Attribute)> {
    let mut attributes = vec![("axis", Attribute::Int(builder.signed_axis(axis, rank)))];
    if builder.random.chance(50) {
        attributes.push(("epsilon", Attribute::Float(builder.random.of(&[1e-5, 1e-3, 0.5]))));
    }
    attributes
}

pub(crate) fn layer_normalization(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| x.tame && !x.empty());
    let axis = builder.random.below(x.rank());
    let inner = x.dims[axis..].to_vec();
    if x.empty() || !inner.iter().all(|size| builder.declarable(size)) {
        return None;
    }
    let scale = builder.leaf(x.dtype, &inner, Mood::Tame);
    let bias = if builder.random.chance(60) { builder.leaf(x.dtype, &inner, Mood::Tame).name } else { String::new() };
    let attributes = normalised(builder, axis, x.rank());
    builder.node(op, &[&x.name, &scale.name, &bias], attributes, x.dtype, x.dims);
    Some(())
}

pub(crate) fn rms_normalization(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| x.tame && !x.empty());
    let axis = builder.random.below(x.rank());
    let inner = x.dims[axis..].to_vec();
    if x.empty() || !inner.iter().all(|size| builder.declarable(size)) {
        return None;
    }
    let scale = builder.leaf(x.dtype, &inner, Mood::Tame);
    let attributes = normalised(builder, axis, x.rank());
    builder.node(op, &[&x.name, &scale.name], attributes, x.dtype, x.dims);
    Some(())
}

pub(crate) fn batch_normalization(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 4), |x| x.tame);
    let channels = [x.dims[1]];
    if !builder.declarable(&channels[0]) {
        return None;
    }
    let mut names = vec![x.name.clone()];
    for mood in [Mood::Tame, Mood::Tame, Mood::Tame, Mood::Positive] {
        names.push(builder.leaf(x.dtype, &channels, mood).name);
    }
    let attributes = match builder.random.chance(50) {
        true => vec![("epsilon", Attribute::Float(builder.random.of(&[1e-5, 1e-3, 0.5])))],
        false => vec![],
    };
    builder.node(op, &names.iter().map(String::as_str).collect::<Vec<_>>(), attributes, x.dtype, x.dims);
    Some(())
}

pub(crate) fn lrn(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (4, 4), |x| x.tame && !x.empty());
    if x.empty() {
        return None;
    }
    let mut attributes = vec![("size", Attribute::Int(builder.random.of(&[1, 3, 5])))];
    for (name, values) in [("alpha", [1e-4f32, 0.1]), ("beta", [0.75, 0.5]), ("bias", [1.0, 2.0])] {
        if builder.random.chance(50) {
            attributes.push((name, Attribute::Float(builder.random.of(&values))));
        }
    }
    builder.node(op, &[&x.name], attributes, x.dtype, x.dims);
    Some(())
}
