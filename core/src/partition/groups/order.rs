//! A topological order of groups that is kept while they merge, so that a search for a path between two of them looks
//! at those that are between them and at no other (after Pearce and Kelly, "A dynamic topological sort algorithm for
//! directed acyclic graphs", 2006; numbers with gaps in place of theirs without, so that only one side has to move).

use std::collections::{HashSet, VecDeque};

use super::Groups;

/// The gap between two neighbours of a new order. Groups that move take numbers in a gap.
const GAP: u64 = 1 << 32;

/// The gap between groups that moved, if there is enough room: more may have to follow them.
const STEP: u64 = 1 << 12;

/// The place of each group: beyond those of all groups that it reads from. Unrelated groups may have the same.
pub(super) struct Order {
    places: Vec<u64>,
}

impl Order {
    /// An order of groups without cycles.
    pub(super) fn of(groups: &Groups<'_>) -> Order {
        let mut places = vec![0; groups.groups.len()];
        for (place, group) in (1..).zip(groups.order()) {
            places[group] = place * GAP;
        }
        Order { places }
    }

    /// The groups that are behind the first of the two and that the other one needs; nothing where a path leads from
    /// one of the two to the other through one of them.
    pub(super) fn between(&self, groups: &Groups<'_>, a: usize, b: usize) -> Option<HashSet<usize>> {
        let [first, last] = self.sorted(a, b);
        let mut found = HashSet::new();
        // Breadth first: where a group keeps the two apart, it is mostly close to the last.
        let mut open = VecDeque::from([last]);
        while let Some(group) = open.pop_front() {
            for source in groups.sources(group) {
                if source == first {
                    if group != last {
                        return None;
                    }
                } else if self.places[source] >= self.places[first] && found.insert(source) {
                    open.push_back(source);
                }
            }
        }
        Some(found)
    }

    /// Gives `into` a place for itself and `from` together. False where there is no room left: a new order is due.
    pub(super) fn merge(&mut self, groups: &Groups<'_>, into: usize, from: usize) -> bool {
        let Some(between) = self.between(groups, into, from) else { return false };
        let [first, last] = self.sorted(into, from);
        let end = self.places[first];
        self.places[into] = end;
        if between.is_empty() {
            return true;
        }
        // What the last one needs moves before the first, whose place is theirs from now on.
        let needed = between.iter().chain([&last]).flat_map(|&group| groups.sources(group));
        let before = needed.filter(|source| *source != first && !between.contains(source));
        let start = before.map(|source| self.places[source]).max().unwrap_or(0);
        let step = STEP.min((end - start) / (between.len() as u64 + 1));
        let mut moving: Vec<_> = between.into_iter().collect();
        moving.sort_unstable_by_key(|&group| (self.places[group], group));
        for (place, group) in (1..).zip(moving) {
            self.places[group] = start + place * step;
        }
        step > 0
    }

    fn sorted(&self, a: usize, b: usize) -> [usize; 2] {
        if self.places[b] < self.places[a] { [b, a] } else { [a, b] }
    }
}
