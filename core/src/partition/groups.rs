//! Which nodes run together. Every node belongs to one group; a group is what runs as one call, so the graph of groups
//! must stay free of cycles (regions stay convex).

use std::collections::{BTreeSet, HashMap};

use crate::ir::{Graph, Node, ValueId};

/// A set of nodes that run as one call.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The backend's index in the user's list, or `None` while nobody took the nodes.
    pub(super) backend: Option<usize>,
    /// The nodes, ascending.
    pub(super) nodes: BTreeSet<usize>,
}

/// The groups of one graph. Indices stay valid; merged groups are left empty.
pub(super) struct Groups<'g> {
    graph: &'g Graph,
    producers: HashMap<ValueId, usize>,
    pub(super) groups: Vec<Group>,
    pub(super) group_of: Vec<usize>,
}

impl<'g> Groups<'g> {
    /// Every node alone and untaken.
    pub(super) fn new(graph: &'g Graph) -> Self {
        let count = graph.nodes.len();
        let alone = |node| Group { backend: None, nodes: BTreeSet::from([node]) };
        let producers = graph.producers();
        Groups { graph, producers, groups: (0..count).map(alone).collect(), group_of: (0..count).collect() }
    }

    /// Whether nobody took the node.
    pub(super) fn free(&self, node: usize) -> bool {
        self.groups[self.group_of[node]].backend.is_none()
    }

    /// Takes every node but these away from whoever chooses next.
    pub(super) fn reserve_others(&mut self, nodes: &BTreeSet<usize>) {
        for node in (0..self.group_of.len()).filter(|node| !nodes.contains(node)) {
            self.groups[self.group_of[node]].backend = Some(usize::MAX);
        }
    }

    /// Gives the nodes, all free, to a backend as one group, and returns its index.
    pub(super) fn take(&mut self, nodes: &BTreeSet<usize>, backend: usize) -> usize {
        let mut nodes = nodes.iter();
        let Some(&first) = nodes.next() else { return usize::MAX };
        let group = self.group_of[first];
        self.groups[group].backend = Some(backend);
        for &node in nodes {
            let other = self.group_of[node];
            self.merge(group, other);
        }
        group
    }

    /// Gives a group's nodes back, each alone.
    pub(super) fn release(&mut self, group: usize) {
        let nodes = std::mem::take(&mut self.groups[group].nodes);
        for node in nodes {
            self.group_of[node] = self.groups.len();
            self.groups.push(Group { backend: None, nodes: BTreeSet::from([node]) });
        }
        self.groups[group].backend = None;
    }

    /// Moves every node of `from` into `into`.
    pub(super) fn merge(&mut self, into: usize, from: usize) {
        let nodes = std::mem::take(&mut self.groups[from].nodes);
        self.groups[from].backend = None;
        for &node in &nodes {
            self.group_of[node] = into;
        }
        self.groups[into].nodes.extend(nodes);
    }

    /// Groups that make an input of `group`, itself left out.
    pub(super) fn predecessors(&self, group: usize) -> BTreeSet<usize> {
        let inputs = self.groups[group].nodes.iter().flat_map(|&node| self.graph.nodes[node].inputs.iter().flatten());
        let producers = inputs.filter_map(|value| self.producers.get(value)).map(|&node| self.group_of[node]);
        producers.filter(|&producer| producer != group).collect()
    }

    /// Groups that `group` reads from or that read from it.
    pub(super) fn neighbours(&self, group: usize) -> BTreeSet<usize> {
        let made: BTreeSet<ValueId> = self.groups[group]
            .nodes
            .iter()
            .flat_map(|&node| self.graph.nodes[node].outputs.iter().flatten().copied())
            .collect();
        let reads = |&node: &usize| self.graph.nodes[node].inputs.iter().flatten().any(|value| made.contains(value));
        let readers = (0..self.graph.nodes.len()).filter(reads).map(|node| self.group_of[node]);
        self.predecessors(group).into_iter().chain(readers).filter(|&other| other != group).collect()
    }

    /// Whether merging the two groups closes no cycle: no path leads from one to the other through a third group.
    pub(super) fn mergeable(&self, a: usize, b: usize) -> bool {
        !self.path_through_others(a, b) && !self.path_through_others(b, a)
    }

    /// Whether a path of groups leads from `from` to `to` that is longer than one step.
    fn path_through_others(&self, from: usize, to: usize) -> bool {
        // Nodes stand in topological order, so no path leads through a group that ends before `from` begins.
        let floor = self.groups[from].nodes.first().copied().unwrap_or(0);
        let mut seen = BTreeSet::new();
        let mut open: Vec<_> = self.predecessors(to).into_iter().filter(|&group| group != from).collect();
        while let Some(group) = open.pop() {
            if self.groups[group].nodes.last().is_none_or(|&last| last < floor) || !seen.insert(group) {
                continue;
            }
            for predecessor in self.predecessors(group) {
                if predecessor == from {
                    return true;
                }
                open.push(predecessor);
            }
        }
        false
    }

    /// The groups of a backend that have nodes.
    pub(super) fn of(&self, backend: usize) -> Vec<usize> {
        let own = |&group: &usize| self.groups[group].backend == Some(backend) && !self.groups[group].nodes.is_empty();
        (0..self.groups.len()).filter(own).collect()
    }

    /// What `parts` taken together read and do not make, constants left out: each reading node with the value.
    pub(super) fn reads<'a>(&'a self, parts: &'a [usize]) -> impl Iterator<Item = (usize, ValueId)> + 'a {
        let inside =
            |value: ValueId| self.producers.get(&value).is_some_and(|&node| parts.contains(&self.group_of[node]));
        let nodes = parts.iter().flat_map(|&part| &self.groups[part].nodes);
        let reads =
            nodes.flat_map(|&node| self.graph.nodes[node].inputs.iter().flatten().map(move |&value| (node, value)));
        reads.filter(move |&(_, value)| self.graph.value(value).constant.is_none() && !inside(value))
    }

    /// A node of the graph.
    pub(super) fn node(&self, node: usize) -> &'g Node {
        &self.graph.nodes[node]
    }

    /// Every group that has nodes, such that each stands after the groups it reads from.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut done = BTreeSet::new();
        // Depth first along predecessors; the explicit stack keeps deep graphs off the call stack.
        for &start in &self.group_of {
            let mut stack = vec![(start, false)];
            while let Some((group, expanded)) = stack.pop() {
                if done.contains(&group) {
                    continue;
                }
                if expanded {
                    done.insert(group);
                    order.push(group);
                    continue;
                }
                stack.push((group, true));
                let waiting = self.predecessors(group).into_iter().filter(|group| !done.contains(group));
                stack.extend(waiting.map(|group| (group, false)));
            }
        }
        order
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
        let groups = Groups::new(&graph);
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
}
