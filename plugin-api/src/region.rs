//! The region: the subgraph that core gives to one backend. It crosses the border as JSON with a schema name; fields
//! that a reader does not know are ignored, so the schema can grow without touching the ABI.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
pub use byoc_dim::Dim;

/// The schema of [`Region`] that this crate writes.
pub const SCHEMA: &str = "byoc-region/1";

/// A tensor of the region: an input, a constant or a node's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The name in the model; for messages only, never a key.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

impl Value {
    /// The shape as numbers, or `None` when a dimension is symbolic.
    pub fn fixed_shape(&self) -> Option<Vec<usize>> {
        self.shape.iter().map(Dim::fixed).collect()
    }
}

/// A constant's name within one region: opaque, given by core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConstantId(pub u64);

impl std::fmt::Display for ConstantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A constant that the region reads, and the value that stands for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// The id to claim it by.
    pub id: ConstantId,
    /// Index into [`Region::values`].
    pub value: usize,
    /// The bytes of a small constant (at most [`INLINE_BYTES`]) in row-major order, little-endian, as lower-case hex:
    /// shapes, axes and scalars are there for `check` to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Set when code for the region is asked for a second time, because another region, an output or, where the user asks
    /// for it, another variant of the model needs the constant in another form: a packed form of it would be stored beside
    /// that one. A backend that can pack at load should claim `Host` then; one that cannot may claim as before, and the
    /// ledger says what that costs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// Which values a tensor of `f32` took while the model ran over the user's data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Index into [`Region::values`].
    pub value: usize,
    /// The least value, finite. For the input of a model that is an image: what the darkest pixel is normalised to, in
    /// the channel where that is least.
    pub min: f32,
    /// The greatest value, finite. For an image: what the brightest pixel is normalised to.
    pub max: f32,
    /// How many values lay in each of these equal parts of the range from `min` to `max`; `max` itself is in the last one.
    /// Where `min` and `max` are equal, all are in the first one.
    pub histogram: Vec<u64>,
}

/// What the elements of a quantised tensor stand for: `(element - zero point) * scale`. Told of every tensor that a
/// `QuantizeLinear` of the region gives, that a `DequantizeLinear` of it reads, and of the operands and the result of
/// `QLinearMatMul` and `QLinearConv`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantized {
    /// Index into [`Region::values`].
    pub value: usize,
    /// Its scales: the index of their tensor.
    pub scale: usize,
    /// Its zero points, in the same shape: the index of their tensor. All are 0 where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_point: Option<usize>,
    /// The dimension along which scales differ; `None` where there is one for all elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis: Option<usize>,
    /// How many elements along that dimension have one scale; `None` where each index has its own, which then is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<usize>,
}

/// Constants up to this many bytes are written into the region's JSON.
pub const INLINE_BYTES: usize = 256;

/// An attribute of a node, as in ONNX.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A float.
    Float(#[serde(with = "crate::float_json")] f32),
    /// A text.
    String(String),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of floats.
    Floats(#[serde(with = "crate::float_json::list")] Vec<f32>),
    /// A list of texts.
    Strings(Vec<String>),
    /// A tensor: bytes in row-major order, little-endian, as lower-case hex.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Size of each dimension.
        shape: Vec<usize>,
        /// The bytes.
        hex: String,
    },
    /// A list of tensors.
    Tensors(Vec<AttributeTensor>),
    /// A graph that reads nothing but its inputs: ONNX's `GraphProto`, as the model has it, serialised and in lower-case hex.
    Graph(String),
}

/// One of a list of tensors: bytes in row-major order, little-endian, as lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeTensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// The bytes.
    pub hex: String,
}

/// An operator of the region, in core's canonical form: the newest ONNX operator set it knows (`docs/operators.md`). One
/// that a backend brings is in the form that the model has. Later versions may have more fields, so end a literal with
/// `..Node::default()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The name in the model; for messages only.
    pub name: String,
    /// The operator, such as `Conv`.
    pub op: String,
    /// The operator's domain; empty for ONNX's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Indices into [`Region::values`]; `None` for an optional input that is absent.
    pub inputs: Vec<Option<usize>>,
    /// Indices into [`Region::values`]; `None` for an output nobody wants.
    pub outputs: Vec<Option<usize>>,
    /// Attributes. Every one that has a default is there, axes count from the front (`docs/operators.md`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Attribute>,
    /// The version of its operator set that the model imports; `None` for an operator that core knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

impl Node {
    /// An integer attribute, or `default` where it is absent or of another kind.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attributes.get(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// A float attribute, or `default`.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        match self.attributes.get(name) {
            Some(Attribute::Float(value)) => *value,
            _ => default,
        }
    }

    /// A text attribute, or `default`.
    pub fn string<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        match self.attributes.get(name) {
            Some(Attribute::String(value)) => value,
            _ => default,
        }
    }

    /// A list of integers, if it is there.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// The value at input `index`, if the input is there.
    pub fn input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).copied().flatten()
    }

    /// The value at output `index`, if somebody wants it.
    pub fn output(&self, index: usize) -> Option<usize> {
        self.outputs.get(index).copied().flatten()
    }
}

/// The subgraph given to one backend. Nodes stand in topological order; every constant is a parameter. Later versions may
/// have more fields, so end a literal with `..Region::default()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// [`SCHEMA`].
    pub schema: String,
    /// The region's name, `byoc_<entry>_<backend>_<n>`.
    pub symbol: String,
    /// Every tensor of the region.
    pub values: Vec<Value>,
    /// Values that come from outside, in the order in which `run` receives them.
    pub inputs: Vec<usize>,
    /// Values that leave the region, in the order in which `run` receives them.
    pub outputs: Vec<usize>,
    /// Constants that the region reads.
    pub constants: Vec<Constant>,
    /// The operators.
    pub nodes: Vec<Node>,
    /// What was seen of every tensor of `f32` that is not a constant. Only for `codegen` and `constant_updater` of backends
    /// that ask for it: [`Description::calibration`](crate::Description::calibration).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Observed>,
    /// Whether the region is all of an entry of the model: no other region runs before or after it. Known to `codegen` and
    /// `constant_updater`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covers_entry: bool,
    /// What the elements of quantised tensors stand for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantized: Vec<Quantized>,
}

impl Region {
    /// What was seen of `value`, if it was watched.
    pub fn observed(&self, value: usize) -> Option<&Observed> {
        self.observed.iter().find(|observed| observed.value == value)
    }

    /// What the elements of `value` stand for, if it is quantised.
    pub fn quantized(&self, value: usize) -> Option<&Quantized> {
        self.quantized.iter().find(|quantized| quantized.value == value)
    }

    /// Whether the sizes of the inputs do not tell all sizes of the outputs: such a region is run by
    /// [`Executable::run_sized`](crate::Executable::run_sized).
    pub fn tells_sizes(&self) -> bool {
        let shape = |&value: &usize| self.values[value].shape.as_slice();
        let known = byoc_dim::told(self.inputs.iter().map(shape));
        self.outputs.iter().map(shape).flat_map(byoc_dim::symbols).any(|symbol| !known.contains(&symbol))
    }

    /// The constant that `value` stands for, if it is one.
    pub fn constant(&self, value: usize) -> Option<&Constant> {
        // The host numbers values and constants in one order.
        let place = self.constants.partition_point(|constant| constant.value < value);
        let found = self.constants.get(place).filter(|constant| constant.value == value);
        found.or_else(|| self.constants.iter().find(|constant| constant.value == value))
    }

    /// The elements of a small constant of an integer or boolean type.
    pub fn constant_ints(&self, value: usize) -> Option<Vec<i64>> {
        let (dtype, bytes) = self.inline_elements(value)?;
        let read = |chunk: &[u8]| -> Option<i64> {
            Some(match dtype {
                DType::I64 => i64::from_le_bytes(chunk.try_into().ok()?),
                DType::U64 => u64::from_le_bytes(chunk.try_into().ok()?) as i64,
                DType::I32 => i32::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::U32 => u32::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::I16 => i16::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::U16 => u16::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::I8 => i64::from(chunk[0] as i8),
                DType::U8 | DType::Bool => chunk[0].into(),
                DType::I4 | DType::U4 | DType::I2 | DType::U2 => crate::small::decode(dtype, chunk[0])? as i64,
                _ => return None,
            })
        };
        bytes.chunks_exact(dtype.unpacked_bytes()).map(read).collect()
    }

    /// The elements of a small constant of a floating-point type, widened to `f64`.
    pub fn constant_floats(&self, value: usize) -> Option<Vec<f64>> {
        let (dtype, bytes) = self.inline_elements(value)?;
        let read = |chunk: &[u8]| -> Option<f64> {
            Some(match dtype {
                DType::F32 => f32::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::F64 => f64::from_le_bytes(chunk.try_into().ok()?),
                DType::F16 => half::f16::from_le_bytes(chunk.try_into().ok()?).into(),
                DType::BF16 => half::bf16::from_le_bytes(chunk.try_into().ok()?).into(),
                _ if dtype.is_small_float() => crate::small::decode(dtype, chunk[0])?,
                _ => return None,
            })
        };
        bytes.chunks_exact(dtype.unpacked_bytes()).map(read).collect()
    }

    /// The element type of a small constant, and its elements in bytes of their own.
    fn inline_elements(&self, value: usize) -> Option<(DType, Vec<u8>)> {
        let (bytes, Value { dtype, .. }) = (self.inline_bytes(value)?, &self.values[value]);
        if !dtype.shares_bytes() {
            return Some((*dtype, bytes));
        }
        let sizes = self.values[value].fixed_shape()?;
        let elements = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        Some((*dtype, dtype.unpack(&bytes, elements)?))
    }

    /// The bytes of a small constant, if `value` is one.
    pub fn inline_bytes(&self, value: usize) -> Option<Vec<u8>> {
        from_hex(self.constant(value)?.inline.as_deref()?)
    }

    /// Checks every index and arity, so that later code may index without asking. Errors name the place.
    pub fn validate(&self) -> Result<(), crate::Error> {
        let bad = |what: &str, index: usize| {
            crate::Error::new(format!(
                "region {}: {what} refers to value {index} of {}",
                self.symbol,
                self.values.len()
            ))
        };
        let count = self.values.len();
        let edges = [("input", &self.inputs), ("output", &self.outputs)];
        for (what, list) in edges {
            if let Some(&index) = list.iter().find(|&&index| index >= count) {
                return Err(bad(what, index));
            }
        }
        if let Some(constant) = self.constants.iter().find(|constant| constant.value >= count) {
            return Err(bad("constant", constant.value));
        }
        if let Some(observed) = self.observed.iter().find(|observed| observed.value >= count) {
            return Err(bad("observation", observed.value));
        }
        for Quantized { value, scale, zero_point, .. } in &self.quantized {
            let indices = [Some(*value), Some(*scale), *zero_point];
            if let Some(index) = indices.into_iter().flatten().find(|&index| index >= count) {
                return Err(bad("quantisation", index));
            }
        }
        for node in &self.nodes {
            if let Some(&index) = node.inputs.iter().chain(&node.outputs).flatten().find(|&&index| index >= count) {
                return Err(bad(&format!("node '{}'", node.name), index));
            }
        }
        Ok(())
    }
}

/// Bytes as lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|&byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The bytes of a hex text, or `None` if it is none.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
