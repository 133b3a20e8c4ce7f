//! The largest or the smallest elements of rows, the best first. NaN is larger than all numbers; of equal elements the first comes first.

use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// Rows to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopKParams {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub len: usize,
    /// How many of each row.
    pub k: usize,
    /// The smallest rather than the largest.
    pub smallest: bool,
}

/// Elements that are compared with the worst of the best together.
const BLOCK: usize = 64;

/// Up to as many, the best ones are kept sorted.
const FEW: usize = 16;

/// Elements of a row times the best of them, up to which the best are looked for one after another.
const SHORT: usize = 1024;

/// Elements below which a second thread costs more than it saves.
const MIN_PART: usize = 16 * 1024;

impl TopKParams {
    /// Whether there are enough elements, and the kernel can count them.
    pub fn is_valid(&self) -> bool {
        self.k <= self.len && self.len < u32::MAX as usize && product(&[self.rows, self.len]).is_some()
    }

    /// Whether the best are looked for one after another.
    fn is_short(&self) -> bool {
        self.k.saturating_mul(self.len) <= SHORT
    }

    /// Candidates of a row: all, or twice as many as are wanted, before they are cut.
    fn candidates(&self) -> usize {
        match self.k {
            _ if self.is_short() => self.len,
            k if k <= FEW => k,
            k => self.len.min(2 * k),
        }
    }

    /// An element that is larger the better it is: its value, and behind it how early it comes.
    #[inline(always)]
    fn rank(&self, value: f32, index: usize) -> u64 {
        // Zeros of both signs are equal.
        let bits = (value + 0.0).to_bits();
        let rising = match value.is_nan() {
            true => u32::MAX,
            false if bits >> 31 == 0 => bits | 1 << 31,
            false => !bits,
        };
        let key = if self.smallest { !rising } else { rising };
        u64::from(key) << 32 | u64::from(!(index as u32))
    }
}

/// Integers of scratch that [`top_k`] needs on this many threads; `None` if they cannot be counted.
pub fn top_k_scratch_len(p: &TopKParams, threads: usize) -> Option<usize> {
    p.candidates().checked_mul(threads)
}

/// The best elements of each row, and where they are.
///
/// # Panics
/// If a length is wrong, or the scratch is too short.
pub fn top_k(
    threads: &Threads,
    p: &TopKParams,
    x: &[f32],
    values: Option<&mut [f32]>,
    indices: Option<&mut [i64]>,
    scratch: &mut [u64],
) {
    let total = p.rows * p.k;
    assert!(p.is_valid() && Some(x.len()) == product(&[p.rows, p.len]));
    assert!(values.as_ref().is_none_or(|values| values.len() == total));
    assert!(indices.as_ref().is_none_or(|indices| indices.len() == total));
    let each = p.candidates();
    assert!(top_k_scratch_len(p, threads.count()).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
    if total == 0 {
        return;
    }
    let parts = threads.count().min(x.len() / MIN_PART).max(1).min(p.rows);
    let (values, indices) = (values.map(SharedMut::new), indices.map(SharedMut::new));
    let scratch = SharedMut::new(scratch);
    threads.parallel_for(parts, |task| {
        // SAFETY: one part of the scratch for each task.
        let candidates = unsafe { scratch.slice(task * each, each) };
        for row in part(p.rows, parts, task) {
            let x = &x[row * p.len..][..p.len];
            let best = dispatch(threads.isa(), Row { p, x, candidates: &mut *candidates });
            // SAFETY: the results of rows are disjoint.
            let (values, indices) = unsafe {
                (values.map(|values| values.slice(row * p.k, p.k)), indices.map(|all| all.slice(row * p.k, p.k)))
            };
            let place = |rank: u64| !(rank as u32) as usize;
            if let Some(values) = values {
                values.iter_mut().zip(best.iter()).for_each(|(value, &rank)| *value = x[place(rank)]);
            }
            if let Some(indices) = indices {
                indices.iter_mut().zip(best.iter()).for_each(|(index, &rank)| *index = place(rank) as i64);
            }
        }
    });
}

/// One row; gives its best, in order.
struct Row<'a, 'c> {
    p: &'a TopKParams,
    x: &'a [f32],
    candidates: &'c mut [u64],
}

impl<'c> Kernel for Row<'_, 'c> {
    type Out = &'c [u64];

    /// Written without vectors of our own: comparisons of a block are.
    #[inline(always)]
    unsafe fn run<V: V16>(self) -> &'c [u64] {
        let Row { p, x, candidates } = self;
        if p.is_short() {
            return short(p, x, candidates);
        }
        let (mut count, mut bound, mut full) = (0, 0.0, false);
        let mut start = 0;
        while start < x.len() {
            let end = (start + BLOCK).min(x.len());
            let block = &x[start..end];
            if !full || may_be_better(block, bound, p.smallest) {
                for (at, &value) in block.iter().enumerate() {
                    // What is equal to the worst of the best comes too late.
                    if full && if p.smallest { value >= bound } else { value <= bound } {
                        continue;
                    }
                    let rank = p.rank(value, start + at);
                    if p.k <= FEW {
                        full = insert(candidates, &mut count, rank);
                    } else {
                        candidates[count] = rank;
                        count += 1;
                        if count < candidates.len() {
                            continue;
                        }
                        full = cut(p.k, candidates, &mut count);
                    }
                    if full {
                        bound = x[!(candidates[p.k - 1] as u32) as usize];
                    }
                }
            }
            start = end;
        }
        let best = &mut candidates[..count];
        if p.k > FEW {
            best.sort_unstable_by(|a, b| b.cmp(a));
        }
        &best[..p.k]
    }
}

/// The best of a short row.
#[inline(always)]
fn short<'c>(p: &TopKParams, x: &[f32], candidates: &'c mut [u64]) -> &'c [u64] {
    for (index, (rank, &value)) in candidates.iter_mut().zip(x).enumerate() {
        *rank = p.rank(value, index);
    }
    let mut best = [0; SHORT];
    for best in &mut best[..p.k] {
        for &rank in &*candidates {
            *best = rank.max(*best);
        }
        // No rank of an element is 0.
        candidates[!(*best as u32) as usize] = 0;
    }
    candidates[..p.k].copy_from_slice(&best[..p.k]);
    &candidates[..p.k]
}

/// Whether an element is better than the bound, or one of the two is NaN.
#[inline(always)]
#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "NaN may be better, and one comparison tells")]
fn may_be_better(block: &[f32], bound: f32, smallest: bool) -> bool {
    let mut any = false;
    if smallest {
        for &value in block {
            any |= !(value >= bound);
        }
    } else {
        for &value in block {
            any |= !(value <= bound);
        }
    }
    any
}

/// Puts a rank among sorted ones, the worst of which falls out where there are enough. Gives whether there are.
#[inline(always)]
fn insert(candidates: &mut [u64], count: &mut usize, rank: u64) -> bool {
    let mut at = *count;
    if at == candidates.len() {
        at -= 1;
        if candidates[at] > rank {
            return true;
        }
    } else {
        *count += 1;
    }
    while at > 0 && candidates[at - 1] < rank {
        candidates[at] = candidates[at - 1];
        at -= 1;
    }
    candidates[at] = rank;
    *count == candidates.len()
}

/// Leaves the best `k` of the candidates, the worst of them last.
fn cut(k: usize, candidates: &mut [u64], count: &mut usize) -> bool {
    if candidates.len() > k {
        candidates.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
    }
    *count = k;
    candidates.len() > k
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::tests::harness::noise;

    /// All elements in order; NaN is the largest.
    fn sorted(p: &TopKParams, x: &[f32]) -> Vec<i64> {
        let mut places: Vec<usize> = (0..x.len()).collect();
        places.sort_by(|&a, &b| {
            let order = x[a].partial_cmp(&x[b]).unwrap_or_else(|| x[a].is_nan().cmp(&x[b].is_nan()));
            if p.smallest { order } else { order.reverse() }
        });
        places[..p.k].iter().map(|&place| place as i64).collect()
    }

    #[test]
    fn the_best_are_those_that_come_first_when_all_are_sorted() {
        for (rows, len, k) in [
            (1, 1, 1),
            (3, 80, 5),
            (500, 80, 5),
            (2, 300, 0),
            (0, 5, 2),
            (2, 200, 200),
            (2, 1000, 7),
            (2, 1000, 16),
            (1, 3000, 17),
            (3, 700, 500),
            (2, 5000, 100),
            (1, 64, 64),
        ] {
            let mut x = noise(rows * len, 1);
            // Many are equal; zeros of both signs; NaN and infinities.
            for (at, x) in x.iter_mut().enumerate() {
                *x = match at % 97 {
                    3 => f32::NAN,
                    9 => f32::INFINITY,
                    11 => f32::NEG_INFINITY,
                    _ if at % 3 == 0 => (*x * 8.0).round() / 8.0,
                    _ => *x,
                };
            }
            for smallest in [false, true] {
                let p = TopKParams { rows, len, k, smallest };
                assert!(p.is_valid());
                let want: Vec<i64> = x.chunks_exact(len).flat_map(|row| sorted(&p, row)).collect();
                for &isa in Isa::available() {
                    for count in [1, 2] {
                        let (mut values, mut indices) = (vec![7.0; rows * k], vec![-1; rows * k]);
                        let mut scratch = vec![9; top_k_scratch_len(&p, count).expect("countable")];
                        let threads = Threads::with_isa(count, isa);
                        top_k(&threads, &p, &x, Some(&mut values), Some(&mut indices), &mut scratch);
                        assert_eq!(indices, want, "{isa:?} {p:?}");
                        for (at, (value, &index)) in values.iter().zip(&indices).enumerate() {
                            assert_eq!(value.to_bits(), x[at / k * len + index as usize].to_bits());
                        }
                        top_k(&threads, &p, &x, None, Some(&mut indices), &mut scratch);
                        assert_eq!(indices, want);
                    }
                }
            }
        }
        assert!(!TopKParams { rows: 1, len: 3, k: 4, smallest: false }.is_valid());
    }

    /// Rows of nothing but NaN, and of NaN and a few numbers.
    #[test]
    fn nan_fills_what_numbers_leave() {
        let mut x = vec![f32::NAN; 4000];
        (x[1500], x[3000]) = (2.0, -1.0);
        for (k, smallest, want) in [
            (3, true, vec![3000, 1500, 0]),
            (3, false, vec![0, 1, 2]),
            (100, false, (0..100).collect::<Vec<_>>()),
            (100, true, [3000, 1500].into_iter().chain(0..98).collect()),
        ] {
            let p = TopKParams { rows: 1, len: x.len(), k, smallest };
            let (mut indices, mut scratch) = (vec![0; k], vec![0; top_k_scratch_len(&p, 1).expect("countable")]);
            top_k(&Threads::new(1), &p, &x, None, Some(&mut indices), &mut scratch);
            assert_eq!(indices, want, "{k} {smallest}");
        }
    }
}
