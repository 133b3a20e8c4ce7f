//! The nodes of a region, by what they make, and which of them have been read.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{DType, Node, Refusal, Region};

use super::{Takes, other};

pub(super) struct Graph<'a> {
    region: &'a Region,
    pub(super) takes: Takes,
    /// Indices of nodes, by the value that they make first.
    producers: HashMap<usize, usize>,
    read: BTreeSet<usize>,
    numbers: BTreeSet<usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(region: &'a Region, takes: Takes) -> Self {
        let made = |(index, node): (usize, &Node)| Some((node.output(0)?, index));
        let producers = region.nodes.iter().enumerate().filter_map(made).collect();
        Graph { region, takes, producers, read: BTreeSet::new(), numbers: BTreeSet::new() }
    }

    pub(super) fn region(&self) -> &'a Region {
        self.region
    }

    /// The node that makes a value.
    pub(super) fn producer(&self, value: usize) -> Option<&'a Node> {
        self.producers.get(&value).map(|&index| &self.region.nodes[index])
    }

    /// The node that makes a value, if it is of ONNX and of this operator. It counts as read.
    pub(super) fn step(&mut self, value: usize, op: &str) -> Option<&'a Node> {
        let node = self.producer(value).filter(|node| node.domain.is_empty() && node.op == op)?;
        self.mark(value);
        Some(node)
    }

    /// The node that makes a value counts as read.
    pub(super) fn mark(&mut self, value: usize) {
        self.read.extend(self.producers.get(&value));
    }

    /// The f32 value that `output` is cast from, where the backend computes the sum before it.
    pub(super) fn narrowed(&mut self, output: usize) -> Option<usize> {
        let from = self.producer(output).filter(|_| self.takes.wide_bias)?.input(0)?;
        let is_wide = |value: usize| self.region.values[value].dtype == DType::F32;
        (is_wide(from) && !is_wide(output)).then(|| self.step(output, "Cast")).flatten().map(|_| from)
    }

    /// The product that a cast made `value` of.
    pub(super) fn widened(&mut self, value: usize) -> Result<usize, Refusal> {
        let cast = self.step(value, "Cast").and_then(|node| node.input(0));
        cast.ok_or_else(|| other("a sum in f32 that is cast, of no product that was cast"))
    }

    /// A constant of one number. It counts as decided by.
    pub(super) fn number(&mut self, value: usize) -> Option<f64> {
        let &[number] = self.region.constant_floats(value)?.as_slice() else { return None };
        self.numbers.insert(value);
        Some(number)
    }

    /// The first node that was not read.
    pub(super) fn unread(&self) -> Option<&'a Node> {
        self.region.nodes.iter().enumerate().find(|(index, _)| !self.read.contains(index)).map(|(_, node)| node)
    }

    /// The constants whose numbers were looked at.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.numbers.iter().copied().collect()
    }
}
