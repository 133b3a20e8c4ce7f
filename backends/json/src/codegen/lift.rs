//! Images of one dimension, [N, C, L], are computed as images of two, [N, C, 1, L]: convolutions and poolings over them, and
//! what lies between those. A view is the same image with the other shape.

use std::collections::HashMap;

use byoc_plugin_api::{Attribute, Dim};

use super::graph::Graph;
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    let steps = std::mem::take(&mut graph.steps);
    let mut lift = Lift { graph, steps: Vec::new(), twins: HashMap::new() };
    steps.into_iter().for_each(|step| lift.add(step));
    graph.steps = lift.steps;
    graph.prune();
}

/// Filters [M, C, K] of convolutions that have no fast kernel are viewed as [M, C, 1, K] where their images were lifted.
pub(super) fn filters(graph: &mut Graph<'_>) {
    for step in std::mem::take(&mut graph.steps) {
        let place = match step.onnx() {
            Some("Conv" | "ConvInteger" | "ConvTranspose") => Some(1),
            Some("QLinearConv") => Some(3),
            _ => None,
        };
        let (x, w) = (step.input(0), place.and_then(|place| step.input(place)));
        let mut step = step;
        if let (Some(x), Some(w), Some(place)) = (x, w, place)
            && let (4, Some(shape)) = (graph.shape(x).len(), four(graph.shape(w), Dim::Fixed(1)))
            && graph.shape(w).len() == 3
        {
            let lifted = graph.add_value(graph.values[w].dtype, shape.to_vec(), false);
            let (name, inputs, outputs) = (step.name.clone(), vec![Some(w)], vec![Some(lifted)]);
            graph.steps.push(Step { name, op: Op::View, inputs, outputs });
            step.inputs[place] = Some(lifted);
        }
        graph.steps.push(step);
    }
}

/// A shape of four sizes, where an axis of `one` element is put in if there are three.
pub(super) fn four<T: Clone>(shape: &[T], one: T) -> Option<[T; 4]> {
    match shape {
        [a, b, c] => Some([a.clone(), b.clone(), one, c.clone()]),
        [a, b, c, d] => Some([a, b, c, d].map(T::clone)),
        _ => None,
    }
}

struct Lift<'g, 'r> {
    graph: &'g mut Graph<'r>,
    steps: Vec<Step>,
    /// The image of two dimensions for one of one.
    twins: HashMap<usize, usize>,
}

impl Lift<'_, '_> {
    fn add(&mut self, step: Step) {
        let windows =
            ["Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "GlobalAveragePool"];
        let lifted = match step.onnx() {
            Some(op) if windows.contains(&op) => self.windows(&step),
            _ => self.between(&step),
        };
        let (Some(lifted), Some(y)) = (lifted, step.output(0)) else { return self.steps.push(step) };
        let twin = self.twin(y);
        self.steps.push(Step { outputs: vec![Some(twin)], ..lifted });
        // Groups of quantised nodes begin with this one: what is not over images has it as it was.
        let stays = step.onnx() == Some("DequantizeLinear");
        let view = Step { name: step.name.clone(), op: Op::View, inputs: vec![Some(twin)], outputs: vec![Some(y)] };
        self.steps.push(if stays { step } else { view });
    }

    /// A new value: the image with the other shape.
    fn twin(&mut self, value: usize) -> usize {
        let known = self.graph.values[value].clone();
        let shape = four(&known.shape, Dim::Fixed(1)).map_or(known.shape, |shape| shape.to_vec());
        let twin = self.graph.add_value(known.dtype, shape, false);
        self.twins.insert(value, twin);
        twin
    }

    /// A node with windows over an image of two dimensions.
    fn windows(&mut self, step: &Step) -> Option<Step> {
        let (x, y) = (step.input(0)?, step.output(0)?);
        let others = step.outputs.iter().skip(1).any(Option::is_some) || step.has("output_shape");
        let of_integers = matches!(step.onnx(), Some("ConvInteger" | "QLinearConv"));
        let is_image = |value: usize| self.graph.shape(value).len() == 3 && (of_integers || self.graph.is_fast(value));
        if others || step.text("auto_pad", "NOTSET") != "NOTSET" || ![x, y].into_iter().all(is_image) {
            return None;
        }
        let mut lifted = step.clone();
        let Op::Reference { attributes, .. } = &mut lifted.op else { return None };
        let lists = [("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("output_padding", 0), ("pads", 0)];
        for (name, fill) in lists {
            if let Some(Attribute::Ints(list)) = attributes.get_mut(name) {
                *list = match list[..] {
                    [only] if name != "pads" => vec![fill, only],
                    [begin, end] if name == "pads" => vec![fill, begin, fill, end],
                    _ => return None,
                };
            }
        }
        lifted.inputs[0] = Some(self.image(x, &step.name));
        Some(lifted)
    }

    /// The image of two dimensions for one of one. A view of what is dequantised is dequantised: so that a group of quantised nodes
    /// stays one.
    fn image(&mut self, x: usize, name: &str) -> usize {
        if let Some(&twin) = self.twins.get(&x) {
            return twin;
        }
        let is_dequantised = |step: &&Step| step.output(0) == Some(x) && step.onnx() == Some("DequantizeLinear");
        let writer = self.steps.iter().rfind(is_dequantised).filter(|step| self.has_one_scale(step)).cloned();
        let step = match writer.and_then(|step| Some((step.input(0)?, step))) {
            Some((bytes, mut step)) => {
                step.inputs[0] = Some(self.image(bytes, name));
                step
            }
            None => Step { name: name.to_owned(), op: Op::View, inputs: vec![Some(x)], outputs: vec![] },
        };
        let twin = self.twin(x);
        self.steps.push(Step { outputs: vec![Some(twin)], ..step });
        twin
    }

    /// Whether all elements of what a step quantises, or dequantises, have one scale.
    fn has_one_scale(&self, step: &Step) -> bool {
        let scale = step.input(1).and_then(|scale| self.graph.fixed_shape(scale));
        step.int("block_size", 0) == 0 && scale.is_some_and(|shape| shape.iter().all(|&size| size == 1))
    }

    /// A function of each element, or a normalisation of each channel, of images that are there with two dimensions.
    fn between(&self, step: &Step) -> Option<Step> {
        let by_element =
            ["Relu", "Clip", "LeakyRelu", "Elu", "Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Tanh", "Gelu"];
        let images = match step.onnx()? {
            "Add" | "Sub" | "Mul" | "Div" => 2,
            "Sum" if step.inputs.len() == 2 => 2,
            "BatchNormalization" => 1,
            "QuantizeLinear" | "DequantizeLinear" if self.has_one_scale(step) => 1,
            op if by_element.contains(&op) => 1,
            _ => return None,
        };
        let y = step.output(0).filter(|&y| self.graph.shape(y).len() == 3)?;
        let mut lifted = step.clone();
        for input in lifted.inputs.iter_mut().take(images) {
            let value = (*input)?;
            let same = self.graph.shape(value) == self.graph.shape(y);
            match self.twins.get(&value) {
                Some(&twin) if same => *input = Some(twin),
                _ if images == 2 && self.graph.scalar(value).is_some() => {}
                _ => return None,
            }
        }
        (lifted.inputs != step.inputs && step.outputs.iter().skip(1).all(Option::is_none)).then_some(lifted)
    }
}
