//! Resize of operator set 11, from Upsample and older forms of Resize.

use byoc_plugin_api::Attribute;

use super::{bad, missing, take, take_float, unsupported};
use crate::diagnostic::Result;
use crate::ir::{Node, ValueId};
use crate::onnx::builder::Builder;

/// Upsample: scales were two attributes in version 1, a list of them in 7, an input in 9.
pub(super) fn upsample(builder: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    let scales = match version {
        ..7 => {
            let height = take_float(node, "height_scale")?.ok_or_else(|| missing(node, "height_scale"))?;
            let width = take_float(node, "width_scale")?.ok_or_else(|| missing(node, "width_scale"))?;
            Some(builder.floats(node, "scales", &[1.0, 1.0, height, width]))
        }
        7 | 8 => {
            let floats = |attribute| {
                if let Attribute::Floats(values) = attribute { Some(values) } else { None }
            };
            let scales = take(node, "scales", floats)?.ok_or_else(|| missing(node, "scales"))?;
            Some(builder.floats(node, "scales", &scales))
        }
        _ => node.input(1),
    };
    node.op = "Resize".into();
    old_rounding(node, scales, "floor");
    Ok(())
}

/// Resize 10 rounded to the nearest as Upsample did, but upwards where an axis shrinks. Scales that are not known here
/// are taken to stretch.
pub(super) fn resize_10(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let scales = node.input(1);
    let known = builder.known_floats(scales).unwrap_or_default();
    let (shrinks, grows) = (known.iter().any(|&scale| scale < 1.0), known.iter().any(|&scale| scale > 1.0));
    if shrinks && grows && node.string("mode", "nearest") == "nearest" {
        return Err(unsupported(node, "Resize version 10 to the nearest cannot shrink one axis and stretch another")
            .hint("Export the model with operator set 11 or newer"));
    }
    old_rounding(node, scales, if shrinks { "ceil" } else { "floor" });
    Ok(())
}

/// Writes out the behaviour that was implied before operator set 11.
fn old_rounding(node: &mut Node, scales: Option<ValueId>, nearest: &str) {
    let mut set = |name: &str, value: &str| node.attributes.insert(name.into(), Attribute::String(value.into()));
    set("coordinate_transformation_mode", "asymmetric");
    set("nearest_mode", nearest);
    if node.string("mode", "nearest") == "bilinear" {
        node.attributes.insert("mode".into(), Attribute::String("linear".into()));
    }
    node.inputs = vec![node.input(0), None, scales];
}

/// Makes inputs without elements absent ones; a `roi` counts in one mode only.
pub(super) fn drop_empty(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let mode = node.string("coordinate_transformation_mode", "half_pixel");
    if mode == "tf_half_pixel_for_nn" {
        return Err(unsupported(node, format!("Resize with the coordinate mode {mode} is not supported"))
            .hint("Export the model with operator set 13 or newer"));
    }
    let crops = mode == "tf_crop_and_resize";
    for index in 1..node.inputs.len() {
        if builder.elements(node.inputs[index]) == Some(0) || index == 1 && !crops {
            node.inputs[index] = None;
        }
    }
    if node.input(2).is_none() && node.input(3).is_none() {
        return Err(bad(node, "Resize has neither scales nor sizes"));
    }
    Ok(())
}
