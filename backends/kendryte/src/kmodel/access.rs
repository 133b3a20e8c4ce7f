//! Which memory a layer reads and writes: shared by the checker and the simulator.

use super::bodies::{Pool, Shape};
use super::conv::Conv;
use super::layout::{Layout, ROW};
use super::{Layer, OUTPUT_IN_MAIN_MEMORY, Operation};

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The buffer that the loader allocates.
    Main,
    /// The accelerator's own.
    Kpu,
}

/// One stretch of memory that a layer reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory.
    pub memory: Memory,
    /// Whether it is written.
    pub write: bool,
    /// First byte.
    pub start: u64,
    /// Bytes; saturated when the file's numbers are absurd.
    pub bytes: u64,
    /// Bytes of an element.
    pub element: u64,
}

impl Access {
    /// The byte after the last.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    /// Whether both touch a byte.
    pub fn overlaps(&self, other: &Access) -> bool {
        self.memory == other.memory && self.start < other.end() && other.start < self.end()
    }
}

fn main(write: bool, start: u32, count: u64, element: u64) -> Access {
    let bytes = count.saturating_mul(element);
    Access { memory: Memory::Main, write, start: u64::from(start), bytes, element }
}

fn read(start: u32, count: u64, element: u64) -> Access {
    main(false, start, count, element)
}

fn write(start: u32, count: u64, element: u64) -> Access {
    main(true, start, count, element)
}

/// The rows of a map in KPU RAM.
fn kpu(write: bool, row: u32, width: u32, height: u32, channels: u32) -> Access {
    let bytes = Layout::new(width).rows(channels, height).saturating_mul(ROW as u64);
    Access { memory: Memory::Kpu, write, start: u64::from(row) * ROW as u64, bytes, element: 1 }
}

impl Shape {
    /// Elements; saturated.
    pub fn count(&self) -> u64 {
        u64::from(self.width).saturating_mul(u64::from(self.height)).saturating_mul(u64::from(self.channels))
    }
}

/// Elements that a sum of bytes works on (kmodel v3, section 3: multiples of 8).
pub(crate) fn quantized_add_count(count: u32) -> u64 {
    u64::from(count).next_multiple_of(8)
}

fn average_pool(body: &Pool) -> Vec<Access> {
    // As many channels are read as are written.
    let input = Shape { channels: body.output_shape.channels, ..body.input_shape };
    vec![read(body.input, input.count(), 4), write(body.output, body.output_shape.count(), 4)]
}

fn max_pool(body: &Pool) -> Vec<Access> {
    vec![read(body.input, max_pool_reads(body), 1), write(body.output, body.output_shape.count(), 1)]
}

/// Elements from the input's address to the last one in a window of a maximum pooling: an input may begin inside of an image, and then
/// what would be its last rows is not read.
pub(crate) fn max_pool_reads(body: &Pool) -> u64 {
    let Shape { width, height, channels } = Shape { channels: body.output_shape.channels, ..body.input_shape };
    let end = |results: u32, stride: u32, kernel: u32, padding: u32, size: u32| {
        let last = u64::from(results.saturating_sub(1)) * u64::from(stride);
        (last + u64::from(kernel)).saturating_sub(u64::from(padding)).min(u64::from(size))
    };
    let rows = end(body.output_shape.height, body.stride_height, body.kernel_height, body.padding_height, height);
    let columns = end(body.output_shape.width, body.stride_width, body.kernel_width, body.padding_width, width);
    if body.output_shape.count() == 0 || rows == 0 || columns == 0 {
        return 0;
    }
    let before = Shape { width, height, channels: channels - 1 };
    let lines = Shape { width, height: (rows - 1) as u32, channels: 1 };
    before.count().saturating_add(lines.count()).saturating_add(columns)
}

fn conv(body: &Conv, flags: u32) -> Vec<Access> {
    let arguments = &body.arguments;
    let (width, height) = (arguments.output_width(), arguments.output_height());
    let mut accesses = vec![
        kpu(false, arguments.source, arguments.width, arguments.height, arguments.input_channels),
        kpu(true, arguments.destination, width, height, arguments.output_channels),
    ];
    if flags & OUTPUT_IN_MAIN_MEMORY != 0 {
        accesses.push(write(body.output, arguments.output_bytes(), 1));
    }
    accesses
}

impl Layer {
    /// All that the layer reads and writes. Types that are not executed touch nothing.
    pub fn accesses(&self) -> Vec<Access> {
        let number = |value: u32| u64::from(value);
        match &self.operation {
            Operation::Add(body) => {
                let count = number(body.count);
                vec![read(body.a, count, 4), read(body.b, count, 4), write(body.output, count, 4)]
            }
            Operation::QuantizedAdd(body) => {
                let count = quantized_add_count(body.count);
                vec![read(body.a, count, 1), read(body.b, count, 1), write(body.output, count, 1)]
            }
            Operation::GlobalAveragePool(body) => {
                let count = number(body.kernel_size).saturating_mul(number(body.channels));
                vec![read(body.input, count, 4), write(body.output, number(body.channels), 4)]
            }
            Operation::QuantizedMaxPool(body) => max_pool(body),
            Operation::AveragePool(body, _) => average_pool(body),
            Operation::Quantize(body) => {
                vec![read(body.input, number(body.count), 4), write(body.output, number(body.count), 1)]
            }
            Operation::Dequantize(body) => {
                vec![read(body.input, number(body.count), 1), write(body.output, number(body.count), 4)]
            }
            Operation::Requantize(body) => {
                vec![read(body.input, number(body.count), 1), write(body.output, number(body.count), 1)]
            }
            Operation::L2Normalization(body) | Operation::Softmax(body) | Operation::Logistic(body) => {
                vec![read(body.input, number(body.count), 4), write(body.output, number(body.count), 4)]
            }
            Operation::Concat(body) | Operation::QuantizedConcat(body) => {
                let mut accesses: Vec<_> =
                    body.inputs.iter().map(|input| read(input.start, number(input.size), 1)).collect();
                let total = body.inputs.iter().map(|input| number(input.size)).sum();
                accesses.push(write(body.output, total, 1));
                accesses
            }
            Operation::FullyConnected(body) => {
                let sizes = &body.sizes;
                let (inputs, outputs) = (number(sizes.input_channels), number(sizes.output_channels));
                vec![read(sizes.input, inputs, 4), write(sizes.output, outputs, 4)]
            }
            Operation::ChannelwiseDequantize(body) => {
                let count = (body.channels.len() as u64).saturating_mul(number(body.channel_size));
                vec![read(body.input, count, 1), write(body.output, count, 4)]
            }
            _ => self.reordering_accesses(),
        }
    }

    /// The layers that move elements, and the convolution.
    fn reordering_accesses(&self) -> Vec<Access> {
        let element = match self.operation {
            Operation::Flatten(_) | Operation::ResizeNearest(_) => 4,
            _ => 1,
        };
        match &self.operation {
            Operation::Flatten(body) | Operation::QuantizedFlatten(body) => {
                let count = body.shape.count();
                vec![read(body.input, count, element), write(body.output, count, element)]
            }
            Operation::ResizeNearest(body) | Operation::QuantizedResizeNearest(body) => {
                let output =
                    Shape { width: body.output_width, height: body.output_height, channels: body.shape.channels };
                vec![read(body.input, body.shape.count(), element), write(body.output, output.count(), element)]
            }
            Operation::Conv(body) => conv(body, self.flags),
            Operation::AddPadding(body) => {
                vec![read(body.input, u64::from(body.channels), 1), kpu(true, body.kpu_output, 4, 4, body.channels)]
            }
            Operation::RemovePadding(body) => {
                let last = u64::from(body.channels).saturating_sub(1).saturating_mul(16);
                let bytes = if body.channels == 0 { 0 } else { last + 1 };
                vec![read(body.input, bytes, 1), write(body.output, u64::from(body.channels), 1)]
            }
            Operation::Upload(body) => {
                let Shape { width, height, channels } = body.shape;
                vec![read(body.input, body.shape.count(), 1), kpu(true, body.kpu_output, width, height, channels)]
            }
            _ => Vec::new(),
        }
    }
}
