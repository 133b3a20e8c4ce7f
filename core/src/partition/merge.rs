//! Matches become regions: groups of a backend are merged with each other where it wants that, and those that are no
//! region that it takes are named, to be given back.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{Refusal, RegionPolicy};

use super::groups::Groups;
use crate::diagnostic::Result;

/// Asks the backend about nodes as one region: nothing, or why it does not take them.
pub(super) type Check<'a> = dyn FnMut(&BTreeSet<usize>) -> Result<Option<Refusal>> + 'a;

struct Merging<'a, 'g> {
    groups: &'a mut Groups<'g>,
    backend: usize,
    policy: &'a RegionPolicy,
    check: &'a mut Check<'a>,
    /// Two groups that were not merged, each with its size: groups only grow, so these are the same nodes as then.
    asked: HashSet<[(usize, usize); 2]>,
    /// The last refusal of a merge, by group.
    refusals: HashMap<usize, Refusal>,
}

/// Merges the groups of `backend` with each other as far as its policy says and the graph of groups stays free of
/// cycles. Returns the groups that are no region of that policy, each with the reason for `byoc explain`.
pub(super) fn merge<'a>(
    groups: &'a mut Groups<'_>,
    backend: usize,
    policy: &'a RegionPolicy,
    check: &'a mut Check<'a>,
) -> Result<Vec<(usize, String)>> {
    let (asked, refusals) = (HashSet::new(), HashMap::new());
    let mut merging = Merging { groups, backend, policy, check, asked, refusals };
    if policy.merge {
        merging.all()?;
    }
    Ok(merging.not_allowed())
}

impl Merging<'_, '_> {
    fn all(&mut self) -> Result<()> {
        loop {
            let merged = self.along_edges()? | self.side_by_side()?;
            // Without limits nothing but a path through other backends keeps two groups apart, and that path stays. With
            // them, what was merged just now may be what a group behind it needs to be within them.
            if !merged || !self.is_limited() {
                return Ok(());
            }
        }
    }

    fn is_limited(&self) -> bool {
        let RegionPolicy { max_inputs, starts_with, check_merged, .. } = self.policy;
        max_inputs.is_some() || !starts_with.is_empty() || *check_merged
    }

    /// Merges groups with those that they read from, in topological order. Whether there was anything.
    fn along_edges(&mut self) -> Result<bool> {
        let mut merged = false;
        let limited = self.is_limited();
        let mut sizes = HashMap::new();
        for node in 0..self.groups.group_of.len() {
            let group = self.groups.group_of[node];
            if self.groups.groups[group].backend != Some(self.backend) {
                continue;
            }
            // A group that is as it was at an earlier node waits for the next round: with limits there is one.
            let size = self.groups.groups[group].nodes.len();
            if limited && sizes.insert(group, size) == Some(size) {
                continue;
            }
            for other in self.groups.predecessors(group) {
                if self.groups.groups[other].backend == Some(self.backend) {
                    let group = self.groups.group_of[node];
                    merged |= self.try_merge(other, group)?;
                }
            }
        }
        Ok(merged)
    }

    /// Merges whatever else fits together. Whether there was anything.
    fn side_by_side(&mut self) -> Result<bool> {
        let mut merged = false;
        // A group that cannot start a region gains nothing but by an edge.
        let own: Vec<_> = self.groups.of(self.backend).into_iter().filter(|&group| self.starts(&[group])).collect();
        for (position, &group) in own.iter().enumerate() {
            for &other in &own[..position] {
                let empty = |group: usize| self.groups.groups[group].nodes.is_empty();
                if !empty(group) && !empty(other) {
                    merged |= self.try_merge(other, group)?;
                }
            }
        }
        Ok(merged)
    }

    /// Merges the two if nothing is against it. Whether it did.
    fn try_merge(&mut self, into: usize, from: usize) -> Result<bool> {
        if into == from || !self.starts(&[into, from]) || !self.inputs_fit(&[into, from]) {
            return Ok(false);
        }
        let size = |group: usize| self.groups.groups[group].nodes.len();
        let mut pair = [into, from].map(|group| (group, size(group)));
        pair.sort_unstable();
        if self.asked.contains(&pair) || !self.groups.mergeable(into, from) {
            return Ok(false);
        }
        if let Some(refusal) = self.refusal(into, from)? {
            self.asked.insert(pair);
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

    /// Whether a region of these groups starts as it may.
    fn starts(&self, parts: &[usize]) -> bool {
        self.wrong_start(parts).is_none()
    }

    /// An operator that reads from outside and may not.
    fn wrong_start(&self, parts: &[usize]) -> Option<String> {
        let allowed = &self.policy.starts_with;
        if allowed.is_empty() {
            return None;
        }
        let mut readers = self.groups.reads(parts).map(|(node, _)| self.groups.node(node));
        let wrong = readers.find(|node| !node.domain.is_empty() || !allowed.contains(&node.op))?;
        Some(wrong.qualified_op())
    }

    /// Whether a region of these groups has few enough tensor inputs.
    fn inputs_fit(&self, parts: &[usize]) -> bool {
        self.policy.max_inputs.is_none_or(|most| self.inputs(parts) <= most)
    }

    fn inputs(&self, parts: &[usize]) -> usize {
        self.groups.reads(parts).map(|(_, value)| value).collect::<HashSet<_>>().len()
    }

    /// The groups that are no region of the policy, with the reason.
    fn not_allowed(&self) -> Vec<(usize, String)> {
        let groups = self.groups.of(self.backend).into_iter();
        groups.filter_map(|group| self.reason(group).map(|reason| (group, reason))).collect()
    }

    fn reason(&self, group: usize) -> Option<String> {
        let mut reason = if let Some(op) = self.wrong_start(&[group]) {
            format!("region_start: the region would start with {op}, not with {}", self.policy.starts_with.join(" or "))
        } else {
            let most = self.policy.max_inputs.filter(|_| !self.inputs_fit(&[group]))?;
            format!("region_inputs: the region would have {} tensor inputs, at most {most}", self.inputs(&[group]))
        };
        if let Some(refusal) = self.refusals.get(&group) {
            reason += &format!("; merged with its neighbours: {refusal}");
        }
        Some(reason)
    }
}
