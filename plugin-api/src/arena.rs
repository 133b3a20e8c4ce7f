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
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for &i in &order {
        let buffer = lifetimes[i];
        // `placed` is sorted by offset, so the first gap found is the lowest.
        let mut offset = 0;
        for &j in &placed {
            let other = lifetimes[j];
            if other.last < buffer.first || buffer.last < other.first {
                continue;
            }
            if offset + buffer.size <= offsets[j] {
                break;
            }
            offset = offset.max((offsets[j] + other.size).next_multiple_of(alignment));
        }
        offsets[i] = offset;
        size = size.max(offset + buffer.size);
        let at = placed.partition_point(|&j| offsets[j] <= offset);
        placed.insert(at, i);
    }
    ArenaPlan { offsets, size }
}

#[cfg(test)]
mod tests {
    use super::*;

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
