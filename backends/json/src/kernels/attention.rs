//! Scaled dot-product attention, some query rows at a time, so that the scores never leave the cache.

#[cfg(target_arch = "x86_64")]
mod bf16;

use super::bf16::Unit;
use super::gemm::{
    BlockProduct, FEW_ROWS, GemmParams, PanelProduct, PlainProduct, block_scratch_len, packed_b_len, panels,
};
use super::isa::{Kernel, dispatch};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::precision::Math;
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
    /// How its products are computed, where [`AttentionParams::is_on_units`] says so.
    pub math: Math,
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

    /// Whether its products are computed in bf16.
    pub fn is_on_units(&self, threads: &Threads) -> bool {
        self.unit(threads).is_some()
    }

    /// What computes its products in bf16.
    fn unit(&self, threads: &Threads) -> Option<Unit> {
        #[cfg(target_arch = "x86_64")]
        let unit = bf16::unit(threads, self);
        #[cfg(not(target_arch = "x86_64"))]
        let unit = threads.unit(self.math);
        unit
    }

    /// Query rows computed together: all of them, or whole tiles of the widest instruction set.
    fn rows(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.math != Math::F32 {
            return bf16::rows(self);
        }
        let most = (SCORES / self.kv_len.max(1)).clamp(16, 256);
        if self.q_len <= most { self.q_len } else { most / TILE_ROWS * TILE_ROWS }
    }

    /// f32 values of the keys and of the values of a head as the products take them, where several blocks of rows meet them.
    fn packed_len(&self) -> Option<[usize; 2]> {
        #[cfg(target_arch = "x86_64")]
        if self.math != Math::F32 {
            return bf16::packed_len(self);
        }
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
    let own = product(&[rows, p.kv_len.checked_next_multiple_of(BLOCK)?])?.checked_add(products)?;
    #[cfg(target_arch = "x86_64")]
    let own = if p.math == Math::F32 { own } else { own.max(bf16::scratch_len(p)?) };
    own.checked_add(keys)?.checked_add(values)
}

/// f32 values of scratch that [`attention`] needs on this many threads; `None` if they cannot be counted.
pub fn attention_scratch_len(p: &AttentionParams, threads: usize) -> Option<usize> {
    let p = p.joined(threads);
    // Where there is no unit for it, it is computed as f32.
    let plain = scratch_each(&AttentionParams { math: Math::F32, ..p.clone() })?;
    plain.max(scratch_each(&p)?).checked_mul(threads)
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
    let mut p = p.joined(threads.count());
    let unit = p.unit(threads);
    if unit.is_none() {
        p.math = Math::F32;
    }
    let p = &p;
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
                unsafe { pack(threads, p, keys.as_ptr(), values.as_ptr(), [&mut *packed_keys, &mut *packed_values]) };
                packed_head = Some((batch, kv_head));
            }
            let at = |s: [usize; 3], head: usize, row: usize| batch * s[0] + head * s[1] + row * s[2];
            Rows {
                p,
                threads,
                unit,
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

/// Brings the keys and the values of a head into the form that the products take.
///
/// # Safety
/// They are readable; there is as much room as [`AttentionParams::packed_len`] says.
unsafe fn pack(threads: &Threads, p: &AttentionParams, keys: *const f32, values: *const f32, to: [&mut [f32]; 2]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(unit) = p.unit(threads) {
        // SAFETY: the caller vouches for it.
        return unsafe { super::bf16::run(unit, p.math, bf16::Head { p, keys, values, packed: to }) };
    }
    let [packed_keys, packed_values] = to;
    // SAFETY: the caller vouches for it.
    unsafe {
        panels(threads.isa(), keys, [1, p.k[2]], 0..p.head_dim, 0..p.kv_len, packed_keys);
        panels(threads.isa(), values, [p.v[2], 1], 0..p.kv_len, 0..p.v_dim, packed_values);
    }
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
#[derive(Clone, Copy)]
struct Rows<'a> {
    p: &'a AttentionParams,
    threads: &'a Threads,
    /// What computes the products in bf16.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no other processor is known to have one"))]
    unit: Option<Unit>,
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
        #[cfg(target_arch = "x86_64")]
        if let Some(unit) = self.unit {
            let packed = [self.packed_keys, self.packed_values];
            let attend = bf16::Attend { rows: self, keys, packed, out, scratch: &mut *scratch };
            // SAFETY: `check` made sure of the operands, `pack` of the tiles.
            if !unsafe { super::bf16::run(unit, p.math, attend) } {
                // By multiply-adds, without what is packed for others.
                let plain = Rows { unit: None, packed_keys: &[], packed_values: &[], ..*self };
                plain.run(out, scratch);
            }
            return;
        }
        // Rows of scores have room for whole blocks: products then write no part of one.
        let stride = keys.next_multiple_of(BLOCK);
        let (scores, packing) = scratch.split_at_mut(self.count * stride);
        self.score(keys, scores, packing);
        let product = GemmParams {
            a: [stride, 1],
            b: [p.v[2], 1],
            c_row: p.out[2],
            ..GemmParams::dense(self.count, p.v_dim, keys)
        };
        if self.count <= FEW_ROWS {
            for (i, row) in scores.chunks_exact_mut(stride.max(1)).enumerate() {
                let row = &mut row[..keys];
                row[self.visible(i).min(keys)..].fill(0.0);
                match dispatch(isa, Masked { rows: self, index: i, row }) {
                    Some(row) => dispatch(isa, Softmax { row, log: false }),
                    None => row.fill(0.0),
                }
            }
            let product = PlainProduct { isa, p: &product, a: scores, b: self.v, padded: false };
            // SAFETY: `check` made sure that the output holds these rows and that no two overlap.
            return unsafe { product.run(out, packing) };
        }
        let (weights, packing) = packing.split_at_mut(PanelProduct::len(self.count, keys));
        dispatch(isa, Weigh { rows: self, keys, scores, weights });
        let scores = &*scores;
        let values = if self.packed_values.is_empty() { self.v } else { self.packed_values };
        let packed_rows = (!self.packed_values.is_empty()).then_some(p.kv_len);
        // SAFETY: as above.
        unsafe { PanelProduct { isa, p: &product, a: weights, b: values, packed_rows }.run(out, packing) };
        for (i, row) in scores.chunks_exact(stride.max(1)).enumerate() {
            // SAFETY: as above: the output holds `v_dim` values in each of these rows.
            let values = unsafe { std::slice::from_raw_parts_mut(out.wrapping_add(i * p.out[2]), p.v_dim) };
            values.iter_mut().for_each(|value| *value *= row[0]);
        }
    }

    /// The scores of these rows with the first `keys` keys, in rows of whole blocks.
    fn score(&self, keys: usize, scores: &mut [f32], packing: &mut [f32]) {
        let (p, isa) = (self.p, self.threads.isa());
        let product = GemmParams {
            a: [p.q[2], 1],
            b: [1, p.k[2]],
            c_row: keys.next_multiple_of(BLOCK),
            alpha: p.scale,
            ..GemmParams::dense(self.count, keys, p.head_dim)
        };
        let packed = packed_b_len(p.head_dim, keys).and_then(|len| self.packed_keys.get(..len));
        let (a, to) = (self.q, scores.as_mut_ptr());
        // SAFETY: `scores` was split off to hold these rows.
        unsafe {
            match packed.filter(|packed| !packed.is_empty()) {
                Some(packed) => BlockProduct { isa, p: &product, a, packed, padded: true }.run(to, packing),
                None => PlainProduct { isa, p: &product, a, b: self.k, padded: true }.run(to, packing),
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
        let stride = keys.next_multiple_of(BLOCK).max(1);
        let rows = self.scores.chunks_exact_mut(stride).zip(PanelProduct::rows(isa, count, keys));
        for (index, (row, (start, step))) in rows.enumerate() {
            assert!(start + (places - 1) * step + BLOCK <= self.weights.len());
            // SAFETY: `dispatch` checked the features; the assertion covers the places.
            unsafe {
                let seen = Masked { rows: self.rows, index, row: &mut row[..keys] }.run::<V>().unwrap_or_default();
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
mod tests;
