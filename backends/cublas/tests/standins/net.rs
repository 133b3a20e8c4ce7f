//! Regions as core would make them, with the bytes of their constants.

use std::collections::HashMap;

use byoc_plugin_api::{
    Attribute, Constant, ConstantId, DType, Dim, INLINE_BYTES, Node, Region, SCHEMA, TensorView, Value, to_hex,
};
use half::{bf16, f16};

use crate::array::Array;
use crate::random::Random;

/// A region in the making.
pub(crate) struct Net {
    pub(crate) region: Region,
    /// The constants, in the order of the region's.
    pub(crate) stored: Vec<Stored>,
    pub(crate) dtype: DType,
}

/// A constant: a view of more bytes.
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    /// The first element.
    pub(crate) offset: usize,
}

/// How a constant lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lies {
    RowMajor,
    /// The last two dimensions the other way round.
    Transposed,
    /// Every second element of something larger, behind a first one.
    Spread,
    /// All elements are one.
    Splat,
}

impl Net {
    pub(crate) fn new(dtype: DType) -> Net {
        let region = Region { schema: SCHEMA.into(), symbol: "byoc_main_cublas_0".into(), ..Region::default() };
        Net { region, stored: Vec::new(), dtype }
    }

    fn value(&mut self, name: &str, dtype: DType, shape: &[Dim]) -> usize {
        let name = format!("{name}{}", self.region.values.len());
        self.region.values.push(Value { name, dtype, shape: shape.to_vec() });
        self.region.values.len() - 1
    }

    pub(crate) fn input(&mut self, shape: &[Dim]) -> usize {
        let value = self.value("x", self.dtype, shape);
        self.region.inputs.push(value);
        value
    }

    pub(crate) fn constant(&mut self, shape: &[usize], lies: Lies, random: &mut Random) -> usize {
        let stored = Stored::random(self.dtype, shape, lies, random);
        self.stored(stored)
    }

    /// A constant that is one number.
    pub(crate) fn number(&mut self, number: f64) -> usize {
        let bytes = encode(self.dtype, number);
        self.stored(Stored { bytes, dtype: self.dtype, shape: vec![], strides: vec![], offset: 0 })
    }

    fn stored(&mut self, stored: Stored) -> usize {
        let dims: Vec<Dim> = stored.shape.iter().map(|&size| Dim::Fixed(size as usize)).collect();
        let value = self.value("w", stored.dtype, &dims);
        let bytes = stored.in_order();
        let inline = (bytes.len() <= INLINE_BYTES).then(|| to_hex(&bytes));
        // Ids are any numbers.
        let id = ConstantId(10 + self.region.constants.len() as u64 * 3);
        self.region.constants.push(Constant { id, value, inline, shared: false });
        self.stored.push(stored);
        value
    }

    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[usize],
        shape: &[Dim],
        attributes: &[(&str, Attribute)],
    ) -> usize {
        let output = self.value("y", self.dtype, shape);
        self.region.nodes.push(Node {
            name: format!("{}{}", op.to_lowercase(), self.region.nodes.len()),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().map(|&input| Some(input)).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        });
        output
    }

    /// The region with that result.
    pub(crate) fn output(mut self, value: usize) -> Net {
        self.region.outputs.push(value);
        self
    }

    /// The shape of a value under these sizes of symbols.
    pub(crate) fn shape(&self, value: usize, sizes: &HashMap<String, usize>) -> Vec<usize> {
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => *size,
            Dim::Symbolic(text) => byoc_plugin_api::dim::eval(text, sizes).expect("the case has all sizes"),
        };
        self.region.values[value].shape.iter().map(size).collect()
    }

    /// The result, computed node by node as ONNX says.
    pub(crate) fn expected(&self, inputs: &[Array]) -> Array {
        let given = self.region.inputs.iter().copied().zip(inputs.iter().cloned());
        let constants = self.region.constants.iter().zip(&self.stored);
        let mut values: HashMap<usize, Array> =
            constants.map(|(known, stored)| (known.value, stored.array())).collect();
        values.extend(given);
        for node in &self.region.nodes {
            let operands: Vec<_> = node.inputs.iter().flatten().map(|input| &values[input]).collect();
            let made = Array::of_node(node, &operands);
            values.insert(node.output(0).expect("every node makes something"), made);
        }
        values.remove(&self.region.outputs[0]).expect("the last node makes it")
    }
}

impl Stored {
    fn random(dtype: DType, shape: &[usize], lies: Lies, random: &mut Random) -> Stored {
        let elements: usize = shape.iter().product();
        let mut turned: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let rank = turned.len();
        if lies == Lies::Transposed && rank > 1 {
            turned.swap(rank - 1, rank - 2);
        }
        let mut strides = byoc_plugin_api::contiguous_strides(&turned);
        if lies == Lies::Transposed && rank > 1 {
            strides.swap(rank - 1, rank - 2);
        }
        let (step, count, offset) = match lies {
            Lies::Spread => (2, elements * 2 + 1, 1),
            Lies::Splat => (0, 1, 0),
            _ => (1, elements, 0),
        };
        strides.iter_mut().for_each(|stride| *stride *= step);
        let bytes = (0..count).flat_map(|_| encode(dtype, random.value())).collect();
        Stored { bytes, dtype, shape: shape.iter().map(|&size| size as i64).collect(), strides, offset }
    }

    pub(crate) fn view(&self) -> TensorView<'_> {
        let first = self.bytes[self.offset * self.dtype.size()..].as_ptr();
        // SAFETY: shape and strides stay within the bytes, as `random` makes them.
        unsafe { TensorView::from_raw(first, self.dtype, &self.shape, &self.strides) }
    }

    fn in_order(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.view().for_each_element(|element| bytes.extend_from_slice(element));
        bytes
    }

    fn array(&self) -> Array {
        let shape = self.shape.iter().map(|&size| size as usize).collect();
        Array { shape, data: decode(self.dtype, &self.in_order()) }
    }
}

/// A number as an element.
pub(crate) fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

/// Elements as numbers.
pub(crate) fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("an element has the size of its type")
    }
    let number = |bytes: &[u8]| match dtype {
        DType::F64 => f64::from_le_bytes(array(bytes)),
        DType::F16 => f16::from_le_bytes(array(bytes)).to_f64(),
        DType::BF16 => bf16::from_le_bytes(array(bytes)).to_f64(),
        _ => f32::from_le_bytes(array(bytes)).into(),
    };
    bytes.chunks_exact(dtype.size()).map(number).collect()
}
