//! The forms of `LabelEncoder`: keys, values and the default become tensors, as version 4 may have them.

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::{bad, take, take_float, take_int, take_ints, unsupported};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;

/// Keys, values and default as tensors.
pub(super) fn label_encoder(_: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    if version < 2 {
        return Err(unsupported(
            node,
            "LabelEncoder version 1 is between strings and integers, and byoc does not carry strings",
        )
        .hint("Map the strings before the model, and give it integers"));
    }
    node.attributes.remove("default_string");
    let (default_int, default_float) = (take_int(node, "default_int64")?, take_float(node, "default_float")?);
    one_tensor(node, "keys")?;
    let dtype = one_tensor(node, "values")?;
    let default = match dtype {
        DType::F32 => f32::to_le_bytes(default_float.unwrap_or(-0.0)).to_vec(),
        DType::F64 => f64::to_le_bytes(-0.0).to_vec(),
        DType::I64 => i64::to_le_bytes(default_int.unwrap_or(-1)).to_vec(),
        other => vec![u8::MAX; other.unpacked_bytes()],
    };
    let default = Attribute::Tensor { dtype, shape: vec![1], hex: to_hex(&default) };
    node.attributes.entry("default_tensor".into()).or_insert(default);
    Ok(())
}

/// Makes one tensor of a list that can be in one of three attributes, and gives its element type.
fn one_tensor(node: &mut Node, what: &str) -> Result<DType> {
    let names = ["int64s", "floats", "tensor"].map(|kind| format!("{what}_{kind}"));
    let floats = |attribute| if let Attribute::Floats(values) = attribute { Some(values) } else { None };
    let ints = take_ints(node, &names[0])?.filter(|values| !values.is_empty());
    let floats = take(node, &names[1], floats)?.filter(|values| !values.is_empty());
    let tensor = node.attributes.remove(&names[2]);
    let ints = ints.map(|values| vector(DType::I64, values.len(), values.iter().flat_map(|value| value.to_le_bytes())));
    let floats =
        floats.map(|values| vector(DType::F32, values.len(), values.iter().flat_map(|value| value.to_le_bytes())));
    let mut found = [ints, floats, tensor].into_iter().flatten();
    let (Some(found), None) = (found.next(), found.next()) else {
        return Err(bad(node, format!("LabelEncoder needs exactly one of the attributes {}", names.join(", "))));
    };
    let dtype = match &found {
        Attribute::Tensor { dtype, .. } => *dtype,
        _ => return Err(bad(node, format!("attribute '{}' is of the wrong kind", names[2]))),
    };
    node.attributes.insert(names[2].clone(), found);
    Ok(dtype)
}

fn vector(dtype: DType, length: usize, bytes: impl Iterator<Item = u8>) -> Attribute {
    Attribute::Tensor { dtype, shape: vec![length], hex: to_hex(&bytes.collect::<Vec<_>>()) }
}
