//! Lowers a region to the steps of a kmodel, by shapes and attributes alone: every region that is lowered can be compiled.

mod bytes;
mod conv;
mod dense;
mod forms;
mod front;
mod pick;
mod pool;
mod quantized;
mod read;
mod resize;

use byoc_plugin_api::{DType, Node, Options, Refusal, RefusalCode, Region};

use self::pick::Padding;
use crate::given::is_conversion;
use crate::kmodel::bodies::Shape;
use crate::net::{Form, Front, Net, TensorId, Work};

/// What the user has a say in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// Fully connected layers in `f32` on the CPU, in place of bytes on the accelerator.
    pub(crate) float_dense: bool,
}

impl Settings {
    /// The settings in the backend's options.
    pub(crate) fn of(options: &Options) -> Settings {
        Settings { float_dense: options.bool("float-dense") }
    }
}

/// The steps of a region. A candidate that is only a part of what will be a region may read its inputs in any form.
pub(crate) fn lower(region: &Region, settings: Settings) -> Result<Net, Refusal> {
    let mut lowering = Lowering::new(region, settings);
    lowering.read_scales()?;
    for index in 0..region.nodes.len() {
        if !lowering.done[index] {
            lowering.node(index)?;
        }
    }
    for &output in &region.outputs {
        let is_float = region.values[output].dtype == DType::F32;
        let tensor = if is_float { lowering.floats(output)? } else { lowering.bytes(output)? };
        lowering.net.outputs.push(tensor);
    }
    Ok(lowering.net)
}

/// The forms in which a value is there.
#[derive(Clone, Debug, Default)]
struct ValueForms {
    /// In KPU RAM, and the step that put it there.
    kpu: Option<(TensorId, Option<usize>)>,
    /// In KPU RAM with twice the rows and columns: the upper left of each 2x2 is the value.
    doubled: Option<(TensorId, usize)>,
    bytes: Option<TensorId>,
    floats: Option<TensorId>,
    /// Whether the scale of its bytes is for no other value: a sum is clipped by its ends, or others read the bytes.
    own_scale: bool,
}

struct Lowering<'r> {
    region: &'r Region,
    settings: Settings,
    net: Net,
    /// By value.
    known: Vec<ValueForms>,
    /// The value that has the same elements in the same order: itself, but for what a reshape makes, and what stands around
    /// quantised tensors.
    alias: Vec<usize>,
    /// Whether a value is one that the model has rounded to the levels of its scale.
    rounded: Vec<bool>,
    /// Whether a value is what a node dequantises of a constant.
    stored: Vec<bool>,
    /// What a value is with zeros around it, if it is that.
    padded: Vec<Option<(usize, Padding)>>,
    /// The image that a value is normalised of, and how, if it is that.
    fronts: Vec<Option<(usize, Front)>>,
    /// The nodes that read a value.
    readers: Vec<Vec<usize>>,
    /// Nodes that an earlier one has taken with it.
    done: Vec<bool>,
}

impl<'r> Lowering<'r> {
    fn new(region: &'r Region, settings: Settings) -> Self {
        let count = region.values.len();
        let mut readers = vec![Vec::new(); count];
        for (index, node) in region.nodes.iter().enumerate() {
            for &value in node.inputs.iter().flatten() {
                readers[value].push(index);
            }
        }
        Lowering {
            region,
            settings,
            net: Net { given: vec![None; count], ..Net::default() },
            known: vec![ValueForms::default(); count],
            alias: (0..count).collect(),
            rounded: vec![false; count],
            stored: vec![false; count],
            padded: vec![None; count],
            fronts: vec![None; count],
            readers,
            done: vec![false; region.nodes.len()],
        }
    }

    fn node(&mut self, index: usize) -> Result<(), Refusal> {
        let node = &self.region.nodes[index];
        if is_conversion(node) {
            return self.conversion(node);
        }
        self.check_types(node)?;
        match node.op.as_str() {
            "Conv" => self.conv(index),
            "Gemm" | "MatMul" => self.dense(index),
            "Sub" | "Div" => self.normalise(node),
            "Mul" if self.has_constant(node) => self.normalise(node),
            "Add" if self.reads_normalised(node) => self.normalise(node),
            "Add" => self.add(node),
            "Concat" => self.concat(node),
            "Pad" => self.pad(node),
            "MaxPool" => self.max_pool(node),
            "AveragePool" => self.average_pool(node),
            "GlobalAveragePool" | "ReduceMean" => self.global_average_pool(node),
            "Resize" => self.resize(node),
            "Softmax" => self.softmax(node),
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" | "Identity" | "Dropout" => self.reshape(node),
            "Mul" => Err(other("Mul is taken as x * Sigmoid(x) only")),
            _ => self.function(index),
        }
    }

    /// All that is computed is `f32`; axes and shapes are not.
    fn check_types(&self, node: &Node) -> Result<(), Refusal> {
        let computed = match node.op.as_str() {
            "Reshape" | "Squeeze" | "Unsqueeze" | "Dropout" | "ReduceMean" | "Resize" | "Pad" => 1,
            _ => node.inputs.len(),
        };
        let values = node.inputs.iter().take(computed).chain(&node.outputs).flatten();
        let values = values.map(|&value| &self.region.values[value]);
        match values.clone().find(|value| value.dtype != DType::F32) {
            Some(value) => {
                let message = format!("'{}' is {}, only f32 is quantised", value.name, value.dtype);
                Err(Refusal::new(RefusalCode::Type, message))
            }
            None => Ok(()),
        }
    }

    /// A view of the same elements in the same order.
    fn reshape(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        self.fixed(output)?;
        self.view(input, output);
        Ok(())
    }

    fn softmax(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let shape = self.fixed(input)?;
        let axis = node.int("axis", -1);
        let place = if axis < 0 { axis + shape.len() as i64 } else { axis };
        if shape.iter().enumerate().any(|(index, &size)| index as i64 != place && size != 1) {
            return Err(read::shape(format!("softmax over axis {axis} of {shape:?}, only one vector is taken")));
        }
        // The SDKs give 0/0 for numbers far below 0 (kmodel v3, SDK CPU-layer details), and bytes need not be so.
        let tensor = if self.is_float(input) {
            self.floats(input)?
        } else {
            let (bytes, source) = (self.bytes(input)?, self.alias[input]);
            let tensor = read::tensor(Form::Floats, self.net.tensors[bytes].shape, source);
            self.net.step(Work::DequantizeFromZero, vec![bytes], tensor)
        };
        self.give_floats(Work::Softmax, tensor, self.vector(output)?, output);
        Ok(())
    }

    /// Notes that a step makes `output` in `f32`.
    fn give_floats(&mut self, work: Work, input: TensorId, shape: Shape, output: usize) {
        let tensor = read::tensor(Form::Floats, shape, output);
        let tensor = self.net.step(work, vec![input], tensor);
        self.known[output].floats = Some(tensor);
    }

    /// Notes that a step makes `output` in bytes in main memory.
    fn give_bytes(&mut self, work: Work, inputs: Vec<TensorId>, shape: Shape, output: usize) {
        let tensor = self.net.step(work, inputs, read::tensor(Form::Bytes, shape, output));
        self.known[output].bytes = Some(tensor);
    }

    /// The one node that reads a value, if there is one and the value does not leave the region.
    fn only_reader(&self, value: usize) -> Option<usize> {
        match self.readers[value].as_slice() {
            [reader] if !self.region.outputs.contains(&value) => Some(*reader),
            _ => None,
        }
    }
}

fn other(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
