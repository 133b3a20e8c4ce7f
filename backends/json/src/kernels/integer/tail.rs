//! What follows sums of bytes in vectors of 512 bits, of two panels each: bytes, numbers, or what each panel does by itself.

use std::arch::x86_64::{
    __m128i, __m256i, __m512, __m512i, _mm_mask_storeu_epi8, _mm_storeu_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_mask_storeu_epi8, _mm256_setzero_si256, _mm256_storeu_si256, _mm512_add_ps,
    _mm512_castsi512_ps, _mm512_castsi512_si256, _mm512_cvtepi32_ps, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_permutexvar_epi32, _mm512_set1_ps,
    _mm512_setr_epi32, _mm512_setzero_si512,
};

use super::avx2::Panel;
use super::avx512::{LANES, Narrow};
use super::finish::{Target, columns};
use super::linear::Byte;
use super::pack::PANEL;
use super::tile::Tiles;
use super::vnni::panel;

/// Columns of two vectors of sums.
const COLUMNS: usize = 2 * LANES;

/// What is made of sums, and written.
pub(super) trait Tail {
    /// What the sums of the columns start with.
    fn start(&self) -> [__m512i; 2];

    /// Writes what comes of the sums of `P` rows from `row` on, of `W` vectors.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, VL, DQ and BW, and there are these rows. The columns that there are of them are in C, and nothing else accesses
    /// them.
    unsafe fn write<const P: usize, const W: usize>(&self, tiles: &Tiles<'_>, row: usize, sums: [[__m512i; P]; W]);
}

/// The one that products have.
pub(super) enum Tails<'a> {
    /// The sums become bytes.
    Bytes(Bytes),
    /// They become numbers.
    Real(Real<'a>),
    /// They stay integers, or need the sums of the rows of A.
    Panels(Panels<'a>),
}

impl<'a> Tails<'a> {
    /// # Safety
    /// As [`Tail::write`], for all rows.
    #[inline(always)]
    pub(super) unsafe fn new(tiles: &Tiles<'a>) -> Tails<'a> {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            match tiles.finish.out {
                Target::Bytes(out, byte, zero) if !tiles.finds && !tiles.finish.e.needs_sums() => {
                    Tails::Bytes(Bytes::new(tiles, (out, byte, zero)))
                }
                Target::Real(out) if !tiles.finds && !tiles.finish.e.needs_sums() => Tails::Real(Real::new(tiles, out)),
                _ => Tails::Panels(Panels::new(tiles)),
            }
        }
    }
}

/// How rows of bytes are made of sums.
pub(super) struct Bytes {
    narrow: Narrow,
    /// As [`start`] says.
    start: [__m512i; 2],
    /// The columns that there are.
    mask: u32,
    out: *mut u8,
}

/// Columns in vectors.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn vectors<T: Copy>(columns: &[T; COLUMNS]) -> [__m512i; 2] {
    const { assert!(size_of::<T>() == 4) };
    let at = columns.as_ptr();
    // SAFETY: 16 elements each; the caller vouches for the CPU.
    unsafe { [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(LANES).cast())] }
}

/// What the sums of the columns start with: the bias, less what the zero point of A adds to the products.
fn start(tiles: &Tiles<'_>) -> [i32; COLUMNS] {
    let mut start: [i32; COLUMNS] = columns(tiles.finish.e.bias, &tiles.finish.columns, 0);
    for (panel, start) in start.chunks_exact_mut(PANEL).enumerate().take(tiles.stats.len()) {
        for (start, taken) in start.iter_mut().zip(tiles.taken(panel)) {
            *start = start.wrapping_sub(taken);
        }
    }
    start
}

/// How rows of numbers are made of sums.
pub(super) struct Real<'a> {
    factors: [__m512; 2],
    offsets: [__m512; 2],
    /// The factor of each row; empty where there is none.
    rows: &'a [f32],
    /// As [`start`] says.
    start: [__m512i; 2],
    lo: __m512,
    hi: __m512,
    /// The columns that there are of each vector.
    masks: [u16; 2],
    out: *mut f32,
}

impl<'a> Real<'a> {
    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn new(tiles: &Tiles<'a>, out: *mut f32) -> Real<'a> {
        let (e, range) = (tiles.finish.e, &tiles.finish.columns);
        let mask = u32::MAX >> (COLUMNS - range.len());
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let [low, high] = vectors::<f32>(&columns(e.factors, range, 1.0));
            let factors = [_mm512_castsi512_ps(low), _mm512_castsi512_ps(high)];
            let [low, high] = vectors::<f32>(&columns(e.offsets, range, 0.0));
            Real {
                factors,
                offsets: [_mm512_castsi512_ps(low), _mm512_castsi512_ps(high)],
                rows: e.rows.get(tiles.finish.row..).unwrap_or_default(),
                start: vectors(&start(tiles)),
                lo: _mm512_set1_ps(e.clamp.0),
                hi: _mm512_set1_ps(e.clamp.1),
                masks: [mask as u16, (mask >> LANES) as u16],
                out,
            }
        }
    }
}

impl Tail for Real<'_> {
    #[inline(always)]
    fn start(&self) -> [__m512i; 2] {
        self.start
    }

    /// As [`Finish::row`](super::finish::Finish::row), 16 columns at a time.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    unsafe fn write<const P: usize, const W: usize>(&self, tiles: &Tiles<'_>, row: usize, sums: [[__m512i; P]; W]) {
        for p in 0..P {
            let of_row = self.rows.get(row + p).copied();
            for w in 0..W {
                let out = self.out.wrapping_add(tiles.finish.place(row + p, w * LANES));
                // SAFETY: the caller vouches for the CPU and the rows; only columns that there are are written.
                unsafe {
                    let mut real = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[w][p]), self.factors[w]);
                    if let Some(of_row) = of_row {
                        real = _mm512_mul_ps(real, _mm512_set1_ps(of_row));
                    }
                    // The second operand is taken where it is not a number.
                    let clamped = _mm512_min_ps(self.hi, _mm512_max_ps(self.lo, _mm512_add_ps(real, self.offsets[w])));
                    _mm512_mask_storeu_ps(out, self.masks[w], clamped);
                }
            }
        }
    }
}

impl Bytes {
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[inline(always)]
    unsafe fn new(tiles: &Tiles<'_>, (out, byte, zero): (*mut u8, Byte, i32)) -> Bytes {
        let (e, range, panels) = (tiles.finish.e, &tiles.finish.columns, tiles.stats.len());
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let factors = vectors::<f32>(&columns(e.factors, range, 1.0));
            let offsets = vectors::<f32>(&columns(e.offsets, range, 0.0));
            // What becomes one vector of bytes: four rows of 16 columns, or two of 32.
            let other = usize::from(panels > 2);
            let [of_factors, of_offsets] = [factors, offsets].map(|of| [of[0], of[other], of[0], of[other]]);
            let narrow = Narrow::new(e, (byte, zero), of_factors, of_offsets);
            Bytes { narrow, start: vectors(&start(tiles)), mask: u32::MAX >> (COLUMNS - range.len()), out }
        }
    }
}

impl Tail for Bytes {
    #[inline(always)]
    fn start(&self) -> [__m512i; 2] {
        self.start
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    unsafe fn write<const P: usize, const W: usize>(&self, tiles: &Tiles<'_>, row: usize, sums: [[__m512i; P]; W]) {
        let rows_of_one = 4 / W;
        // SAFETY: the caller vouches for the CPU and the rows; only columns that there are are written.
        unsafe {
            // Four sums of each column quarter are side by side, by row and vector; then they are by row and column.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            for first in (0..P).step_by(rows_of_one) {
                let mut four = [_mm512_setzero_si512(); 4];
                for index in 0..4 {
                    // The last row stands in for those that there are not.
                    let p = if first + index / W < P { first + index / W } else { P - 1 };
                    four[index] = sums[index % W][p];
                }
                let bytes = _mm512_permutexvar_epi32(order, self.narrow.bytes(four));
                let low = _mm512_castsi512_si256(bytes);
                let halves = [low, _mm512_extracti64x4_epi64::<1>(bytes)];
                for half in 0..2 {
                    let top = first + half * rows_of_one / 2;
                    let out = |below: usize| self.out.wrapping_add(tiles.finish.at(row + top + below));
                    match (W, P.saturating_sub(top)) {
                        (_, 0) => {}
                        (2, _) => store(out(0), halves[half], self.mask),
                        (_, rows) => {
                            store_half(out(0), _mm256_castsi256_si128(halves[half]), self.mask);
                            if rows > 1 {
                                store_half(out(1), _mm256_extracti128_si256::<1>(halves[half]), self.mask);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Writes the columns that there are of 32.
///
/// # Safety
/// As many may be written; the CPU has AVX-512 BW and VL.
#[inline(always)]
unsafe fn store(out: *mut u8, bytes: __m256i, mask: u32) {
    // SAFETY: the caller vouches for them.
    unsafe {
        if mask == u32::MAX {
            _mm256_storeu_si256(out.cast(), bytes);
        } else {
            _mm256_mask_storeu_epi8(out.cast(), mask, bytes);
        }
    }
}

/// The same of 16.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn store_half(out: *mut u8, bytes: __m128i, mask: u32) {
    // SAFETY: the caller vouches for them.
    unsafe {
        if mask == u32::from(u16::MAX) {
            _mm_storeu_si128(out.cast(), bytes);
        } else {
            _mm_mask_storeu_epi8(out.cast(), mask as u16, bytes);
        }
    }
}

/// What writes each of four panels; the last one stands in for those that there are not.
pub(super) struct Panels<'a>([Panel<'a>; 4]);

impl<'a> Panels<'a> {
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn new(tiles: &Tiles<'a>) -> Panels<'a> {
        // SAFETY: the caller vouches for the CPU.
        unsafe { Panels([panel(tiles, 0), panel(tiles, 1), panel(tiles, 2), panel(tiles, 3)]) }
    }
}

impl Tail for Panels<'_> {
    /// Nothing: what else is added up is added by each panel.
    #[inline(always)]
    fn start(&self) -> [__m512i; 2] {
        // SAFETY: there are such tails only where the CPU has AVX-512, and what is added is a constant.
        unsafe { [_mm512_setzero_si512(); 2] }
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    unsafe fn write<const P: usize, const W: usize>(&self, tiles: &Tiles<'_>, row: usize, sums: [[__m512i; P]; W]) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            for w in 0..W {
                let (low, high) = halves(&sums[w]);
                self.0[2 * w].write(row, low);
                if 2 * w + 1 < tiles.stats.len() {
                    self.0[2 * w + 1].write(row, high);
                }
            }
        }
    }
}

/// The sums of two panels.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn halves<const P: usize>(sums: &[__m512i; P]) -> ([__m256i; P], [__m256i; P]) {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let mut halves = ([_mm256_setzero_si256(); P], [_mm256_setzero_si256(); P]);
        for p in 0..P {
            halves.0[p] = _mm512_castsi512_si256(sums[p]);
            halves.1[p] = _mm512_extracti64x4_epi64::<1>(sums[p]);
        }
        halves
    }
}
