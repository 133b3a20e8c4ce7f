//! Lowers a region to steps. What follows a convolution is fused into it: normalisation, a function, a residual, and
//! another function. Every other node is a step of its own.

use std::collections::{BTreeMap, HashSet};

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode, Region};

use super::graph::RegionGraph;
use super::net::{Act, Conv, Image, Net, Norm, Op, Pair, Step, Weights, Window};

/// The most rows or columns of a filter: CUTLASS's iterator has a bit mask of them.
const MOST_TAPS: usize = 32;

/// The least pitch of an image that only convolutions read.
const FEW: usize = 4;

struct Lowering<'a> {
    graph: RegionGraph<'a>,
    dtype: DType,
    images: BTreeMap<usize, Image>,
    /// Steps, each with the last node that is in it.
    steps: Vec<(usize, Step)>,
    taken: HashSet<usize>,
    numbers: Vec<usize>,
}

/// Lowers a region. With `tf32`, `f32` may be rounded to TF32.
pub(crate) fn lower(region: &Region, tf32: bool) -> Result<Net, Refusal> {
    let graph = RegionGraph::new(region);
    let dtype = element_type(region, tf32)?;
    let mut lowering =
        Lowering { graph, dtype, images: BTreeMap::new(), steps: vec![], taken: HashSet::new(), numbers: vec![] };
    for (at, node) in region.nodes.iter().enumerate() {
        if !lowering.taken.contains(&at) {
            lowering.node(at, node)?;
        }
    }
    lowering.finish()
}

/// The type of the convolutions.
fn element_type(region: &Region, tf32: bool) -> Result<DType, Refusal> {
    let first = region.nodes.iter().find(|node| node.op == "Conv");
    let value = first.and_then(|node| node.input(0)).ok_or_else(|| other("there is no convolution"))?;
    let value = &region.values[value];
    match value.dtype {
        DType::F16 | DType::BF16 => Ok(value.dtype),
        DType::F32 if tf32 => Ok(value.dtype),
        DType::F32 => {
            let message =
                format!("'{}' is f32, which is multiplied here as TF32 only: math=tf32 allows it", value.name);
            Err(Refusal::new(RefusalCode::Type, message))
        }
        dtype => {
            let message = format!("'{}' is {dtype}; supported are f16, bf16 and, with math=tf32, f32", value.name);
            Err(Refusal::new(RefusalCode::Type, message))
        }
    }
}

impl Lowering<'_> {
    fn node(&mut self, at: usize, node: &Node) -> Result<(), Refusal> {
        let to = output(node)?;
        let from = node.input(0).ok_or_else(|| other(&format!("'{}' has no operand", node.name)))?;
        let op = match node.op.as_str() {
            "Conv" => return self.conv(at, node),
            "MaxPool" | "AveragePool" => self.pool(node, from, to)?,
            "GlobalAveragePool" => Op::GlobalAverage { from },
            "Concat" => self.concat(node)?,
            _ => match (Act::read(self.graph.region, node), Pair::read(node)) {
                (Some(act), _) => {
                    let (act, numbers) = act?;
                    self.numbers.extend(numbers);
                    Op::Map { from, act }
                }
                (None, Some(pair)) => self.pair(node, pair)?,
                (None, None) => {
                    return Err(other(&format!(
                        "'{}' is a {}, which is not supported in a region of convolutions",
                        node.name, node.op
                    )));
                }
            },
        };
        op.reads().into_iter().chain([to]).try_for_each(|value| self.image(value).map(drop))?;
        self.steps.push((at, Step { op, to }));
        Ok(())
    }

    /// A value as an image.
    fn image(&mut self, value: usize) -> Result<Image, Refusal> {
        if self.graph.region.constant(value).is_some() {
            let name = &self.graph.region.values[value].name;
            return Err(other(&format!("'{name}' is a constant, not an image")));
        }
        let image = self.graph.image(value, self.dtype)?;
        self.images.insert(value, image.clone());
        Ok(image)
    }

    fn pool(&mut self, node: &Node, from: usize, to: usize) -> Result<Op, Refusal> {
        if node.output(1).is_some() {
            return Err(Refusal::new(RefusalCode::Other, format!("'{}' has a second result", node.name)));
        }
        self.image(from)?;
        self.image(to)?;
        let (window, behind) = Window::read(node, None)?;
        if node.op == "MaxPool" {
            return Ok(Op::MaxPool { from, window });
        }
        let padded = (node.int("count_include_pad", 0) != 0).then_some(behind);
        Ok(Op::AveragePool { from, window, padded })
    }

    fn pair(&mut self, node: &Node, pair: Pair) -> Result<Op, Refusal> {
        let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Err(other("a sum needs two operands")) };
        let (first, second) = (self.image(a)?, self.image(b)?);
        let gate = |image: &Image, other: &Image| {
            image.pixels() == 1 && image.channels == other.channels && image.batch == other.batch
        };
        if first == second || gate(&second, &first) {
            Ok(Op::Pair { from: [a, b], pair })
        } else if gate(&first, &second) {
            Ok(Op::Pair { from: [b, a], pair })
        } else {
            let message = format!("the operands of '{}' have neither the same shape nor one pixel an image", node.name);
            Err(Refusal::new(RefusalCode::Shape, message))
        }
    }

    fn concat(&mut self, node: &Node) -> Result<Op, Refusal> {
        let from: Vec<usize> = node.inputs.iter().flatten().copied().collect();
        if ![1, -3].contains(&node.int("axis", 0)) {
            let message = format!("'{}' does not concatenate channels", node.name);
            return Err(Refusal::new(RefusalCode::Attribute, message));
        }
        for &value in &from[..from.len().saturating_sub(1)] {
            let channels = self.image(value)?.channels;
            if !channels.is_multiple_of(self.unit()) {
                let message = format!(
                    "'{}' concatenates {channels} channels, which is not a multiple of {}",
                    node.name,
                    self.unit()
                );
                return Err(Refusal::new(RefusalCode::Shape, message));
            }
        }
        Ok(Op::Concat { from })
    }

    fn conv(&mut self, at: usize, node: &Node) -> Result<(), Refusal> {
        let (Some(from), Some(weights)) = (node.input(0), node.input(1)) else {
            return Err(other("a convolution without weights"));
        };
        let result = output(node)?;
        let x = self.image(from)?;
        self.image(result)?;
        let (filters, shape) = self.graph.constant(node, weights)?;
        let depthwise = self.groups(node, &x, &shape)?;
        let kernel = [shape[2], shape[3]];
        if kernel.iter().any(|&taps| taps > MOST_TAPS) {
            let message =
                format!("'{}' has a filter of {}x{}; at most {MOST_TAPS}x{MOST_TAPS}", node.name, kernel[0], kernel[1]);
            return Err(Refusal::new(RefusalCode::Shape, message));
        }
        let (window, _) = Window::read(node, Some(&kernel))?;
        let bias = node.input(2).map(|bias| self.graph.constant(node, bias).map(|(id, _)| id)).transpose()?;
        // The pitch is known when all images are.
        let weights = Weights { filters, bias, norm: None, depthwise, pitch_out: shape[0], pitch_in: shape[1] };
        let conv = Conv { from, weights, window, before: None, residual: None, after: None };
        let (conv, last, to) = self.absorb(conv, at, result)?;
        self.image(to)?;
        self.images.retain(|&value, _| value != result || result == to);
        self.steps.push((last, Step { op: Op::Conv(conv), to }));
        Ok(())
    }

    /// Whether a convolution is depthwise; other groups are refused.
    fn groups(&self, node: &Node, x: &Image, weights: &[usize]) -> Result<bool, Refusal> {
        let group = node.int("group", 1);
        let &[filters, channels, ..] = weights else {
            return Err(other("a convolution whose weights are not of four dimensions"));
        };
        let all = usize::try_from(group).is_ok_and(|group| group == x.channels && channels == 1 && filters == group);
        if weights.len() != 4 || !(group == 1 && channels == x.channels || all) {
            let message = format!("'{}' has {group} groups; supported are 1 and one per channel", node.name);
            return Err(Refusal::new(RefusalCode::Attribute, message));
        }
        Ok(all && group != 1)
    }

    /// Fuses what follows a convolution. Returns the last fused node and its result.
    fn absorb(&mut self, mut conv: Conv, mut last: usize, mut value: usize) -> Result<(Conv, usize, usize), Refusal> {
        loop {
            let place = if conv.residual.is_some() { conv.after } else { conv.before };
            if let (None, Some((sigmoid, mul))) = (place, self.graph.gate(value)) {
                self.taken.extend([sigmoid, mul]);
                *self.free(&mut conv) = Some(Act::Silu);
                (last, value) = (mul, output(&self.graph.region.nodes[mul])?);
                continue;
            }
            let reader = self.graph.only_reader(value).filter(|reader| !self.taken.contains(reader));
            let Some(reader) = reader else { break };
            let node = &self.graph.region.nodes[reader];
            let plain = conv.before.is_none() && conv.residual.is_none() && conv.weights.norm.is_none();
            if node.op == "BatchNormalization" && plain && node.input(0) == Some(value) {
                conv.weights.norm = Some(self.norm(node)?);
            } else if let (Some(act), None) = (Act::read(self.graph.region, node), place) {
                let (act, numbers) = act?;
                self.numbers.extend(numbers);
                *self.free(&mut conv) = Some(act);
            } else if let Some(residual) = self.residual(&conv, node, value) {
                self.image(residual)?;
                conv.residual = Some(residual);
            } else {
                break;
            }
            self.taken.insert(reader);
            (last, value) = (reader, output(&self.graph.region.nodes[reader])?);
        }
        Ok((conv, last, value))
    }

    /// The list for the next function of a convolution.
    fn free<'c>(&self, conv: &'c mut Conv) -> &'c mut Option<Act> {
        if conv.residual.is_some() { &mut conv.after } else { &mut conv.before }
    }

    fn norm(&self, node: &Node) -> Result<Norm, Refusal> {
        let constant = |position: usize| {
            let value = node.input(position).ok_or_else(|| other(&format!("'{}' lacks an operand", node.name)))?;
            self.graph.constant(node, value).map(|(id, _)| id)
        };
        if node.int("training_mode", 0) != 0 {
            return Err(Refusal::new(RefusalCode::Attribute, format!("'{}' is in training mode", node.name)));
        }
        let epsilon = node.float("epsilon", 1e-5);
        Ok(Norm { scale: constant(1)?, shift: constant(2)?, mean: constant(3)?, variance: constant(4)?, epsilon })
    }

    /// The residual: the other operand of a sum, if it can be fused into the convolution that makes `value`.
    fn residual(&self, conv: &Conv, node: &Node, value: usize) -> Option<usize> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let residual = if a == value { b } else { a };
        let same = self.graph.region.values[residual].shape == self.graph.region.values[value].shape;
        let fits = Pair::read(node) == Some(Pair::Add) && conv.residual.is_none() && !conv.weights.depthwise && same;
        (fits && self.graph.region.constant(residual).is_none()).then_some(residual)
    }

    /// Elements of 16 bytes.
    fn unit(&self) -> usize {
        16 / self.dtype.unpacked_bytes()
    }

    /// Orders the steps, and chooses the pitch of all images.
    fn finish(mut self) -> Result<Net, Refusal> {
        let unit = self.unit();
        for (value, image) in &mut self.images {
            image.pitch = image.channels.next_multiple_of(unit);
            let few = image.channels <= FEW && self.graph.region.inputs.contains(value);
            let mut readers = self.graph.readers(*value);
            let dense = |(at, position): (usize, usize)| {
                let node = &self.graph.region.nodes[at];
                node.op == "Conv" && position == 0 && node.int("group", 1) == 1
            };
            if few && readers.all(dense) {
                image.pitch = FEW;
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
        let mut steps: Vec<Step> = self.steps.into_iter().map(|(_, step)| step).collect();
        for step in &mut steps {
            if let Op::Conv(Conv { from, weights, .. }) = &mut step.op {
                weights.pitch_out = self.images[&step.to].pitch;
                weights.pitch_in = if weights.depthwise { 1 } else { self.images[from].pitch };
            }
        }
        let made = |value: &usize| steps.iter().any(|step| step.to == *value);
        if !self.graph.region.outputs.iter().all(made) {
            return Err(other("a result of the region is not computed in it"));
        }
        let net = Net { dtype: self.dtype, images: self.images, steps, numbers: self.numbers };
        countable(&net, self.graph.region)?;
        one_packing(&net)?;
        Ok(net)
    }
}

/// Checks that CUTLASS can index all images; with an unknown batch, one image.
fn countable(net: &Net, region: &Region) -> Result<(), Refusal> {
    for (&value, image) in &net.images {
        let one = Image { batch: image.batch.fixed().unwrap_or(1).into(), ..image.clone() };
        let elements = one.elements().ok().and_then(|elements| elements.fixed());
        if elements.is_none_or(|elements| elements > net.most_elements(value)) {
            let name = &region.values[value].name;
            let message = format!("'{name}' has more elements than CUTLASS can count");
            return Err(Refusal::new(RefusalCode::Shape, message));
        }
    }
    Ok(())
}

/// Checks that no weights are packed in two layouts, or read unpacked as well.
fn one_packing(net: &Net) -> Result<(), Refusal> {
    let all: Vec<&Weights> = net.convolutions().map(|conv| &conv.weights).collect();
    for (position, one) in all.iter().enumerate() {
        if all[..position].iter().any(|before| before.filters == one.filters && before != one) {
            return Err(other("two convolutions of the region need the same weights in two layouts"));
        }
    }
    Ok(())
}

fn output(node: &Node) -> Result<usize, Refusal> {
    node.output(0).ok_or_else(|| other(&format!("'{}' has no result", node.name)))
}

fn other(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
