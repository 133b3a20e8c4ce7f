//! Operators with a training mode: brought to the form of today, and to that of inference where they are not trained.

use byoc_plugin_api::Attribute;

use super::{take, take_float, take_int, unsupported};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;

/// Drops attributes of training where there is none. Before 14, extra outputs select training mode.
pub(super) fn batch_normalization(_: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    let asked = take_int(node, "training_mode")?.unwrap_or(0) != 0;
    let momentum = take_float(node, "momentum")?;
    take_int(node, "is_test")?;
    let spatial = take_int(node, "spatial")?.unwrap_or(1) != 0;
    if version < 9 && !spatial {
        return Err(unsupported(node, "BatchNormalization with spatial=0 is not supported"));
    }
    if !asked && (version >= 14 || node.outputs.iter().skip(1).all(Option::is_none)) {
        return Ok(());
    }
    if node.outputs.iter().skip(3).any(Option::is_some) {
        return Err(unsupported(node, "the outputs saved_mean and saved_var of BatchNormalization are not supported")
            .hint("Export the model with operator set 14 or newer"));
    }
    node.outputs.truncate(3);
    node.attributes.insert("training_mode".into(), Attribute::Int(1));
    node.attributes.extend(momentum.map(|momentum| ("momentum".to_owned(), Attribute::Float(momentum))));
    Ok(())
}

/// Dropout passes its input on, unless it is trained, or only the run tells whether. It stays a Dropout, without ratio, where its mask is wanted: the shape of that is not
/// known yet.
pub(super) fn dropout(builder: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    if version >= 12 && node.input(2).is_some() {
        let all_stays = builder.known_floats(node.input(1)).is_some_and(|ratio| ratio == [0.0]);
        if builder.known_bool(node.input(2)) != Some(false) && !all_stays {
            return Ok(());
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
