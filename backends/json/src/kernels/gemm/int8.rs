//! Products by weights of 8 bits: each column of B was rounded with a scale of its own, each row of A is when it is multiplied. Sums are
//! exact integers, so that every instruction set gives the same bits.

use super::gemv::finish;
use super::{Bias, Epilogue, GemmParams, check};
use crate::kernels::integer::{self, Byte, DEPTH, Levels, MAX_DEPTH, Out, PANEL, PanelStats, Plain, Right, Shape};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Names the layout of [`round_b`]: panels of `integer/n8k4/1`; then, little endian and for each column of a panel, its scale (f32) and
/// the sum of its elements (i32). Columns past N are zero.
pub const INT8_LAYOUT: &str = "gemm/n8k4-scaled/1";

/// The greatest weight that is rounded: products with it stay finite before they are scaled.
const MOST: f32 = 1e30;

/// The integers that numbers become are -127 to 127, as bytes of A with 128 added.
const LEVELS: f32 = 127.0;
pub(in crate::kernels) const ZERO: u8 = 128;

/// Bytes of what is kept of each column beside its elements.
const SCALE: usize = 4;
const SUM: usize = 4;

/// Bytes of a B of 8 bits; `None` if they cannot be counted, or its sums need more than 32 bits.
pub fn int8_len(k: usize, n: usize) -> Option<usize> {
    let columns = n.checked_next_multiple_of(PANEL)?.checked_mul(SCALE + SUM)?;
    integer::packed_len(k, n)?.checked_add(columns).filter(|_| k <= MAX_DEPTH)
}

/// Whether a weight can be rounded.
pub fn fits_int8(weight: f32) -> bool {
    weight.abs() <= MOST
}

/// The distance of two integers where `most` is the greatest absolute value; 0, as for no values, where it would be subnormal.
#[inline(always)]
fn scale(most: f32) -> f32 {
    let scale = most / LEVELS;
    if scale < f32::MIN_POSITIVE { 0.0 } else { scale }
}

/// What numbers are multiplied by to become integers.
#[inline(always)]
pub(in crate::kernels) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// What is kept of columns, in their order.
#[derive(Default)]
pub struct Int8Columns {
    scales: Vec<f32>,
    sums: Vec<i32>,
}

impl Int8Columns {
    /// What follows the panels of all columns.
    pub fn bytes(&self) -> Vec<u8> {
        let scales = self.scales.iter().flat_map(|scale| scale.to_le_bytes());
        scales.chain(self.sums.iter().flat_map(|sum| sum.to_le_bytes())).collect()
    }
}

/// Calls `one` with the column and the place of every element, as they lie in memory.
fn each(k: usize, n: usize, [row, column]: [usize; 2], mut one: impl FnMut(usize, usize)) {
    if row >= column {
        (0..k).for_each(|i| (0..n).for_each(|j| one(j, i * row + j * column)));
    } else {
        (0..n).for_each(|j| (0..k).for_each(|i| one(j, i * row + j * column)));
    }
}

/// Rounds and packs the columns of B[k, n] with the given row and column strides, and adds what is kept of them to `columns`.
///
/// # Panics
/// If a length is wrong.
pub fn round_b(k: usize, n: usize, b: &[f32], [row, column]: [usize; 2], columns: &mut Int8Columns, out: &mut [i8]) {
    let (mut most, mut sums, mut rounded) = (vec![0f32; n], vec![0; n], vec![0u8; b.len()]);
    each(k, n, [row, column], |j, at| most[j] = most[j].max(b[at].abs()));
    let scales: Vec<f32> = most.into_iter().map(scale).collect();
    let inverses: Vec<f32> = scales.iter().copied().map(inverse).collect();
    each(k, n, [row, column], |j, at| {
        let level = (b[at] * inverses[j]).round_ties_even() as i32;
        rounded[at] = level as u8;
        sums[j] += level;
    });
    columns.scales.extend(scales);
    columns.sums.extend(sums);
    let padded = columns.scales.len().next_multiple_of(PANEL);
    columns.scales.resize(padded, 0.0);
    columns.sums.resize(padded, 0);
    integer::pack(k, n, &rounded, [row, column], Byte::I8, out);
}

/// A packed B.
#[derive(Clone, Copy)]
pub struct Int8<'a> {
    /// Its bytes.
    pub packed: &'a [i8],
    /// What is known of it.
    pub known: &'a Int8Known,
}

impl<'a> Int8<'a> {
    /// The scales of the columns.
    pub(in crate::kernels) fn scales(&self) -> &'a [f32] {
        &self.known.scales
    }

    /// The right side of a product of `k` rows and `n` columns.
    pub(in crate::kernels) fn right(&self, k: usize, n: usize) -> Right<'a> {
        Right::Packed(split(self.packed, k, n).0, &self.known.stats)
    }
}

/// What a product reads of a packed B beside its panels; it holds for as many rows of A as it was made for.
pub struct Int8Known {
    scales: Vec<f32>,
    /// Empty where dot products do without.
    stats: Vec<PanelStats>,
}

/// The panels of a B of `k` rows and `n` columns, and what follows them.
fn split(packed: &[i8], k: usize, n: usize) -> (&[i8], &[i8]) {
    assert_eq!(Some(packed.len()), int8_len(k, n));
    packed.split_at(integer::packed_len(k, n).unwrap_or(0))
}

/// Numbers of four bytes.
fn numbers(bytes: &[i8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks().0.iter().map(|four: &[i8; 4]| four.map(|byte| byte as u8))
}

impl Int8Known {
    /// Of a B that products of `p` have.
    ///
    /// # Panics
    /// If `packed` has another length.
    pub fn new(threads: &Threads, p: &GemmParams, packed: &[i8]) -> Int8Known {
        let (panels, columns) = split(packed, p.k, p.n);
        let (scales, sums) = columns.split_at(columns.len() / (SCALE + SUM) * SCALE);
        let sums: Vec<i32> = numbers(sums).map(i32::from_le_bytes).collect();
        Int8Known {
            scales: numbers(scales).map(f32::from_le_bytes).take(p.n).collect(),
            stats: integer::stats_of_sums(threads, panels, p.k, p.m, &sums),
        }
    }

    /// The scale and the integers of a column, in the order of its rows.
    pub(crate) fn column(packed: &[i8], [k, n]: [usize; 2], column: usize) -> (f32, impl Iterator<Item = i8>) {
        let (panels, columns) = split(packed, k, n);
        let scale = numbers(&columns[column * SCALE..]).next().map_or(0.0, f32::from_le_bytes);
        let depth = k.next_multiple_of(DEPTH);
        let panel = &panels[column / PANEL * depth * PANEL..][..depth * PANEL];
        let steps = panel.chunks_exact(DEPTH * PANEL);
        (scale, steps.flat_map(move |step| step[column % PANEL * DEPTH..][..DEPTH].iter().copied()).take(k))
    }
}

/// Whether products with such a B are computed by matrix units.
pub fn int8_is_on_amx(threads: &Threads, p: &GemmParams) -> bool {
    Space::new(p).is_some_and(|space| integer::is_on_amx(threads, &space.shape))
}

/// f32 values of scratch on these threads; `None` if they cannot be counted.
pub fn int8_scratch_len(threads: &Threads, p: &GemmParams) -> Option<usize> {
    let space = Space::new(p)?;
    let of_product = integer::scratch_len(threads, &space.shape, true)?;
    space.bytes.div_ceil(4).checked_add(p.m)?.checked_add(of_product)
}

/// A that is rounded.
struct Space {
    shape: Shape,
    /// Bytes of its rows.
    bytes: usize,
}

impl Space {
    fn new(p: &GemmParams) -> Option<Space> {
        // Rows go on to where those of the panels do, so that they are read as they lie.
        let depth = p.k.checked_next_multiple_of(DEPTH)?;
        Some(Space { shape: Shape { m: p.m, n: p.n, k: depth }, bytes: product(&[p.m, depth])? })
    }
}

/// C = act(alpha A B + bias + residual), A and B rounded. Where a number of a row of A is not finite, none of C's is a number there.
/// Strides of C are those of one matrix behind another; those of B and `beta` are of no effect.
///
/// # Panics
/// If a slice is shorter than the strides reach.
pub fn gemm_int8(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    b: Int8<'_>,
    c: &mut [f32],
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    check(p, a, c, e);
    assert!(p.c_row == p.n && p.beta == 0.0);
    for matrix in 0..p.batch[0] * p.batch[1] {
        let index = [matrix / p.batch[1], matrix % p.batch[1]];
        let offset = |strides: [usize; 2]| index[0] * strides[0] + index[1] * strides[1];
        let places = offset(p.c_batch)..offset(p.c_batch) + p.m * p.n;
        let e = Epilogue { residual: e.residual.map(|residual| &residual[places.clone()]), ..*e };
        one(threads, p, a.get(offset(p.a_batch)..).unwrap_or_default(), b, &mut c[places], &e, scratch);
    }
}

/// One matrix.
fn one(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    b: Int8<'_>,
    c: &mut [f32],
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    let Some(Space { shape, bytes }) = Space::new(p) else { panic!("the sizes are too large") };
    let (rows, scratch) = scratch.split_at_mut(bytes.div_ceil(4));
    let (scales, scratch) = scratch.split_at_mut(p.m);
    let rows = &mut integer::as_bytes(rows)[..bytes];
    round_rows(threads, p, a, rows, scales);
    // What an epilogue of integers has too is done while the sums are in registers.
    let last = match (e.bias, e.residual, e.act.as_clamp()) {
        (Bias::None | Bias::PerCol(_), None, Some(clamp)) => Some(clamp),
        _ => None,
    };
    let mut own = integer::Epilogue { factors: &b.known.scales, rows: scales, ..integer::Epilogue::default() };
    if let Some(clamp) = last {
        own.clamp = clamp;
        if let Bias::PerCol(bias) = e.bias {
            own.offsets = bias;
        }
    }
    let plain = Plain { bytes: rows, byte: Byte::U8, zero: i32::from(ZERO), columns: shape.k };
    integer::product(threads, shape, &plain, b.right(p.k, p.n), Out::Real(&mut *c), &own, scratch);
    if last.is_none() {
        finish_rows(threads, p, c, e);
    }
}

/// Bias, residual and activation.
fn finish_rows(threads: &Threads, p: &GemmParams, c: &mut [f32], e: &Epilogue<'_>) {
    let tasks = tasks(threads, p.m, p.n);
    let c = SharedMut::new(c);
    threads.parallel_for(tasks, |task| {
        for row in part(p.m, tasks, task) {
            // SAFETY: one task for each row.
            let y = unsafe { c.slice(row * p.n, p.n) };
            let residual = e.residual.map(|residual| &residual[row * p.n..][..p.n]);
            finish(threads.isa(), e, row, 0..p.n, residual, y);
        }
    });
}

/// Tasks for rows of so many numbers each.
fn tasks(threads: &Threads, rows: usize, each: usize) -> usize {
    threads.count().min(rows).min(rows.saturating_mul(each).div_ceil(16 << 10)).max(1)
}

/// Rounds the rows of A, and writes the scale of each.
fn round_rows(threads: &Threads, p: &GemmParams, a: &[f32], out: &mut [u8], scales: &mut [f32]) {
    let tasks = tasks(threads, p.m, p.k);
    let depth = out.len() / p.m.max(1);
    let (out, scales) = (SharedMut::new(out), SharedMut::new(scales));
    threads.parallel_for(tasks, |task| {
        for row in part(p.m, tasks, task) {
            // SAFETY: one task for each row.
            let (out, scale) = unsafe { (out.slice(row * depth, depth), scales.slice(row, 1)) };
            let (out, rest) = out.split_at_mut(p.k);
            rest.fill(ZERO);
            let a = a.get(row * p.a[0]..).unwrap_or_default();
            scale[0] = p.alpha * round_row(threads.isa(), a, p.a[1], out);
        }
    });
}

/// Rounds as many numbers as `out` has bytes, and returns their scale; not a number where one of them is not finite.
fn round_row(isa: Isa, a: &[f32], stride: usize, out: &mut [u8]) -> f32 {
    if stride == 1 {
        return dispatch(isa, RoundRow { a: &a[..out.len()], out });
    }
    let numbers = || a.iter().step_by(stride.max(1)).copied();
    let most = numbers().take(out.len()).fold(0, |most, number| magnitude(number).max(most));
    let scale = scale_of(most);
    let (inverse, levels) = (inverse(scale), levels());
    out.iter_mut().zip(numbers()).for_each(|(out, number)| *out = levels.byte(number * inverse));
    scale
}

struct RoundRow<'a> {
    a: &'a [f32],
    out: &'a mut [u8],
}

/// The bits of an absolute value: in order as integers, and those of what is not finite above all others.
#[inline(always)]
pub(in crate::kernels) fn magnitude(number: f32) -> u32 {
    number.to_bits() & !(1 << 31)
}

/// The scale of numbers of which this is the greatest magnitude.
#[inline(always)]
pub(in crate::kernels) fn scale_of(most: u32) -> f32 {
    let most = f32::from_bits(most);
    if most.is_finite() { scale(most) } else { f32::NAN }
}

/// What bytes of A are made by; of what is not a number anything, for its row has no scale.
#[inline(always)]
fn levels() -> Levels {
    Levels::new(Byte::U8, i32::from(ZERO))
}

impl Kernel for RoundRow<'_> {
    type Out = f32;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> f32 {
        let (blocks, rest) = self.a.as_chunks::<64>();
        let mut most = [0u32; 64];
        for block in blocks {
            for j in 0..64 {
                most[j] = most[j].max(magnitude(block[j]));
            }
        }
        let most = most.into_iter().chain(rest.iter().map(|&number| magnitude(number))).max().unwrap_or(0);
        let scale = scale_of(most);
        let (inverse, levels) = (inverse(scale), levels());
        self.out.iter_mut().zip(self.a).for_each(|(out, &number)| *out = levels.byte(number * inverse));
        scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Activation;
    use crate::tests::harness::{byte_configurations, noise, rounded};

    fn packed(p: &GemmParams, b: &[f32]) -> Vec<i8> {
        let panels = integer::packed_len(p.k, p.n).expect("countable");
        let (mut packed, mut columns) = (vec![0; panels], Int8Columns::default());
        round_b(p.k, p.n, b, p.b, &mut columns, &mut packed);
        packed.extend(columns.bytes().into_iter().map(|byte| byte as i8));
        assert_eq!(Some(packed.len()), int8_len(p.k, p.n));
        packed
    }

    fn run(threads: &Threads, p: &GemmParams, a: &[f32], b: &[f32], e: &Epilogue<'_>) -> Vec<f32> {
        let packed = packed(p, b);
        let known = Int8Known::new(threads, p, &packed);
        let mut c = vec![f32::NAN; p.batch[0] * p.batch[1] * p.m * p.n];
        let mut scratch = vec![f32::NAN; int8_scratch_len(threads, p).expect("countable")];
        gemm_int8(threads, p, a, Int8 { packed: &packed, known: &known }, &mut c, e, &mut scratch);
        c
    }

    /// To the bit, on every instruction set: exact sums, times the two scales, then what follows.
    #[test]
    fn sums_of_rounded_rows_and_columns() {
        for (m, n, k) in
            [(1, 1, 1), (1, 50, 300), (3, 9, 7), (4, 70, 64), (13, 33, 30), (40, 100, 129), (0, 4, 4), (5, 3, 0)]
        {
            let (transposed, two) = (m % 2 == 1, m == 4);
            let mut p = GemmParams::dense(m, n, k);
            p.alpha = 0.5;
            if two {
                (p.batch, p.a_batch, p.c_batch) = ([1, 2], [0, m * k], [0, m * n]);
            }
            if transposed {
                p = p.trans_a().trans_b();
            }
            let matrices = p.batch[1];
            let (a, b) = (noise(matrices * m * k, 1), noise(k * n, 2));
            let (of_rows, of_columns, residual) = (noise(m, 3), noise(n, 4), noise(matrices * m * n, 5));
            for e in [
                Epilogue::default(),
                Epilogue { bias: Bias::PerCol(&of_columns), residual: None, act: Activation::Relu },
                Epilogue { bias: Bias::PerRow(&of_rows), residual: Some(&residual), act: Activation::Relu },
            ] {
                let want: Vec<f32> = (0..matrices * m * n)
                    .map(|at| {
                        let (j, i, matrix) = (at % n, at / n % m, at / n / m);
                        let row: Vec<f32> = (0..k).map(|x| a[matrix * m * k + i * p.a[0] + x * p.a[1]]).collect();
                        let column: Vec<f32> = (0..k).map(|x| b[x * p.b[0] + j * p.b[1]]).collect();
                        let ((row, of_row), (column, of_column)) = (rounded(&row), rounded(&column));
                        let sum: i32 = row.iter().zip(&column).map(|(a, b)| a * b).sum();
                        let bias = match e.bias {
                            Bias::None => 0.0,
                            Bias::PerRow(bias) => bias[i],
                            Bias::PerCol(bias) => bias[j],
                        };
                        let sum = sum as f32 * of_column * (0.5 * of_row) + bias + e.residual.map_or(0.0, |of| of[at]);
                        if e.act == Activation::Relu { sum.max(0.0) } else { sum }
                    })
                    .collect();
                for threads in byte_configurations() {
                    let found = run(&threads, &p, &a, &b, &e);
                    assert_eq!(found, want, "{m}x{n}x{k} {:?} {} threads", threads.isa(), threads.count());
                }
            }
        }
    }

    /// Numbers that are not finite make their row none; those that no integer stands for are 0; the others do not change.
    #[test]
    fn rows_that_have_no_scale() {
        let p = GemmParams::dense(6, 8, 70);
        let (mut a, b) = (noise(6 * 70, 1), noise(70 * 8, 2));
        let plain = run(&Threads::new(1), &p, &a, &b, &Epilogue::default());
        (a[3], a[70 + 69], a[140]) = (f32::INFINITY, f32::NAN, f32::NEG_INFINITY);
        a[210..280].fill(1e-40);
        a[280..350].fill(0.0);
        for threads in byte_configurations() {
            let found = run(&threads, &p, &a, &b, &Epilogue::default());
            assert!(found[..24].iter().all(|number| number.is_nan()), "{found:?}");
            assert!(found[24..40].iter().all(|&number| number == 0.0), "{found:?}");
            assert_eq!(found[40..], plain[40..]);
        }
    }

    #[test]
    fn matrices_that_cannot_be_rounded() {
        assert_eq!((int8_len(MAX_DEPTH + 1, 8), int8_len(usize::MAX / 2, 8)), (None, None));
        assert_eq!(int8_len(5, 9), Some(2 * 8 * 8 + 16 * 8));
        for weight in [f32::INFINITY, f32::NAN, -2e30] {
            assert!(!fits_int8(weight));
        }
        assert!(fits_int8(-1e30));
    }
}
