//! Constant texts of a region: nodes that make them of constants, which ONNX has as tensors or attributes by themselves.

use std::collections::{BTreeMap, BTreeSet};

use byoc_plugin_api::{Attribute, Constants, DType, INLINE_BYTES, Node, Region, text_block, texts_of_block, to_hex};

use super::elements;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::onnx::proto::TensorProto;
use crate::onnx::write;
use crate::ops::attributes::Kind;
use crate::ops::strings;

/// The texts of each value that is constant ones.
pub(super) struct ConstantTexts(BTreeMap<usize, ConstantText>);

struct ConstantText {
    /// The constant that has them.
    block: usize,
    shape: Vec<i64>,
    texts: Vec<String>,
}

/// Whether a node makes texts of a constant.
pub(super) fn decodes(node: &Node) -> bool {
    node.domain == strings::DOMAIN && node.op == strings::DECODE
}

impl ConstantTexts {
    /// Those of a region. With `strip`, long ones are made up.
    pub(super) fn of(region: &Region, constants: &Constants<'_>, strip: bool) -> Result<ConstantTexts> {
        let mut found = BTreeMap::new();
        for node in region.nodes.iter().filter(|node| decodes(node)) {
            let refused = |cause: &str| {
                let cause = format!("node '{}' makes texts of {cause}, which no ONNX model has", node.name);
                Diagnostic::new(Code::BadGraph, cause)
            };
            let (Some(block), Some(output)) = (node.input(0), node.output(0)) else { continue };
            let constant = region.constant(block).and_then(|constant| constants.get(constant.id));
            let view = constant.ok_or_else(|| refused("a value that is computed"))?;
            let shape = node.ints("shape").unwrap_or_default().to_vec();
            let count = shape.iter().product::<i64>();
            let texts = match !view.has_data() || strip && view.len() > INLINE_BYTES {
                true => (0..count).map(|index| format!("text {index}")).collect(),
                false => {
                    let bytes = elements(view);
                    let texts = texts_of_block(&bytes).map_err(|_| refused("a damaged constant"))?;
                    texts.into_iter().map(str::to_owned).collect::<Vec<_>>()
                }
            };
            found.insert(output, ConstantText { block, shape, texts });
        }
        Ok(ConstantTexts(found))
    }

    /// Whether a constant is read as texts and not otherwise.
    pub(super) fn hides(&self, constant: usize, region: &Region) -> bool {
        let mut readers = region.nodes.iter().filter(|node| node.inputs.contains(&Some(constant)));
        self.0.values().any(|text| text.block == constant)
            && readers.all(decodes)
            && !region.outputs.contains(&constant)
    }

    /// The tensors that nodes read or that the region gives; `attributes` are those that nodes have as attributes only.
    pub(super) fn tensors(&self, region: &Region, attributes: &BTreeSet<usize>) -> Vec<TensorProto> {
        let tensor = |(value, text): (&usize, &ConstantText)| {
            write::texts(&region.values[*value].name, &text.shape, &text.texts)
        };
        self.0.iter().filter(|(value, _)| !attributes.contains(value)).map(tensor).collect()
    }

    /// The texts that an attribute of that kind has, if the value is constant ones.
    pub(super) fn attribute(&self, value: usize, kind: Kind) -> Option<Attribute> {
        let ConstantText { shape, texts, .. } = self.0.get(&value)?;
        Some(match kind {
            Kind::Tensor => {
                let shape = shape.iter().map(|&size| size as usize).collect();
                Attribute::Tensor { dtype: DType::String, shape, hex: to_hex(&text_block(texts)?) }
            }
            _ => Attribute::Strings(texts.clone()),
        })
    }
}
