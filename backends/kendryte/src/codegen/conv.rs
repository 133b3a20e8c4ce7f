//! Convolutions: as many layers as the weight loads ask for (kmodel v3, section 3: weight loads).

use std::ops::Range;

use byoc_plugin_api::Error;

use super::Network;
use crate::kmodel::arguments::{Arguments, MOST_LOADS};
use crate::kmodel::conv::Conv as ConvBody;
use crate::kmodel::layout::Layout;
use crate::kmodel::{Layer, OUTPUT_IN_MAIN_MEMORY, Operation};
use crate::net::{Conv, Step};
use crate::quantize::{self, FloatConv, QuantizedConv};

/// Bytes of weights that one load brings, as the SDK's compiler counts.
const LOAD: u64 = 30 * 1024;

/// Parts of a convolution begin at multiples of this many channels: then they do not overlap in the layout of any width,
/// and their transfers begin at whole words.
const PART: u32 = 8;

impl Network<'_> {
    /// The layers of a convolution.
    pub(super) fn conv(&self, conv: &Conv, step: &Step, layers: &mut Vec<Layer>) -> Result<(), Error> {
        let tensor = |id: usize| &self.net.tensors[id];
        let (source, target) = (tensor(step.inputs[0]), tensor(step.outputs[0]));
        let affine = self.affine(conv).map_err(|error| error.at(&self.region.nodes[conv.node].name))?;
        let outputs = target.shape.channels as usize;
        let affine = match self.front(conv, source) {
            Some(front) => affine.behind(&front, outputs, conv.depthwise),
            None => affine,
        };
        let float = FloatConv {
            weights: affine.weights.weights(),
            bias: affine.bias,
            scale: affine.scale,
            output_channels: outputs,
            input_channels: source.shape.channels as usize,
            kernel: conv.kernel,
            depthwise: conv.depthwise,
        };
        let (input, output) = (self.scales.of_value(source.value)?, self.scales.of_value(target.value)?);
        let mut quantized = quantize::conv(&float, input, output, conv.activation)
            .map_err(|error| error.at(&self.region.nodes[conv.node].name))?;
        if let Some((byte, _)) = self.border(conv, source)? {
            quantized.pad_value = byte;
        }
        let arguments = self.arguments(conv, step, &quantized);
        let address = |id: Option<&usize>| id.map_or(0, |&id| self.placement.addresses[id]);
        for part in parts(&arguments) {
            let before = part.start as usize;
            let size = arguments.channel_weights() as usize;
            let part_arguments = narrow(&arguments, &part);
            let lines = Layout::new(arguments.output_width()).rows(part.start, arguments.output_height());
            let plane = arguments.output_width() * arguments.output_height();
            let copy = step.outputs.get(1);
            let body = ConvBody {
                output: if copy.is_some() { address(copy) + part.start * plane } else { 0 },
                arguments: Arguments { destination: arguments.destination + lines as u32, ..part_arguments },
                weights: quantized.weights[before * size..part.end as usize * size].to_vec(),
                batch_norm: quantized.batch_norm[before..part.end as usize].to_vec(),
                activation: quantized.activation,
            };
            let flags = if copy.is_some() { OUTPUT_IN_MAIN_MEMORY } else { 0 };
            layers.push(Layer { flags, operation: Operation::Conv(Box::new(body)) });
        }
        Ok(())
    }

    /// The arguments of a convolution that is not split.
    fn arguments(&self, conv: &Conv, step: &Step, quantized: &QuantizedConv) -> Arguments {
        let (source, target) = (step.inputs[0], step.outputs[0]);
        let (from, to) = (self.net.tensors[source].shape, self.net.tensors[target].shape);
        let &QuantizedConv { arg_x, shr_x, arg_w, shr_w, arg_add, pad_value, .. } = quantized;
        Arguments {
            depthwise: conv.depthwise,
            source: self.placement.addresses[source],
            destination: self.placement.addresses[target],
            input_channels: from.channels,
            output_channels: to.channels,
            width: from.width,
            height: from.height,
            kernel: conv.kernel,
            pooling: conv.pooling,
            pad_value,
            channels_per_load: to.channels,
            loads: 1,
            load_bytes: 0,
            arg_w,
            shr_w,
            arg_x,
            shr_x,
            arg_add,
            send_data_out: false,
        }
    }
}

/// The output channels of each layer that a convolution becomes.
fn parts(arguments: &Arguments) -> Vec<Range<u32>> {
    let channels = arguments.output_channels;
    // A depthwise convolution loads all of its weights at once.
    let most = if arguments.depthwise { channels } else { MOST_LOADS * channels_per_load(arguments) };
    let most = if most >= channels { channels } else { most / PART * PART };
    (0..channels).step_by(most.max(1) as usize).map(|start| start..(start + most).min(channels)).collect()
}

fn channels_per_load(arguments: &Arguments) -> u32 {
    ((LOAD / arguments.channel_weights()) as u32).max(1)
}

/// The arguments of a part, with its weight loads.
fn narrow(arguments: &Arguments, part: &Range<u32>) -> Arguments {
    let channels = part.end - part.start;
    let per_load = if arguments.depthwise { channels } else { channels_per_load(arguments).min(channels) };
    Arguments {
        output_channels: channels,
        channels_per_load: per_load,
        loads: channels.div_ceil(per_load),
        load_bytes: per_load * arguments.channel_weights() as u32,
        ..arguments.clone()
    }
}
