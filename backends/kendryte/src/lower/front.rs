//! What normalises an image in front of the first convolution: a number for each channel is taken away, divided by, and so on. It
//! goes into the weights and the bias of the convolution, so that the bytes are those of the image.

use byoc_plugin_api::{Node, Refusal, RefusalCode};

use super::{Lowering, read};
use crate::net::Front;

/// Operators that may read what is normalised: a convolution, or what stands between.
const READERS: [&str; 6] = ["Conv", "Pad", "Sub", "Div", "Mul", "Add"];

impl Lowering<'_> {
    /// Whether a node has a constant for one of its two inputs, and so may be part of what normalises.
    pub(super) fn has_constant(&self, node: &Node) -> bool {
        node.inputs.iter().flatten().any(|&value| self.region.constant(value).is_some())
    }

    /// Whether a node reads what another one normalises.
    pub(super) fn reads_normalised(&self, node: &Node) -> bool {
        node.inputs.iter().flatten().any(|&value| self.fronts[value].is_some())
    }

    /// `x - a`, `x / a`, `x * a` or `x + a`, where `x` is the region's input or made of it that way.
    pub(super) fn normalise(&mut self, node: &Node) -> Result<(), Refusal> {
        let (mut input, mut number) = (read::input(node, 0)?, read::input(node, 1)?);
        if matches!(node.op.as_str(), "Mul" | "Add") && self.region.constant(input).is_some() {
            std::mem::swap(&mut input, &mut number);
        }
        let output = read::output(node)?;
        let image = self.map(input)?;
        let only_reader = self.only_reader(output).map(|reader| self.region.nodes[reader].op.as_str());
        let (source, inner) = self.unnormalised(input);
        let is_first = self.region.inputs.contains(&self.alias[source]);
        if !is_first || !only_reader.is_some_and(|op| READERS.contains(&op)) {
            return Err(super::other(format!(
                "{} with a constant is taken in front of the first convolution only",
                node.op
            )));
        }
        if self.fixed(output)? != self.fixed(input)? {
            return Err(read::shape("the constant has more elements than the image has channels"));
        }
        let numbers = self.channels(number, image.channels as usize)?;
        let front = Front::of(&node.op, &numbers);
        let front = inner.map_or(front.clone(), |inner| front.after(&inner));
        if !front.is_usable() {
            return Err(read::attribute("a factor that is 0 or not finite"));
        }
        self.fronts[output] = Some((source, front));
        Ok(())
    }

    /// The image that a value is normalised of, and how.
    pub(super) fn unnormalised(&self, value: usize) -> (usize, Option<Front>) {
        match &self.fronts[value] {
            Some((source, front)) => (*source, Some(front.clone())),
            None => (value, None),
        }
    }

    /// A constant with a number for each channel of an image, or one for all.
    fn channels(&self, value: usize, channels: usize) -> Result<Vec<f64>, Refusal> {
        let name = &self.region.values[value].name;
        let numbers = self.region.constant_floats(value).ok_or_else(|| {
            Refusal::new(
                RefusalCode::ConstantNeeded,
                format!("'{name}' must be a constant of at most {channels} numbers"),
            )
        })?;
        let shape = self.fixed(value)?;
        let along_channels = shape.len() >= 3 && shape[shape.len() - 3] == channels && numbers.len() == channels;
        match *numbers.as_slice() {
            [one] => Ok(vec![one; channels]),
            _ if along_channels => Ok(numbers),
            _ => Err(read::shape(format!("'{name}' is {shape:?}, only a number for each channel has code"))),
        }
    }
}
