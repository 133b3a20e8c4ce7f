//! Products with weights of four or eight bits in blocks, as `MatMulNBits` has them: [N][K / block][block], low bits first. Of few
//! rows they are multiplied as they lie; of many, some columns at a time become numbers, which the product of `gemm` takes.

mod bytes;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::ops::Range;

use super::gemm::{BlockProduct, GemmParams, block_scratch_len, packed_b_len};
use super::isa::Isa;
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::sizes::product;

/// Rows up to which the weights are multiplied as they lie.
const FEW_ROWS: usize = 4;

/// Columns that become numbers at a time.
const COLUMNS: usize = 2 * BLOCK;

/// Weights that are multiplied together.
const CHUNK: usize = 32;

/// The shape of C[m, n] = A[m, k] B[k, n], and how B is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NBits {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Bits of a weight: 4 or 8.
    pub bits: usize,
    /// Weights of a column that have a scale and a zero point of their own: a multiple of 32.
    pub block: usize,
    /// Whether few rows may be quantised to 8 bits, where weights have 4.
    pub bytes: bool,
}

/// B: an element stands for `(element - zero point) * scale`.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The elements.
    pub packed: &'a [u8],
    /// One for each block of each column.
    pub scales: &'a [f32],
    /// Likewise; in the middle of the range without them.
    pub zeros: Zeros<'a>,
}

/// The zero points.
#[derive(Clone, Copy, Debug)]
pub enum Zeros<'a> {
    /// The middle of the range.
    Middle,
    /// Packed like the weights; a column's begin with a byte.
    Packed(&'a [u8]),
    /// Numbers.
    Reals(&'a [f32]),
}

impl NBits {
    /// Whether there is a kernel for it.
    pub fn is_valid(&self) -> bool {
        let NBits { m, n, k, bits, block, bytes: _ } = *self;
        let len = || product(&[n, self.blocks(), block])?.checked_add(product(&[m.max(n), k.checked_add(block)?])?);
        matches!(bits, 4 | 8) && block > 0 && block.is_multiple_of(CHUNK) && len().is_some()
    }

    /// Blocks of a column.
    pub fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Bytes of a block.
    fn block_bytes(&self) -> usize {
        self.block * self.bits / 8
    }

    /// Bytes of the zero points of a column.
    pub fn zero_bytes(&self) -> usize {
        (self.blocks() * self.bits).div_ceil(8)
    }

    /// Bytes of B.
    pub fn packed_len(&self) -> usize {
        self.n * self.blocks() * self.block_bytes()
    }

    /// Whether the zero points are as many as there are blocks.
    fn fits(&self, zeros: &Zeros<'_>) -> bool {
        match zeros {
            Zeros::Middle => true,
            Zeros::Packed(zeros) => zeros.len() == self.n * self.zero_bytes(),
            Zeros::Reals(zeros) => zeros.len() == self.n * self.blocks(),
        }
    }

    /// Numbers of a row of A that is made ready: elements in the order of the weights' bits, and the sum of each block.
    fn ready_len(&self) -> usize {
        if self.in_bytes() { bytes::ready_len(self) } else { self.blocks() * (self.block + 1) }
    }

    /// Whether few rows are quantised.
    fn in_bytes(&self) -> bool {
        self.bytes && self.bits == 4
    }

    fn dense(&self) -> GemmParams {
        GemmParams::dense(self.m, COLUMNS.min(self.n), self.k)
    }

    /// `f32` values of scratch for this many threads; `None` if they cannot be counted.
    pub fn scratch_len(&self, threads: usize) -> Option<usize> {
        if self.m <= FEW_ROWS {
            return product(&[self.m, self.ready_len()]);
        }
        let p = self.dense();
        let each = packed_b_len(p.k, p.n)?.checked_add(block_scratch_len(p.m, p.n, p.k)?)?;
        each.checked_mul(threads)
    }

    /// The zero point of a block of a column.
    fn zero(&self, zeros: &Zeros<'_>, column: usize, block: usize) -> f32 {
        match zeros {
            Zeros::Middle => (1u32 << (self.bits - 1)) as f32,
            Zeros::Packed(zeros) => {
                let zeros = &zeros[column * self.zero_bytes()..];
                f32::from(if self.bits == 8 { zeros[block] } else { zeros[block / 2] >> (block % 2 * 4) & 15 })
            }
            Zeros::Reals(zeros) => zeros[column * self.blocks() + block],
        }
    }
}

/// C = A B + bias.
///
/// # Panics
/// If a slice has another length than the shapes say.
pub fn nbits(
    threads: &Threads,
    p: &NBits,
    a: &[f32],
    b: &Weights<'_>,
    bias: Option<&[f32]>,
    c: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(p.is_valid() && a.len() == p.m * p.k && c.len() == p.m * p.n && b.packed.len() == p.packed_len());
    assert!(b.scales.len() == p.n * p.blocks() && p.fits(&b.zeros) && bias.is_none_or(|bias| bias.len() == p.n));
    assert!(p.scratch_len(threads.count()).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
    if c.is_empty() {
        return;
    }
    if p.m <= FEW_ROWS {
        few(threads, p, a, b, c, scratch)
    } else {
        many(threads, p, a, b, c, scratch)
    }
    if let Some(bias) = bias {
        c.chunks_exact_mut(p.n).for_each(|row| row.iter_mut().zip(bias).for_each(|(c, bias)| *c += bias));
    }
}

/// Some columns at a time as numbers.
fn many(threads: &Threads, p: &NBits, a: &[f32], b: &Weights<'_>, c: &mut [f32], scratch: &mut [f32]) {
    let units = p.n.div_ceil(COLUMNS);
    let tasks = threads.count().min(units);
    let dense = p.dense();
    let (Some(panels), Some(rest)) = (packed_b_len(dense.k, dense.n), block_scratch_len(p.m, dense.n, p.k)) else {
        return;
    };
    let (out, scratch) = (SharedMut::new(c), SharedMut::new(scratch));
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * (panels + rest), panels + rest) };
        let (panels, rest) = scratch.split_at_mut(panels);
        for unit in part(units, tasks, task) {
            let columns = unit * COLUMNS..((unit + 1) * COLUMNS).min(p.n);
            let len = columns.len().next_multiple_of(BLOCK) * p.k;
            unpack(p, b, columns.clone(), &mut panels[..len]);
            let mut dense = GemmParams::dense(p.m, columns.len(), p.k);
            dense.c_row = p.n;
            let block = BlockProduct { isa: threads.isa(), p: &dense, a, packed: &panels[..len], padded: false };
            // SAFETY: tasks write disjoint columns of C.
            unsafe { block.run(out.as_ptr().add(columns.start), rest) };
        }
    });
}

/// Columns as panels [K][16] of numbers.
fn unpack(p: &NBits, b: &Weights<'_>, columns: Range<usize>, out: &mut [f32]) {
    for (panel, first) in out.chunks_exact_mut((p.k * BLOCK).max(1)).zip(columns.clone().step_by(BLOCK)) {
        let width = BLOCK.min(columns.end - first);
        if width < BLOCK {
            panel.fill(0.0);
        }
        for j in 0..width {
            let column = first + j;
            for block in 0..p.blocks() {
                let at = column * p.blocks() + block;
                let (scale, zero) = (b.scales[at], p.zero(&b.zeros, column, block));
                let bytes = &b.packed[at * p.block_bytes()..][..p.block_bytes()];
                let rows = block * p.block..((block + 1) * p.block).min(p.k);
                let places = panel[rows.start * BLOCK..rows.end * BLOCK].chunks_exact_mut(BLOCK);
                if p.bits == 8 {
                    places.zip(bytes).for_each(|(out, &byte)| out[j] = (f32::from(byte) - zero) * scale);
                } else {
                    let number = |at: usize| bytes[at / 2] >> (at % 2 * 4) & 15;
                    places.enumerate().for_each(|(at, out)| out[j] = (f32::from(number(at)) - zero) * scale);
                }
            }
        }
    }
}

/// What the zero points of a column take off its sum with a row, of whose blocks these are the sums.
fn shift(p: &NBits, b: &Weights<'_>, column: usize, sums: &[f32]) -> f32 {
    let scales = &b.scales[column * p.blocks()..][..p.blocks()];
    match b.zeros {
        Zeros::Middle => weighted(scales, sums, |_| 1.0) * p.zero(&b.zeros, column, 0),
        _ => weighted(scales, sums, |block| p.zero(&b.zeros, column, block)),
    }
}

/// The sum of products of three, in eight sums that do not wait for each other.
fn weighted(a: &[f32], b: &[f32], c: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0f32; 8];
    let (a, b) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (at, (a, b)) in a.0.iter().zip(b.0).enumerate() {
        for j in 0..8 {
            lanes[j] += a[j] * b[j] * c(8 * at + j);
        }
    }
    let rest = a.1.iter().zip(b.1).enumerate().map(|(j, (x, y))| x * y * c(8 * a.0.len() + j));
    lanes.iter().copied().chain(rest).sum()
}

fn few(threads: &Threads, p: &NBits, a: &[f32], b: &Weights<'_>, c: &mut [f32], scratch: &mut [f32]) {
    let each = p.ready_len();
    for (row, out) in a.chunks_exact(p.k.max(1)).zip(scratch.chunks_exact_mut(each.max(1))) {
        if p.in_bytes() { bytes::ready(p, row, out) } else { ready(p, row, out) }
    }
    let units = p.n.div_ceil(BLOCK);
    let tasks = threads.count().min(p.n.saturating_mul(p.k).div_ceil(32 << 10)).clamp(1, units);
    let (out, scratch) = (SharedMut::new(c), &*scratch);
    threads.parallel_for(tasks, |task| {
        let units = part(units, tasks, task);
        let columns = units.start * BLOCK..(units.end * BLOCK).min(p.n);
        for row in 0..p.m {
            let ready = &scratch[row * each..][..each];
            // SAFETY: tasks write disjoint columns.
            let c = unsafe { out.slice(row * p.n + columns.start, columns.len()) };
            let sums = if p.in_bytes() {
                let row = bytes::row(p, ready);
                bytes::products(threads.isa(), p, b, columns.start, &row, c);
                row.sums
            } else {
                let (elements, sums) = ready.split_at(p.blocks() * p.block);
                for (column, c) in columns.clone().zip(&mut *c) {
                    *c = dot(threads.isa(), p, b, column, elements);
                }
                sums
            };
            for (column, c) in columns.clone().zip(c) {
                *c -= shift(p, b, column, sums);
            }
        }
    });
}

/// Puts a row in the order in which the weights' bits are taken apart.
fn ready(p: &NBits, row: &[f32], out: &mut [f32]) {
    let (elements, sums) = out.split_at_mut(p.blocks() * p.block);
    elements.fill(0.0);
    for (chunk, out) in row.chunks(CHUNK).zip(elements.chunks_exact_mut(CHUNK)) {
        for (at, &element) in chunk.iter().enumerate() {
            out[if p.bits == 8 { at } else { at % 2 * (CHUNK / 2) + at / 2 }] = element;
        }
    }
    for (sum, block) in sums.iter_mut().zip(elements.chunks_exact(p.block)) {
        *sum = block.iter().sum();
    }
}

/// The sum of a column's products, as its weights are. The elements of A are those of each 32 weights of 4 bits with even numbers,
/// then the others.
fn dot(isa: Isa, p: &NBits, b: &Weights<'_>, column: usize, elements: &[f32]) -> f32 {
    let (blocks, bytes) = (p.blocks(), p.block_bytes());
    let packed = &b.packed[column * blocks * bytes..][..blocks * bytes];
    let scales = &b.scales[column * blocks..][..blocks];
    assert!(elements.len() == blocks * p.block);
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the lengths fit, as they were cut so.
        Isa::Avx2 | Isa::Avx512 => unsafe { x86::dot(p, packed, scales, elements) },
        _ => portable(p, packed, scales, elements),
    }
}

fn portable(p: &NBits, packed: &[u8], scales: &[f32], elements: &[f32]) -> f32 {
    let blocks = packed.chunks_exact(p.block_bytes()).zip(elements.chunks_exact(p.block)).zip(scales);
    let block = |((bytes, elements), scale): ((&[u8], &[f32]), &f32)| {
        let chunks = bytes.chunks_exact(CHUNK * p.bits / 8).zip(elements.chunks_exact(CHUNK));
        let sum = |(bytes, elements): (&[u8], &[f32])| -> f32 {
            let (low, high) = elements.split_at(CHUNK / 2);
            match p.bits {
                8 => bytes.iter().zip(elements).map(|(&byte, a)| f32::from(byte) * a).sum(),
                _ => {
                    let pairs = bytes.iter().zip(low.iter().zip(high));
                    pairs.map(|(&byte, (a, b))| f32::from(byte & 15) * a + f32::from(byte >> 4) * b).sum()
                }
            }
        };
        chunks.map(sum).sum::<f32>() * scale
    };
    blocks.map(block).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_srli_epi16, _mm_srli_si128, _mm256_add_ps,
        _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    use super::{CHUNK, NBits};

    /// The products of sixteen bytes with as many elements, added to two sums.
    ///
    /// # Safety
    /// The CPU has AVX2 and FMA; sixteen elements may be read.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sixteen(bytes: __m128i, elements: *const f32, sums: [__m256; 2]) -> [__m256; 2] {
        let low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
        let high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes)));
        // SAFETY: the caller vouches for it.
        let (a, b) = unsafe { (_mm256_loadu_ps(elements), _mm256_loadu_ps(elements.add(8))) };
        [_mm256_fmadd_ps(low, a, sums[0]), _mm256_fmadd_ps(high, b, sums[1])]
    }

    /// The sum over blocks of their scale times the products of weights and elements.
    ///
    /// # Safety
    /// The CPU has AVX2 and FMA; there are as many blocks of weights and of elements as scales.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn dot(p: &NBits, packed: &[u8], scales: &[f32], elements: &[f32]) -> f32 {
        let (mut bytes, mut a) = (packed.as_ptr(), elements.as_ptr());
        let mask = _mm_set1_epi8(15);
        let mut totals = [_mm256_setzero_ps(); 2];
        for &scale in scales {
            let mut sums = [_mm256_setzero_ps(); 4];
            for _ in 0..p.block / CHUNK {
                // SAFETY: the caller vouches for 32 weights and elements.
                unsafe {
                    let first = _mm_loadu_si128(bytes.cast::<__m128i>());
                    let (first, second) = if p.bits == 4 {
                        (_mm_and_si128(first, mask), _mm_and_si128(_mm_srli_epi16::<4>(first), mask))
                    } else {
                        (first, _mm_loadu_si128(bytes.add(16).cast::<__m128i>()))
                    };
                    [sums[0], sums[1]] = sixteen(first, a, [sums[0], sums[1]]);
                    [sums[2], sums[3]] = sixteen(second, a.add(16), [sums[2], sums[3]]);
                    bytes = bytes.add(CHUNK * p.bits / 8);
                    a = a.add(CHUNK);
                }
            }
            let scale = _mm256_set1_ps(scale);
            totals[0] = _mm256_fmadd_ps(_mm256_add_ps(sums[0], sums[2]), scale, totals[0]);
            totals[1] = _mm256_fmadd_ps(_mm256_add_ps(sums[1], sums[3]), scale, totals[1]);
        }
        let mut lanes = [0f32; 8];
        // SAFETY: eight numbers.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_add_ps(totals[0], totals[1])) };
        (0..4).map(|lane| lanes[lane] + lanes[lane + 4]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::noise;

    #[test]
    fn products_are_those_of_the_numbers() {
        for (m, n, k, bits, block) in
            [(1, 5, 64, 4, 32), (3, 33, 70, 4, 32), (4, 17, 200, 8, 64), (9, 40, 70, 4, 32), (40, 100, 256, 8, 128)]
        {
            let p = NBits { m, n, k, bits, block, bytes: false };
            let packed: Vec<u8> = (0..p.packed_len()).map(|at| (at * 37 + at / 7) as u8).collect();
            let (scales, reals, bias) = (noise(n * p.blocks(), 1), noise(n * p.blocks(), 2), noise(n, 3));
            let zeros: Vec<u8> = (0..n * p.zero_bytes()).map(|at| (at * 59) as u8).collect();
            let a = noise(m * k, 4);
            for zeros in [Zeros::Middle, Zeros::Packed(&zeros), Zeros::Reals(&reals)] {
                let weight = |k: usize, n: usize| {
                    let block_at = k / block;
                    let byte = |at: usize| packed[(n * p.blocks() + block_at) * p.block_bytes() + at];
                    let inner = k % block;
                    let number = if bits == 8 { byte(inner) } else { byte(inner / 2) >> (inner % 2 * 4) & 15 };
                    let zero = f64::from(p.zero(&zeros, n, block_at));
                    (f64::from(number) - zero) * f64::from(scales[n * p.blocks() + block_at])
                };
                let one = |at: usize| -> f64 {
                    let sum: f64 = (0..k).map(|k_| f64::from(a[at / n * k + k_]) * weight(k_, at % n)).sum();
                    sum + f64::from(bias[at % n])
                };
                let want: Vec<f64> = (0..m * n).map(one).collect();
                let largest = want.iter().fold(0f64, |largest, value| largest.max(value.abs()));
                for (&isa, count) in Isa::available().iter().flat_map(|isa| [(isa, 1), (isa, 2), (isa, 3)]) {
                    let threads = Threads::with_isa(count, isa);
                    let mut scratch = vec![f32::NAN; p.scratch_len(count).expect("countable")];
                    let mut c = vec![f32::NAN; m * n];
                    let weights = Weights { packed: &packed, scales: &scales, zeros };
                    nbits(&threads, &p, &a, &weights, Some(&bias), &mut c, &mut scratch);
                    for (found, want) in c.iter().zip(&want) {
                        let close = (f64::from(*found) - want).abs() <= 1e-5 * largest;
                        assert!(close, "{isa:?} {count} {p:?}: {found} for {want}");
                    }
                }
            }
        }
    }
}
