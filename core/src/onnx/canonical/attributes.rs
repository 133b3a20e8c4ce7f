//! Forms that differ in names, and in attributes that have become inputs.

use byoc_plugin_api::{Attribute, DType};

use super::{bad, missing, take_float, take_int, take_ints, unsupported};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;
use crate::onnx::tensor;

/// Puts a type's number in place of its name.
pub(super) fn cast(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if let Some(Attribute::String(name)) = node.attributes.get("to") {
        let code = tensor::onnx_code(&name.to_uppercase());
        let code = code.ok_or_else(|| bad(node, format!("Cast to the unknown type '{name}'")))?;
        node.attributes.insert("to".into(), Attribute::Int(code));
    }
    Ok(())
}

/// Writes the old default out.
pub(super) fn concat(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    node.attributes.entry("axis".into()).or_insert(Attribute::Int(1));
    Ok(())
}

/// Limits that were attributes; the old defaults limit nothing.
pub(super) fn clip(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let data = node.input(0);
    node.inputs.truncate(1);
    for (name, default) in [("min", f32::MIN), ("max", f32::MAX)] {
        let limit = take_float(node, name)?.filter(|&limit| limit != default);
        let limit = limit.map(|limit| builder.scalar_like(node, name, data, limit));
        node.inputs.push(limit);
    }
    Ok(())
}

/// An axis that was an attribute.
pub(super) fn dft(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let axis = take_int(node, "axis")?.unwrap_or(1);
    let axis = builder.scalar(&node.name, "axis", DType::I64, &axis.to_le_bytes());
    node.inputs.resize(2, None);
    node.inputs.push(Some(axis));
    Ok(())
}

/// A power that is a whole number, as today.
pub(super) fn power(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let Some(power) = take_float(node, "p")? else { return Ok(()) };
    if power.fract() != 0.0 || !(1.0..1e6).contains(&power) {
        return Err(unsupported(node, format!("{} with p = {power} is not supported", node.op))
            .hint("Export the model with operator set 2 or newer, where p is an integer"));
    }
    node.attributes.insert("p".into(), Attribute::Int(power as i64));
    Ok(())
}

/// Regions without the shift by half an element.
pub(super) fn roi_align(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    node.attributes.insert("coordinate_transformation_mode".into(), Attribute::String("output_half_pixel".into()));
    Ok(())
}

/// The names of modes for any number of dimensions.
pub(super) fn grid_sample(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if let Some(Attribute::String(mode)) = node.attributes.get_mut("mode") {
        match mode.as_str() {
            "bilinear" => *mode = "linear".into(),
            "bicubic" => *mode = "cubic".into(),
            _ => {}
        }
    }
    Ok(())
}

/// Drops what the name of output 0 says as well.
pub(super) fn output_sequence(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    take_int(node, "output_sequence").map(drop)
}

/// The name that `pads` had first.
pub(super) fn pad_names(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    if let Some(paddings) = node.attributes.remove("paddings") {
        node.attributes.insert("pads".into(), paddings);
    }
    Ok(())
}

/// Sizes and value that were attributes.
pub(super) fn pad(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let pads = take_ints(node, "pads")?.ok_or_else(|| missing(node, "pads"))?;
    let value = take_float(node, "value")?.filter(|&value| value != 0.0);
    let data = node.input(0);
    let pads = builder.ints(node, "pads", &pads);
    let value = value.map(|value| builder.scalar_like(node, "value", data, value));
    node.inputs = vec![data, Some(pads), value];
    Ok(())
}

/// A shape that was an attribute.
pub(super) fn reshape(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let shape = take_ints(node, "shape")?.ok_or_else(|| missing(node, "shape"))?;
    let shape = builder.ints(node, "shape", &shape);
    node.inputs = vec![node.input(0), Some(shape)];
    Ok(())
}

/// Bounds that were attributes.
pub(super) fn slice(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let mut inputs = vec![node.input(0)];
    for name in ["starts", "ends"] {
        let values = take_ints(node, name)?.ok_or_else(|| missing(node, name))?;
        inputs.push(Some(builder.ints(node, name, &values)));
    }
    if let Some(axes) = take_ints(node, "axes")? {
        inputs.push(Some(builder.ints(node, "axes", &axes)));
    }
    node.inputs = inputs;
    Ok(())
}

/// The name that ScatterElements had first.
pub(super) fn scatter(_: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    node.op = "ScatterElements".into();
    Ok(())
}

/// A number of elements that was an attribute.
pub(super) fn top_k(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let k = take_int(node, "k")?.ok_or_else(|| missing(node, "k"))?;
    let k = builder.ints(node, "k", &[k]);
    node.inputs = vec![node.input(0), Some(k)];
    Ok(())
}
