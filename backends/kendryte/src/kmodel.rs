//! The kmodel v3 file as types: what the public K210 SDKs load. Numbers in a file are little-endian.
//!
//! Main memory is the buffer that the loader allocates; its addresses are byte offsets. KPU RAM is the accelerator's own;
//! its addresses are rows of 64 bytes.

pub mod access;
pub mod arguments;
pub mod bodies;
pub mod check;
pub mod conv;
mod emit;
pub(crate) mod fields;
pub mod layout;
mod parse;
pub mod placement;
pub mod range;
pub mod tables;

use bodies::{
    AddPadding, Binary, ChannelwiseDequantize, Concat, Dequantize, Flatten, FullyConnected, GlobalAveragePool, Pool,
    Quantize, QuantizedAdd, RemovePadding, Requantize, Resize, Upload, Vector,
};
use conv::Conv;

/// The version that this module reads and writes (kmodel v3, header).
pub const VERSION: u32 = 3;

/// Header flag: weights have 8 bits (kmodel v3, header: flags, bit 0).
pub(crate) const EIGHT_BIT_WEIGHTS: u32 = 1;

/// Layer flag: the output is in main memory (kmodel v3, layer types: flags).
pub const OUTPUT_IN_MAIN_MEMORY: u32 = 1;

/// A kmodel v3 file with 8-bit weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Kmodel {
    /// The lowest row of KPU RAM that the allocator used; no reader looks at it.
    pub max_start_address: u32,
    /// Bytes of main memory that the loader allocates.
    pub main_memory: u32,
    /// Where the results are after a run.
    pub outputs: Vec<Output>,
    /// The layers in the order in which they run.
    pub layers: Vec<Layer>,
}

/// A result in main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Address in main memory.
    pub address: u32,
    /// Bytes.
    pub size: u32,
}

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Bits; [`OUTPUT_IN_MAIN_MEMORY`] is the only one known.
    pub flags: u32,
    /// What it computes.
    pub operation: Operation,
}

/// What a layer computes (kmodel v3, layer types). Types that no public reader executes are kept as bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// `f32` sum.
    Add(Binary),
    /// Sum of bytes with three scales.
    QuantizedAdd(QuantizedAdd),
    /// `f32` mean of each channel.
    GlobalAveragePool(GlobalAveragePool),
    /// Maximum of bytes in windows.
    QuantizedMaxPool(Pool),
    /// `f32` mean in windows, with the activation that readers ignore.
    AveragePool(Pool, u32),
    /// `f32` to bytes.
    Quantize(Quantize),
    /// Bytes to `f32`.
    Dequantize(Dequantize),
    /// Bytes to bytes by a table.
    Requantize(Box<Requantize>),
    /// `f32` vector over its length.
    L2Normalization(Vector),
    /// `f32` softmax of one vector.
    Softmax(Vector),
    /// Ranges one after another, `f32`.
    Concat(Concat),
    /// Ranges one after another, bytes.
    QuantizedConcat(Concat),
    /// `f32` matrix times vector.
    FullyConnected(FullyConnected),
    /// `f32` CHW to HWC.
    Flatten(Flatten),
    /// Bytes CHW to HWC. The SDKs do not execute it; Maix-EMC writes it and its firmware does.
    QuantizedFlatten(Flatten),
    /// Nearest neighbour, `f32`.
    ResizeNearest(Resize),
    /// Nearest neighbour, bytes.
    QuantizedResizeNearest(Resize),
    /// Bytes to `f32` with a scale for each channel.
    ChannelwiseDequantize(ChannelwiseDequantize),
    /// `f32` logistic function.
    Logistic(Vector),
    /// The accelerator: convolution, batch normalisation, activation and pooling.
    Conv(Box<Conv>),
    /// A vector of bytes to 4x4 maps in KPU RAM.
    AddPadding(AddPadding),
    /// 4x4 maps of bytes to a vector.
    RemovePadding(RemovePadding),
    /// Bytes from main memory to KPU RAM.
    Upload(Upload),
    /// Another type: its number and its whole body.
    Other(u32, Vec<u8>),
}

/// Type numbers with their names in the SDK (kmodel v3, layer types).
const NAMES: &[(u32, &str)] = &[
    (1, "ADD"),
    (2, "QUANTIZED_ADD"),
    (3, "GLOBAL_MAX_POOL2D"),
    (4, "QUANTIZED_GLOBAL_MAX_POOL2D"),
    (5, "GLOBAL_AVERAGE_POOL2D"),
    (6, "QUANTIZED_GLOBAL_AVERAGE_POOL2D"),
    (7, "MAX_POOL2D"),
    (8, "QUANTIZED_MAX_POOL2D"),
    (9, "AVERAGE_POOL2D"),
    (10, "QUANTIZED_AVERAGE_POOL2D"),
    (11, "QUANTIZE"),
    (12, "DEQUANTIZE"),
    (13, "REQUANTIZE"),
    (14, "L2_NORMALIZATION"),
    (15, "SOFTMAX"),
    (16, "CONCAT"),
    (17, "QUANTIZED_CONCAT"),
    (18, "FULLY_CONNECTED"),
    (19, "QUANTIZED_FULLY_CONNECTED"),
    (20, "TENSORFLOW_FLATTEN"),
    (21, "QUANTIZED_TENSORFLOW_FLATTEN"),
    (22, "RESIZE_NEAREST_NEIGHBOR"),
    (23, "QUANTIZED_RESIZE_NEAREST_NEIGHBOR"),
    (24, "CHANNELWISE_DEQUANTIZE"),
    (25, "LOGISTIC"),
    (10240, "K210_CONV"),
    (10241, "K210_ADD_PADDING"),
    (10242, "K210_REMOVE_PADDING"),
    (10243, "K210_UPLOAD"),
];

/// The name of a layer type.
pub fn type_name(kind: u32) -> &'static str {
    NAMES.iter().find(|(number, _)| *number == kind).map_or("unknown type", |(_, name)| name)
}

impl Operation {
    /// The number of its type.
    pub fn kind(&self) -> u32 {
        match self {
            Operation::Add(_) => 1,
            Operation::QuantizedAdd(_) => 2,
            Operation::GlobalAveragePool(_) => 5,
            Operation::QuantizedMaxPool(_) => 8,
            Operation::AveragePool(..) => 9,
            Operation::Quantize(_) => 11,
            Operation::Dequantize(_) => 12,
            Operation::Requantize(_) => 13,
            Operation::L2Normalization(_) => 14,
            Operation::Softmax(_) => 15,
            Operation::Concat(_) => 16,
            Operation::QuantizedConcat(_) => 17,
            Operation::FullyConnected(_) => 18,
            Operation::Flatten(_) => 20,
            Operation::QuantizedFlatten(_) => 21,
            Operation::ResizeNearest(_) => 22,
            Operation::QuantizedResizeNearest(_) => 23,
            Operation::ChannelwiseDequantize(_) => 24,
            Operation::Logistic(_) => 25,
            Operation::Conv(_) => 10240,
            Operation::AddPadding(_) => 10241,
            Operation::RemovePadding(_) => 10242,
            Operation::Upload(_) => 10243,
            Operation::Other(kind, _) => *kind,
        }
    }

    /// The name of its type.
    pub fn name(&self) -> &'static str {
        type_name(self.kind())
    }
}

/// Where the bodies of a file are, for tests.
#[cfg(test)]
pub(crate) fn body_ranges(file: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    let outline = parse::outline(file).ok()?;
    Some(outline.bodies.into_iter().map(|(_, body)| body).collect())
}
