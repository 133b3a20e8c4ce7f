//! The forms of `LabelEncoder`: keys, values and the default become tensors, as version 4 may have them; version 1 is a
//! `CategoryMapper` by another name.

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::{bad, take, take_float, take_int, take_ints};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;
use crate::onnx::tensor::Tensor;

/// What an element becomes whose key is not there.
const UNUSED: &str = "_Unused";

/// Keys, values and default as tensors.
pub(super) fn label_encoder(_: &mut Builder<'_>, node: &mut Node, version: i64) -> Result<()> {
    if version < 2 {
        return mapper(node);
    }
    let (default_int, default_float) = (take_int(node, "default_int64")?, take_float(node, "default_float")?);
    let default_text = take_text(node, "default_string")?;
    one_tensor(node, "keys")?;
    let dtype = one_tensor(node, "values")?;
    let default = match dtype {
        DType::F32 => f32::to_le_bytes(default_float.unwrap_or(-0.0)).to_vec(),
        DType::F64 => f64::to_le_bytes(-0.0).to_vec(),
        DType::I64 => i64::to_le_bytes(default_int.unwrap_or(-1)).to_vec(),
        DType::String => block(node, &[default_text.unwrap_or_else(|| UNUSED.into())])?,
        other => vec![u8::MAX; other.unpacked_bytes()],
    };
    let default = Attribute::Tensor { dtype, shape: vec![1], hex: to_hex(&default) };
    node.attributes.entry("default_tensor".into()).or_insert(default);
    Ok(())
}

/// The classes and their places.
fn mapper(node: &mut Node) -> Result<()> {
    let classes = take_texts(node, "classes_strings")?.unwrap_or_default();
    node.op = "CategoryMapper".into();
    node.attributes.insert("cats_int64s".into(), Attribute::Ints((0..classes.len() as i64).collect()));
    node.attributes.insert("cats_strings".into(), Attribute::Strings(classes));
    Ok(())
}

fn take_text(node: &mut Node, name: &str) -> Result<Option<String>> {
    take(node, name, |attribute| if let Attribute::String(text) = attribute { Some(text) } else { None })
}

fn take_texts(node: &mut Node, name: &str) -> Result<Option<Vec<String>>> {
    take(node, name, |attribute| if let Attribute::Strings(texts) = attribute { Some(texts) } else { None })
}

fn block(node: &Node, texts: &[String]) -> Result<Vec<u8>> {
    Ok(Tensor::of_texts(&format!("node '{}'", node.name), vec![texts.len()], texts)?.bytes.to_vec())
}

/// Makes one tensor of a list that can be in one of four attributes, and gives its element type.
fn one_tensor(node: &mut Node, what: &str) -> Result<DType> {
    let names = ["int64s", "floats", "strings", "tensor"].map(|kind| format!("{what}_{kind}"));
    let floats = |attribute| if let Attribute::Floats(values) = attribute { Some(values) } else { None };
    let ints = take_ints(node, &names[0])?.filter(|values| !values.is_empty());
    let floats = take(node, &names[1], floats)?.filter(|values| !values.is_empty());
    let texts = take_texts(node, &names[2])?.filter(|texts| !texts.is_empty());
    let tensor = node.attributes.remove(&names[3]);
    let numbers = |values: Vec<[u8; 8]>| vector(DType::I64, values.len(), &values.concat());
    let ints = ints.map(|values| numbers(values.into_iter().map(i64::to_le_bytes).collect()));
    let floats = floats.map(|values| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        vector(DType::F32, values.len(), &bytes)
    });
    let texts = match texts {
        Some(texts) => Some(vector(DType::String, texts.len(), &block(node, &texts)?)),
        None => None,
    };
    let mut found = [ints, floats, texts, tensor].into_iter().flatten();
    let (Some(found), None) = (found.next(), found.next()) else {
        return Err(bad(node, format!("LabelEncoder needs exactly one of the attributes {}", names.join(", "))));
    };
    let dtype = match &found {
        Attribute::Tensor { dtype, .. } => *dtype,
        _ => return Err(bad(node, format!("attribute '{}' is of the wrong kind", names[3]))),
    };
    node.attributes.insert(names[3].clone(), found);
    Ok(dtype)
}

fn vector(dtype: DType, length: usize, bytes: &[u8]) -> Attribute {
    Attribute::Tensor { dtype, shape: vec![length], hex: to_hex(bytes) }
}
