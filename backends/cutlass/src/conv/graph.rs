//! Queries of a region: who reads a value, and values as images.

use byoc_nvidia::match_product::shape_text;
use byoc_plugin_api::{ConstantId, DType, Dim, Node, Refusal, RefusalCode, Region};

use super::net::Image;

/// A region, and the readers of its values.
pub(super) struct RegionGraph<'a> {
    pub(super) region: &'a Region,
    /// The nodes that read each value, once for each time.
    readers: Vec<Vec<usize>>,
}

impl<'a> RegionGraph<'a> {
    pub(super) fn new(region: &'a Region) -> RegionGraph<'a> {
        let mut readers = vec![Vec::new(); region.values.len()];
        for (at, node) in region.nodes.iter().enumerate() {
            node.inputs.iter().flatten().for_each(|&value| readers[value].push(at));
        }
        RegionGraph { region, readers }
    }

    /// The nodes that read a value, each with the position of the input.
    pub(super) fn readers(&self, value: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut nodes = self.readers[value].clone();
        nodes.dedup();
        let positions = move |at: usize| {
            let inputs = self.region.nodes[at].inputs.iter().enumerate();
            inputs.filter(move |(_, input)| **input == Some(value)).map(move |(position, _)| (at, position))
        };
        nodes.into_iter().flat_map(positions)
    }

    /// The only reader of a value, which is not an output.
    pub(super) fn only_reader(&self, value: usize) -> Option<usize> {
        match self.readers[value].as_slice() {
            &[at] if !self.region.outputs.contains(&value) => Some(at),
            _ => None,
        }
    }

    /// The Sigmoid and the Mul that make SiLU of a value, if both have no other readers.
    pub(super) fn gate(&self, value: usize) -> Option<(usize, usize)> {
        let &[a, b] = self.readers[value].as_slice() else { return None };
        let [sigmoid, mul] = [a.min(b), a.max(b)];
        let [one, other] = [sigmoid, mul].map(|at| &self.region.nodes[at]);
        if one.op != "Sigmoid" || other.op != "Mul" || self.region.outputs.contains(&value) {
            return None;
        }
        (self.only_reader(one.output(0)?)? == mul).then_some((sigmoid, mul))
    }

    /// A value as an image, without padding of its channels.
    pub(super) fn image(&self, value: usize, dtype: DType) -> Result<Image, Refusal> {
        let value = &self.region.values[value];
        let name = &value.name;
        if value.dtype != dtype {
            let message = format!("'{name}' is {}, but another tensor is {dtype}", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        let [batch, rest @ ..] = value.shape.as_slice() else { return Err(no_image(name, &value.shape)) };
        if let Some(Dim::Symbolic(text)) = rest.iter().find(|dim| dim.fixed().is_none()) {
            let message =
                format!("'{name}' has the size '{text}', which is not known: fix its symbols with --dim NAME=SIZE");
            return Err(Refusal::new(RefusalCode::Shape, message));
        }
        let sizes: Vec<usize> = rest.iter().filter_map(Dim::fixed).collect();
        let &[channels, height, width] = sizes.as_slice() else { return Err(no_image(name, &value.shape)) };
        if sizes.contains(&0) || batch.fixed() == Some(0) {
            return Err(Refusal::new(RefusalCode::Shape, format!("'{name}' has no elements")));
        }
        Ok(Image { batch: batch.clone(), channels, height, width, pitch: channels })
    }

    /// The shape of a constant, and its id.
    pub(super) fn constant(&self, node: &Node, value: usize) -> Result<(ConstantId, Vec<usize>), Refusal> {
        let Some(constant) = self.region.constant(value) else {
            let message =
                format!("'{}', which '{}' reads, is not a constant", self.region.values[value].name, node.name);
            return Err(Refusal::new(RefusalCode::ConstantNeeded, message));
        };
        let tensor = &self.region.values[value];
        if ![DType::F16, DType::BF16, DType::F32].contains(&tensor.dtype) {
            let message = format!("'{}' is {}; weights are f16, bf16 or f32", tensor.name, tensor.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        let shape = tensor.fixed_shape();
        let shape = shape.ok_or_else(|| Refusal::new(RefusalCode::Shape, "a constant of unknown size"))?;
        Ok((constant.id, shape))
    }
}

fn no_image(name: &str, shape: &[Dim]) -> Refusal {
    let message = format!("'{name}' is {}, expected an image of four dimensions", shape_text(shape));
    Refusal::new(RefusalCode::Shape, message)
}
