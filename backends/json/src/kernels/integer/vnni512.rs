//! Products of bytes by instructions that add up four of them in 32 bits, exactly: vectors of 512 bits, of two panels each.

use std::arch::x86_64::{
    __m128i, __m256i, __m512, __m512i, _MM_HINT_T0, _mm_mask_storeu_epi8, _mm_prefetch, _mm_storeu_si128,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_mask_storeu_epi8,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm512_add_ps, _mm512_castsi256_si512, _mm512_castsi512_ps,
    _mm512_castsi512_si256, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_inserti64x4,
    _mm512_loadu_si512, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_mullo_epi32,
    _mm512_permutexvar_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32,
    _mm512_setzero_si512, _mm512_sub_epi32,
};

use super::avx2::Panel;
use super::avx512::{LANES, Narrow};
use super::finish::{Target, columns};
use super::linear::Byte;
use super::pack::{DEPTH, PANEL};
use super::tile::{Places, Tiles, each_even_tile, each_tile};
use super::vnni::panel;

/// Columns of two vectors of sums.
const COLUMNS: usize = 2 * LANES;

/// Rows of two vectors whose sums stay in registers, 24 of 32, and from what depth on so many are faster than
/// [`MOST_ROWS`](super::tile::MOST_ROWS): B is loaded half as often, but what follows sums takes registers too.
const TALL: usize = 12;
const DEEP: usize = 256;

/// What follows the sums.
enum Tail<'a> {
    /// They become bytes.
    Bytes(Bytes),
    /// They become numbers.
    Real(Real<'a>),
    /// They stay integers, or need the sums of the rows of A.
    Panels([Panel<'a>; 4]),
}

/// How rows of bytes are made of sums.
struct Bytes {
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
struct Real<'a> {
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

    /// Writes `P` rows from `row` on: as [`Finish::row`](super::finish::Finish::row), 16 columns at a time.
    ///
    /// # Safety
    /// As [`bytes`].
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

    /// Writes `P` rows from `row` on.
    ///
    /// # Safety
    /// As [`tile`].
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

/// One to four panels.
///
/// # Safety
/// As [`multiply`](super::multiply::multiply); the CPU has AVX512-VNNI.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
pub(super) unsafe fn run(tiles: &Tiles<'_>) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        let panels = || [panel(tiles, 0), panel(tiles, 1), panel(tiles, 2), panel(tiles, 3)];
        let tail = match tiles.finish.out {
            _ if tiles.finds => Tail::Panels(panels()),
            Target::Bytes(out, byte, zero) if !tiles.finish.e.needs_sums() => {
                Tail::Bytes(Bytes::new(tiles, (out, byte, zero)))
            }
            Target::Real(out) if !tiles.finish.e.needs_sums() => Tail::Real(Real::new(tiles, out)),
            _ => Tail::Panels(panels()),
        };
        let rows = tiles.finish.rows;
        if tiles.places != Places::dense(tiles.depth) {
            for line in 0..tiles.places.lines {
                windows(&tiles.line(line), &tail);
            }
            return;
        }
        match (&tail, tiles.stats.len()) {
            (Tail::Bytes(tail), 1 | 2) => each_tile!(0..rows, bytes::<1>, tiles, tail),
            (Tail::Bytes(tail), _) => each_tile!(0..rows, bytes::<2>, tiles, tail),
            (Tail::Real(tail), 1 | 2) => each_tile!(0..rows, real::<1>, tiles, tail),
            (Tail::Real(tail), _) => {
                let tall = if tiles.depth < DEEP { 0 } else { rows / TALL * TALL };
                for row in (0..tall).step_by(TALL) {
                    real::<TALL, 2>(tiles, tail, row);
                }
                each_tile!(tall..rows, real::<2>, tiles, tail);
            }
            (Tail::Panels(tail), 1 | 2) if tiles.finds => each_tile!(0..rows, finding::<1>, tiles, tail),
            (Tail::Panels(tail), _) if tiles.finds => each_tile!(0..rows, finding::<2>, tiles, tail),
            (Tail::Panels(tail), 1 | 2) => each_tile!(0..rows, by_panel::<1>, tiles, tail),
            (Tail::Panels(tail), _) => each_tile!(0..rows, by_panel::<2>, tiles, tail),
        }
    }
}

/// A line of windows.
///
/// # Safety
/// As [`run`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn windows(line: &Tiles<'_>, tail: &Tail<'_>) {
    let rows = line.finish.rows;
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match (tail, line.stats.len()) {
            (Tail::Bytes(tail), 1 | 2) => each_even_tile!(rows, bytes::<1>, line, tail),
            (Tail::Bytes(tail), _) => each_even_tile!(rows, bytes::<2>, line, tail),
            (Tail::Real(tail), 1 | 2) => each_even_tile!(rows, real::<1>, line, tail),
            (Tail::Real(tail), _) => each_even_tile!(rows, real::<2>, line, tail),
            // Only dense rows have these, as `Tiles::check` says.
            (Tail::Panels(_), _) => {}
        }
    }
}

/// Rows `row` to `row + P` of `W` vectors.
///
/// # Safety
/// As [`run`], for rows that there are.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn bytes<const P: usize, const W: usize>(tiles: &Tiles<'_>, tail: &Bytes, row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { tail.write::<P, W>(tiles, row, sums::<P, W, false>(tiles, row, tail.start)) };
}

/// The same.
///
/// # Safety
/// As [`bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn real<const P: usize, const W: usize>(tiles: &Tiles<'_>, tail: &Real<'_>, row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { tail.write::<P, W>(tiles, row, sums::<P, W, false>(tiles, row, tail.start)) };
}

/// The same.
///
/// # Safety
/// As [`bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn by_panel<const P: usize, const W: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 4], row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { write_panels(tiles, panels, row, sums::<P, W, false>(tiles, row, [_mm512_setzero_si512(); 2])) };
}

/// The same where the sums of the columns of B are found on the way.
///
/// # Safety
/// As [`bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
unsafe fn finding<const P: usize, const W: usize>(tiles: &Tiles<'_>, panels: &[Panel<'_>; 4], row: usize) {
    // SAFETY: the caller vouches for all of it.
    unsafe { write_panels(tiles, panels, row, sums::<P, W, true>(tiles, row, [_mm512_setzero_si512(); 2])) };
}

/// # Safety
/// As [`bytes`].
#[inline(always)]
unsafe fn write_panels<const P: usize, const W: usize>(
    tiles: &Tiles<'_>,
    panels: &[Panel<'_>; 4],
    row: usize,
    sums: [[__m512i; P]; W],
) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        for w in 0..W {
            let (low, high) = halves(&sums[w]);
            panels[2 * w].write(row, low);
            if 2 * w + 1 < tiles.stats.len() {
                panels[2 * w + 1].write(row, high);
            }
        }
    }
}

/// The sums of rows of `W` vectors, which start with what is given. Where the sums of columns are found, what the zero point of A adds to
/// the products is taken off.
///
/// # Safety
/// As [`bytes`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
unsafe fn sums<const P: usize, const W: usize, const FIND: bool>(
    tiles: &Tiles<'_>,
    row: usize,
    start: [__m512i; 2],
) -> [[__m512i; P]; W] {
    let (depth, last) = (tiles.depth, tiles.stats.len() - 1);
    let Places { row: step_of_row, pieces, piece: step_of_piece, .. } = tiles.places;
    let length = depth / pieces;
    // SAFETY: the caller vouches for the rows; 32 bytes of each panel for each step, and four elements of each row.
    unsafe {
        let (mut a, b) = (tiles.bytes.as_ptr().add(row * step_of_row), tiles.b.as_ptr());
        // The first rows ask for the panels that are multiplied next; to others it is what they read.
        let ahead = b.wrapping_add(if row == 0 && tiles.ahead { tiles.b.len() } else { 0 });
        let mut sums = [[_mm512_setzero_si512(); P]; W];
        for w in 0..W {
            sums[w] = [start[w]; P];
        }
        let (mut of_columns, ones) = ([_mm512_setzero_si512(); W], _mm512_set1_epi8(1));
        let mut step = 0;
        let mut end = length;
        while step < depth {
            while step < end {
                let mut weights = [_mm512_setzero_si512(); W];
                for w in 0..W {
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add((step * W + w * DEPTH) * LANES));
                    // Where the second one is none, it is the first one again, and what comes of it is not written.
                    let [low, high] = [2 * w, last.min(2 * w + 1)];
                    let low = _mm256_loadu_si256(b.add((low * depth + step) * PANEL).cast::<__m256i>());
                    let high = _mm256_loadu_si256(b.add((high * depth + step) * PANEL).cast::<__m256i>());
                    weights[w] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                }
                if FIND {
                    for w in 0..W {
                        of_columns[w] = _mm512_dpbusd_epi32(of_columns[w], ones, weights[w]);
                    }
                }
                for p in 0..P {
                    let four = _mm512_set1_epi32(a.add(p * step_of_row + step).cast::<i32>().read_unaligned());
                    for w in 0..W {
                        sums[w][p] = _mm512_dpbusd_epi32(sums[w][p], four, weights[w]);
                    }
                }
                step += DEPTH;
            }
            // The next piece, seen from the first element of all of them.
            a = a.wrapping_add(step_of_piece).wrapping_sub(length);
            end += length;
        }
        if FIND {
            for w in 0..W {
                let taken = _mm512_mullo_epi32(of_columns[w], _mm512_set1_epi32(i32::from(tiles.zero)));
                for p in 0..P {
                    sums[w][p] = _mm512_sub_epi32(sums[w][p], taken);
                }
            }
        }
        sums
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
