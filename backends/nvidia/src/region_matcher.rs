//! Matching a region: which node makes a value, which nodes are matched so far, and which constants were read for it.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{Node, Region};

/// A region while it is matched, with what one kind of matcher knows beside it.
#[derive(Clone)]
pub(crate) struct RegionMatcher<'a, S> {
    pub(crate) region: &'a Region,
    pub(crate) state: S,
    /// Indices of nodes, by their first output.
    producers: HashMap<usize, usize>,
    matched: BTreeSet<usize>,
    numbers: BTreeSet<usize>,
}

impl<'a, S> RegionMatcher<'a, S> {
    pub(crate) fn new(region: &'a Region, state: S) -> Self {
        let made = |(index, node): (usize, &Node)| Some((node.output(0)?, index));
        let producers = region.nodes.iter().enumerate().filter_map(made).collect();
        RegionMatcher { region, state, producers, matched: BTreeSet::new(), numbers: BTreeSet::new() }
    }

    /// The node that makes a value, if it is an operator of ONNX.
    pub(crate) fn producer(&self, value: usize) -> Option<&'a Node> {
        self.producers.get(&value).map(|&index| &self.region.nodes[index]).filter(|node| node.domain.is_empty())
    }

    /// The node that makes a value, if it is this operator. Marks it as matched.
    pub(crate) fn step(&mut self, value: usize, op: &str) -> Option<&'a Node> {
        let node = self.producer(value).filter(|node| node.op == op)?;
        self.mark(value);
        Some(node)
    }

    /// Marks the node that makes a value as matched.
    pub(crate) fn mark(&mut self, value: usize) {
        self.matched.extend(self.producers.get(&value));
    }

    /// Marks the node of that index as matched: for nodes of several outputs.
    pub(crate) fn mark_node(&mut self, index: usize) {
        self.matched.insert(index);
    }

    /// The number of a constant of one element, which becomes part of the code.
    pub(crate) fn number(&mut self, value: usize) -> Option<f64> {
        let &[number] = self.region.constant_floats(value)?.as_slice() else { return None };
        self.read_number(value);
        Some(number)
    }

    /// Notes a constant whose number becomes part of the code.
    pub(crate) fn read_number(&mut self, value: usize) {
        self.numbers.insert(value);
    }

    /// The matched nodes.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.matched.iter().copied().collect()
    }

    /// The first node that is not matched.
    pub(crate) fn unmatched(&self) -> Option<&'a Node> {
        self.region.nodes.iter().enumerate().find(|(index, _)| !self.matched.contains(index)).map(|(_, node)| node)
    }

    /// The constants whose numbers became part of the code.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.numbers.iter().copied().collect()
    }
}
