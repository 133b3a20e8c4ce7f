//! Convolutions of one filter a channel by instructions that add up four products of bytes: 64 channels at a time.
//!
//! The pixels of four rows of the image, one above the other, are interleaved so that 32 bits hold one channel of all four. That is
//! done once for all windows of a row that reach the pixels: a window of 3x3 takes three instructions for 16 channels then. What
//! interleaving does to the order of the channels, in each quarter of a vector, narrowing to bytes undoes.
//!
//! Where 32 channels are left, or 16, a vector has those of two rows of windows, or of four.

use std::arch::x86_64::{
    __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_mask_loadu_epi8, _mm512_mask_storeu_epi8,
    _mm512_mullo_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_sub_epi32, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpacklo_epi8, _mm512_unpacklo_epi16,
    _mm512_xor_si512,
};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::super::avx512::{LANES, Narrow, VECTORS, quarters};
use super::super::finish::{Epilogue, columns};
use super::super::linear::Byte;
use super::super::rows::{Image, Rows};

/// Rows of the image that are interleaved.
const ROWS: usize = 4;

/// Channels of a step.
const CHANNELS: usize = VECTORS * LANES;

/// Groups of pixels of the image that are kept at a time: 16 KiB.
const MOST_GROUPS: usize = 64;

/// Groups of weights, at most.
const MOST_WEIGHTS: usize = 16;

/// Windows that are computed together.
const TOGETHER: usize = 4;

/// 64 channels of four pixels, or of four weights.
type Group = [__m512i; VECTORS];

/// What all steps read.
pub(super) struct Columns<'a> {
    image: &'a Image<'a>,
    /// As [taps][channels].
    weights: &'a [i8],
    e: &'a Epilogue<'a>,
    out: *mut u8,
    /// The type and the zero point of the results.
    result: (Byte, i32),
    /// Groups that the rows of a window make.
    groups: usize,
    /// Windows whose pixels are kept at a time.
    windows: usize,
}

// SAFETY: `out` is the address of a slice that outlives the tasks, each of which writes elements of its own.
unsafe impl Sync for Columns<'_> {}

impl<'a> Columns<'a> {
    /// `None` for what the kernel does not do: weights with zero points, windows of many taps.
    pub(super) fn new(
        image: &'a Image<'a>,
        weights: &'a [i8],
        e: &'a Epilogue<'a>,
        (out, byte, zero): (*mut u8, Byte, i32),
    ) -> Option<Self> {
        let groups = image.kernel[0].div_ceil(ROWS);
        let reach = image.kernel[1].checked_sub(1)?.checked_mul(image.dilations[1])?;
        let more = MOST_GROUPS.checked_div(groups)?.checked_sub(reach.checked_add(1)?)?;
        let windows = more / image.strides[1] + 1;
        let does = groups * image.kernel[1] <= MOST_WEIGHTS && !e.needs_sums();
        does.then_some(Columns { image, weights, e, out, result: (byte, zero), groups, windows })
    }

    /// Steps of channels.
    pub(super) fn steps(&self) -> usize {
        self.image.channels.div_ceil(CHANNELS)
    }

    /// Computes a step of rows of windows; rows are those of all images, one behind another.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VNNI; there are these rows, and weights of all channels; nothing else accesses the step's
    /// channels of these rows of C, and C has them.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
    pub(super) unsafe fn run(&self, step: usize, rows: Range<usize>) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            match self.image.channels - step * CHANNELS {
                ..=16 => self.rows::<4>(step, rows),
                17..=32 => self.rows::<2>(step, rows),
                _ => self.rows::<1>(step, rows),
            }
        }
    }

    /// The same with the channels of `R` rows of windows in a vector.
    ///
    /// # Safety
    /// As [`Columns::run`]; an `R`th of a vector has room for the step's channels.
    #[inline(always)]
    unsafe fn rows<const R: usize>(&self, step: usize, rows: Range<usize>) {
        let mut weights = [const { MaybeUninit::uninit() }; MOST_WEIGHTS];
        let mut pixels = [const { MaybeUninit::uninit() }; MOST_GROUPS];
        let width = self.image.out[1];
        // SAFETY: the caller vouches for all of it; a step has a channel.
        unsafe {
            let step = Step::<R>::new(self, step * CHANNELS, &mut weights);
            for row in rows.clone().step_by(R) {
                // The last row stands in for those that there are not.
                let mut together = [row; R];
                for (next, together) in together.iter_mut().enumerate() {
                    *together = (row + next).min(rows.end - 1);
                }
                for first in (0..width).step_by(self.windows) {
                    let windows = first..(first + self.windows).min(width);
                    step.interleave(&together, &windows, &mut pixels);
                    step.multiply(&together, windows, &pixels);
                }
            }
        }
    }
}

/// Interleaves four rows. The quarters of the vectors have four channels each: of 64, the quarter q of the vector v has those from
/// 16 q + 4 v on.
///
/// # Safety
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn interleaved([a, b, c, d]: [__m512i; ROWS]) -> Group {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let (upper, lower) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
        let (more_upper, more_lower) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
        [
            _mm512_unpacklo_epi16(upper, lower),
            _mm512_unpackhi_epi16(upper, lower),
            _mm512_unpacklo_epi16(more_upper, more_lower),
            _mm512_unpackhi_epi16(more_upper, more_lower),
        ]
    }
}

/// Numbers by channel, as often as there are rows in a vector.
fn by_row<T: Copy, const R: usize>(list: &[T], channels: &Range<usize>, other: T) -> [T; CHANNELS] {
    let mut numbers: [T; CHANNELS] = columns(list, channels, other);
    for row in 1..R {
        numbers.copy_within(..CHANNELS / R, row * CHANNELS / R);
    }
    numbers
}

/// 64 channels or fewer, of each of `R` rows of windows an `R`th of them.
struct Step<'a, const R: usize> {
    of: &'a Columns<'a>,
    /// The first one.
    first: usize,
    /// The lanes of each row that have a channel.
    masks: [u64; R],
    /// By column of the window, then by group of its rows.
    weights: &'a [MaybeUninit<Group>; MOST_WEIGHTS],
    /// What the sums start with: the bias, less what the zero point of the image adds to the products.
    start: Group,
    narrow: Narrow,
    /// What changes the sign of a pixel.
    flip: __m512i,
    /// The zero point of the image, in each byte, with the sign of a pixel.
    zeros: __m512i,
}

/// A vector in which some lanes are loaded from where the channels of a row are, which are a row's part further in the vector.
///
/// # Safety
/// The CPU has AVX-512 F and BW; the channels may be read.
#[inline(always)]
unsafe fn loaded<const R: usize>(vector: __m512i, masks: &[u64; R], row: usize, channels: *const u8) -> __m512i {
    // SAFETY: only lanes of the mask are read.
    unsafe { _mm512_mask_loadu_epi8(vector, masks[row], channels.wrapping_sub(row * CHANNELS / R).cast()) }
}

impl<'a, const R: usize> Step<'a, R> {
    /// # Safety
    /// As [`Columns::run`].
    #[inline(always)]
    unsafe fn new(of: &'a Columns<'a>, first: usize, weights: &'a mut [MaybeUninit<Group>; MOST_WEIGHTS]) -> Self {
        let (image, e) = (of.image, of.e);
        let channels = first..image.channels.min(first + CHANNELS);
        let mut masks = [u64::MAX >> (CHANNELS - channels.len()); R];
        for (row, mask) in masks.iter_mut().enumerate() {
            *mask <<= row * CHANNELS / R;
        }
        let (flip, zero) = image.reading();
        // SAFETY: the caller vouches for the CPU and the weights; only channels that there are are read.
        unsafe {
            let mut sums = [_mm512_setzero_si512(); VECTORS];
            for (index, weights) in weights.iter_mut().enumerate().take(of.groups * image.kernel[1]) {
                let (column, group) = (index / of.groups, index % of.groups);
                let mut rows = [_mm512_setzero_si512(); ROWS];
                for (row, y) in rows.iter_mut().zip(group * ROWS..image.kernel[0]) {
                    let tap = y * image.kernel[1] + column;
                    let channels = of.weights.as_ptr().add(tap * image.channels + first).cast();
                    for part in 0..R {
                        *row = loaded(*row, &masks, part, channels);
                    }
                }
                let rows = interleaved(rows);
                for vector in 0..VECTORS {
                    sums[vector] = _mm512_dpbusd_epi32(sums[vector], _mm512_set1_epi8(1), rows[vector]);
                }
                weights.write(rows);
            }
            let mut start = quarters::<i32>(&by_row::<_, R>(e.bias, &channels, 0));
            for vector in 0..VECTORS {
                let added = _mm512_mullo_epi32(sums[vector], _mm512_set1_epi32(i32::from(zero)));
                start[vector] = _mm512_sub_epi32(start[vector], added);
            }
            let factors = quarters::<f32>(&by_row::<_, R>(e.factors, &channels, 1.0));
            let offsets = quarters::<f32>(&by_row::<_, R>(e.offsets, &channels, 0.0));
            Step {
                of,
                first,
                masks,
                weights,
                start,
                narrow: Narrow::new(e, of.result, factors, offsets),
                flip: _mm512_set1_epi8(flip as i8),
                zeros: _mm512_set1_epi8((zero ^ flip) as i8),
            }
        }
    }

    /// Where the step's channels of the rows of a group begin, at the left edge of the image: of those that are in it.
    #[inline(always)]
    fn rows(&self, row: usize, group: usize) -> [Option<*const u8>; ROWS] {
        let image = self.of.image;
        let (index, y) = (row / image.out[0], row % image.out[0]);
        let mut rows = [None; ROWS];
        for (row, tap) in rows.iter_mut().zip(group * ROWS..image.kernel[0]) {
            if let Some(y) = image.place(0, y, tap) {
                let line = (index * image.size[0] + y) * image.size[1] * image.channels;
                *row = Some(image.bytes.as_ptr().wrapping_add(line + self.first));
            }
        }
        rows
    }

    /// Interleaves the pixels that some windows of a row reach: by column, then by group of rows.
    ///
    /// # Safety
    /// As [`Columns::run`], for windows that there are, at most [`Columns::windows`].
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant indices unroll the parts")]
    unsafe fn interleave(
        &self,
        rows: &[usize; R],
        windows: &Range<usize>,
        pixels: &mut [MaybeUninit<Group>; MOST_GROUPS],
    ) {
        let (image, groups) = (self.of.image, self.of.groups);
        let reach = (image.kernel[1] - 1) * image.dilations[1] + 1;
        let count = (windows.len() - 1) * image.strides[1] + reach;
        let (from, pad) = (windows.start * image.strides[1], image.pads[1]);
        // Of the columns, those that are in the image.
        let inside = pad.saturating_sub(from).min(count)..(image.size[1] + pad).saturating_sub(from).min(count);
        for group in 0..groups {
            let mut taps_of = [[None; ROWS]; R];
            for (part, &row) in rows.iter().enumerate() {
                taps_of[part] = self.rows(row, group);
            }
            for column in 0..count {
                // SAFETY: the caller vouches for the CPU.
                let outside = unsafe { _mm512_xor_si512(self.zeros, self.flip) };
                let mut vectors = [outside; VECTORS];
                if inside.contains(&column) {
                    let pixel = (from + column - pad) * image.channels;
                    // SAFETY: the caller vouches for the CPU; the pixel is in the image, and only channels that there are are read.
                    unsafe {
                        let mut taps = [self.zeros; ROWS];
                        for tap in 0..ROWS {
                            for part in 0..R {
                                if let Some(row) = taps_of[part][tap] {
                                    taps[tap] = loaded(taps[tap], &self.masks, part, row.add(pixel));
                                }
                            }
                            taps[tap] = _mm512_xor_si512(taps[tap], self.flip);
                        }
                        vectors = interleaved(taps);
                    }
                }
                pixels[column * groups + group].write(vectors);
            }
        }
    }

    /// Computes some windows of a row, whose pixels are interleaved.
    ///
    /// # Safety
    /// As [`Step::interleave`].
    #[inline(always)]
    unsafe fn multiply(&self, rows: &[usize; R], windows: Range<usize>, pixels: &[MaybeUninit<Group>; MOST_GROUPS]) {
        let (image, groups) = (self.of.image, self.of.groups);
        let stride = image.strides[1] * groups;
        let mut window = 0;
        // SAFETY: the pixels of all windows were interleaved; the caller vouches for C.
        unsafe {
            let mut out = [self.of.out; R];
            for part in 0..R {
                out[part] = out[part].add((rows[part] * image.out[1] + windows.start) * image.channels + self.first);
            }
            let pixels = pixels.as_ptr().cast::<Group>();
            while window + TOGETHER <= windows.len() {
                self.together::<TOGETHER>(pixels.add(window * stride), stride, &out, window);
                window += TOGETHER;
            }
            while window < windows.len() {
                self.together::<1>(pixels.add(window * stride), stride, &out, window);
                window += 1;
            }
        }
    }

    /// Computes `P` windows of each row, from `first` on: the pixels of a window are a stride behind those of the one before.
    ///
    /// # Safety
    /// The pixels were interleaved, and there is room for the results; the CPU has AVX-512 F, BW and VNNI.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant indices keep the sums in registers")]
    unsafe fn together<const P: usize>(&self, pixels: *const Group, stride: usize, out: &[*mut u8; R], first: usize) {
        let (image, groups) = (self.of.image, self.of.groups);
        // SAFETY: the caller vouches for all of it; `new` wrote as many weights as there are columns and groups.
        unsafe {
            let mut sums = [self.start; P];
            for column in 0..image.kernel[1] {
                for group in 0..groups {
                    let weights = self.weights[column * groups + group].assume_init_ref();
                    let pixels = pixels.add(column * image.dilations[1] * groups + group);
                    for vector in 0..VECTORS {
                        let weights = weights[vector];
                        for window in 0..P {
                            let pixels = _mm512_loadu_si512((*pixels.add(window * stride)).as_ptr().add(vector));
                            sums[window][vector] = _mm512_dpbusd_epi32(sums[window][vector], pixels, weights);
                        }
                    }
                }
            }
            for window in 0..P {
                let bytes = self.narrow.bytes(sums[window]);
                for part in 0..R {
                    let out = out[part].add((first + window) * image.channels);
                    if self.masks[part] == u64::MAX {
                        _mm512_storeu_si512(out.cast(), bytes);
                    } else {
                        let lanes = out.wrapping_sub(part * CHANNELS / R);
                        _mm512_mask_storeu_epi8(lanes.cast(), self.masks[part], bytes);
                    }
                }
            }
        }
    }
}
