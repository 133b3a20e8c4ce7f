//! Broadcasting as it was before operator set 7.

use byoc_plugin_api::Attribute;

use super::{bad, take_int, unsupported};
use crate::diagnostic::Result;
use crate::ir::{Node, ValueId};
use crate::onnx::builder::Builder;

/// Lines B up with today's broadcasting: it gets as many axes of size 1 at its end as A has behind it.
pub(super) fn limited_broadcast(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let broadcast = take_int(node, "broadcast")?.unwrap_or(0) != 0;
    let axis = take_int(node, "axis")?;
    let (Some(axis), true) = (axis, broadcast) else {
        return Ok(());
    };
    let (Some(a), Some(b)) = (builder.rank(node.input(0)), builder.rank(node.input(1))) else {
        return Err(unsupported(
            node,
            format!("'axis' of {} before version 7 needs ranks that are not known", node.op),
        )
        .hint("Export the model with operator set 7 or newer"));
    };
    let start = if axis < 0 { axis.saturating_add_unsigned(a as u64) } else { axis };
    let behind = usize::try_from(start).ok().and_then(|start| a.checked_sub(start)?.checked_sub(b));
    let behind = behind.ok_or_else(|| bad(node, format!("axis {axis} does not fit inputs of ranks {a} and {b}")))?;
    pad_rank(builder, node, b, behind);
    Ok(())
}

/// A form of broadcasting that equals today's.
pub(super) fn gemm(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    take_int(node, "broadcast").map(drop)
}

/// Puts `count` axes of size 1 behind input 1, which has `rank` of them.
fn pad_rank(builder: &mut Builder<'_>, node: &mut Node, rank: usize, count: usize) {
    if count == 0 {
        return;
    }
    let axes: Vec<i64> = (rank..rank + count).map(|axis| axis as i64).collect();
    let axes = builder.ints(node, "axes", &axes);
    let inputs: Vec<Option<ValueId>> = vec![node.input(1), Some(axes)];
    let aligned = builder.emit(node, "Unsqueeze", inputs, &[] as &[(&str, Attribute)]);
    node.inputs[1] = Some(aligned);
}
