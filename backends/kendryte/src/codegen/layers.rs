//! The layers that run on the CPU.

use byoc_plugin_api::Error;

use super::Network;
use crate::kmodel::bodies::{
    AddPadding, Concat, Dequantize, GlobalAveragePool, Pool, Quantize, QuantizedAdd, Range, RemovePadding, Requantize,
    Resize, Shape, Upload, Vector,
};
use crate::kmodel::{Layer, OUTPUT_IN_MAIN_MEMORY, Operation};
use crate::net::{Form, Function, Step, Tensor, Window, Work};
use crate::quantize;

/// The one input and the output of a layer: tensors with their addresses.
struct Ends<'a> {
    from: &'a Tensor,
    to: &'a Tensor,
    input: u32,
    output: u32,
}

impl Network<'_> {
    /// Appends the layers of a step.
    pub(super) fn layers(&self, step: &Step, layers: &mut Vec<Layer>) -> Result<(), Error> {
        let (Some(&input), Some(&output)) = (step.inputs.first(), step.outputs.first()) else {
            return Err(Error::new("a layer without input or output"));
        };
        let ends = Ends {
            from: &self.net.tensors[input],
            to: &self.net.tensors[output],
            input: self.placement.addresses[input],
            output: self.placement.addresses[output],
        };
        let (count, channels) = (ends.to.count() as u32, ends.from.count() as u32);
        let (input, output) = (ends.input, ends.output);
        let operation = match &step.work {
            Work::Conv(conv) => return self.conv(conv, step, layers),
            Work::Add => self.sum(step, &ends)?,
            Work::Concat => self.joined(step, output),
            Work::Requantize(function) => self.table(*function, &ends)?,
            Work::Quantize | Work::Dequantize | Work::DequantizeFromZero => self.conversion(&step.work, &ends)?,
            &Work::Dense { node, bias, activation } => {
                Operation::FullyConnected(self.fully_connected(node, bias, activation, [input, output])?)
            }
            Work::MaxPool(window) => Operation::QuantizedMaxPool(pool(window, &ends)),
            &Work::Pick { pixels, first: [row, column] } => {
                let input = input + row * pixels.image.width + column;
                Operation::QuantizedMaxPool(Pool { input, ..pool(&pixels, &ends) })
            }
            // 0: no activation.
            Work::AveragePool(window) => Operation::AveragePool(pool(window, &ends), 0),
            &Work::Resize(shape) => resize(shape, &ends),
            Work::Upload => Operation::Upload(Upload { input, kpu_output: output, shape: ends.to.shape }),
            Work::AddPadding => Operation::AddPadding(AddPadding { input, kpu_output: output, channels }),
            Work::RemovePadding => Operation::RemovePadding(RemovePadding { input, output, channels: count }),
            Work::GlobalAveragePool(image) => Operation::GlobalAveragePool(GlobalAveragePool {
                input,
                output,
                kernel_size: image.width * image.height,
                channels: image.channels,
            }),
            Work::Softmax => Operation::Softmax(Vector { input, output, count }),
            Work::Logistic => Operation::Logistic(Vector { input, output, count }),
        };
        let flags = if ends.to.form == Form::Kpu { 0 } else { OUTPUT_IN_MAIN_MEMORY };
        layers.push(Layer { flags, operation });
        Ok(())
    }

    fn sum(&self, step: &Step, ends: &Ends<'_>) -> Result<Operation, Error> {
        let [a, b] = *step.inputs.as_slice() else { return Err(Error::new("a sum of two is needed")) };
        let scale = |id: usize| self.scales.of_value(self.net.tensors[id].value);
        let (a_scale, b_scale, output_scale) =
            quantize::add(scale(a)?, scale(b)?, self.scales.of_value(ends.to.value)?);
        let (a, b) = (self.placement.addresses[a], self.placement.addresses[b]);
        let count = ends.to.count() as u32;
        Ok(Operation::QuantizedAdd(QuantizedAdd { a, b, output: ends.output, count, a_scale, b_scale, output_scale }))
    }

    fn joined(&self, step: &Step, output: u32) -> Operation {
        let range =
            |&id: &usize| Range { start: self.placement.addresses[id], size: self.net.tensors[id].count() as u32 };
        Operation::QuantizedConcat(Concat { output, inputs: step.inputs.iter().map(range).collect() })
    }

    fn table(&self, function: Function, ends: &Ends<'_>) -> Result<Operation, Error> {
        let (from, to) = (self.scales.of_value(ends.from.value)?, self.scales.of_value(ends.to.value)?);
        let table = quantize::table(from, to, |x| function.apply(x));
        let &Ends { input, output, .. } = ends;
        Ok(Operation::Requantize(Box::new(Requantize { input, output, count: ends.to.count() as u32, table })))
    }

    fn conversion(&self, work: &Work, ends: &Ends<'_>) -> Result<Operation, Error> {
        let mut quantization = self.scales.of_value(ends.to.value)?.body();
        if matches!(work, Work::DequantizeFromZero) {
            quantization.bias = 0.0;
        }
        let (&Ends { input, output, .. }, count) = (ends, ends.to.count() as u32);
        Ok(match ends.to.form {
            Form::Floats => Operation::Dequantize(Dequantize { input, output, count, quantization }),
            _ => Operation::Quantize(Quantize { input, output, count, quantization }),
        })
    }
}

/// From an image of this shape.
fn resize(shape: Shape, ends: &Ends<'_>) -> Operation {
    let Shape { width: output_width, height: output_height, .. } = ends.to.shape;
    let &Ends { input, output, .. } = ends;
    let resize = Resize { input, output, shape, output_width, output_height, align_corners: 0 };
    Operation::QuantizedResizeNearest(resize)
}

fn pool(window: &Window, ends: &Ends<'_>) -> Pool {
    let [kernel_height, kernel_width] = window.kernel;
    let [stride_height, stride_width] = window.stride;
    let [padding_height, padding_width] = window.begin;
    Pool {
        input: ends.input,
        output: ends.output,
        input_shape: window.image,
        output_shape: ends.to.shape,
        kernel_width,
        kernel_height,
        stride_width,
        stride_height,
        padding_width,
        padding_height,
    }
}
