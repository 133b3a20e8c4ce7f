//! The bodies of the layers that run on the CPU (kmodel v3, layer types). All addresses are byte offsets in main memory
//! unless they say otherwise; the flags that every body starts with are in [`super::Layer`].

use super::fields::{Damage, Field, Reader, record};

record! {
    /// Width, height and channels of a map in CHW order.
    Shape {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// Channels.
        channels: u32,
    }
}

record! {
    /// Two `f32` inputs.
    Binary {
        /// Address of the first input.
        a: u32,
        /// Address of the second input.
        b: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
    }
}

record! {
    /// `(x + offset) * mul`, then a shift to the right.
    Rescale {
        /// Added before (inputs) or after (output).
        offset: i32,
        /// Factor.
        mul: i32,
        /// Bits.
        shift: i32,
    }
}

record! {
    /// The sum of two tensors of bytes. Works on multiples of 8 elements.
    QuantizedAdd {
        /// Address of the first input.
        a: u32,
        /// Address of the second input.
        b: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
        /// Requantisation of `a`.
        a_scale: Rescale,
        /// Requantisation of `b`.
        b_scale: Rescale,
        /// Requantisation of the sum.
        output_scale: Rescale,
    }
}

record! {
    /// The mean of each channel.
    GlobalAveragePool {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Height times width.
        kernel_size: u32,
        /// Channels.
        channels: u32,
    }
}

record! {
    /// Pooling in windows; cells outside the input do not count.
    Pool {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Shape of the input.
        input_shape: Shape,
        /// Shape of the output.
        output_shape: Shape,
        /// Columns of a window.
        kernel_width: u32,
        /// Rows of a window.
        kernel_height: u32,
        /// Columns from window to window.
        stride_width: u32,
        /// Rows from window to window.
        stride_height: u32,
        /// Columns before the first.
        padding_width: u32,
        /// Rows before the first.
        padding_height: u32,
    }
}

record! {
    /// `real = q * scale + bias`.
    Quantization {
        /// Step.
        scale: f32,
        /// The number that 0 stands for.
        bias: f32,
    }
}

record! {
    /// `f32` to bytes.
    Quantize {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
        /// The meaning of the bytes.
        quantization: Quantization,
    }
}

record! {
    /// Bytes to `f32`.
    Dequantize {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
        /// The meaning of the bytes.
        quantization: Quantization,
    }
}

record! {
    /// Bytes to bytes.
    Requantize {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
        /// The output for each input.
        table: [u8; 256],
    }
}

record! {
    /// One `f32` vector to another.
    Vector {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Elements.
        count: u32,
    }
}

record! {
    /// A part of main memory.
    Range {
        /// Address.
        start: u32,
        /// Bytes.
        size: u32,
    }
}

/// Ranges copied one after another: a concatenation along the channels of CHW maps.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    /// Address of the output.
    pub output: u32,
    /// The inputs in order.
    pub inputs: Vec<Range>,
}

impl Field for Concat {
    fn read(reader: &mut Reader<'_>, _: &str) -> Result<Self, Damage> {
        let output = Field::read(reader, "output")?;
        let count = u32::read(reader, "input_count")?;
        Ok(Concat { output, inputs: reader.list(u64::from(count), 8, "inputs")? })
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.output.write(out);
        (self.inputs.len() as u32).write(out);
        self.inputs.iter().for_each(|input| input.write(out));
    }
}

record! {
    /// The sizes of a fully connected layer, in front of its weights.
    FullyConnectedSizes {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Elements of the input.
        input_channels: u32,
        /// Elements of the output.
        output_channels: u32,
        /// 0 linear, 1 ReLU, 2 ReLU6; others are taken as linear.
        activation: u32,
    }
}

/// `weights[out][in] * input + bias`, in `f32`.
#[derive(Clone, Debug, PartialEq)]
pub struct FullyConnected {
    /// Addresses and sizes.
    pub sizes: FullyConnectedSizes,
    /// Row-major, one row an output.
    pub weights: Vec<f32>,
    /// One an output.
    pub bias: Vec<f32>,
}

impl Field for FullyConnected {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        let sizes = FullyConnectedSizes::read(reader, name)?;
        let outputs = u64::from(sizes.output_channels);
        let weights = reader.list(outputs.saturating_mul(u64::from(sizes.input_channels)), 4, "weights")?;
        Ok(FullyConnected { sizes, weights, bias: reader.list(outputs, 4, "bias")? })
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.sizes.write(out);
        self.weights.iter().chain(&self.bias).for_each(|value| value.write(out));
    }
}

record! {
    /// CHW to HWC.
    Flatten {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Shape of the input.
        shape: Shape,
    }
}

record! {
    /// Nearest neighbour.
    Resize {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Shape of the input.
        shape: Shape,
        /// Columns of the output.
        output_width: u32,
        /// Rows of the output.
        output_height: u32,
        /// No reader looks at it.
        align_corners: u32,
    }
}

/// Bytes to `f32`, with a meaning of the bytes for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelwiseDequantize {
    /// Address of the input.
    pub input: u32,
    /// Address of the output.
    pub output: u32,
    /// Elements of a channel.
    pub channel_size: u32,
    /// One a channel.
    pub channels: Vec<Quantization>,
}

impl Field for ChannelwiseDequantize {
    fn read(reader: &mut Reader<'_>, _: &str) -> Result<Self, Damage> {
        let (input, output) = (Field::read(reader, "input")?, Field::read(reader, "output")?);
        let count = u32::read(reader, "channels")?;
        let channel_size = Field::read(reader, "channel_size")?;
        let channels = reader.list(u64::from(count), 8, "quantization")?;
        Ok(ChannelwiseDequantize { input, output, channel_size, channels })
    }
    fn write(&self, out: &mut Vec<u8>) {
        let numbers = [self.input, self.output, self.channels.len() as u32, self.channel_size];
        numbers.iter().for_each(|number| number.write(out));
        self.channels.iter().for_each(|channel| channel.write(out));
    }
}

record! {
    /// A vector of C bytes becomes C maps of 4x4 in KPU RAM with the byte at (0, 0).
    AddPadding {
        /// Address of the input.
        input: u32,
        /// Row in KPU RAM.
        kpu_output: u32,
        /// Bytes of the vector.
        channels: u32,
    }
}

record! {
    /// The byte at (0, 0) of each of C maps of 4x4.
    RemovePadding {
        /// Address of the input.
        input: u32,
        /// Address of the output.
        output: u32,
        /// Bytes of the output.
        channels: u32,
    }
}

record! {
    /// A map of bytes to KPU RAM.
    Upload {
        /// Address of the input.
        input: u32,
        /// Row in KPU RAM.
        kpu_output: u32,
        /// Shape of the map.
        shape: Shape,
    }
}
