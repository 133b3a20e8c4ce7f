//! Layers on bytes in main memory: sums, concatenations, functions by a table, nearest neighbours.

use byoc_plugin_api::{Node, Refusal};

use super::{Lowering, read};
use crate::kmodel::bodies::Shape;
use crate::net::{Form, Function, TensorId, Work};
use crate::quantize::{Activation, Quantization};

impl Lowering<'_> {
    /// The sum of two tensors of one shape, clipped where that follows.
    pub(super) fn add(&mut self, node: &Node) -> Result<(), Refusal> {
        let region = self.region;
        let (a, b) = (read::input(node, 0)?, read::input(node, 1)?);
        for value in [a, b] {
            if let Some(name) = self.constant_name(value) {
                return Err(read::shape(format!("'{name}' is a constant, only computed tensors are added")));
            }
        }
        let mut output = read::output(node)?;
        let shapes = (self.fixed(a)?, self.fixed(b)?);
        if shapes.0 != shapes.1 {
            return Err(read::shape(format!("{:?} and {:?}, only tensors of one shape are added", shapes.0, shapes.1)));
        }
        // The result's scale, which has 0, ends where the function clips, and so do the bytes.
        if let Some(next) = self.only_reader(output)
            && let Ok(Function::Monotone(function)) = self.function_of(&region.nodes[next])
            && self.ends_clip(function, read::output(&region.nodes[next])?)
        {
            self.done[next] = true;
            output = read::output(&region.nodes[next])?;
            self.known[output].own_scale = true;
        }
        let (a, b) = (self.bytes(a)?, self.bytes(b)?);
        let shape = self.lying(output)?;
        self.give_bytes(Work::Add, vec![a, b], shape, output);
        Ok(())
    }

    pub(super) fn concat(&mut self, node: &Node) -> Result<(), Refusal> {
        let output = read::output(node)?;
        let sizes = self.fixed(output)?;
        let axis = node.int("axis", 0);
        let axis = if axis < 0 { axis + sizes.len() as i64 } else { axis } as usize;
        // What is before the axis decides whether the parts are one after another.
        if sizes.iter().take(axis).any(|&size| size != 1) {
            return Err(read::attribute(format!(
                "a concatenation of {sizes:?} along axis {axis}, only channels have code"
            )));
        }
        let mut inputs = Vec::new();
        for &value in node.inputs.iter().flatten() {
            if let Some(name) = self.constant_name(value) {
                return Err(read::shape(format!("'{name}' is a constant, only computed tensors are joined")));
            }
            inputs.push(self.part(node, value, output)?);
        }
        let shape = self.lying(output)?;
        self.give_bytes(Work::Concat, inputs, shape, output);
        Ok(())
    }

    /// A value as bytes of the scale of `whole`, which a node joins it to.
    fn part(&mut self, node: &Node, value: usize, whole: usize) -> Result<TensorId, Refusal> {
        let (bytes, source) = (self.bytes(value)?, self.alias[value]);
        let (given, wanted) = (self.net.given[source], self.net.given[whole]);
        if given.is_some() && given == wanted {
            return Ok(bytes);
        }
        if !self.keeps_scale(node, value) {
            self.net.given[source] = wanted;
            self.net.same_scale.push((source, whole));
            return Ok(bytes);
        }
        let tensor = read::tensor(Form::Bytes, self.net.tensors[bytes].shape, whole);
        Ok(self.net.step(REQUANTIZE, vec![bytes], tensor))
    }

    /// Notes that a node makes bytes of `output` by moving some of `input`; where the model gives the two different scales, a
    /// table follows.
    pub(super) fn give_moved(
        &mut self,
        node: &Node,
        work: Work,
        [input, output]: [usize; 2],
        shape: Shape,
    ) -> Result<(), Refusal> {
        let (bytes, source) = (self.bytes(input)?, self.alias[input]);
        let (given, wanted) = (self.net.given[source], self.net.given[output]);
        if given.is_some() && wanted.is_some() && given != wanted {
            let moved = self.net.step(work, vec![bytes], read::tensor(Form::Bytes, shape, source));
            self.give_bytes(REQUANTIZE, vec![moved], shape, output);
            return Ok(());
        }
        (self.net.given[source], self.net.given[output]) = (given.or(wanted), given.or(wanted));
        self.rounded[output] = self.rounded[input];
        self.net.same_scale.push((source, output));
        self.known[output].own_scale = self.keeps_scale(node, input);
        self.give_bytes(work, vec![bytes], shape, output);
        Ok(())
    }

    /// Whether a node must leave the scale of a value as it is: something depends on it, or others read the value, for
    /// whom a wider range would be noise.
    fn keeps_scale(&self, node: &Node, value: usize) -> bool {
        let source = self.alias[value];
        let is_view = |reader: &Node| reader.output(0).is_some_and(|output| self.alias[output] == source);
        let is_other = |reader: &usize| {
            let reader = &self.region.nodes[*reader];
            !std::ptr::eq(reader, node) && !is_view(reader)
        };
        let mut same = (0..self.alias.len()).filter(|&other| self.alias[other] == source);
        let read = |value: usize| self.region.outputs.contains(&value) || self.readers[value].iter().any(is_other);
        self.known[source].own_scale || self.net.given[source].is_some() || same.any(read)
    }

    /// A function of one number, or `x * sigmoid(x)` written as two nodes.
    pub(super) fn function(&mut self, index: usize) -> Result<(), Refusal> {
        let region = self.region;
        let node = &region.nodes[index];
        let (input, mut output) = (read::input(node, 0)?, read::output(node)?);
        let mut function = self.function_of(node)?;
        if function == Function::Monotone(Activation::Sigmoid)
            && let Some(next) = self.only_reader(output)
            && is_product(&region.nodes[next], input, output)
        {
            self.done[next] = true;
            output = read::output(&region.nodes[next])?;
            function = Function::Swish(1.0);
        }
        let shape = self.lying(output)?;
        if function == Function::Monotone(Activation::Sigmoid) && self.is_float(input) {
            let floats = self.floats(input)?;
            self.give_floats(Work::Logistic, floats, shape, output);
            return Ok(());
        }
        // What becomes bytes is clipped on the way, by the ends of the scale.
        if let Function::Monotone(clip) = function
            && self.ends_clip(clip, output)
            && self.is_float(input)
        {
            let floats = self.floats(input)?;
            self.give_bytes(Work::Quantize, vec![floats], shape, output);
            self.known[output].own_scale = true;
            return Ok(());
        }
        // What is only cut off fits the scale that the model gives the result.
        let source = self.alias[input];
        if let Function::Monotone(clip) = function
            && is_clip_around_0(clip)
            && self.net.given[source].is_none()
        {
            self.net.given[source] = self.net.given[output];
        }
        let bytes = self.bytes(input)?;
        self.give_bytes(Work::Requantize(function), vec![bytes], shape, output);
        Ok(())
    }

    /// Whether a function only cuts off, on either side of 0, what the ends of its result's scale cut off as well: a scale that
    /// is chosen is that of the result.
    fn ends_clip(&self, function: Activation, output: usize) -> bool {
        let inside = |given: Quantization| match function {
            Activation::Clip { min, max } => given.nearest(min) == 0 && given.nearest(max) == u8::MAX,
            _ => given.zero_point == 0,
        };
        is_clip_around_0(function) && self.net.given[output].is_none_or(inside)
    }
}

/// The same numbers in another scale.
pub(super) const REQUANTIZE: Work = Work::Requantize(Function::Monotone(Activation::Linear));

/// Whether a function only cuts off, on either side of 0.
fn is_clip_around_0(function: Activation) -> bool {
    match function {
        Activation::Relu => true,
        Activation::Clip { min, max } => min <= 0.0 && max >= 0.0,
        _ => false,
    }
}

/// Whether a node multiplies these two values.
fn is_product(node: &Node, a: usize, b: usize) -> bool {
    node.op == "Mul" && (node.inputs == [Some(a), Some(b)] || node.inputs == [Some(b), Some(a)])
}
