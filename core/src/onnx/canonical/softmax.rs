//! Softmax as it was before operator set 13: over all axes from `axis` on, as one.

use byoc_plugin_api::Attribute;

use super::take_int;
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;

/// Where `axis` is the last one, old and new mean the same. Elsewhere the node becomes Flatten, the operator over the
/// last axis, and Reshape to what the input was.
pub(super) fn flattened(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let axis = take_int(node, "axis")?.unwrap_or(1);
    let last_axis = ("axis", Attribute::Int(-1));
    let data = node.input(0);
    let last = builder.rank(data).and_then(|rank| i64::try_from(rank).ok()?.checked_sub(1));
    if axis == -1 || last == Some(axis) {
        node.attributes.insert(last_axis.0.into(), last_axis.1);
        return Ok(());
    }
    let flat = builder.emit(node, "Flatten", vec![data], &[("axis", Attribute::Int(axis))]);
    let op = node.op.clone();
    let result = builder.emit(node, &op, vec![Some(flat)], &[last_axis]);
    let shape = builder.emit(node, "Shape", vec![data], &[]);
    node.op = "Reshape".into();
    node.inputs = vec![Some(result), Some(shape)];
    // A size of 0 is one, and no "take it from the input", which is two-dimensional here.
    node.attributes.insert("allowzero".into(), Attribute::Int(1));
    Ok(())
}
