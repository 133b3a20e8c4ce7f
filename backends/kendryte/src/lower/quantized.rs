//! Quantised models: what stands around their tensors becomes no layer of its own. Between a `QuantizeLinear` and a
//! `DequantizeLinear` is the value in front of them, whose bytes then have the scale that the model says.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode};

use super::bytes::REQUANTIZE;
use super::{Lowering, read};
use crate::given::{activation, check_stored, integers, is_conversion, stored};
use crate::net::Work;

/// Operators whose results are elements of their inputs.
const MOVERS: [&str; 8] = ["MaxPool", "Resize", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"];

impl Lowering<'_> {
    /// Reads the scales that the model says, and marks what it makes of constants: that goes into the layers that read it.
    pub(super) fn read_scales(&mut self) -> Result<(), Refusal> {
        let region = self.region;
        for (index, node) in region.nodes.iter().enumerate().filter(|(_, node)| is_conversion(node)) {
            let output = read::output(node)?;
            if stored(region, output).is_some() {
                (self.stored[output], self.done[index]) = (true, true);
                continue;
            }
            let (given, tensor) = (activation(region, node)?, integers(node).unwrap_or(output));
            match self.net.given[tensor] {
                Some(other) if other != given => {
                    let message = format!(
                        "'{}' has the scale {} where it is made, and {} here",
                        region.values[tensor].name, other.scale, given.scale
                    );
                    return Err(read::attribute(message));
                }
                _ => self.net.given[tensor] = Some(given),
            }
            if node.op == "QuantizeLinear" {
                self.net.given[read::input(node, 0)?].get_or_insert(given);
            }
        }
        self.pass_back_scales();
        Ok(())
    }

    /// What is only moved before it is quantised has that scale already.
    fn pass_back_scales(&mut self) {
        for node in self.region.nodes.iter().rev().filter(|node| MOVERS.contains(&node.op.as_str())) {
            if let (Some(input), Some(output)) = (node.input(0), node.output(0)) {
                self.net.given[input] = self.net.given[input].or(self.net.given[output]);
            }
        }
    }

    pub(super) fn conversion(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        self.fixed(output)?;
        if node.op == "QuantizeLinear" {
            return self.quantize(input, output);
        }
        self.view(input, output);
        self.rounded[output] = true;
        Ok(())
    }

    fn quantize(&mut self, input: usize, output: usize) -> Result<(), Refusal> {
        let (source, wanted) = (self.computed(input)?, self.net.given[output]);
        if self.is_float(input) {
            let (floats, shape) = (self.floats(input)?, self.lying(output)?);
            self.give_bytes(Work::Quantize, vec![floats], shape, output);
        } else if self.net.given[source].is_none() || self.net.given[source] == wanted {
            self.net.given[source] = wanted;
            self.view(input, output);
        } else if self.rounded[input] {
            let (bytes, shape) = (self.bytes(input)?, self.lying(output)?);
            self.give_bytes(REQUANTIZE, vec![bytes], shape, output);
        } else {
            let name = &self.region.values[input].name;
            return Err(read::attribute(format!("'{name}' is quantised with two scales, a tensor has one")));
        }
        self.rounded[output] = true;
        Ok(())
    }

    /// Notes that `output` has the elements of `input` in the same order.
    pub(super) fn view(&mut self, input: usize, output: usize) {
        self.alias[output] = self.alias[input];
        (self.rounded[output], self.stored[output]) = (self.rounded[input], self.stored[input]);
    }

    /// The value that has the elements of this one, which is no constant.
    pub(super) fn computed(&self, value: usize) -> Result<usize, Refusal> {
        if self.stored[value] {
            let name = &self.region.values[value].name;
            let message = format!("'{name}' is made of a constant, only weights and biases are");
            return Err(Refusal::new(RefusalCode::Other, message));
        }
        Ok(self.alias[value])
    }

    /// The name of a value that is a constant, or is made of one.
    pub(super) fn constant_name(&self, value: usize) -> Option<&str> {
        let constant = self.stored[value] || self.region.constant(value).is_some();
        constant.then_some(self.region.values[value].name.as_str())
    }

    /// That a bias, if there is one, has scales that a layer can take.
    pub(super) fn check_bias(&self, bias: Option<usize>) -> Result<(), Refusal> {
        bias.map_or(Ok(()), |bias| check_stored(self.region, bias, 0, &[DType::I32, DType::I8, DType::U8]))
    }

    /// The one node that reads a value, where the value is quantised in between what that is read; and the nodes that
    /// stand in between.
    pub(super) fn reader_past_conversions(&self, value: usize) -> (Option<usize>, Vec<usize>) {
        let (mut reader, mut between) = (self.only_reader(value), Vec::new());
        while let Some(next) = reader.filter(|&next| is_conversion(&self.region.nodes[next])) {
            between.push(next);
            reader = self.region.nodes[next].output(0).and_then(|output| self.only_reader(output));
        }
        (reader, between)
    }
}
