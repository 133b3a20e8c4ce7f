//! Scaled dot-product attention, some query rows at a time, so that the scores never leave the cache.

use super::gemm::{
    BlockProduct, FEW_ROWS, GemmParams, PanelProduct, block_scratch_len, gemm_on_this_thread, packed_b_len, panels,
};
use super::isa::{Kernel, dispatch};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::{product, reach};
use super::softmax::{ExpInto, Softmax};

/// The shape of an attention. Strides count f32 values; the last dimension of every operand is contiguous.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionParams {
    /// Batch size.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Queries.
    pub q_len: usize,
    /// Keys and values.
    pub kv_len: usize,
    /// Size of a query and of a key.
    pub head_dim: usize,
    /// Size of a value.
    pub v_dim: usize,
    /// Factor of the scores, usually 1 / sqrt(head_dim).
    pub scale: f32,
    /// Query i sees the keys up to i + kv_len - q_len.
    pub causal: bool,
    /// Whether a query whose keys are all masked by -inf gives zeros and not NaN.
    pub hidden_gives_zeros: bool,
    /// Strides of the queries: batch, head, row.
    pub q: [usize; 3],
    /// Strides of the keys: batch, head, row.
    pub k: [usize; 3],
    /// Strides of the values: batch, head, row.
    pub v: [usize; 3],
    /// Strides of the output: batch, head, row.
    pub out: [usize; 3],
    /// Strides of the mask: batch, head, query, key; 0 broadcasts.
    pub mask: [usize; 4],
}

/// Scores held at a time: 256 KiB.
const SCORES: usize = 64 * 1024;

/// Rows of the tiles of AVX-512.
const TILE_ROWS: usize = 14;

impl AttentionParams {
    /// The same attention where heads of one query that share their keys are rows of one head, so that keys and values are read
    /// once for all of them: as many as the product of few rows takes, and as leave something to do for each thread.
    fn joined(&self, threads: usize) -> AttentionParams {
        let shared = self.heads.checked_div(self.kv_heads).unwrap_or(1);
        let (batch, heads) = (self.batch.max(1), self.heads);
        let fits = |rows: &usize| shared.is_multiple_of(*rows) && batch.saturating_mul(heads / *rows) >= threads;
        let rows = (2..=FEW_ROWS).rev().find(fits);
        let Some(rows) = rows.filter(|_| self.q_len == 1 && heads.is_multiple_of(self.kv_heads)) else {
            return self.clone();
        };
        let join = |s: [usize; 3]| [s[0], s[1].saturating_mul(rows), s[1]];
        let [of_batch, of_head, _, of_key] = self.mask;
        AttentionParams {
            heads: heads / rows,
            q_len: rows,
            // The only query sees all keys.
            causal: false,
            q: join(self.q),
            out: join(self.out),
            mask: [of_batch, of_head.saturating_mul(rows), of_head, of_key],
            ..self.clone()
        }
    }

    /// Query rows computed together: all of them, or whole tiles of the widest instruction set.
    fn rows(&self) -> usize {
        let most = (SCORES / self.kv_len.max(1)).clamp(16, 256);
        if self.q_len <= most { self.q_len } else { most / TILE_ROWS * TILE_ROWS }
    }

    /// f32 values of the keys and of the values of a head as the products take them, where several blocks of rows meet them.
    fn packed_len(&self) -> Option<[usize; 2]> {
        if self.q_len <= self.rows() {
            return Some([0, 0]);
        }
        Some([packed_b_len(self.head_dim, self.kv_len)?, packed_b_len(self.kv_len, self.v_dim)?])
    }
}

/// Whether `len` values hold rows of `last` values with these strides by batch, head and row.
fn fits(len: usize, sizes: [usize; 3], strides: [usize; 3], last: usize) -> bool {
    let [batch, heads, rows] = sizes;
    let reach = reach(&[batch, heads, rows, last], &[strides[0], strides[1], strides[2], 1]);
    reach.is_some_and(|reach| reach <= len)
}

fn scratch_each(p: &AttentionParams) -> Option<usize> {
    let rows = p.rows();
    let products = block_scratch_len(rows, p.kv_len, p.head_dim)?.max(block_scratch_len(rows, p.v_dim, p.kv_len)?);
    let [keys, values] = p.packed_len()?;
    product(&[rows, p.kv_len])?.checked_add(products)?.checked_add(keys)?.checked_add(values)
}

/// f32 values of scratch that [`attention`] needs on this many threads; `None` if they cannot be counted.
pub fn attention_scratch_len(p: &AttentionParams, threads: usize) -> Option<usize> {
    scratch_each(&p.joined(threads))?.checked_mul(threads)
}

/// out = softmax(scale * Q K^T + mask) V for every batch and head, as the functions one after another: a query whose
/// keys are all masked by -inf gives NaN unless it is to give zeros, one that has no key at all gives zeros. Values are summed before
/// they are divided by the sum of the weights: `kv_len` times the largest must be finite.
///
/// # Panics
/// If a slice is shorter than the strides reach, or rows of the output overlap.
#[expect(clippy::too_many_arguments, reason = "the operands of an attention")]
pub fn attention(
    threads: &Threads,
    p: &AttentionParams,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    mask: Option<&[f32]>,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    check(p, q, k, v, mask, out);
    let len = attention_scratch_len(p, threads.count());
    let p = &p.joined(threads.count());
    let (Some(each), true) = (scratch_each(p), len.is_some_and(|len| scratch.len() >= len)) else {
        panic!("the scratch is too short");
    };
    if out.is_empty() || p.q_len == 0 {
        return;
    }
    let rows = p.rows();
    let blocks = p.q_len.div_ceil(rows);
    let total = p.batch * p.heads * blocks;
    let tasks = threads.count().min(total);
    let (out, scratch) = (SharedMut::new(out), SharedMut::new(scratch));
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * each, each) };
        let [keys_len, values_len] = p.packed_len().unwrap_or_default();
        let (packed_keys, scratch) = scratch.split_at_mut(keys_len);
        let (packed_values, scratch) = scratch.split_at_mut(values_len);
        let mut packed_head = None;
        // Where they are packed, neighbours share them; with a causal mask later blocks are longer, so that they are interleaved.
        let (own, step) = if p.causal { (task..total, tasks) } else { (part(total, tasks, task), 1) };
        for at in own.step_by(step) {
            let (block, head, batch) = (at % blocks, at / blocks % p.heads, at / blocks / p.heads);
            let first = block * rows;
            let kv_head = head / (p.heads / p.kv_heads);
            if keys_len + values_len > 0 && packed_head != Some((batch, kv_head)) {
                let keys = &k[(batch * p.k[0] + kv_head * p.k[1]).min(k.len())..];
                let values = &v[(batch * p.v[0] + kv_head * p.v[1]).min(v.len())..];
                // SAFETY: `check` made sure that the keys and values of each head are within the slices.
                unsafe {
                    panels(threads.isa(), keys.as_ptr(), [1, p.k[2]], 0..p.head_dim, 0..p.kv_len, packed_keys);
                    panels(threads.isa(), values.as_ptr(), [p.v[2], 1], 0..p.kv_len, 0..p.v_dim, packed_values);
                }
                packed_head = Some((batch, kv_head));
            }
            let at = |s: [usize; 3], head: usize, row: usize| batch * s[0] + head * s[1] + row * s[2];
            Rows {
                p,
                threads,
                first,
                count: rows.min(p.q_len - first),
                q: &q[at(p.q, head, first)..],
                k: &k[at(p.k, kv_head, 0).min(k.len())..],
                packed_keys,
                packed_values,
                v: &v[at(p.v, kv_head, 0).min(v.len())..],
                mask: mask.map(|m| &m[batch * p.mask[0] + head * p.mask[1] + first * p.mask[2]..]),
            }
            .run(out.as_ptr().wrapping_add(at(p.out, head, first)), scratch);
        }
    });
}

fn check(p: &AttentionParams, q: &[f32], k: &[f32], v: &[f32], mask: Option<&[f32]>, out: &[f32]) {
    assert!(p.kv_heads > 0 && p.heads.is_multiple_of(p.kv_heads));
    let (queries, keys) = ([p.batch, p.heads, p.q_len], [p.batch, p.kv_heads, p.kv_len]);
    assert!(fits(q.len(), queries, p.q, p.head_dim));
    assert!(fits(k.len(), keys, p.k, p.head_dim));
    assert!(fits(v.len(), keys, p.v, p.v_dim));
    assert!(fits(out.len(), queries, p.out, p.v_dim));
    let scores = [p.batch, p.heads, p.q_len, p.kv_len];
    assert!(mask.is_none_or(|mask| reach(&scores, &p.mask).is_some_and(|reach| reach <= mask.len())));
    // Blocks of rows are written by different threads: their places must differ.
    let mut places: [(usize, usize); 3] = [(p.out[0], p.batch), (p.out[1], p.heads), (p.out[2], p.q_len)];
    places.sort_unstable();
    let mut taken = p.v_dim;
    for (stride, count) in places {
        if count > 1 {
            assert!(stride >= taken, "rows of the output overlap");
            taken += stride * (count - 1);
        }
    }
}

/// Some query rows of one head. The slices start at the head (and at the first row for queries and mask).
struct Rows<'a> {
    p: &'a AttentionParams,
    threads: &'a Threads,
    first: usize,
    count: usize,
    q: &'a [f32],
    k: &'a [f32],
    /// The keys and the values once more, as the products take them; empty where they are not packed.
    packed_keys: &'a [f32],
    packed_values: &'a [f32],
    v: &'a [f32],
    mask: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// Keys that query row `i` of this block sees.
    fn visible(&self, i: usize) -> usize {
        let p = self.p;
        if p.causal { (self.first + i + 1 + p.kv_len).saturating_sub(p.q_len).min(p.kv_len) } else { p.kv_len }
    }

    /// How many of the first `keys` keys count: without those at the end that the mask hides from every query, and from which
    /// nothing comes but zeros, as all of their numbers are small.
    fn seen(&self, keys: usize) -> usize {
        let (p, isa) = (self.p, self.threads.isa());
        let Some(mask) = self.mask.filter(|_| p.mask[3] == 1) else { return keys };
        let mut last = 0;
        for i in 0..self.count {
            let row = &mask[i * p.mask[2]..][last..keys];
            let hidden = row.iter().rev().take_while(|&&term| term == f32::NEG_INFINITY).count();
            last = keys - hidden;
        }
        // A query that sees nothing has one key all the same: what it gives does not depend on their number.
        let last = last.max(1);
        if last + FEW_HIDDEN > keys {
            return keys;
        }
        let small = |data: &[f32], rows: std::ops::Range<usize>, stride: usize, len: usize| match stride == len {
            true => dispatch(isa, AreSmall(&data[rows.start * len..rows.end * len])),
            false => rows.into_iter().all(|row| dispatch(isa, AreSmall(&data[row * stride..][..len]))),
        };
        let nothing = small(self.q, 0..self.count, p.q[2], p.head_dim)
            && small(self.k, last..keys, p.k[2], p.head_dim)
            && small(self.v, last..keys, p.v[2], p.v_dim);
        if nothing { last } else { keys }
    }

    fn run(&self, out: *mut f32, scratch: &mut [f32]) {
        let (p, isa) = (self.p, self.threads.isa());
        let keys = self.seen(self.visible(self.count - 1));
        let (scores, packing) = scratch.split_at_mut(self.count * keys);
        self.score(keys, scores, packing);
        let product = GemmParams { b: [p.v[2], 1], c_row: p.out[2], ..GemmParams::dense(self.count, p.v_dim, keys) };
        if self.count <= FEW_ROWS {
            for (i, row) in scores.chunks_exact_mut(keys.max(1)).enumerate() {
                row[self.visible(i).min(keys)..].fill(0.0);
                match dispatch(isa, Masked { rows: self, index: i, row }) {
                    Some(row) => dispatch(isa, Softmax { row, log: false }),
                    None => row.fill(0.0),
                }
            }
            // SAFETY: `check` made sure that the output holds these rows and that no two overlap.
            return unsafe { gemm_on_this_thread(isa, &product, scores, self.v, out, packing) };
        }
        let (weights, packing) = packing.split_at_mut(PanelProduct::len(self.count, keys));
        dispatch(isa, Weigh { rows: self, keys, scores, weights });
        let scores = &*scores;
        let values = if self.packed_values.is_empty() { self.v } else { self.packed_values };
        let packed_rows = (!self.packed_values.is_empty()).then_some(p.kv_len);
        // SAFETY: as above.
        unsafe { PanelProduct { isa, p: &product, a: weights, b: values, packed_rows }.run(out, packing) };
        for (i, row) in scores.chunks_exact(keys.max(1)).enumerate() {
            // SAFETY: as above: the output holds `v_dim` values in each of these rows.
            let values = unsafe { std::slice::from_raw_parts_mut(out.wrapping_add(i * p.out[2]), p.v_dim) };
            values.iter_mut().for_each(|value| *value *= row[0]);
        }
    }

    /// The scores of these rows with the first `keys` keys.
    fn score(&self, keys: usize, scores: &mut [f32], packing: &mut [f32]) {
        let (p, isa) = (self.p, self.threads.isa());
        let product = GemmParams {
            a: [p.q[2], 1],
            b: [1, p.k[2]],
            alpha: p.scale,
            ..GemmParams::dense(self.count, keys, p.head_dim)
        };
        let packed = packed_b_len(p.head_dim, keys).and_then(|len| self.packed_keys.get(..len));
        // SAFETY: `scores` was split off to hold count x keys, contiguous.
        unsafe {
            match packed.filter(|packed| !packed.is_empty()) {
                Some(packed) => BlockProduct { isa, p: &product, a: self.q, packed }.run(scores.as_mut_ptr(), packing),
                None => gemm_on_this_thread(isa, &product, self.q, self.k, scores.as_mut_ptr(), packing),
            }
        }
    }
}

/// The scores of a row with the keys that it sees, with the mask; `None` where it is to give zeros.
struct Masked<'a, 'r> {
    rows: &'a Rows<'a>,
    index: usize,
    row: &'r mut [f32],
}

impl<'r> Kernel for Masked<'_, 'r> {
    type Out = Option<&'r mut [f32]>;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> Option<&'r mut [f32]> {
        let p = self.rows.p;
        let len = self.rows.visible(self.index).min(self.row.len());
        let row = &mut self.row[..len];
        if let Some(mask) = self.rows.mask {
            let (mask, step) = (&mask[self.index * p.mask[2]..], p.mask[3]);
            if step == 1 {
                let mask = &mask[..len];
                for at in (0..len).step_by(BLOCK) {
                    // SAFETY: `dispatch` checked the features; both slices have `len` values.
                    unsafe {
                        let sum = V::load_up_to(row.as_ptr().add(at), len - at);
                        let sum = sum.add(V::load_up_to(mask.as_ptr().add(at), len - at));
                        sum.store_up_to(row.as_mut_ptr().add(at), len - at);
                    }
                }
            } else {
                row.iter_mut().enumerate().for_each(|(at, score)| *score += mask[at * step]);
            }
        }
        let hidden = p.hidden_gives_zeros && row.iter().all(|&score| score == f32::NEG_INFINITY);
        if hidden { None } else { Some(row) }
    }
}

/// Makes weights of scores, row by row, as the product with the values takes them. They are from 0 to 1 and not divided by their sum: by
/// what the row of the output is to be multiplied is left where the first score was.
struct Weigh<'a, 'r> {
    rows: &'a Rows<'a>,
    keys: usize,
    scores: &'r mut [f32],
    weights: &'r mut [f32],
}

impl Kernel for Weigh<'_, '_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let (isa, count, keys) = (self.rows.threads.isa(), self.rows.count, self.keys);
        let places = keys.div_ceil(BLOCK);
        let rows = self.scores.chunks_exact_mut(keys.max(1)).zip(PanelProduct::rows(isa, count, keys));
        for (index, (row, (start, step))) in rows.enumerate() {
            assert!(start + (places - 1) * step + BLOCK <= self.weights.len());
            // SAFETY: `dispatch` checked the features; the assertion covers the places.
            unsafe {
                let seen = Masked { rows: self.rows, index, row: &mut *row }.run::<V>().unwrap_or_default();
                let (to, is_empty) = (self.weights.as_mut_ptr().add(start), seen.is_empty());
                let factor = ExpInto { row: seen, to, step, places }.run::<V>();
                // Where nothing is seen the weights are 0 and so is the output.
                row[0] = if is_empty { 0.0 } else { factor };
            }
        }
    }
}

/// Fewer keys than this at the end are not looked for: to leave them out saves nothing.
const FEW_HIDDEN: usize = 32;

/// Products of two numbers below it, and sums of as many of them as a head has, are finite.
const SMALL: f32 = 1e13;

/// Whether no number is NaN or large.
struct AreSmall<'a>(&'a [f32]);

impl Kernel for AreSmall<'_> {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> bool {
        // The sum of magnitudes is NaN or large where one of them is.
        let mut at = 0;
        // SAFETY: `dispatch` checked the features, and every access is within the slice.
        unsafe {
            let mut sums = [V::splat(0.0); 4];
            while at + 64 <= self.0.len() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(V::load(self.0.as_ptr().add(at + 16 * i)).abs());
                }
                at += 64;
            }
            let mut sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
            while at < self.0.len() {
                sum = sum.add(V::load_up_to(self.0.as_ptr().add(at), self.0.len() - at).abs());
                at += 16;
            }
            sum.sum() < SMALL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    fn values(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| (((i + seed) * 7919) % 211) as f32 / 100.0 - 1.0).collect()
    }

    fn reference(p: &AttentionParams, q: &[f32], k: &[f32], v: &[f32], mask: Option<&[f32]>, out: &mut [f64]) {
        for at in 0..p.batch * p.heads * p.q_len {
            let (i, head, batch) = (at % p.q_len, at / p.q_len % p.heads, at / p.q_len / p.heads);
            let kv = head / (p.heads / p.kv_heads);
            let seen = if p.causal { (i + 1 + p.kv_len).saturating_sub(p.q_len) } else { p.kv_len };
            let scores: Vec<f64> = (0..seen)
                .map(|j| {
                    let dot: f64 = (0..p.head_dim)
                        .map(|d| {
                            f64::from(q[batch * p.q[0] + head * p.q[1] + i * p.q[2] + d])
                                * f64::from(k[batch * p.k[0] + kv * p.k[1] + j * p.k[2] + d])
                        })
                        .sum();
                    let m = p.mask;
                    let add = mask.map_or(0.0, |x| f64::from(x[batch * m[0] + head * m[1] + i * m[2] + j * m[3]]));
                    dot * f64::from(p.scale) + add
                })
                .collect();
            let largest = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
            for d in 0..p.v_dim {
                let dot: f64 = (0..seen)
                    .map(|j| {
                        (scores[j] - largest).exp() / sum * f64::from(v[batch * p.v[0] + kv * p.v[1] + j * p.v[2] + d])
                    })
                    .sum();
                out[batch * p.out[0] + head * p.out[1] + i * p.out[2] + d] = dot;
            }
        }
    }

    #[test]
    fn against_f64() {
        for (batch, heads, kv_heads, q_len, kv_len, dim, causal) in [
            (1, 1, 1, 1, 1, 4, false),
            (2, 3, 3, 20, 20, 16, true),
            (1, 4, 2, 7, 33, 24, true),
            (1, 4, 2, 1, 300, 24, false),
            (2, 8, 1, 1, 3000, 24, true),
            (1, 6, 2, 1, 70, 8, false),
            (2, 2, 1, 3, 40, 20, true),
            (1, 2, 1, 130, 150, 64, false),
            (1, 1, 1, 40, 5000, 8, true),
            (2, 4, 2, 130, 150, 24, true),
            (2, 4, 2, 130, 150, 24, false),
            // More queries than are computed together, so that keys and values are packed.
            (1, 2, 1, 270, 150, 64, false),
            (2, 4, 2, 270, 150, 24, true),
            (2, 4, 2, 270, 150, 24, false),
        ] {
            // Heads side by side in a row, as a projection leaves them.
            let side = |len: usize, heads: usize| [len * heads * dim, dim, heads * dim];
            let p = AttentionParams {
                batch,
                heads,
                kv_heads,
                q_len,
                kv_len,
                head_dim: dim,
                v_dim: dim,
                scale: 0.25,
                causal,
                hidden_gives_zeros: false,
                q: side(q_len, heads),
                k: side(kv_len, kv_heads),
                v: side(kv_len, kv_heads),
                out: side(q_len, heads),
                mask: [0, 0, kv_len, 1],
            };
            let q = values(batch * q_len * heads * dim, 1);
            let (k, v) = (values(batch * kv_len * kv_heads * dim, 2), values(batch * kv_len * kv_heads * dim, 3));
            let mut mask = values(q_len * kv_len, 4);
            mask[(q_len - 1) * kv_len..].fill(f32::NEG_INFINITY);
            for with_mask in [false, true] {
                let m = with_mask.then_some(&mask[..]);
                let mut want = vec![0.0; q.len()];
                reference(&p, &q, &k, &v, m, &mut want);
                for &isa in Isa::available() {
                    for count in [1, 2] {
                        let threads = Threads::with_isa(count, isa);
                        let mut out = vec![0.0; q.len()];
                        let mut scratch = vec![f32::NAN; attention_scratch_len(&p, count).expect("countable")];
                        attention(&threads, &p, &q, &k, &v, m, &mut out, &mut scratch);
                        for (got, want) in out.iter().zip(&want) {
                            let close = (f64::from(*got) - want).abs() < 1e-5 || got.is_nan() && want.is_nan();
                            assert!(close, "{isa:?} {p:?} {got} {want}");
                        }
                    }
                }
            }
        }
    }

    /// Keys that the mask hides at the end are left out only where nothing but zeros would come of them.
    #[test]
    fn hidden_keys_at_the_end_change_nothing() {
        for (heads, kv_heads, q_len) in [(4, 2, 1), (2, 2, 3), (8, 1, 1), (1, 1, 20)] {
            let (kv_len, dim) = (150, 8);
            let side = |len: usize, heads: usize| [len * heads * dim, dim, heads * dim];
            let p = AttentionParams {
                batch: 1,
                heads,
                kv_heads,
                q_len,
                kv_len,
                head_dim: dim,
                v_dim: dim,
                scale: 0.5,
                causal: false,
                hidden_gives_zeros: true,
                q: side(q_len, heads),
                k: side(kv_len, kv_heads),
                v: side(kv_len, kv_heads),
                out: side(q_len, heads),
                mask: [0, 0, kv_len, 1],
            };
            let q = values(q_len * heads * dim, 1);
            let (k, mut v) = (values(kv_len * kv_heads * dim, 2), values(kv_len * kv_heads * dim, 3));
            let mut mask = values(q_len * kv_len, 4);
            for (query, row) in mask.chunks_exact_mut(kv_len).enumerate() {
                row[(60 + query).min(kv_len)..].fill(f32::NEG_INFINITY);
            }
            let run = |isa: Isa, v: &[f32], mask: &[f32]| {
                let mut out = vec![9.0; q.len()];
                let mut scratch = vec![f32::NAN; attention_scratch_len(&p, 2).expect("countable")];
                attention(&Threads::with_isa(2, isa), &p, &q, &k, v, Some(mask), &mut out, &mut scratch);
                out
            };
            for &isa in Isa::available() {
                let mut want = vec![0.0; q.len()];
                reference(&p, &q, &k, &v, Some(&mask), &mut want);
                let found = run(isa, &v, &mask);
                assert!(found.iter().zip(&want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-5), "{isa:?}");
                let nothing = vec![f32::NEG_INFINITY; mask.len()];
                assert_eq!(run(isa, &v, &nothing), vec![0.0; q.len()]);
            }
            // Zero times infinity.
            v[140 * kv_heads * dim] = f32::INFINITY;
            for &isa in Isa::available() {
                assert!(run(isa, &v, &mask)[0].is_nan());
            }
        }
    }
}
