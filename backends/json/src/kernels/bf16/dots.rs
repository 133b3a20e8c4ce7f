//! Dot products of pairs of bf16 on vector units (AVX512-BF16): as many rows and columns as registers hold the sums of.
//!
//! Instruction: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS. It takes subnormal numbers for zero, as
//! matrix units do.

use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::terms::{Between, Multiplier, Rows, SUMS, Step, Terms, rounded, sum_of};
use super::{TILE, TILE_BYTES};
use crate::kernels::unrolled::unrolled;

/// Rows whose sums of two tiles of columns are in registers, 24 of 32.
const TALL: usize = 12;
/// The same where that would be more rows than there are.
const SHORT: usize = 8;

/// Whether the processor has them, at twice the rate of multiply-adds: AMD's Zen 4 does (measured), and on servers of Intel's they
/// have half of the rate of multiply-adds (measured on one of 2023).
pub(super) fn are_fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| is_x86_feature_detected!("avx512bf16") && is_amd())
}

/// What the processor says: leaf 0, the vendor.
fn is_amd() -> bool {
    #[allow(
        unused_unsafe,
        reason = "this function is safe since a Rust that is newer than the oldest that this is for"
    )]
    // SAFETY: every x86-64 has the instruction.
    let leaf = unsafe { __cpuid(0) };
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}

/// Element i of 16, then element i of the next 16.
static PAIRS: [u16; 32] = {
    let mut pairs = [0; 32];
    let mut at = 0;
    while at < 32 {
        pairs[at] = (at / 2 + at % 2 * 16) as u16;
        at += 1;
    }
    pairs
};

/// Vector units need no preparation.
pub(crate) struct Dots;

impl Multiplier for Dots {
    /// 48 KiB, in the second-level cache; measured on Zen 4: 768 take 0.93 to 1.02 of the time of 512, and 256 take 1.00 to 1.10 of it.
    const DEPTH: usize = 768;

    #[inline(always)]
    unsafe fn start() -> Dots {
        Dots
    }

    #[inline(always)]
    unsafe fn put_a<T: Terms>(to: *mut u8, _: usize, elements: [__m512; 2]) {
        // SAFETY: the caller vouches for it.
        unsafe { _mm512_storeu_si512(to.cast(), rounded(elements)) };
    }

    #[inline(always)]
    unsafe fn put_b<T: Terms>(to: *mut u8, _: usize, rows: &impl Rows, index: usize) {
        // SAFETY: the caller vouches for it.
        unsafe {
            let order = _mm512_loadu_si512(PAIRS.as_ptr().cast());
            _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi16(order, rows.two(2 * index)));
        }
    }

    #[inline(always)]
    unsafe fn sums<T: Terms>(
        &self,
        [rows, columns]: [usize; 2],
        steps: impl Iterator<Item = Step> + Clone,
        between: &mut impl Between,
        sums: &mut [f32; SUMS],
    ) -> bool {
        const { assert!(T::A == 1 && T::B == 1, "numbers of one piece") };
        let (mut row, mut are_finite) = (0, true);
        while row < rows {
            let steps = steps.clone();
            let is_short = matches!(rows - row, 0..=SHORT | 13..=16);
            // SAFETY: the caller vouches for the processor and the tiles; two tiles have rows for the last pass.
            unsafe {
                are_finite &= match (is_short, columns > TILE) {
                    (false, true) if row == 0 => pass::<TALL, 2, _>(steps, row, between, sums),
                    (false, true) => pass::<TALL, 2, _>(steps, row, &mut (), sums),
                    (false, false) => pass::<TALL, 1, _>(steps, row, &mut (), sums),
                    (true, true) => pass::<SHORT, 2, _>(steps, row, &mut (), sums),
                    (true, false) => pass::<SHORT, 1, _>(steps, row, &mut (), sums),
                };
            }
            row += if is_short { SHORT } else { TALL };
        }
        // SAFETY: the caller vouches for the processor.
        unsafe { between.advance(steps.count()) };
        are_finite
    }
}

/// The sums of `R` rows from `first` on by `C` tiles of columns; whether all are finite.
///
/// # Safety
/// The processor has the features; the rows of A and the tiles of B are readable.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pass<const R: usize, const C: usize, B: Between>(
    steps: impl Iterator<Item = Step>,
    first: usize,
    between: &mut B,
    sums: &mut [f32; SUMS],
) -> bool {
    let mut tile = [[_mm512_setzero_ps(); C]; R];
    for Step { a, b, elements } in steps {
        between.fetch();
        let a = a.tiles.wrapping_add(first * 64);
        for pair in 0..elements.div_ceil(2).min(TILE) {
            // SAFETY: the caller vouches for A and B: 64 bytes of a row of B, of each row of A four.
            unsafe {
                let mut of_b = [_mm512_setzero_si512(); C];
                unrolled!(c in 0..C of FEW {
                    of_b[c] = _mm512_loadu_si512(b.tiles.add(c * TILE_BYTES + pair * 64).cast());
                });
                unrolled!(r in 0..R {
                    let of_a = _mm512_set1_epi32(a.add(r * 64 + pair * 4).cast::<i32>().read());
                    unrolled!(c in 0..C of FEW {
                        tile[r][c] = _mm512_dpbf16_ps(tile[r][c], as_pairs(of_a), as_pairs(of_b[c]));
                    });
                });
            }
        }
    }
    // Zero times what is not finite is not a number.
    let (zero, mut checks) = (_mm512_setzero_ps(), [_mm512_setzero_ps(); C]);
    unrolled!(r in 0..R {
        let row = first + r;
        unrolled!(c in 0..C of FEW {
            // SAFETY: the sums of 32 rows of two times 16.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr().add(sum_of(row, c)), tile[r][c]) };
            checks[c] = _mm512_fmadd_ps(zero, tile[r][c], checks[c]);
        });
    });
    let check = _mm512_add_ps(checks[0], checks[C - 1]);
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(check, check) == 0
}

#[inline(always)]
fn as_pairs(bits: __m512i) -> __m512bh {
    // SAFETY: vectors of 64 bytes.
    unsafe { std::mem::transmute(bits) }
}
