//! Axes and sizes that were attributes.

use byoc_plugin_api::Attribute;

use super::{missing, take_ints};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;

/// `axes` as an input. No axes mean all of them, which Unsqueeze has no use for.
pub(super) fn axes(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let axes = take_ints(node, "axes")?;
    if axes.is_none() && node.op == "Unsqueeze" {
        return Err(missing(node, "axes"));
    }
    let axes = axes.map(|axes| builder.ints(node, "axes", &axes));
    node.inputs = vec![node.input(0), axes];
    Ok(())
}

/// `split` as an input; version 1 had both.
pub(super) fn split_sizes(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if let Some(sizes) = take_ints(node, "split")? {
        let sizes = builder.ints(node, "split", &sizes);
        node.inputs = vec![node.input(0), Some(sizes)];
    }
    Ok(())
}

/// Equal parts, as many as there are outputs.
pub(super) fn split_count(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if node.input(1).is_none() {
        node.attributes.insert("num_outputs".into(), Attribute::Int(node.outputs.len() as i64));
    }
    Ok(())
}

/// An axis that is a vector of one as a scalar.
pub(super) fn scalar_axis(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if builder.rank(node.input(1)) == Some(1) {
        let axes = builder.ints(node, "axes", &[0]);
        node.inputs[1] = Some(builder.emit(node, "Squeeze", vec![node.input(1), Some(axes)], &[]));
    }
    Ok(())
}
