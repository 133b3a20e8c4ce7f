//! Few rows that are quantised to 8 bits, a scale for each block of the weights, and multiplied with weights of 4 bits in integers:
//! what `accuracy_level` 4 of `MatMulNBits` allows.

#[cfg(target_arch = "x86_64")]
use super::vnni;
use super::{CHUNK, NBits, Weights};
use crate::kernels::isa::Isa;

/// Columns whose sums are computed together.
pub(super) const COLUMNS: usize = 4;

/// Chunks whose products fit in 16 bits: two of at most 15 times 127 each are added in a lane.
#[cfg(target_arch = "x86_64")]
const CHUNKS: usize = 8;

/// A row that is ready.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// For each 32 weights, the elements with even numbers, then the others.
    pub(super) elements: &'a [i8],
    /// What a unit of the elements of a block is.
    pub(super) scales: &'a [f32],
    /// The sum of the elements of each block, as numbers.
    pub(super) sums: &'a [f32],
}

/// `f32` values that a row takes.
pub(super) fn ready_len(p: &NBits) -> usize {
    p.blocks() * (p.block / 4 + 2)
}

fn cut<'a>(p: &NBits, ready: &'a mut [f32]) -> (&'a mut [i8], &'a mut [f32], &'a mut [f32]) {
    let (elements, rest) = ready.split_at_mut(p.blocks() * p.block / 4);
    let (scales, sums) = rest.split_at_mut(p.blocks());
    // SAFETY: every bit pattern is an `i8`, which needs no alignment.
    (unsafe { elements.align_to_mut::<i8>().1 }, scales, sums)
}

/// Quantises a row: the largest element of a block becomes 127.
pub(super) fn ready(p: &NBits, row: &[f32], out: &mut [f32]) {
    let (elements, scales, sums) = cut(p, out);
    elements.fill(0);
    for (index, block) in row.chunks(p.block).enumerate() {
        // What is not a number spoils the block, as it would its sum.
        let larger = |most: f32, x: &f32| if x.is_nan() || x.abs() > most { x.abs() } else { most };
        let largest = block.iter().fold(0f32, larger);
        let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let mut sum = 0;
        for (chunk, out) in block.chunks(CHUNK).zip(elements[index * p.block..][..p.block].chunks_exact_mut(CHUNK)) {
            for (at, &element) in chunk.iter().enumerate() {
                let level = (element * factor).round_ties_even() as i8;
                out[at % 2 * (CHUNK / 2) + at / 2] = level;
                sum += i32::from(level);
            }
        }
        scales[index] = if block.iter().any(|x| x.is_nan()) { f32::NAN } else { largest / 127.0 };
        sums[index] = sum as f32 * scales[index];
    }
}

/// A row that [`ready`] has written.
pub(super) fn row<'a>(p: &NBits, ready: &'a [f32]) -> Row<'a> {
    let (elements, rest) = ready.split_at(p.blocks() * p.block / 4);
    let (scales, sums) = rest.split_at(p.blocks());
    // SAFETY: every bit pattern is an `i8`, which needs no alignment.
    Row { elements: unsafe { elements.align_to::<i8>().1 }, scales, sums }
}

/// Products of the weights of columns from `first` on, as they are, with a row.
pub(super) fn products(isa: Isa, p: &NBits, b: &Weights<'_>, first: usize, a: &Row<'_>, c: &mut [f32]) {
    let (blocks, bytes) = (p.blocks(), p.block_bytes());
    assert!(p.bits == 4 && a.elements.len() == blocks * p.block && a.scales.len() == blocks);
    for (index, c) in c.chunks_mut(COLUMNS).enumerate() {
        let column = first + index * COLUMNS;
        let packed = &b.packed[column * blocks * bytes..][..c.len() * blocks * bytes];
        let scales = &b.scales[column * blocks..][..c.len() * blocks];
        match (isa, <&mut [f32; COLUMNS]>::try_from(&mut *c)) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as below; the CPU was asked for VNNI.
            (isa, Ok(c)) if isa.has_vnni512() => unsafe {
                match p.block {
                    CHUNK => vnni::products::<true>(p, packed, scales, a, c),
                    _ => vnni::products::<false>(p, packed, scales, a, c),
                }
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the lengths fit, as they were cut so.
            (Isa::Avx2 | Isa::Avx512, Ok(c)) => unsafe {
                // Most models have the smallest blocks.
                match p.block {
                    CHUNK => x86::products::<true>(p, packed, scales, a, c),
                    _ => x86::products::<false>(p, packed, scales, a, c),
                }
            },
            _ => portable(p, packed, scales, a, c),
        }
    }
}

fn portable(p: &NBits, packed: &[u8], scales: &[f32], a: &Row<'_>, c: &mut [f32]) {
    let columns = packed.chunks_exact(p.blocks() * p.block_bytes()).zip(scales.chunks_exact(p.blocks()));
    for (c, (packed, scales)) in c.iter_mut().zip(columns) {
        *c = 0.0;
        for (block, bytes) in packed.chunks_exact(p.block_bytes()).enumerate() {
            let elements = a.elements[block * p.block..][..p.block].chunks_exact(CHUNK);
            let sum: i32 =
                bytes.chunks_exact(CHUNK / 2).zip(elements).map(|(bytes, elements)| sum(bytes, elements)).sum();
            *c += sum as f32 * (scales[block] * a.scales[block]);
        }
    }
}

/// The products of a chunk of weights, added up.
pub(super) fn sum(bytes: &[u8], elements: &[i8]) -> i32 {
    let (low, high) = elements.split_at(CHUNK / 2);
    let pairs = bytes.iter().zip(low.iter().zip(high));
    pairs.map(|(&byte, (&a, &b))| i32::from(byte & 15) * i32::from(a) + i32::from(byte >> 4) * i32::from(b)).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi16, _mm256_add_epi32,
        _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set_epi64x, _mm256_set1_epi8, _mm256_set1_epi16,
        _mm256_set1_ps, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_srlv_epi64, _mm256_storeu_ps,
    };

    use super::{CHUNK, CHUNKS, COLUMNS, NBits, Row};

    /// Sixteen bytes as 32 weights, in the order of the row.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn unpack(bytes: __m128i) -> __m256i {
        let shifted = _mm256_srlv_epi64(_mm256_broadcastsi128_si256(bytes), _mm256_set_epi64x(4, 4, 0, 0));
        _mm256_and_si256(shifted, _mm256_set1_epi8(15))
    }

    /// # Safety
    /// The CPU has AVX2 and FMA; the weights and scales are those of four columns, and the row has as many elements. `ONE`: a block is
    /// a chunk.
    #[target_feature(enable = "avx2,fma")]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    pub(super) unsafe fn products<const ONE: bool>(
        p: &NBits,
        packed: &[u8],
        scales: &[f32],
        a: &Row<'_>,
        c: &mut [f32; COLUMNS],
    ) {
        let (blocks, chunks) = (p.blocks(), if ONE { 1 } else { p.block / CHUNK });
        let of_column = blocks * chunks * CHUNK / 2;
        let (mut elements, mut weights) = (a.elements.as_ptr(), packed.as_ptr());
        let mut totals = [_mm256_setzero_ps(); COLUMNS];
        for block in 0..blocks {
            let mut sums = [_mm256_setzero_si256(); COLUMNS];
            let mut left = chunks;
            while left > 0 {
                let mut pairs = [_mm256_setzero_si256(); COLUMNS];
                let now = if left < CHUNKS { left } else { CHUNKS };
                for _ in 0..now {
                    // SAFETY: the caller vouches for 32 elements, and 16 bytes of each column.
                    unsafe {
                        let row = _mm256_loadu_si256(elements.cast::<__m256i>());
                        for column in 0..COLUMNS {
                            // The next four columns: the processor itself does not look beyond a page, and a file's pages are small.
                            let next = weights.wrapping_add((COLUMNS + column) * of_column);
                            _mm_prefetch::<_MM_HINT_T0>(next.cast::<i8>());
                            let bytes = _mm_loadu_si128(weights.add(column * of_column).cast::<__m128i>());
                            let products = _mm256_maddubs_epi16(unpack(bytes), row);
                            pairs[column] = _mm256_add_epi16(pairs[column], products);
                        }
                        (elements, weights) = (elements.add(CHUNK), weights.add(CHUNK / 2));
                    }
                }
                left -= now;
                for column in 0..COLUMNS {
                    let wide = _mm256_madd_epi16(pairs[column], _mm256_set1_epi16(1));
                    sums[column] = _mm256_add_epi32(sums[column], wide);
                }
            }
            for column in 0..COLUMNS {
                // SAFETY: the caller vouches for a scale of each block on both sides.
                let unit = unsafe { scales.get_unchecked(column * blocks + block) * a.scales.get_unchecked(block) };
                totals[column] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[column]), _mm256_set1_ps(unit), totals[column]);
            }
        }
        for column in 0..COLUMNS {
            let mut lanes = [0f32; 8];
            // SAFETY: eight numbers.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), totals[column]) };
            c[column] = (0..4).map(|lane| lanes[lane] + lanes[lane + 4]).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Zeros, nbits};
    use super::*;
    use crate::kernels::parallel::Threads;
    use crate::tests::harness::noise;

    /// As the row is after a block's largest element became 127.
    fn quantised(p: &NBits, row: &[f32]) -> Vec<f64> {
        let block = |block: &[f32]| -> Vec<f64> {
            let largest = block.iter().fold(0f32, |most, x| most.max(x.abs()));
            let level = |x: &f32| f64::from((x * (127.0 / largest)).round_ties_even()) * f64::from(largest / 127.0);
            block.iter().map(level).collect()
        };
        row.chunks(p.block).flat_map(block).collect()
    }

    #[test]
    fn products_are_those_of_quantised_rows() {
        for (m, n, k, block) in [(1, 5, 64, 32), (3, 33, 70, 32), (4, 17, 700, 512), (1, 64, 320, 128)] {
            let p = NBits { m, n, k, bits: 4, block, bytes: true };
            let packed: Vec<u8> = (0..p.packed_len()).map(|at| (at * 37 + at / 7) as u8).collect();
            let (scales, a) = (noise(n * p.blocks(), 1), noise(m * k, 4));
            let zeros: Vec<u8> = (0..n * p.zero_bytes()).map(|at| (at * 59) as u8).collect();
            for zeros in [Zeros::Middle, Zeros::Packed(&zeros)] {
                let weight = |k: usize, n: usize| {
                    let (block_at, inner) = (k / block, k % block);
                    let byte = packed[(n * p.blocks() + block_at) * p.block_bytes() + inner / 2];
                    let number = f64::from(byte >> (inner % 2 * 4) & 15) - f64::from(p.zero(&zeros, n, block_at));
                    number * f64::from(scales[n * p.blocks() + block_at])
                };
                let rows: Vec<Vec<f64>> = a.chunks(k).map(|row| quantised(&p, row)).collect();
                let one = |at: usize| -> f64 { (0..k).map(|k| rows[at / n][k] * weight(k, at % n)).sum() };
                let want: Vec<f64> = (0..m * n).map(one).collect();
                let largest = want.iter().fold(0f64, |largest, value| largest.max(value.abs()));
                for (&isa, count) in Isa::available().iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
                    let threads = Threads::with_isa(count, isa);
                    let mut scratch = vec![f32::NAN; p.scratch_len(count).expect("countable")];
                    let mut c = vec![f32::NAN; m * n];
                    let weights = Weights { packed: &packed, scales: &scales, zeros };
                    nbits(&threads, &p, &a, &weights, None, &mut c, &mut scratch);
                    for (found, want) in c.iter().zip(&want) {
                        let close = (f64::from(*found) - want).abs() <= 1e-5 * largest;
                        assert!(close, "{isa:?} {count} {p:?}: {found} for {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let p = NBits { m: 1, n: 4, k: 64, bits: 4, block: 32, bytes: true };
        let (packed, scales) = (vec![0x35; p.packed_len()], vec![0.5; 4 * p.blocks()]);
        for (odd, others) in [(f32::NAN, 1.0), (f32::INFINITY, 1.0), (0.0, 0.0)] {
            let mut a = [others; 64];
            a[40] = odd;
            let (mut c, mut scratch) = ([7.0; 4], vec![0.0; p.scratch_len(1).expect("countable")]);
            let weights = Weights { packed: &packed, scales: &scales, zeros: Zeros::Middle };
            nbits(&Threads::new(1), &p, &a, &weights, None, &mut c, &mut scratch);
            assert!(c.iter().all(|c| if odd == 0.0 { *c == 0.0 } else { !c.is_finite() }), "{odd}: {c:?}");
        }
    }
}
