//! Operators with a training mode: brought to their inference form, or refused.

use super::{take, take_float, take_int, unsupported};
use crate::diagnostic::{Diagnostic, Result};
use crate::ir::Node;
use crate::onnx::builder::Builder;

/// Drops attributes of training. Before 14, extra outputs select training mode.
pub(super) fn batch_normalization(_: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    let training = take_int(node, "training_mode")?.unwrap_or(0) != 0;
    take_float(node, "momentum")?;
    take_int(node, "is_test")?;
    let spatial = take_int(node, "spatial")?.unwrap_or(1) != 0;
    if training || node.outputs.iter().skip(1).any(Option::is_some) {
        return Err(training_form(node));
    }
    if version < 9 && !spatial {
        return Err(unsupported(node, "BatchNormalization with spatial=0 is not supported"));
    }
    Ok(())
}

/// Dropout passes its input on. It stays a Dropout, without ratio, where its mask is wanted: the shape of that is not
/// known yet.
pub(super) fn dropout(builder: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    if version >= 12 && node.input(2).is_some() {
        match builder.known_bool(node.input(2)) {
            Some(false) => {}
            Some(true) if builder.known_floats(node.input(1)).is_some_and(|ratio| ratio == [0.0]) => {}
            Some(true) => return Err(training_form(node)),
            None => {
                return Err(unsupported(node, "Dropout with a training_mode that is known only at run time")
                    .hint("Export the model for inference (in PyTorch: model.eval())"));
            }
        }
    }
    for name in ["ratio", "is_test", "seed"] {
        take(node, name, Some)?;
    }
    node.inputs.truncate(1);
    if node.output(1).is_none() {
        node.op = "Identity".into();
        node.outputs.truncate(1);
    } else if version < 10 {
        return Err(unsupported(node, "the mask of Dropout before version 10 is not supported"));
    }
    Ok(())
}

fn training_form(node: &Node) -> Diagnostic {
    unsupported(node, format!("{} is in training mode", node.op))
        .hint("Export the model for inference (in PyTorch: model.eval())")
}
