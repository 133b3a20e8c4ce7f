//! Normalisations over groups and instances, and losses.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, fixed};
use super::super::values::Mood;
use super::short::{fresh, image, int, ints, node, nodes, some, text};

/// The attribute `epsilon`, or none.
fn epsilon(builder: &mut Builder) -> super::short::Attributes {
    match builder.random.chance(50) {
        true => vec![("epsilon", Attribute::Float(builder.random.of(&[1e-5, 1e-3, 0.5])))],
        false => vec![],
    }
}

/// InstanceNormalization and GroupNormalization, whose scale is of groups before operator set 21.
pub(crate) fn grouped(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, axes) = (builder.dtype(types), 1 + builder.random.below(3));
    let (groups, size) = (builder.random.of(&[1, 2, 3]), builder.random.of(&[1, 2]));
    let x = image(builder, dtype, groups * size, axes);
    let instance = op == "InstanceNormalization";
    let scales = if instance || builder.opset >= 21 { groups * size } else { groups };
    let mut attributes = epsilon(builder);
    if !instance {
        attributes.push(("num_groups", int(groups)));
    }
    let inputs = [x.name, fresh(builder, dtype, &[fixed(scales)]), fresh(builder, dtype, &[fixed(scales)])];
    node(builder, op, &inputs, attributes, (dtype, x.dims));
    Some(())
}

pub(crate) fn lp(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| x.tame && !x.empty());
    let axis = builder.random.below(x.rank());
    let attributes =
        vec![("axis", Attribute::Int(builder.signed_axis(axis, x.rank()))), ("p", int(1 + builder.random.below(2)))];
    node(builder, op, &[x.name], attributes, (x.dtype, x.dims));
    Some(())
}

pub(crate) fn mean_variance(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let x = image(builder, dtype, 2, 2);
    let attributes = match builder.random.chance(50) {
        true => vec![("axes", ints(&[0, 2, 3]))],
        false => vec![],
    };
    node(builder, op, &[x.name], attributes, (dtype, x.dims));
    Some(())
}

/// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
pub(crate) fn loss(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, classes, axes) = (builder.dtype(types), builder.random.of(&[1, 2, 5]), builder.random.below(3));
    let batch = some(builder);
    let space = (0..axes).map(|_| fixed(builder.random.of(&[1, 2, 3]))).collect::<Vec<_>>();
    let dims: Vec<_> = [batch, fixed(classes)].into_iter().chain(space.iter().copied()).collect();
    let labels: Vec<_> = [batch].into_iter().chain(space).collect();
    let scores = fresh(builder, dtype, &dims);
    let target = builder.leaf(DType::I64, &labels, Mood::Place(classes)).name;
    let weights = match builder.random.chance(40) {
        true => builder.leaf(dtype, &[fixed(classes)], Mood::Positive).name,
        false => String::new(),
    };
    let reduction = builder.random.of(&["none", "sum", "mean"]);
    let mut attributes = vec![("reduction", text(reduction))];
    if builder.random.chance(30) {
        attributes.push(("ignore_index", Attribute::Int(builder.random.between(0, classes as i64 - 1))));
    }
    let mut outputs = vec![(dtype, if reduction == "none" { labels } else { vec![] })];
    if op == "SoftmaxCrossEntropyLoss" && builder.random.chance(50) {
        outputs.push((dtype, dims));
    }
    nodes(builder, op, &[scores, target, weights], attributes, outputs);
    Some(())
}
