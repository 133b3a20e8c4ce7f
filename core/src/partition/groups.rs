//! Groups of nodes that become regions. Every node is in one group; a group runs as one call, so the graph of groups
//! must stay acyclic (regions stay convex).

mod order;

use std::collections::BTreeSet;
use std::rc::Rc;

use self::order::Order;
use super::run_time;
use crate::ir::{Graph, Node, ValueId};

/// In place of a backend's index: core runs control flow, and what reads or makes sequences, itself.
pub(super) const CORE: usize = usize::MAX - 1;

/// A set of nodes that run as one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// The backend's index in the user's list, or `None` for unassigned nodes.
    pub(super) backend: Option<usize>,
    /// The nodes, ascending.
    pub(super) nodes: BTreeSet<usize>,
    /// The inputs of the group, without constants.
    pub(super) reads: BTreeSet<ValueId>,
    /// Whether a node of it tells a size, so that it is not merged with others.
    pub(super) alone: bool,
    /// The set that its nodes are in.
    set: usize,
}

/// The groups of one graph. Indices stay valid; merged groups are left empty.
pub(super) struct Groups<'g> {
    graph: &'g Graph,
    producers: Vec<Option<usize>>,
    consumers: Vec<Vec<usize>>,
    sizing: Rc<[Option<ValueId>]>,
    pub(super) groups: Vec<Group>,
    /// The set that each node is in, and the group that each set is: when two groups merge, only the nodes of the smaller
    /// one move, whichever of the two keeps its index.
    set_of: Vec<usize>,
    group_at: Vec<usize>,
    /// A topological order; `None` while it is stale.
    order: Option<Order>,
}

impl<'g> Groups<'g> {
    /// Every node alone and unassigned.
    pub(super) fn new(graph: &'g Graph) -> Self {
        let count = graph.nodes.len();
        let mut groups = Groups {
            graph,
            producers: graph.producers(),
            consumers: graph.consumers(),
            sizing: run_time::sizing(graph).into(),
            groups: Vec::with_capacity(count),
            set_of: vec![0; count],
            group_at: Vec::with_capacity(count),
            order: None,
        };
        (0..count).for_each(|node| groups.set_apart(node));
        groups
    }

    /// Puts a node without a group into a new one.
    fn set_apart(&mut self, node: usize) {
        let inputs = self.graph.nodes[node].inputs.iter().flatten().copied();
        let reads = inputs.filter(|&value| self.graph.value(value).constant.is_none()).collect();
        let set = self.group_at.len();
        self.group_at.push(self.groups.len());
        self.set_of[node] = set;
        let alone = self.sizing[node].is_some();
        let backend = self.graph.is_run_by_core(&self.graph.nodes[node]).then_some(CORE);
        self.groups.push(Group { backend, nodes: BTreeSet::from([node]), reads, alone, set });
    }

    /// For each node the output whose size it tells.
    pub(super) fn sizing(&self) -> Rc<[Option<ValueId>]> {
        self.sizing.clone()
    }

    /// The number of nodes.
    pub(super) fn count(&self) -> usize {
        self.set_of.len()
    }

    /// The group that a node is in.
    pub(super) fn of_node(&self, node: usize) -> usize {
        self.group_at[self.set_of[node]]
    }

    /// Whether the node is unassigned.
    pub(super) fn free(&self, node: usize) -> bool {
        self.groups[self.of_node(node)].backend.is_none()
    }

    /// Reserves all nodes but these, so that no backend takes them.
    pub(super) fn reserve_others(&mut self, nodes: &BTreeSet<usize>) {
        for node in (0..self.count()).filter(|node| !nodes.contains(node)) {
            let group = self.of_node(node);
            self.groups[group].backend = Some(usize::MAX);
        }
    }

    /// Whether the nodes, all free, can be one group: no path leads from them through another group back to them.
    pub(super) fn is_convex(&self, nodes: &BTreeSet<usize>) -> bool {
        let own: BTreeSet<usize> = nodes.iter().map(|&node| self.of_node(node)).collect();
        let outside = |group: &usize| !own.contains(group);
        let mut waiting: Vec<usize> = own.iter().flat_map(|&group| self.readers(group)).filter(outside).collect();
        let mut seen: BTreeSet<usize> = waiting.iter().copied().collect();
        while let Some(group) = waiting.pop() {
            for reader in self.readers(group) {
                if own.contains(&reader) {
                    return false;
                }
                if seen.insert(reader) {
                    waiting.push(reader);
                }
            }
        }
        true
    }

    /// Assigns the nodes, all free, to a backend as one group, and returns its index. Where more than the last of them is
    /// read outside they are [`Groups::is_convex`].
    pub(super) fn take(&mut self, nodes: &BTreeSet<usize>, backend: usize) -> usize {
        let mut nodes = nodes.iter();
        let Some(&first) = nodes.next() else { return usize::MAX };
        let group = self.of_node(first);
        self.groups[group].backend = Some(backend);
        for &node in nodes {
            let other = self.of_node(node);
            self.merge_unordered(group, other);
        }
        group
    }

    /// Releases a group's nodes, each alone.
    pub(super) fn release(&mut self, group: usize) {
        self.order = None;
        let Group { nodes, .. } = std::mem::take(&mut self.groups[group]);
        nodes.into_iter().for_each(|node| self.set_apart(node));
    }

    /// Moves every node of `from` into `into`. The two are [`Groups::mergeable`].
    pub(super) fn merge(&mut self, into: usize, from: usize) {
        if let Some(mut order) = self.order.take()
            && order.merge(self, into, from)
        {
            self.order = Some(order);
        }
        self.unite(into, from);
    }

    /// Moves every node of `from` into `into`. There may be cycles until further groups are merged.
    pub(super) fn merge_unordered(&mut self, into: usize, from: usize) {
        self.order = None;
        self.unite(into, from);
    }

    fn unite(&mut self, into: usize, from: usize) {
        let mut large = std::mem::take(&mut self.groups[into]);
        let mut small = std::mem::take(&mut self.groups[from]);
        let backend = large.backend;
        if large.nodes.len() < small.nodes.len() {
            std::mem::swap(&mut large, &mut small);
        }
        let made_in = |value: ValueId, set: usize| self.producers[value.0].is_some_and(|node| self.set_of[node] == set);
        for value in small.nodes.iter().flat_map(|&node| self.graph.nodes[node].outputs.iter().flatten()) {
            large.reads.remove(value);
        }
        large.reads.extend(small.reads.into_iter().filter(|&value| !made_in(value, large.set)));
        small.nodes.iter().for_each(|&node| self.set_of[node] = large.set);
        large.nodes.extend(small.nodes);
        self.group_at[large.set] = into;
        self.groups[into] = Group { backend, alone: large.alone || small.alone, ..large };
    }

    /// Groups that `group` reads from, some of them more than once.
    fn sources(&self, group: usize) -> impl Iterator<Item = usize> {
        self.groups[group].reads.iter().filter_map(|&value| self.maker(value))
    }

    /// The group that makes the value.
    fn maker(&self, value: ValueId) -> Option<usize> {
        self.producers[value.0].map(|node| self.of_node(node))
    }

    /// Groups that read what `group` makes, itself left out, some of them more than once.
    fn readers(&self, group: usize) -> impl Iterator<Item = usize> {
        let nodes = self.groups[group].nodes.iter();
        let made = nodes.flat_map(|&node| self.graph.nodes[node].outputs.iter().flatten());
        let readers = made.flat_map(|value| self.reading(*value));
        readers.filter(move |&other| other != group)
    }

    /// Groups of which a node reads the value, some of them more than once.
    pub(super) fn reading(&self, value: ValueId) -> impl Iterator<Item = usize> {
        self.consumers[value.0].iter().map(|&node| self.of_node(node))
    }

    /// The nodes that read the value, where nothing else sees it.
    pub(super) fn only_read_by(&self, value: ValueId) -> &[usize] {
        if self.graph.outputs.contains(&value) { &[] } else { &self.consumers[value.0] }
    }

    /// Groups that make an input of `group`, itself left out.
    pub(super) fn predecessors(&self, group: usize) -> BTreeSet<usize> {
        self.sources(group).collect()
    }

    /// Groups that make an input of a node, its own left out.
    pub(super) fn before(&self, node: usize) -> BTreeSet<usize> {
        let makers = self.graph.nodes[node].inputs.iter().flatten().filter_map(|&value| self.maker(value));
        makers.filter(|&group| group != self.of_node(node)).collect()
    }

    /// Groups that `group` reads from or that read from it.
    pub(super) fn neighbours(&self, group: usize) -> BTreeSet<usize> {
        self.sources(group).chain(self.readers(group)).collect()
    }

    /// Whether merging the two groups closes no cycle: no path leads from one to the other through a third group.
    pub(super) fn mergeable(&mut self, a: usize, b: usize) -> bool {
        let order = self.order.take().unwrap_or_else(|| Order::of(self));
        let mergeable = order.between(self, a, b).is_some();
        self.order = Some(order);
        mergeable
    }

    /// For each group whether a path through a third group leads from it to `group` or from `group` to it: all those
    /// with which it is not [`Groups::mergeable`], in one search.
    pub(super) fn kept_apart(&self, group: usize) -> Vec<bool> {
        let mut apart = vec![false; self.groups.len()];
        beyond(self.sources(group).collect(), &mut apart, |group| self.sources(group));
        beyond(self.readers(group).collect(), &mut apart, |group| self.readers(group));
        apart
    }

    /// The groups of a backend that have nodes.
    pub(super) fn of(&self, backend: usize) -> Vec<usize> {
        let own = |&group: &usize| self.groups[group].backend == Some(backend) && !self.groups[group].nodes.is_empty();
        (0..self.groups.len()).filter(own).collect()
    }

    /// For each group the most groups of a backend that a path to it goes through, itself included.
    pub(super) fn levels(&self, backend: usize) -> Vec<usize> {
        let mut levels = vec![0; self.groups.len()];
        for group in self.order() {
            let before = self.sources(group).map(|source| levels[source]).max().unwrap_or(0);
            levels[group] = before + usize::from(self.groups[group].backend == Some(backend));
        }
        levels
    }

    /// The inputs of the two groups together, without constants; the two may be the same.
    pub(super) fn reads(&self, a: usize, b: usize) -> impl Iterator<Item = ValueId> {
        let [first, second] = [a, b].map(|group| &self.groups[group].reads);
        let more = second.iter().filter(move |value| a != b && !first.contains(value));
        let outside = move |value: &ValueId| self.maker(*value).is_none_or(|maker| maker != a && maker != b);
        first.iter().chain(more).copied().filter(outside)
    }

    /// How many values of the two groups are read outside of them, or are outputs of the graph; the two may be the same.
    pub(super) fn outputs(&self, a: usize, b: usize) -> usize {
        let nodes = self.groups[a].nodes.union(&self.groups[b].nodes);
        let values = nodes.flat_map(|&node| self.graph.nodes[node].outputs.iter().flatten());
        let leaves = |value: &&ValueId| {
            self.graph.outputs.contains(*value) || self.reading(**value).any(|group| group != a && group != b)
        };
        values.filter(leaves).count()
    }

    /// How many bytes the values take together that the nodes of a group give, where their sizes are known.
    pub(super) fn bytes(&self, group: usize) -> u64 {
        let nodes = self.groups[group].nodes.iter();
        let values = nodes.flat_map(|&node| self.graph.nodes[node].outputs.iter().flatten());
        let bytes = |value: &ValueId| {
            let ty = self.graph.values[value.0].ty.as_ref()?;
            Some(ty.dtype.bytes_of(&ty.fixed_shape()?)? as u64)
        };
        values.filter_map(bytes).fold(0, u64::saturating_add)
    }

    /// A node of the graph.
    pub(super) fn node(&self, node: usize) -> &'g Node {
        &self.graph.nodes[node]
    }

    /// Every group that has nodes, such that each is after the groups it reads from.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut done = vec![false; self.groups.len()];
        // Depth first along predecessors; the explicit stack keeps deep graphs off the call stack.
        let mut stack = Vec::new();
        for start in (0..self.count()).map(|node| self.of_node(node)) {
            stack.push((start, false));
            while let Some((group, expanded)) = stack.pop() {
                if done[group] {
                    continue;
                }
                if expanded {
                    done[group] = true;
                    order.push(group);
                    continue;
                }
                stack.push((group, true));
                let waiting = self.predecessors(group).into_iter().filter(|&group| !done[group]);
                stack.extend(waiting.map(|group| (group, false)));
            }
        }
        order
    }
}

/// Marks whatever `next` leads to from the groups `near`, these themselves where it leads from one of them to another.
fn beyond<I: Iterator<Item = usize>>(near: BTreeSet<usize>, found: &mut [bool], next: impl Fn(usize) -> I) {
    let mut open: Vec<_> = near.into_iter().collect();
    while let Some(group) = open.pop() {
        for other in next(group) {
            if !std::mem::replace(&mut found[other], true) {
                open.push(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::testing::graph;

    #[test]
    fn a_merge_that_would_close_a_cycle_is_refused() {
        // 0 -> 1 -> 2 and 0 -> 2: merging 0 and 2 would put 1 before and after the group.
        let graph = graph(
            &["x"],
            &[("A", vec!["x"], vec!["a"]), ("B", vec!["a"], vec!["b"]), ("C", vec!["a", "b"], vec!["c"])],
            &["c"],
        );
        let mut groups = Groups::new(&graph);
        assert!(!groups.mergeable(0, 2));
        assert!(groups.mergeable(0, 1));
        assert!(groups.mergeable(1, 2));
        assert_eq!(groups.order(), [0, 1, 2]);
    }

    #[test]
    fn a_group_may_depend_on_another_by_nodes_that_are_not_related() {
        // Group {0, 3} and group {1, 2} would wait for each other: 0 -> 1 and 2 -> 3, though 1 and 2 are unrelated.
        let graph = graph(
            &["x", "y"],
            &[
                ("A", vec!["x"], vec!["a"]),
                ("B", vec!["a"], vec!["b"]),
                ("C", vec!["y"], vec!["c"]),
                ("D", vec!["c"], vec!["d"]),
            ],
            &["b", "d"],
        );
        let mut groups = Groups::new(&graph);
        groups.merge(1, 2);
        assert!(!groups.mergeable(0, 3));
    }

    /// From 2 by way of the group {0, 3} to 1, which is before both, and on to 4.
    #[test]
    fn a_path_may_go_back_in_the_order_of_nodes() {
        let graph = graph(
            &["x", "y"],
            &[
                ("A", vec!["x"], vec!["a"]),
                ("C", vec!["a"], vec!["c"]),
                ("B", vec!["y"], vec!["b"]),
                ("A", vec!["b"], vec!["d"]),
                ("B", vec!["b", "c"], vec!["e"]),
            ],
            &["d", "e"],
        );
        let mut groups = Groups::new(&graph);
        assert!(groups.mergeable(2, 4));
        groups.merge(0, 3);
        assert!(!groups.mergeable(2, 4));
    }
}
