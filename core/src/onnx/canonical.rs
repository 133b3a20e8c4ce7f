//! The canonical form: every operator as in the newest operator set that this build knows. One table says which older
//! forms are rewritten, and how.

use byoc_plugin_api::Attribute;

use super::builder::Builder;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::Node;
use crate::ops::{self, attributes as attributes_of};

mod arithmetic;
mod attributes;
mod inference;
mod labels;
mod lift;
mod resize;
mod shapes;
mod softmax;
mod trees;

/// A rewrite of a node. It may add nodes before it; the node itself is added after all rewrites. The number
/// is the node's operator-set version.
type Rewrite = fn(&mut Builder<'_>, &mut Node, i64) -> Result<()>;

/// For rewrites that look at nodes of every version.
const EVER: i64 = i64::MAX;

/// (operator, first version that needs no rewrite, rewrite). Rows of one operator are in the order of versions and
/// are applied one after the other.
#[rustfmt::skip]
const REWRITES: &[(&str, i64, Rewrite)] = &[
    // Before 7, B was broadcast to a run of A's axes that `axis` starts, and only if `broadcast` said so.
    ("Add", 7, arithmetic::limited_broadcast),
    ("And", 7, arithmetic::limited_broadcast),
    ("Div", 7, arithmetic::limited_broadcast),
    ("Equal", 7, arithmetic::limited_broadcast),
    ("Greater", 7, arithmetic::limited_broadcast),
    ("Less", 7, arithmetic::limited_broadcast),
    ("Mul", 7, arithmetic::limited_broadcast),
    ("Or", 7, arithmetic::limited_broadcast),
    ("Pow", 7, arithmetic::limited_broadcast),
    ("Sub", 7, arithmetic::limited_broadcast),
    ("Xor", 7, arithmetic::limited_broadcast),
    // `broadcast` became the only way in 7.
    ("Gemm", 7, arithmetic::gemm),
    // Extra outputs asked for training to 13, `training_mode` does from 14 on; `is_test` went in 7, `spatial` in 9.
    ("BatchNormalization", EVER, inference::batch_normalization),
    // Identity, in inference: attributes `ratio`, `is_test` to 11, inputs from 12.
    ("Dropout", EVER, inference::dropout),
    // Whether the first output is wanted was said twice.
    ("GRU", 7, attributes::output_sequence),
    ("LSTM", 7, attributes::output_sequence),
    ("RNN", 7, attributes::output_sequence),
    // `to` was a name before 6, and in files that exporters wrote as 6 and 7.
    ("Cast", EVER, attributes::cast),
    // `axis` had the default 1 before 4.
    ("Concat", 4, attributes::concat),
    // `min` and `max` became inputs in 11.
    ("Clip", 11, attributes::clip),
    // `axis` became an input in 20.
    ("DFT", 20, attributes::dft),
    // The power was a number that may have a fraction before 2.
    ("GlobalLpPool", 2, attributes::power),
    ("LpPool", 2, attributes::power),
    // Coordinates were those of the output before 16.
    ("RoiAlign", 16, attributes::roi_align),
    // The modes had names for images before 20.
    ("GridSample", 20, attributes::grid_sample),
    // `paddings` became `pads` in 2; `pads` and `value` became inputs in 11.
    ("Pad", 2, attributes::pad_names),
    ("Pad", 11, attributes::pad),
    // `shape` became an input in 5.
    ("Reshape", 5, attributes::reshape),
    // `starts`, `ends` and `axes` became inputs in 10.
    ("Slice", 10, attributes::slice),
    // `k` became an input in 10.
    ("TopK", 10, attributes::top_k),
    // `axes` became an input: in 13 here, in 18 for the other reductions.
    ("Squeeze", 13, shapes::axes),
    ("Unsqueeze", 13, shapes::axes),
    ("ReduceSum", 13, shapes::axes),
    ("ReduceL1", 18, shapes::axes),
    ("ReduceL2", 18, shapes::axes),
    ("ReduceLogSum", 18, shapes::axes),
    ("ReduceLogSumExp", 18, shapes::axes),
    ("ReduceMax", 18, shapes::axes),
    ("ReduceMean", 18, shapes::axes),
    ("ReduceMin", 18, shapes::axes),
    ("ReduceProd", 18, shapes::axes),
    ("ReduceSumSquare", 18, shapes::axes),
    // `split` became an input in 13; equal parts need `num_outputs` from 18 on.
    ("Split", 13, shapes::split_sizes),
    ("Split", 18, shapes::split_count),
    // Before 13 the input was flattened to two dimensions at `axis`, 1 by default.
    ("Hardmax", 13, softmax::flattened),
    ("LogSoftmax", 13, softmax::flattened),
    ("Softmax", 13, softmax::flattened),
    // ScatterElements had another name before 11.
    ("Scatter", EVER, attributes::scatter),
    // Resize as of 11 in place of Upsample (1, 7, 9) and Resize 10; empty inputs stood for absent ones in 11 and 12,
    // which also had a coordinate mode that went in 13.
    ("Upsample", EVER, resize::upsample),
    ("Resize", 11, resize::resize_10),
    ("Resize", EVER, resize::drop_empty),
    // Exporters to 12 wrote the scalar `axis` as a vector of one.
    ("CumSum", EVER, shapes::scalar_axis),
    // Keys and values are lists or, from 4 on, tensors.
    ("LabelEncoder", EVER, labels::label_encoder),
    // How often nodes are reached goes; the trees themselves stay as they are.
    ("TreeEnsemble", EVER, trees::ensemble),
    ("TreeEnsembleClassifier", EVER, trees::classifier),
    ("TreeEnsembleRegressor", EVER, trees::regressor),
    // Too rare for a rewrite.
    ("Tile", 6, refuse),
];

/// The operator that `op` is rewritten to, if the newest operator set lacks it.
pub(super) fn name_of_today(op: &str) -> &str {
    match op {
        "Scatter" => "ScatterElements",
        "Upsample" => "Resize",
        other => other,
    }
}

/// Adds `node`, of an operator set of that version, in canonical form.
pub(super) fn add(builder: &mut Builder<'_>, mut node: Node, version: i64) -> Result<()> {
    let def = ops::find_any(&node.domain, &node.op);
    if let Some(def) = def {
        attributes_of::check_names(def, version, node.attributes.keys().map(String::as_str))
            .map_err(|error| error.within(format!("node '{}'", node.name)))?;
        lift::check_kinds(&node, def)?;
    }
    // Operator set 1 named inputs that may be overwritten.
    if version < 6 {
        node.attributes.remove("consumed_inputs");
    }
    let op = node.op.clone();
    for (_, below, rewrite) in REWRITES.iter().filter(|(name, ..)| *name == op) {
        if version < *below {
            rewrite(builder, &mut node, version)?;
        }
    }
    // Of the operator that the node is by now.
    if let Some(def) = ops::find_any(&node.domain, &node.op) {
        lift::lift(builder, &mut node, def)?;
    }
    trim(&mut node);
    builder.push(node);
    Ok(())
}

/// Drops absent inputs and outputs from the end. Split counts its outputs, so it keeps them.
fn trim(node: &mut Node) {
    while let Some(None) = node.inputs.last() {
        node.inputs.pop();
    }
    while node.op != "Split" && node.outputs.len() > 1 && node.outputs.last() == Some(&None) {
        node.outputs.pop();
    }
}

fn refuse(_: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    Err(unsupported(node, format!("operator {} version {version} is not supported", node.op))
        .hint("Export the model with a newer operator set"))
}

/// The error for a valid form of an operator that is not supported.
fn unsupported(node: &Node, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::UnknownOperator, format!("node '{}': {cause}", node.name))
}

/// An error for a form of an operator that is not valid.
fn bad(node: &Node, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::BadNode, format!("node '{}': {cause}", node.name))
}

/// Takes an attribute from a node, if it is there; one of another kind is an error.
fn take<T>(node: &mut Node, name: &str, kind: fn(Attribute) -> Option<T>) -> Result<Option<T>> {
    match node.attributes.remove(name) {
        None => Ok(None),
        Some(attribute) => {
            kind(attribute).map(Some).ok_or_else(|| bad(node, format!("attribute '{name}' is of the wrong kind")))
        }
    }
}

/// Takes a list of integers from a node, if it is there.
fn take_ints(node: &mut Node, name: &str) -> Result<Option<Vec<i64>>> {
    take(node, name, |attribute| if let Attribute::Ints(values) = attribute { Some(values) } else { None })
}

/// Takes an integer from a node, if it is there.
fn take_int(node: &mut Node, name: &str) -> Result<Option<i64>> {
    take(node, name, |attribute| if let Attribute::Int(value) = attribute { Some(value) } else { None })
}

/// Takes a number from a node, if it is there.
fn take_float(node: &mut Node, name: &str) -> Result<Option<f32>> {
    take(node, name, |attribute| if let Attribute::Float(value) = attribute { Some(value) } else { None })
}

/// The error for a node without an attribute that it needs.
fn missing(node: &Node, name: &str) -> Diagnostic {
    bad(node, format!("attribute '{name}' is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_that_is_rewritten_is_known() {
        let unknown = REWRITES.iter().filter(|(op, ..)| !crate::ops::all().any(|def| def.name == name_of_today(op)));
        assert_eq!(unknown.map(|(op, ..)| *op).collect::<Vec<_>>(), [""; 0]);
    }
}
