//! A reference implementation of merging: every pair, in order, with a new search for every path. What
//! merges in one pass over the graph must come to the same.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{Refusal, RefusalCode, RegionPolicy};

use crate::ir::{Graph, Node, TensorType, ValueId};
use crate::partition::groups::Groups;
use crate::partition::merge;

/// The nodes of each region of a backend.
type Regions = BTreeSet<BTreeSet<usize>>;

/// Every node's group and backend.
#[derive(Clone)]
struct Greedy<'g> {
    graph: &'g Graph,
    group: Vec<usize>,
    backend: Vec<Option<usize>>,
}

impl<'g> Greedy<'g> {
    fn new(graph: &'g Graph) -> Self {
        let count = graph.nodes.len();
        Greedy { graph, group: (0..count).collect(), backend: vec![None; count] }
    }

    fn nodes(&self, group: usize) -> BTreeSet<usize> {
        (0..self.group.len()).filter(|&node| self.group[node] == group).collect()
    }

    fn of(&self, backend: usize) -> BTreeSet<usize> {
        let own = (0..self.group.len()).filter(|&node| self.backend[node] == Some(backend));
        own.map(|node| self.group[node]).collect()
    }

    fn merge(&mut self, into: usize, from: usize) {
        self.group.iter_mut().filter(|group| **group == from).for_each(|group| *group = into);
    }

    /// What nodes of these groups read of others: each reading node with the value.
    fn reads(&self, groups: &[usize]) -> Vec<(usize, ValueId)> {
        let nodes = (0..self.group.len()).filter(|&node| groups.contains(&self.group[node]));
        let reads =
            nodes.flat_map(|node| self.graph.nodes[node].inputs.iter().flatten().map(move |&value| (node, value)));
        reads.filter(|(_, value)| self.maker(*value).is_none_or(|maker| !groups.contains(&maker))).collect()
    }

    fn maker(&self, value: ValueId) -> Option<usize> {
        let made = |node: &Node| node.outputs.contains(&Some(value));
        self.graph.nodes.iter().position(made).map(|node| self.group[node])
    }

    fn predecessors(&self, group: usize) -> BTreeSet<usize> {
        self.reads(&[group]).into_iter().filter_map(|(_, value)| self.maker(value)).collect()
    }

    fn path_through_others(&self, from: usize, to: usize) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<_> = self.predecessors(to).into_iter().filter(|&group| group != from).collect();
        while let Some(group) = open.pop() {
            if group == from {
                return true;
            }
            if seen.insert(group) {
                open.extend(self.predecessors(group));
            }
        }
        false
    }

    fn allowed(&self, groups: &[usize], policy: &RegionPolicy) -> bool {
        let reads = self.reads(groups);
        let values: BTreeSet<_> = reads.iter().map(|&(_, value)| value).collect();
        let starts =
            |node: usize| policy.starts_with.is_empty() || policy.starts_with.contains(&self.graph.nodes[node].op);
        reads.iter().all(|&(node, _)| starts(node)) && policy.max_inputs.is_none_or(|most| values.len() <= most)
    }

    fn try_merge(&mut self, into: usize, from: usize, policy: &RegionPolicy) -> bool {
        let fits = into != from
            && self.allowed(&[into, from], policy)
            && !self.path_through_others(into, from)
            && !self.path_through_others(from, into)
            && (!policy.check_merged || takes(self.nodes(into).len() + self.nodes(from).len()));
        if fits {
            self.merge(into, from);
        }
        fits
    }

    /// Whatever reads nothing of the groups that are left, by index, goes first.
    fn topological(&self) -> Vec<usize> {
        let mut left: BTreeSet<usize> = self.group.iter().copied().collect();
        let mut order = Vec::new();
        while let Some(&next) = left.iter().find(|&&group| self.predecessors(group).is_disjoint(&left)) {
            left.remove(&next);
            order.push(next);
        }
        order
    }

    /// Along edges, then side by side: in the order of the groups' indices, or in a topological one.
    fn merge_all(&mut self, backend: usize, policy: &RegionPolicy, topological: bool) {
        loop {
            let mut merged = false;
            let mut sizes = HashMap::new();
            for node in 0..self.group.len() {
                let size = self.nodes(self.group[node]).len();
                let waits = is_limited(policy) && sizes.insert(self.group[node], size) == Some(size);
                if self.backend[node] == Some(backend) && !waits {
                    for other in self.predecessors(self.group[node]) {
                        if self.of(backend).contains(&other) {
                            merged |= self.try_merge(other, self.group[node], policy);
                        }
                    }
                }
            }
            let starts = |&group: &usize| self.allowed(&[group], &RegionPolicy { max_inputs: None, ..policy.clone() });
            let mut own: Vec<_> = self.of(backend).into_iter().filter(starts).collect();
            if topological {
                let order = self.topological();
                own.sort_by_key(|group| order.iter().position(|other| other == group));
            }
            for (position, &group) in own.iter().enumerate() {
                for &other in &own[..position] {
                    if self.group.contains(&group) && self.group.contains(&other) {
                        merged |= self.try_merge(other, group, policy);
                    }
                }
            }
            if !merged {
                return;
            }
        }
    }

    fn regions(&self, backend: usize) -> Regions {
        self.of(backend).into_iter().map(|group| self.nodes(group)).collect()
    }
}

fn is_limited(policy: &RegionPolicy) -> bool {
    *policy != RegionPolicy { merge: true, side_by_side: true, ..RegionPolicy::default() }
}

/// What a backend that is asked about merged regions takes.
fn takes(nodes: usize) -> bool {
    nodes % 5 != 4
}

/// A graph of up to 40 nodes of three operators, mostly of one or two inputs that were made not long before.
fn random_graph(random: &mut fastrand::Rng) -> Graph {
    let mut graph = Graph { name: "main".into(), ..Graph::default() };
    let ty = TensorType { dtype: byoc_plugin_api::DType::F32, shape: Vec::new() };
    let mut values: Vec<_> = (0..random.usize(1..4)).map(|_| graph.add_value("x", Some(ty.clone()))).collect();
    graph.inputs = values.clone();
    let near = random.usize(2..12);
    let operators = [["A", "B", "C"], ["A", "A", "B"], ["A", "B", "B"]][random.usize(..3)];
    for _ in 0..random.usize(2..40) {
        let input = |random: &mut fastrand::Rng| {
            let from = if random.u8(..8) == 0 { 0 } else { values.len().saturating_sub(near) };
            Some(values[random.usize(from..values.len())])
        };
        let inputs = (0..[1, 1, 2, 2, 3][random.usize(..5)]).map(|_| input(random)).collect();
        let op = operators[random.usize(..3)].to_owned();
        let output = graph.add_value("y", Some(ty.clone()));
        values.push(output);
        let (name, domain, outputs) = (String::new(), String::new(), vec![Some(output)]);
        graph.nodes.push(Node { name, op, domain, inputs, outputs, ..Node::default() });
    }
    graph
}

/// Matches of one node or, where the next reads nobody else's result and nobody else reads it, of two.
fn matches(graph: &Graph, op: &str, pairs: bool) -> Vec<BTreeSet<usize>> {
    let consumers = graph.consumers();
    let mut taken = HashSet::new();
    let mut matches = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate().rev().filter(|(_, node)| node.op == op) {
        if !taken.insert(index) {
            continue;
        }
        let mut nodes = BTreeSet::from([index]);
        let producers = graph.producers();
        let before = node.inputs.iter().flatten().filter_map(|value| Some((producers[value.0]?, &consumers[value.0])));
        let alone = |&(before, readers): &(usize, &Vec<usize>)| {
            pairs && graph.nodes[before].op == op && readers.iter().all(|&reader| reader == index)
        };
        if let Some((before, _)) = before.into_iter().find(alone)
            && taken.insert(before)
        {
            nodes.insert(before);
        }
        matches.push(nodes);
    }
    matches
}

fn policy(random: &mut fastrand::Rng, limited: bool) -> RegionPolicy {
    let starts_with = if random.bool() { vec![] } else { vec!["A".into(), "B".into()] };
    let max_inputs = [None, Some(1), Some(2), Some(3)][random.usize(..4)];
    let policy = RegionPolicy { merge: true, side_by_side: true, ..RegionPolicy::default() };
    let check_merged = random.bool() || (max_inputs.is_none() && starts_with.is_empty());
    if limited { RegionPolicy { max_inputs, starts_with, check_merged, ..policy } } else { policy }
}

/// Every group is behind those that it reads from: there is no cycle.
fn assert_ordered(groups: &Groups<'_>) {
    let mut done = HashSet::new();
    for group in groups.order() {
        assert!(groups.predecessors(group).is_subset(&done.iter().copied().collect()), "a cycle");
        done.insert(group);
    }
}

/// How many random graphs are tried: as many as `BYOC_PARTITION_GRAPHS` says.
fn rounds() -> usize {
    std::env::var("BYOC_PARTITION_GRAPHS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(100)
}

/// Takes and merges for each backend in turn by both, and returns both results for the caller to compare.
fn each_merge(seed: u64, limited: bool, compare: &mut dyn FnMut(&Greedy<'_>, usize, &RegionPolicy, Regions)) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds() {
        let graph = random_graph(&mut random);
        let mut groups = Groups::new(&graph);
        for (backend, op) in ["A", "B", "C"].into_iter().enumerate() {
            for nodes in matches(&graph, op, round % 2 == 0) {
                groups.take(&nodes, backend);
            }
            let mut greedy = Greedy::new(&graph);
            for node in 0..graph.nodes.len() {
                greedy.group[node] = groups.of_node(node);
                greedy.backend[node] = groups.groups[groups.of_node(node)].backend;
            }
            let policy = policy(&mut random, limited);
            let mut check = |nodes: &BTreeSet<usize>| {
                Ok((!takes(nodes.len())).then(|| Refusal::new(RefusalCode::Other, "too many")))
            };
            merge::merge(&mut groups, backend, &policy, &mut check).expect("merges");
            assert_ordered(&groups);
            let found = groups.of(backend).into_iter().map(|group| groups.groups[group].nodes.clone()).collect();
            compare(&greedy, backend, &policy, found);
        }
    }
}

#[test]
fn within_limits_regions_are_those_of_the_plain_rule() {
    each_merge(1, true, &mut |before, backend, policy, found| {
        let mut greedy = before.clone();
        greedy.merge_all(backend, policy, false);
        assert_eq!(found, greedy.regions(backend), "{policy:?} {:?}", before.graph);
    });
}

/// Groups that no path connects are met in topological order. To meet them by index, which is not always one, may come
/// to other regions, and never to fewer.
#[test]
fn without_limits_regions_are_those_of_the_plain_rule() {
    let (mut same, mut count) = (0, 0);
    each_merge(2, false, &mut |before, backend, policy, found| {
        let [mut topological, mut by_index] = [before.clone(), before.clone()];
        topological.merge_all(backend, policy, true);
        assert_eq!(found, topological.regions(backend), "{:?}", before.graph);
        by_index.merge_all(backend, policy, false);
        let by_index = by_index.regions(backend);
        assert!(found.len() <= by_index.len(), "{by_index:?} {:?}", before.graph);
        same += usize::from(found == by_index);
        count += 1;
    });
    assert!(same * 20 > count * 19, "{same} of {count}");
}
