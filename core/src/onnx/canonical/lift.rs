//! Weights that ONNX has in attributes become constants: inputs behind the operator's own, in the order of the attributes'
//! names. So they are stored once, and the ledger has them.

use byoc_plugin_api::{Attribute, DType, from_hex};

use super::{bad, missing};
use crate::diagnostic::Result;
use crate::ir::Node;
use crate::onnx::builder::Builder;
use crate::onnx::tensor::Tensor;
use crate::ops::OpDef;
use crate::ops::attributes::{Default, check_kind};
use crate::ops::ml::{MODES, NODES_MODES};

/// Fails where an attribute that becomes a constant, or any of another domain than ONNX's own, is of another kind. (What else is of that
/// one had other kinds in older forms.)
pub(super) fn check_kinds(node: &Node, def: &OpDef) -> Result<()> {
    for attribute in def.attributes.iter().filter(|attribute| attribute.lifted || !def.domain.is_empty()) {
        if let Some(value) = node.attributes.get(attribute.name) {
            check_kind(attribute, value).map_err(|error| error.within(format!("node '{}'", node.name)))?;
        }
    }
    Ok(())
}

/// Makes an input of each attribute that is a constant in canonical form. An empty list is none.
pub(super) fn lift(builder: &mut Builder<'_>, node: &mut Node, def: &OpDef) -> Result<()> {
    if def.lifted().next().is_none() {
        return Ok(());
    }
    node.inputs.resize(def.inputs.1, None);
    for attribute in def.lifted() {
        let value = node.attributes.remove(attribute.name);
        let tensor = match value {
            Some(Attribute::Strings(modes)) if attribute.name == NODES_MODES => Some(mode_numbers(node, &modes)?),
            Some(Attribute::Strings(texts)) => {
                let what = format!("node '{}': attribute '{}'", node.name, attribute.name);
                Some(Tensor::of_texts(&what, vec![texts.len()], &texts)?)
            }
            value => value.and_then(elements),
        };
        let tensor = tensor.filter(|tensor| !tensor.is_empty());
        if tensor.is_none() && attribute.default == Default::Required {
            return Err(missing(node, attribute.name));
        }
        node.inputs.push(tensor.map(|tensor| builder.lifted(node, attribute.name, tensor)));
    }
    Ok(())
}

/// The modes of the nodes of trees as numbers.
fn mode_numbers(node: &Node, modes: &[String]) -> Result<Tensor> {
    let number = |mode: &String| {
        let found = MODES.iter().position(|known| known == mode).and_then(|number| u8::try_from(number).ok());
        found.ok_or_else(|| bad(node, format!("the mode '{mode}' is not one of {}", MODES.join(", "))))
    };
    let bytes = modes.iter().map(number).collect::<Result<Vec<_>>>()?;
    Ok(Tensor { dtype: DType::U8, shape: vec![modes.len()], bytes: bytes.into() })
}

/// The elements of an attribute; integers in the smallest type that holds them all.
fn elements(value: Attribute) -> Option<Tensor> {
    match value {
        Attribute::Ints(values) => {
            let (dtype, bytes) = narrow(&values);
            Some(Tensor { dtype, shape: vec![values.len()], bytes: bytes.into() })
        }
        Attribute::Floats(values) => {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            Some(Tensor { dtype: DType::F32, shape: vec![values.len()], bytes: bytes.into() })
        }
        Attribute::Tensor { dtype, shape, hex } => Some(Tensor { dtype, shape, bytes: from_hex(&hex)?.into() }),
        _ => None,
    }
}

/// Integers as bytes of the smallest type.
fn narrow(values: &[i64]) -> (DType, Vec<u8>) {
    fn of<T: TryFrom<i64>, const N: usize>(values: &[i64], bytes: fn(T) -> [u8; N]) -> Option<Vec<u8>> {
        let mut all = Vec::with_capacity(values.len() * N);
        for &value in values {
            all.extend(bytes(T::try_from(value).ok()?));
        }
        Some(all)
    }
    let small = of(values, u8::to_le_bytes).map(|bytes| (DType::U8, bytes));
    let small = small.or_else(|| Some((DType::I8, of(values, i8::to_le_bytes)?)));
    let small = small.or_else(|| Some((DType::U16, of(values, u16::to_le_bytes)?)));
    let small = small.or_else(|| Some((DType::I16, of(values, i16::to_le_bytes)?)));
    let small = small.or_else(|| Some((DType::I32, of(values, i32::to_le_bytes)?)));
    small.unwrap_or_else(|| (DType::I64, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_get_the_smallest_type() {
        let cases: [(&[i64], DType); 7] = [
            (&[0, 255], DType::U8),
            (&[-128, 127], DType::I8),
            (&[256], DType::U16),
            (&[-1, 200], DType::I16),
            (&[-1, 65535], DType::I32),
            (&[1 << 31], DType::I64),
            (&[i64::MIN, i64::MAX], DType::I64),
        ];
        for (values, dtype) in cases {
            let (found, bytes) = narrow(values);
            assert_eq!((found, bytes.len()), (dtype, values.len() * dtype.unpacked_bytes()), "{values:?}");
        }
        assert_eq!(narrow(&[-1, 200]).1, [255, 255, 200, 0]);
    }
}
