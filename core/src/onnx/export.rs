//! Exports a region as an ONNX model that reproduces it: any tool for ONNX opens it, and compiling it gives the backend the
//! same nodes, shapes and constants.

mod texts;

use std::collections::{BTreeMap, BTreeSet};

use byoc_plugin_api::small::{self, Round};
use byoc_plugin_api::{
    Attribute, ConstantId, Constants, DType, INLINE_BYTES, Node, Region, TensorView, from_hex, to_hex,
};
use bytes::Bytes;
use prost::Message;

use self::texts::{ConstantTexts, decodes};
use super::flatten::NEWEST_OPSET;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto,
};
use super::write::{attribute, node, opset, tensor, to_onnx, value};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops::attributes::Kind;
use crate::ops::ml::MODES;
use crate::ops::{self, OpDef};

/// The metadata key of the backend that a repro model was made for.
pub const REPRO_BACKEND: &str = "byoc.backend";

/// The metadata key of the backend's options, as JSON.
pub const REPRO_OPTIONS: &str = "byoc.options";

/// The IR version of ONNX that is written.
const IR_VERSION: i64 = 10;

/// Most bytes of constants in the file: a protobuf message has less than 2 GiB.
const MOST_BYTES: usize = 1 << 30;

/// The model. With `strip` every constant of more than 256 bytes has made-up elements of the same type and shape; so it
/// is where they would not fit into the file. `about` goes into the model's metadata.
pub(crate) fn region_model(
    region: &Region,
    constants: &Constants<'_>,
    strip: bool,
    about: &[(&str, String)],
) -> Result<Bytes> {
    let size = |view: &TensorView<'_>| view.byte_len();
    let strip = strip || constants.iter().map(|(_, view)| size(view)).sum::<usize>() > MOST_BYTES;
    let name = |value: usize| region.values[value].name.clone();
    let mut initializer = Vec::with_capacity(region.constants.len());
    let lifted = Lifted::of(region);
    let texts = ConstantTexts::of(region, constants, strip)?;
    let hidden = |value: usize| lifted.values.contains(&value) || texts.hides(value, region);
    for constant in region.constants.iter().filter(|constant| !hidden(constant.value)) {
        let missing = || Diagnostic::new(Code::BadGraph, format!("constant {} was not given", constant.id));
        let view = constants.get(constant.id).ok_or_else(missing)?;
        let bytes = match (&constant.inline, strip || !view.has_data()) {
            (Some(hex), _) => from_hex(hex).unwrap_or_default(),
            (None, true) if size(view) > INLINE_BYTES => made_up(view, constant.id),
            _ => elements(view),
        };
        initializer.push(tensor(&name(constant.value), to_onnx(view.dtype()), view.shape(), bytes));
    }
    initializer.extend(texts.tensors(region, &lifted.values));
    let port = |&index: &usize| -> ValueInfoProto {
        let port = &region.values[index];
        value(&port.name, to_onnx(port.dtype), Some(&port.shape))
    };
    let names = |values: &[Option<usize>]| values.iter().map(|value| value.map_or(String::new(), name)).collect();
    let node = |it: &Node| -> Result<NodeProto> {
        let own = &it.inputs[..own_inputs(it)];
        let attributes = it.attributes.iter().map(|(name, value)| attribute(name, value));
        Ok(NodeProto {
            attribute: attributes.chain(lifted.attributes(it, region, (constants, &texts), strip)?).collect(),
            ..node(&it.name, (&it.domain, &it.op), names(own), names(&it.outputs))
        })
    };
    let graph = GraphProto {
        node: region.nodes.iter().filter(|node| !decodes(node)).map(node).collect::<Result<_>>()?,
        name: Some(region.symbol.clone()),
        initializer,
        input: region.inputs.iter().map(port).collect(),
        output: region.outputs.iter().map(port).collect(),
        ..GraphProto::default()
    };
    let entry = |(key, value): &(&str, String)| StringStringEntryProto {
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        opset_import: imports(region)?,
        producer_name: Some(Bytes::from_static(b"byoc")),
        producer_version: Some(Bytes::from_static(env!("CARGO_PKG_VERSION").as_bytes())),
        graph: Some(graph),
        metadata_props: about.iter().map(entry).collect(),
        ..ModelProto::default()
    };
    Ok(model.encode_to_vec().into())
}

/// The versions of the domains that the nodes are of.
fn imports(region: &Region) -> Result<Vec<OperatorSetIdProto>> {
    let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
    for node in region.nodes.iter().filter(|node| !decodes(node)) {
        let domain = node.domain.as_str();
        // Some operators are gone from the newest version of their domain.
        let since = ops::find(domain, &node.op).filter(|_| !domain.is_empty()).map(|def| i64::from(def.since));
        let version = node.version.or(since).unwrap_or(if domain.is_empty() { NEWEST_OPSET } else { 1 });
        let imported = versions.entry(domain).or_insert(version);
        if since.is_some() {
            *imported = version.max(*imported);
        } else if *imported != version {
            let cause = format!("its nodes are of two versions of '{domain}', and a model imports one");
            return Err(Diagnostic::new(Code::BadGraph, cause));
        }
    }
    Ok(versions.into_iter().map(|(domain, version)| opset(domain, version)).collect())
}

/// The constants that ONNX has as attributes of the nodes that read them.
struct Lifted {
    /// Those that no node reads otherwise.
    values: BTreeSet<usize>,
}

/// How many inputs of a node are inputs in ONNX.
fn own_inputs(node: &Node) -> usize {
    let def = ops::find(&node.domain, &node.op).filter(|def| def.lifted().next().is_some());
    def.map_or(node.inputs.len(), |def| def.inputs.1.min(node.inputs.len()))
}

impl Lifted {
    fn of(region: &Region) -> Lifted {
        let (mut values, mut others) = (BTreeSet::new(), BTreeSet::from_iter(region.outputs.iter().copied()));
        for node in &region.nodes {
            let (own, lifted) = node.inputs.split_at(own_inputs(node));
            others.extend(own.iter().flatten());
            values.extend(lifted.iter().flatten());
        }
        Lifted { values: values.difference(&others).copied().collect() }
    }

    /// What a node has as inputs, as the attributes that it was. Integers are what other numbers are about, so that they stay
    /// as they are where the others are made up.
    fn attributes(
        &self,
        node: &Node,
        region: &Region,
        (constants, texts): (&Constants<'_>, &ConstantTexts),
        strip: bool,
    ) -> Result<Vec<AttributeProto>> {
        let lifted = ops::find(&node.domain, &node.op).into_iter().flat_map(OpDef::lifted);
        let given = lifted.zip(&node.inputs[own_inputs(node)..]);
        let made = given.filter_map(|(def, value)| {
            let value = (*value)?;
            if let Some(texts) = texts.attribute(value, def.kind) {
                return Some(Ok(attribute(def.name, &texts)));
            }
            let found = region.constant(value).and_then(|constant| Some((constant, constants.get(constant.id)?)));
            let Some((constant, view)) = found else {
                let cause =
                    format!("attribute '{}' of node '{}' is computed outside of the region", def.name, node.name);
                return Some(Err(Diagnostic::new(Code::BadGraph, cause)));
            };
            let hidden = strip && view.dtype().is_float() && constant.inline.is_none();
            let bytes = if hidden || !view.has_data() { made_up(view, constant.id) } else { elements(view) };
            Some(Ok(attribute(def.name, &lifted_attribute(def.kind, view, &bytes))))
        });
        made.collect()
    }
}

fn lifted_attribute(kind: Kind, view: &TensorView<'_>, bytes: &[u8]) -> Attribute {
    let size = view.dtype().unpacked_bytes();
    let integer = |bytes: &[u8]| {
        let signed = matches!(view.dtype(), DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let fill = if signed && bytes.last().is_some_and(|last| last >> 7 == 1) { u8::MAX } else { 0 };
        let mut all = [fill; 8];
        all[..size].copy_from_slice(bytes);
        i64::from_le_bytes(all)
    };
    match kind {
        Kind::Ints => Attribute::Ints(bytes.chunks_exact(size).map(integer).collect()),
        Kind::Strings => {
            let mode = |&byte: &u8| MODES.get(usize::from(byte)).copied().unwrap_or_default().to_owned();
            Attribute::Strings(bytes.iter().map(mode).collect())
        }
        Kind::Floats => Attribute::Floats(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()),
        _ => {
            let shape = view.shape().iter().map(|&size| size as usize).collect();
            Attribute::Tensor { dtype: view.dtype(), shape, hex: to_hex(bytes) }
        }
    }
}

fn elements(view: &TensorView<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(view.byte_len());
    view.for_each_element(|element| bytes.extend_from_slice(element));
    bytes
}

/// Small numbers of the view's type, other ones for each constant: between -1 and 1 for floating-point types, 0 and 1 for
/// others.
fn made_up(view: &TensorView<'_>, id: ConstantId) -> Vec<u8> {
    let mut state = id.0.wrapping_mul(2).wrapping_add(1);
    let mut element = || -> Vec<u8> {
        // Knuth's linear congruential generator (The Art of Computer Programming, volume 2): its high bits are good enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        match view.dtype() {
            DType::F32 => number.to_le_bytes().to_vec(),
            DType::F64 => f64::from(number).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f32(number).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f32(number).to_le_bytes().to_vec(),
            other => {
                let mut whole = vec![0; other.unpacked_bytes()];
                whole[0] = u8::from(number > 0.0);
                small::encode(other, number.into(), true, Round::Nearest).map_or(whole, |code| vec![code])
            }
        }
    };
    let elements: Vec<u8> = (0..view.len()).flat_map(|_| element()).collect();
    view.dtype().pack(&elements)
}
