//! Buffer planning for an executable: places in one arena such that tensors alive at the same time do not overlap.

/// A buffer's size and the steps at which it is written first and read last, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Bytes.
    pub size: usize,
    /// First step at which the buffer is in use.
    pub first: usize,
    /// Last step at which the buffer is in use.
    pub last: usize,
}

/// Where each buffer lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArenaPlan {
    /// Byte offset of each buffer, in the order given.
    pub offsets: Vec<usize>,
    /// Bytes of the whole arena.
    pub size: usize,
}

/// Places the largest buffers first, each at the lowest offset where it overlaps no buffer alive at the same time
/// ("greedy by size", Pisarchyk and Lee, 2020, <https://arxiv.org/abs/2001.03288>). `alignment` is a power of two.
pub fn plan_arena(lifetimes: &[Lifetime], alignment: usize) -> ArenaPlan {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lifetimes[i].size), lifetimes[i].first, i));
    let mut offsets = vec![0; lifetimes.len()];
    let mut placed = Placed::new(lifetimes);
    let mut alive = Vec::new();
    let mut size = 0;
    for &i in &order {
        let buffer = lifetimes[i];
        alive.clear();
        placed.alive(buffer, &mut alive);
        // By offset, so that the first gap found is the lowest.
        alive.sort_unstable_by_key(|&j| offsets[j]);
        let mut offset = 0;
        for &j in &alive {
            if offset + buffer.size <= offsets[j] {
                break;
            }
            offset = offset.max((offsets[j] + lifetimes[j].size).next_multiple_of(alignment));
        }
        offsets[i] = offset;
        size = size.max(offset + buffer.size);
        placed.insert(i);
    }
    ArenaPlan { offsets, size }
}

/// The buffers that have a place, as a tree over all of them by the start of their lives, each part of which knows the
/// last end of a life in it: those alive at a time are found without a look at the others.
struct Placed<'a> {
    lifetimes: &'a [Lifetime],
    by_start: Vec<usize>,
    rank: Vec<usize>,
    /// The leaves stand in the second half; 0 where none is placed, or else the last end and one.
    ends: Vec<usize>,
}

impl<'a> Placed<'a> {
    fn new(lifetimes: &'a [Lifetime]) -> Self {
        let mut by_start: Vec<usize> = (0..lifetimes.len()).collect();
        by_start.sort_by_key(|&i| lifetimes[i].first);
        let mut rank = vec![0; lifetimes.len()];
        by_start.iter().enumerate().for_each(|(place, &i)| rank[i] = place);
        let ends = vec![0; 2 * lifetimes.len().next_power_of_two()];
        Placed { lifetimes, by_start, rank, ends }
    }

    fn insert(&mut self, i: usize) {
        let end = self.lifetimes[i].last.saturating_add(1);
        let mut part = self.ends.len() / 2 + self.rank[i];
        while part > 0 {
            self.ends[part] = self.ends[part].max(end);
            part /= 2;
        }
    }

    /// Those that are alive at some time of the life of `buffer`.
    fn alive(&self, buffer: Lifetime, found: &mut Vec<usize>) {
        let leaves = self.ends.len() / 2;
        let before = self.by_start.partition_point(|&i| self.lifetimes[i].first <= buffer.last);
        // A part of the tree with the places that it covers.
        let mut open = vec![(1, 0, leaves)];
        while let Some((part, from, count)) = open.pop() {
            if from >= before || self.ends[part] == 0 || self.ends[part] <= buffer.first {
                continue;
            }
            if part >= leaves {
                found.push(self.by_start[from]);
                continue;
            }
            open.push((2 * part, from, count / 2));
            open.push((2 * part + 1, from + count / 2, count / 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every placed buffer looked at for each one.
    fn plain(lifetimes: &[Lifetime], alignment: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..lifetimes.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(lifetimes[i].size), lifetimes[i].first, i));
        let mut offsets = vec![0; lifetimes.len()];
        for (count, &i) in order.iter().enumerate() {
            let buffer = lifetimes[i];
            let alive = |j: &&usize| lifetimes[**j].last >= buffer.first && buffer.last >= lifetimes[**j].first;
            let mut alive: Vec<usize> = order[..count].iter().filter(alive).copied().collect();
            alive.sort_by_key(|&j| offsets[j]);
            for j in alive {
                if offsets[i] + buffer.size <= offsets[j] {
                    break;
                }
                offsets[i] = offsets[i].max((offsets[j] + lifetimes[j].size).next_multiple_of(alignment));
            }
        }
        offsets
    }

    #[test]
    fn offsets_are_those_of_the_plain_rule() {
        let mut generator = fastrand::Rng::with_seed(1);
        let mut random = |end: usize| generator.usize(..end);
        for round in 0..300 {
            let lifetimes: Vec<_> = (0..random(60))
                .map(|_| {
                    let first = random(40);
                    let last = if random(20) == 0 { usize::MAX } else { first + random(8) };
                    Lifetime { size: [0, 64, 100, 64 + random(999)][random(4)], first, last }
                })
                .collect();
            let plan = plan_arena(&lifetimes, 64);
            assert_eq!(plan.offsets, plain(&lifetimes, 64), "{round}: {lifetimes:?}");
        }
    }

    #[test]
    fn a_chain_needs_two_buffers_and_nothing_alive_overlaps() {
        let chain: Vec<_> = (0..10).map(|step| Lifetime { size: 100, first: step, last: step + 1 }).collect();
        let plan = plan_arena(&chain, 64);
        assert_eq!(plan.size, 228);
        for (i, a) in chain.iter().enumerate() {
            for (j, b) in chain.iter().enumerate().skip(i + 1) {
                let together = a.last >= b.first && b.last >= a.first;
                let apart = plan.offsets[i] + a.size <= plan.offsets[j] || plan.offsets[j] + b.size <= plan.offsets[i];
                assert!(!together || apart, "{i} and {j} overlap");
            }
        }
    }
}
