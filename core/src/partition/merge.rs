//! Matches become regions: groups of a backend are merged as its policy allows, and those that are not valid
//! regions are reported, to be released.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{Refusal, RegionPolicy};

use super::groups::Groups;
use super::{Reason, quantized};
use crate::diagnostic::Result;
use crate::ir::ValueId;

/// The backend's `check` of nodes as one region: `None`, or the refusal.
pub(super) type Check<'a> = dyn FnMut(&BTreeSet<usize>) -> Result<Option<Refusal>> + 'a;

struct Merging<'a, 'g> {
    groups: &'a mut Groups<'g>,
    backend: usize,
    policy: &'a RegionPolicy,
    check: &'a mut Check<'a>,
    /// The backend's nodes that read a value and that no region may start with.
    barred: HashMap<ValueId, Vec<usize>>,
    /// Two groups that were not merged, each with its size: groups only grow, so these are the same nodes as then.
    asked: HashSet<[(usize, usize); 2]>,
    /// The last refusal of a merge, by group.
    refusals: HashMap<usize, Refusal>,
}

/// Merges the groups of `backend` with each other as far as its policy says and the graph of groups stays free of
/// cycles. Returns the groups that are not a region of that policy, each with the reason for `byoc explain`.
pub(super) fn merge<'a>(
    groups: &'a mut Groups<'_>,
    backend: usize,
    policy: &'a RegionPolicy,
    check: &'a mut Check<'a>,
) -> Result<Vec<(usize, Reason)>> {
    let barred = barred(groups, backend, &policy.starts_with);
    let (asked, refusals) = (HashSet::new(), HashMap::new());
    let mut merging = Merging { groups, backend, policy, check, barred, asked, refusals };
    if policy.merge {
        merging.all()?;
    }
    Ok(merging.not_allowed())
}

/// The nodes of `backend` that no region may start with, by what they read.
fn barred(groups: &Groups<'_>, backend: usize, allowed: &[String]) -> HashMap<ValueId, Vec<usize>> {
    let mut barred: HashMap<ValueId, Vec<usize>> = HashMap::new();
    if allowed.is_empty() {
        return barred;
    }
    for index in (0..groups.count()).filter(|&node| groups.groups[groups.of_node(node)].backend == Some(backend)) {
        let node = groups.node(index);
        if !node.domain.is_empty() || !allowed.contains(&node.op) {
            node.inputs.iter().flatten().for_each(|&value| barred.entry(value).or_default().push(index));
        }
    }
    barred
}

impl Merging<'_, '_> {
    fn all(&mut self) -> Result<()> {
        if self.is_limited() {
            // What was merged just now may be what a group behind it needs to be within the limits.
            while self.along_edges()? | (self.policy.side_by_side && self.side_by_side()?) {}
        } else {
            // Nothing but a path through other backends keeps two groups apart, and that path stays.
            self.along_first_edges();
            if self.policy.side_by_side {
                self.by_levels();
            }
        }
        Ok(())
    }

    fn is_limited(&self) -> bool {
        let RegionPolicy { max_inputs, starts_with, check_merged, max_nodes, max_outputs, max_bytes, .. } = self.policy;
        let most = [max_inputs.is_some(), max_nodes.is_some(), max_outputs.is_some(), max_bytes.is_some()];
        most.contains(&true) || !starts_with.is_empty() || *check_merged
    }

    /// Whether the group is one that may be merged.
    fn is_own(&self, group: usize) -> bool {
        self.groups.groups[group].backend == Some(self.backend) && !self.groups.groups[group].alone
    }

    /// The groups that may be merged.
    fn own(&self) -> impl Iterator<Item = usize> {
        self.groups.of(self.backend).into_iter().filter(|&group| !self.groups.groups[group].alone)
    }

    /// Merges groups with those that they read from, in topological order, where there are no limits: what keeps two of
    /// them apart does so for good, so each edge is followed once.
    fn along_first_edges(&mut self) {
        let mut matches: Vec<_> = self.own().map(|group| self.groups.groups[group].nodes.clone()).collect();
        matches.sort_unstable();
        for nodes in matches {
            let before: BTreeSet<_> = nodes.iter().flat_map(|&node| self.groups.before(node)).collect();
            for other in before.into_iter().filter(|&other| self.is_own(other)).collect::<Vec<_>>() {
                let group = nodes.first().map_or(other, |&node| self.groups.of_node(node));
                if self.groups.mergeable(other, group) {
                    self.groups.merge(other, group);
                }
            }
        }
    }

    /// Merges groups with those that they read from, in topological order and within the limits. Whether there was
    /// anything.
    fn along_edges(&mut self) -> Result<bool> {
        let mut merged = false;
        let mut sizes = HashMap::new();
        for node in 0..self.groups.count() {
            let group = self.groups.of_node(node);
            // A group that is as it was at an earlier node waits for the next round.
            let size = self.groups.groups[group].nodes.len();
            if !self.is_own(group) || sizes.insert(group, size) == Some(size) {
                continue;
            }
            for other in self.groups.predecessors(group) {
                let group = self.groups.of_node(node);
                if self.is_own(other) && self.allowed(other, group) && self.groups.mergeable(other, group) {
                    merged |= self.try_merge(other, group)?;
                }
            }
        }
        Ok(merged)
    }

    /// Merges groups that no path connects, where there are no limits. A path goes through one group of the backend
    /// after another, so those that as many are before are not connected, and there are never fewer regions than the
    /// longest path needs.
    fn by_levels(&mut self) {
        let levels = self.groups.levels(self.backend);
        let mut first_at = HashMap::new();
        for group in self.own().collect::<Vec<_>>() {
            let first = *first_at.entry(levels[group]).or_insert(group);
            if first != group {
                self.groups.merge_unordered(first, group);
            }
        }
    }

    /// Merges whatever else fits together within the limits. Whether there was anything.
    fn side_by_side(&mut self) -> Result<bool> {
        let mut merged = false;
        // A group that cannot start a region gains nothing but by an edge.
        let own: Vec<_> = self.own().filter(|&group| self.starts(group, group)).collect();
        for (position, &group) in own.iter().enumerate() {
            let mut apart = None;
            for other in self.partners(group, &own[..position]) {
                if self.groups.groups[other].nodes.is_empty() || !self.allowed(other, group) {
                    continue;
                }
                let apart = apart.get_or_insert_with(|| self.groups.kept_apart(group));
                if !apart[other] && self.try_merge(other, group)? {
                    merged = true;
                    break;
                }
            }
        }
        Ok(merged)
    }

    /// The groups of `own` that may stay within the input limit together with `group`.
    fn partners(&self, group: usize, own: &[usize]) -> Vec<usize> {
        let reads = &self.groups.groups[group].reads;
        if self.policy.max_inputs.is_none_or(|most| reads.len() < most) {
            return own.to_vec();
        }
        // It has as many as it may: the other one brings no more, or takes one away.
        let sharing = reads.iter().flat_map(|&value| self.groups.reading(value));
        let near: BTreeSet<usize> = sharing.chain(self.groups.neighbours(group)).collect();
        let fits = |other: &usize| near.contains(other) || self.groups.groups[*other].reads.is_empty();
        own.iter().copied().filter(fits).collect()
    }

    /// Whether the limits allow a region of the two groups that was not refused before.
    fn allowed(&self, a: usize, b: usize) -> bool {
        let fits = || self.starts(a, b) && self.inputs_fit(a, b) && self.outputs_fit(a, b) && self.size_fits(a, b);
        a != b && fits() && !self.asked.contains(&self.pair(a, b))
    }

    fn pair(&self, a: usize, b: usize) -> [(usize, usize); 2] {
        let mut pair = [a, b].map(|group| (group, self.groups.groups[group].nodes.len()));
        pair.sort_unstable();
        pair
    }

    /// Merges the two unless the backend refuses. Whether it did.
    fn try_merge(&mut self, into: usize, from: usize) -> Result<bool> {
        if let Some(refusal) = self.refusal(into, from)? {
            self.asked.insert(self.pair(into, from));
            self.refusals.insert(into, refusal.clone());
            self.refusals.insert(from, refusal);
            return Ok(false);
        }
        self.groups.merge(into, from);
        Ok(true)
    }

    fn refusal(&mut self, into: usize, from: usize) -> Result<Option<Refusal>> {
        if !self.policy.check_merged {
            return Ok(None);
        }
        let groups = &self.groups.groups;
        (self.check)(&groups[into].nodes.union(&groups[from].nodes).copied().collect())
    }

    /// Whether a region of the two groups starts with an allowed node.
    fn starts(&self, a: usize, b: usize) -> bool {
        self.barred.is_empty() || self.wrong_start(a, b).is_none()
    }

    /// The first node of the two groups that reads from outside and may not. What quantises or dequantises an input is passed
    /// over, where nothing but nodes of the groups reads its result: these count.
    fn wrong_start(&self, a: usize, b: usize) -> Option<usize> {
        let inside = |node: &usize| [a, b].contains(&self.groups.of_node(*node));
        let mut wrong = None;
        let mut open: Vec<_> = self.groups.reads(a, b).collect();
        while let Some(value) = open.pop() {
            for &node in self.barred.get(&value).into_iter().flatten().filter(|node| inside(node)) {
                let passed = quantized::converts(self.groups.node(node)).filter(|&result| {
                    let readers = self.groups.only_read_by(result);
                    !readers.is_empty() && readers.iter().all(inside)
                });
                match passed {
                    Some(result) => open.push(result),
                    None => wrong = Some(wrong.map_or(node, |first: usize| first.min(node))),
                }
            }
        }
        wrong
    }

    /// Whether a region of the two groups has few enough tensor inputs.
    fn inputs_fit(&self, a: usize, b: usize) -> bool {
        self.policy.max_inputs.is_none_or(|most| self.groups.reads(a, b).count() <= most)
    }

    /// Whether a region of the two groups has few enough outputs.
    fn outputs_fit(&self, a: usize, b: usize) -> bool {
        self.policy.max_outputs.is_none_or(|most| self.groups.outputs(a, b) <= most)
    }

    /// Whether a region of the two groups has few enough nodes, and values that are small enough.
    fn size_fits(&self, a: usize, b: usize) -> bool {
        let nodes = |group: usize| self.groups.groups[group].nodes.len();
        self.policy.max_nodes.is_none_or(|most| nodes(a) + nodes(b) <= most)
            && self
                .policy
                .max_bytes
                .is_none_or(|most| self.groups.bytes(a).saturating_add(self.groups.bytes(b)) <= most)
    }

    /// The groups that are not a region of the policy, with the reason.
    fn not_allowed(&self) -> Vec<(usize, Reason)> {
        let groups = self.groups.of(self.backend).into_iter();
        groups.filter_map(|group| self.reason(group).map(|reason| (group, reason))).collect()
    }

    fn reason(&self, group: usize) -> Option<Reason> {
        let merged = self.refusals.get(&group).cloned();
        if self.wrong_start(group, group).is_some() {
            return Some(Reason::Start { allowed: self.policy.starts_with.clone(), merged });
        }
        if let Some(most) = self.policy.max_inputs.filter(|_| !self.inputs_fit(group, group)) {
            return Some(Reason::Inputs { count: self.groups.groups[group].reads.len(), most, merged });
        }
        let most = self.policy.max_outputs.filter(|_| !self.outputs_fit(group, group))?;
        Some(Reason::Outputs { count: self.groups.outputs(group, group), most, merged })
    }
}
