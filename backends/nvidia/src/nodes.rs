//! The nodes of a region by what they make, which of them were read, and which constants decided what is computed: what
//! every reader of a region keeps in mind.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{Node, Region};

/// A region while it is read.
#[derive(Clone)]
pub(crate) struct Nodes<'a> {
    pub(crate) region: &'a Region,
    /// Indices of nodes, by the value that they make first.
    producers: HashMap<usize, usize>,
    read: BTreeSet<usize>,
    numbers: BTreeSet<usize>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(region: &'a Region) -> Self {
        let made = |(index, node): (usize, &Node)| Some((node.output(0)?, index));
        let producers = region.nodes.iter().enumerate().filter_map(made).collect();
        Nodes { region, producers, read: BTreeSet::new(), numbers: BTreeSet::new() }
    }

    /// The node that makes a value, if it is one of ONNX.
    pub(crate) fn producer(&self, value: usize) -> Option<&'a Node> {
        self.producers.get(&value).map(|&index| &self.region.nodes[index]).filter(|node| node.domain.is_empty())
    }

    /// The node that makes a value, if it is this operator. It counts as read.
    pub(crate) fn step(&mut self, value: usize, op: &str) -> Option<&'a Node> {
        let node = self.producer(value).filter(|node| node.op == op)?;
        self.mark(value);
        Some(node)
    }

    /// The node that makes a value counts as read.
    pub(crate) fn mark(&mut self, value: usize) {
        self.read.extend(self.producers.get(&value));
    }

    /// The node of that index counts as read: for those that make several values.
    pub(crate) fn mark_node(&mut self, index: usize) {
        self.read.insert(index);
    }

    /// A constant of one number. It counts as decided by.
    pub(crate) fn number(&mut self, value: usize) -> Option<f64> {
        let &[number] = self.region.constant_floats(value)?.as_slice() else { return None };
        self.decided_by(value);
        Some(number)
    }

    /// A constant whose number was looked at.
    pub(crate) fn decided_by(&mut self, value: usize) {
        self.numbers.insert(value);
    }

    /// The nodes that were read.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.read.iter().copied().collect()
    }

    /// The first node that was not read.
    pub(crate) fn unread(&self) -> Option<&'a Node> {
        self.region.nodes.iter().enumerate().find(|(index, _)| !self.read.contains(index)).map(|(_, node)| node)
    }

    /// The constants whose numbers were looked at.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.numbers.iter().copied().collect()
    }
}
