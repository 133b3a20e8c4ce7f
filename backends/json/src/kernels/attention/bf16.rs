//! Attention by products of bf16. The keys and the values of a head are put into tiles once for all of its queries.

use std::arch::x86_64::*;

use super::{AttentionParams, Masked, Rows};
use crate::kernels::bf16::terms::{
    self, Multiplier, Operand, SIDE, STEP, SUMS, Step, Terms, elements, from_line, sum_of, to_line,
};
use crate::kernels::bf16::{self, TILE, TILE_BYTES, Unit};
use crate::kernels::isa::Kernel;
use crate::kernels::parallel::Threads;
use crate::kernels::precision::Math;
use crate::kernels::simd::{Avx512x16, V16};
use crate::kernels::sizes::product;
use crate::kernels::softmax::ExpInto;

/// Bytes from the tiles of a piece to those of the next.
const PIECE: usize = 2 * TILE_BYTES;
/// Fewer queries or keys leave most of a tile empty.
const LEAST: usize = 24;
/// Bytes of scores held at a time.
const SCORES: usize = 384 * 1024;

/// What the attention is computed by here.
pub(super) fn unit(threads: &Threads, p: &AttentionParams) -> Option<Unit> {
    threads.unit(p.math).filter(|_| p.q_len >= LEAST && p.kv_len >= LEAST && p.head_dim > 0 && p.v_dim > 0)
}

/// Query rows computed together.
pub(super) fn rows(p: &AttentionParams) -> usize {
    let most = SCORES / size_of::<f32>() / p.kv_len.max(1);
    p.q_len.min((most / SIDE).clamp(1, 8) * SIDE)
}

/// f32 values of tiles of 32 rows or columns over so many elements of k.
fn tiles_len(side: usize, k: usize, math: Math) -> Option<usize> {
    product(&[side.div_ceil(SIDE), k.div_ceil(STEP), math.pieces(), PIECE / size_of::<f32>()])
}

/// f32 values of the keys and of the values of a head.
pub(super) fn packed_len(p: &AttentionParams) -> Option<[usize; 2]> {
    // They begin at a cache line.
    let keys = tiles_len(p.kv_len, p.head_dim, p.math)?.checked_add(TILE)?;
    Some([keys, tiles_len(p.v_dim, p.kv_len, p.math)?.checked_add(TILE)?])
}

/// f32 values of scratch of some rows.
pub(super) fn scratch_len(p: &AttentionParams) -> Option<usize> {
    let (rows, keys) = (rows(p), p.kv_len.checked_next_multiple_of(STEP)?);
    let queries = tiles_len(rows, p.head_dim, p.math)?;
    let weights = tiles_len(rows, p.kv_len, p.math)?;
    let scores = product(&[rows.checked_add(1)?, keys])?;
    scores.checked_add(queries)?.checked_add(weights)?.checked_add(SUMS + TILE)
}

/// The keys and values of a head.
pub(super) struct Head<'a> {
    pub(super) p: &'a AttentionParams,
    pub(super) keys: *const f32,
    pub(super) values: *const f32,
    /// Where their tiles come, as many as [`packed_len`] says.
    pub(super) packed: [&'a mut [f32]; 2],
}

impl bf16::Job for Head<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<T: Terms, M: Multiplier>(self) {
        const { assert!(T::A == T::B, "rows of keys become columns") };
        let Head { p, keys, values, packed: [packed_keys, packed_values] } = self;
        let steps = p.head_dim.div_ceil(STEP);
        let to = from_line(packed_keys).as_mut_ptr().cast::<u8>();
        for (tile, step) in (0..2 * p.kv_len.div_ceil(SIDE)).flat_map(|tile| (0..steps).map(move |step| (tile, step))) {
            let to = to.wrapping_add(((tile / 2 * steps + step) * T::B) * PIECE + tile % 2 * TILE_BYTES);
            // SAFETY: the maker vouches for the keys and for the room, the caller for the unit.
            unsafe { put_keys::<T, M>(p, keys, tile * TILE, step * STEP, to) };
        }
        let steps = p.kv_len.div_ceil(STEP);
        let to = from_line(packed_values).as_mut_ptr().cast::<u8>();
        for (tile, step) in (0..2 * p.v_dim.div_ceil(SIDE)).flat_map(|tile| (0..steps).map(move |step| (tile, step))) {
            let to = to.wrapping_add(((tile / 2 * steps + step) * T::B) * PIECE + tile % 2 * TILE_BYTES);
            let (key, column) = (step * STEP, tile * TILE);
            let rows = RowsOfValues {
                from: values.wrapping_add(key * p.v[2] + column),
                stride: p.v[2],
                count: p.kv_len - key,
                width: p.v_dim.saturating_sub(column).min(TILE),
            };
            for row in 0..TILE {
                // SAFETY: as above.
                unsafe { M::put_b::<T>(to.wrapping_add(row * 64), PIECE, &rows, row) };
            }
        }
    }
}

/// Puts 16 keys, from `first` on, over 32 elements into tiles as columns; those that are missing are zero.
///
/// # Safety
/// The keys are readable, `to` is writable for the tile of each piece; the processor has the unit.
#[inline(always)]
unsafe fn put_keys<T: Terms, M: Multiplier>(
    p: &AttentionParams,
    keys: *const f32,
    first: usize,
    element: usize,
    to: *mut u8,
) {
    let mut rows = [0.0_f32; terms::MOST * TILE * TILE];
    for row in 0..p.kv_len.saturating_sub(first).min(TILE) {
        let from = keys.wrapping_add((first + row) * p.k[2] + element);
        // SAFETY: the caller vouches for the keys; a row of pairs is 64 bytes, and there is room for those of each piece.
        unsafe {
            let values = elements(from, 1, (p.head_dim - element).min(STEP));
            M::put_a::<T>(rows.as_mut_ptr().add(row * TILE).cast(), TILE_BYTES, values);
        }
    }
    for (piece, rows) in rows.chunks_exact(TILE * TILE).take(T::A).enumerate() {
        // SAFETY: 16 rows of 16 pairs, which are moved as if they were numbers; the caller vouches for `to`.
        unsafe {
            let mut vectors = [Avx512x16::splat(0.0); TILE];
            for (vector, row) in vectors.iter_mut().zip(rows.chunks_exact(TILE)) {
                *vector = Avx512x16::load(row.as_ptr());
            }
            for (row, vector) in Avx512x16::exchange(vectors).into_iter().enumerate() {
                vector.store(to.add(piece * PIECE + row * 64).cast());
            }
        }
    }
}

/// 32 values of which there are `count`, and 16 columns of which there are `width`; the others are zero.
struct RowsOfValues {
    from: *const f32,
    stride: usize,
    count: usize,
    width: usize,
}

impl terms::Rows for RowsOfValues {
    #[inline(always)]
    unsafe fn row(&self, index: usize) -> __m512 {
        let width = if index < self.count { self.width } else { 0 };
        // SAFETY: a masked load touches what there is, for which the maker vouches.
        unsafe {
            if width == 0 {
                // One from where there is no memory takes hundreds of cycles.
                return _mm512_setzero_ps();
            }
            _mm512_maskz_loadu_ps(((1_u32 << width) - 1) as __mmask16, self.from.wrapping_add(index * self.stride))
        }
    }
}

/// Some query rows of a head whose keys and values are in tiles; says whether all sums were finite. Where one is not, the output is of no
/// meaning: what is not finite is no sum of pieces.
pub(super) struct Attend<'a> {
    pub(super) rows: &'a Rows<'a>,
    /// Keys that count.
    pub(super) keys: usize,
    pub(super) packed: [&'a [f32]; 2],
    pub(super) out: *mut f32,
    /// As many values as [`scratch_len`] says.
    pub(super) scratch: &'a mut [f32],
}

impl bf16::Job for Attend<'_> {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<T: Terms, M: Multiplier>(self) -> bool {
        let Attend { rows, keys, packed, out, scratch } = self;
        let (p, count) = (rows.p, rows.count);
        let (queries_len, weights_len) =
            (tiles_len(count, p.head_dim, p.math).unwrap_or(0), tiles_len(count, keys, p.math).unwrap_or(0));
        let Some((sums, rest)) = from_line(scratch).split_first_chunk_mut() else { panic!("the scratch is too short") };
        let (queries, rest) = rest.split_at_mut(queries_len);
        let (weights, rest) = rest.split_at_mut(weights_len);
        let stride = keys.next_multiple_of(STEP);
        let (line, scores) = rest.split_at_mut(stride);
        let scores = &mut scores[..count * stride];
        // SAFETY: the caller vouches for the unit, which nothing else here starts.
        let unit = unsafe { M::start() };
        let products = Products { unit: &unit, count, sums };
        let [packed_keys, packed_values] = packed.map(|packed| packed[to_line(packed)..].as_ptr());
        // SAFETY: the maker vouches for rows, tiles and scratch.
        unsafe {
            put_queries::<T, M>(rows, queries);
            let (steps, to) = (p.head_dim.div_ceil(STEP), Place::Scores(scores.as_mut_ptr(), stride));
            let Some(products) = products.run::<T>(queries, [steps; 2], packed_keys, keys, &to) else { return false };
            put_weights::<T, M>(rows, keys, scores, line, weights);
            let steps = [keys.div_ceil(STEP), p.kv_len.div_ceil(STEP)];
            let to = Place::Out { to: out, stride: p.out[2], factors: (scores.as_ptr(), stride) };
            products.run::<T>(weights, steps, packed_values, p.v_dim, &to).is_some()
        }
    }
}

/// Puts the query rows into tiles, times the factor of the scores; missing rows are zero.
///
/// # Safety
/// The processor has the unit; `to` has room for them.
#[inline(always)]
unsafe fn put_queries<T: Terms, M: Multiplier>(rows: &Rows<'_>, to: &mut [f32]) {
    let (p, steps) = (rows.p, rows.p.head_dim.div_ceil(STEP));
    let to = to.as_mut_ptr().cast::<u8>();
    for row in 0..rows.count.next_multiple_of(TILE) {
        for step in 0..steps {
            let left = if row < rows.count { p.head_dim - step * STEP } else { 0 };
            let from = rows.q.as_ptr().wrapping_add(row * p.q[2] + step * STEP);
            // SAFETY: the caller vouches for it; `attention` checked the queries.
            unsafe {
                let [low, high] = elements(from, 1, left.min(STEP));
                let scale = _mm512_set1_ps(p.scale);
                let place = (row / SIDE * steps + step) * T::A * PIECE + row % SIDE * 64;
                M::put_a::<T>(to.add(place), PIECE, [_mm512_mul_ps(low, scale), _mm512_mul_ps(high, scale)]);
            }
        }
    }
}

/// Makes weights of scores and puts them into tiles. They are from 0 to 1 and not divided by their sum: by what the row of the output is to
/// be multiplied is left where the first score was.
///
/// # Safety
/// The processor has the unit; `line` has a row of scores, `to` room for the tiles.
#[inline(always)]
unsafe fn put_weights<T: Terms, M: Multiplier>(
    rows: &Rows<'_>,
    keys: usize,
    scores: &mut [f32],
    line: &mut [f32],
    to: &mut [f32],
) {
    let (stride, steps) = (line.len(), line.len() / STEP);
    let to = to.as_mut_ptr().cast::<u8>();
    for row in 0..rows.count.next_multiple_of(TILE) {
        if row < rows.count {
            let scores = &mut scores[row * stride..][..keys];
            // SAFETY: the caller vouches for AVX-512; the line has all places.
            unsafe {
                let seen = Masked { rows, index: row, row: &mut *scores }.run::<Avx512x16>().unwrap_or_default();
                let is_empty = seen.is_empty();
                let places = stride / TILE;
                let factor = ExpInto { row: seen, to: line.as_mut_ptr(), step: TILE, places }.run::<Avx512x16>();
                // Where nothing is seen the weights are 0 and so is the output.
                scores[0] = if is_empty { 0.0 } else { factor };
            }
        } else if row == rows.count {
            line.fill(0.0);
        }
        for step in 0..steps {
            let place = (row / SIDE * steps + step) * T::A * PIECE + row % SIDE * 64;
            // SAFETY: the caller vouches for the unit and the room; the line has 32 values for each step.
            unsafe {
                M::put_a::<T>(to.add(place), PIECE, elements(line.as_ptr().add(step * STEP), 1, STEP));
            }
        }
    }
}

/// Where sums come.
enum Place {
    /// To scores, which have room for whole tiles of columns: where they start, and the values of a row.
    Scores(*mut f32, usize),
    /// To rows of the output, each times the first value of a row of scores.
    Out { to: *mut f32, stride: usize, factors: (*const f32, usize) },
}

/// Products of rows in tiles.
struct Products<'a, M> {
    unit: &'a M,
    /// Rows of A.
    count: usize,
    sums: &'a mut [f32; SUMS],
}

impl<'a, M: Multiplier> Products<'a, M> {
    /// The products of all rows with `columns` columns of B. `a` has tiles of `steps[0]` steps, and so many are taken, `b` of `steps[1]`. `None`
    /// once a sum is not finite.
    ///
    /// # Safety
    /// The tiles are there, and so is the room.
    #[inline(always)]
    unsafe fn run<T: Terms>(
        self,
        a: &[f32],
        steps: [usize; 2],
        b: *const f32,
        columns: usize,
        to: &Place,
    ) -> Option<Products<'a, M>> {
        for (column, panel) in
            (0..columns).step_by(SIDE).flat_map(|column| (0..self.count).step_by(SIDE).map(move |row| (column, row)))
        {
            let tiles = |from: *const f32, index: usize, of: usize, pieces: usize| {
                from.cast::<u8>().wrapping_add(index / SIDE * of * pieces * PIECE)
            };
            let (a, b) = (tiles(a.as_ptr(), panel, steps[0], T::A), tiles(b, column, steps[1], T::B));
            let each = (0..steps[0]).map(|step| {
                let a = Operand { tiles: a.wrapping_add(step * T::A * PIECE), piece: PIECE };
                let b = Operand { tiles: b.wrapping_add(step * T::B * PIECE), piece: PIECE };
                Step { a, b, elements: STEP }
            });
            let of = [(self.count - panel).min(SIDE), (columns - column).min(SIDE)];
            // SAFETY: the caller vouches for the unit, the tiles and the room.
            unsafe {
                if !self.unit.sums::<T>(of, each, &mut (), self.sums) {
                    return None;
                }
                put_sums(self.sums, [panel, column], of, to);
            }
        }
        Some(self)
    }
}

/// Brings sums of `rows` rows and `columns` columns to where they come.
///
/// # Safety
/// The processor has AVX-512; there is room for them.
#[inline(always)]
unsafe fn put_sums(sums: &[f32; SUMS], [first, column]: [usize; 2], [rows, columns]: [usize; 2], to: &Place) {
    for half in 0..columns.div_ceil(TILE) {
        let left = (columns - half * TILE).min(TILE);
        for row in 0..rows {
            let from = sums[sum_of(row, half)..][..TILE].as_ptr();
            let (row, column) = (first + row, column + half * TILE);
            // SAFETY: the caller vouches for it.
            unsafe {
                let values = Avx512x16::load(from);
                match *to {
                    Place::Scores(scores, stride) => values.store(scores.add(row * stride + column)),
                    Place::Out { to, stride, factors } => {
                        let factor = Avx512x16::splat(*factors.0.add(row * factors.1));
                        values.mul(factor).store_up_to(to.add(row * stride + column), left);
                    }
                }
            }
        }
    }
}
