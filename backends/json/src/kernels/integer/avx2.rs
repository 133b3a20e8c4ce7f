//! What follows sums that are in registers of AVX2: the same as [`Finish::row`], for eight columns at a time and several rows.
//!
//! All of it is inlined into kernels that are compiled for AVX2, as [`Kernel`](crate::kernels::isa::Kernel) is: sums handed over in
//! memory would take longer than the work on them. Intrinsics are in no closure, nor in a method of an iterator: these are compiled
//! without AVX2.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_storel_epi64, _mm_unpackhi_epi64, _mm256_add_epi32, _mm256_add_ps, _mm256_adds_epi16,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cvtepi32_ps, _mm256_cvtps_epi32,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_mullo_epi32,
    _mm256_packs_epi16, _mm256_packs_epi32, _mm256_packus_epi16, _mm256_permutevar8x32_epi32, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
};

use super::finish::{Finish, Target, columns};
use super::linear::{Byte, Levels};
use super::pack::PANEL;

/// What the rows of a panel have in common.
pub(super) struct Panel<'a> {
    finish: Finish<'a>,
    zeros: __m256i,
    bias: __m256i,
    factors: __m256,
    offsets: __m256,
    lo: __m256,
    hi: __m256,
}

/// The panel's part of a list as it lies in memory, or `other` for each where the list is empty.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn listed<T: Copy>(finish: &Finish<'_>, list: &[T], other: T) -> __m256i {
    const { assert!(size_of::<T>() == 4) };
    let start = finish.columns.start;
    // SAFETY: eight elements of four bytes; the caller vouches for the CPU.
    unsafe {
        match list.get(start..start + PANEL) {
            Some(list) => _mm256_loadu_si256(list.as_ptr().cast::<__m256i>()),
            None => _mm256_loadu_si256(columns::<_, PANEL>(list, &finish.columns, other).as_ptr().cast::<__m256i>()),
        }
    }
}

impl<'a> Panel<'a> {
    /// What is `taken` off each column is taken off the bias.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub(super) unsafe fn new(finish: &Finish<'a>, taken: [i32; PANEL]) -> Panel<'a> {
        let e = finish.e;
        let (lo, hi) = match finish.out {
            // A clamp of a clamp.
            Target::Bytes(_, byte, zero) => Levels::new(byte, zero).clamp(e.clamp),
            _ => e.clamp,
        };
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            Panel {
                finish: finish.clone(),
                zeros: listed(finish, e.zeros, e.zero),
                bias: _mm256_sub_epi32(listed(finish, e.bias, 0), _mm256_loadu_si256(taken.as_ptr().cast::<__m256i>())),
                factors: _mm256_castsi256_ps(listed(finish, e.factors, 1.0)),
                offsets: _mm256_castsi256_ps(listed(finish, e.offsets, 0.0)),
                lo: _mm256_set1_ps(lo),
                hi: _mm256_set1_ps(hi),
            }
        }
    }

    /// Writes `P` rows from `row` on.
    ///
    /// # Safety
    /// As [`Finish::row`], for each of them; the CPU has AVX2.
    #[inline(always)]
    pub(super) unsafe fn write<const P: usize>(&self, row: usize, mut sums: [__m256i; P]) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            if self.finish.e.needs_sums() {
                for (sums, &of_row) in sums.iter_mut().zip(&self.finish.sums[row..]) {
                    *sums = _mm256_sub_epi32(*sums, _mm256_mullo_epi32(self.zeros, _mm256_set1_epi32(of_row)));
                }
            }
            for sums in &mut sums {
                *sums = _mm256_add_epi32(*sums, self.bias);
            }
            match self.finish.out {
                Target::Sums(out) => self.integers(out, row, sums),
                Target::Real(out) => self.real(out, row, sums),
                Target::Bytes(out, byte, zero) => self.bytes((out, byte, zero), row, sums),
            }
        }
    }

    /// # Safety
    /// As [`Panel::write`].
    #[inline(always)]
    unsafe fn integers<const P: usize>(&self, out: *mut i32, row: usize, sums: [__m256i; P]) {
        for (p, sums) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for as many elements as there are columns.
            unsafe { store(out.add(self.finish.at(row + p)), sums, self.finish.columns.len()) };
        }
    }

    /// # Safety
    /// As [`Panel::write`].
    #[inline(always)]
    unsafe fn real<const P: usize>(&self, out: *mut f32, row: usize, sums: [__m256i; P]) {
        let rows = self.finish.e.rows.get(self.finish.row + row..).unwrap_or_default();
        for (p, sums) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for as many elements as there are columns.
            unsafe {
                let mut scaled = self.scaled(sums);
                if let Some(&of_row) = rows.get(p) {
                    scaled = _mm256_mul_ps(scaled, _mm256_set1_ps(of_row));
                }
                // The second operand is taken where it is not a number.
                let clamped = _mm256_min_ps(self.hi, _mm256_max_ps(self.lo, _mm256_add_ps(scaled, self.offsets)));
                let eight = _mm256_castps_si256(clamped);
                store(out.add(self.finish.at(row + p)).cast::<i32>(), eight, self.finish.columns.len());
            }
        }
    }

    /// The sums with the factors of their columns.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn scaled(&self, sums: __m256i) -> __m256 {
        // SAFETY: the caller vouches for the CPU.
        unsafe { _mm256_mul_ps(_mm256_cvtepi32_ps(sums), self.factors) }
    }

    /// What is nearest to the scaled, moved and clamped sums, the even one of two; the least where they are no numbers.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn level(&self, sums: __m256i) -> __m256i {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let moved = _mm256_add_ps(self.scaled(sums), self.offsets);
            // The second operand is taken where the first one is not a number.
            _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(moved, self.lo), self.hi))
        }
    }

    /// # Safety
    /// As [`Panel::write`].
    #[inline(always)]
    unsafe fn bytes<const P: usize>(&self, (out, byte, zero): (*mut u8, Byte, i32), row: usize, sums: [__m256i; P]) {
        for first in (0..P).step_by(4) {
            // The last row stands in for those that there are not.
            let last = P - 1;
            let four = [sums[first], sums[last.min(first + 1)], sums[last.min(first + 2)], sums[last.min(first + 3)]];
            // SAFETY: the caller vouches for as many elements as there are columns.
            unsafe {
                let [top, bottom] = self.narrow(four, byte, zero);
                let rows = [top, _mm_unpackhi_epi64(top, top), bottom, _mm_unpackhi_epi64(bottom, bottom)];
                for (p, eight) in (first..P).zip(rows) {
                    store_bytes(out.add(self.finish.at(row + p)), eight, self.finish.columns.len());
                }
            }
        }
    }

    /// Four rows as bytes, two in each half.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn narrow(&self, rows: [__m256i; 4], byte: Byte, zero: i32) -> [__m128i; 2] {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let zeros = _mm256_set1_epi16(zero as i16);
            let [a, b, c, d] = rows;
            let left = _mm256_packs_epi32(self.level(a), self.level(b));
            let right = _mm256_packs_epi32(self.level(c), self.level(d));
            let (left, right) = (_mm256_adds_epi16(left, zeros), _mm256_adds_epi16(right, zeros));
            let four = match byte {
                Byte::U8 => _mm256_packus_epi16(left, right),
                Byte::I8 => _mm256_packs_epi16(left, right),
            };
            // The halves of the vectors were narrowed each by itself: four columns of each row are in either.
            let four = _mm256_permutevar8x32_epi32(four, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            [_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four)]
        }
    }
}

/// Writes the first `count` of eight elements.
///
/// # Safety
/// As many may be written; the CPU has AVX2.
#[inline(always)]
unsafe fn store(out: *mut i32, eight: __m256i, count: usize) {
    // SAFETY: the caller vouches for them.
    unsafe {
        if count == PANEL {
            _mm256_storeu_si256(out.cast::<__m256i>(), eight);
        } else {
            let mut row = [0i32; PANEL];
            _mm256_storeu_si256(row.as_mut_ptr().cast::<__m256i>(), eight);
            std::ptr::copy_nonoverlapping(row.as_ptr(), out, count);
        }
    }
}

/// The same of the low eight bytes.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn store_bytes(out: *mut u8, eight: __m128i, count: usize) {
    // SAFETY: the caller vouches for them.
    unsafe {
        if count == PANEL {
            _mm_storel_epi64(out.cast::<__m128i>(), eight);
        } else {
            let mut row = [0u8; PANEL];
            _mm_storel_epi64(row.as_mut_ptr().cast::<__m128i>(), eight);
            std::ptr::copy_nonoverlapping(row.as_ptr(), out, count);
        }
    }
}
