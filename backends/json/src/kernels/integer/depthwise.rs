//! Convolutions of one filter a channel, over images with their channels last.

use std::ops::Range;

use super::finish::{self, Epilogue, Finish, Out, Target};
use super::linear::Byte;
use super::pack::PANEL;
use super::rows::{Image, Rows};
use super::tile::MOST_ROWS;
use crate::kernels::isa::Isa;
use crate::kernels::parallel::{Threads, part};
use crate::kernels::sizes::product;

/// Channels of a step: two panels.
const WIDE: usize = 2 * PANEL;

/// Most taps of a window.
pub const MAX_TAPS: usize = 128;

/// Names the layout of [`pack_depthwise`].
pub const DEPTHWISE_LAYOUT: &str = "integer/tap-channel/1";

/// Weights [channels, taps] as [taps][channels].
///
/// # Panics
/// If the lengths differ.
pub fn pack_depthwise(channels: usize, taps: usize, weights: &[u8], byte: Byte, out: &mut [i8]) {
    assert!(Some(weights.len()) == product(&[channels, taps]) && weights.len() == out.len());
    let flip = if byte == Byte::U8 { 0x80 } else { 0 };
    for (tap, out) in out.chunks_exact_mut(channels.max(1)).enumerate() {
        for (channel, out) in out.iter_mut().enumerate() {
            *out = (weights[channel * taps + tap] ^ flip) as i8;
        }
    }
}

/// `f32` values of scratch that [`depthwise`] needs; `None` if they cannot be counted.
pub fn depthwise_scratch_len(channels: usize, taps: usize) -> Option<usize> {
    // Pairs of weights, what padding and zero points take off, and a row of padding.
    let steps = channels.div_ceil(WIDE);
    product(&[steps, taps.div_ceil(2), WIDE])?.checked_add(steps * WIDE + channels.div_ceil(4))
}

/// What all tasks read.
struct Work<'a> {
    isa: Isa,
    image: &'a Image<'a>,
    /// For each 16 channels, for each two taps, two weights of each channel.
    weights: &'a [[i16; 2]],
    /// Added to the sums of each channel.
    start: &'a [i32],
    /// A pixel of padding.
    padding: &'a [u8],
    taps: usize,
    e: &'a Epilogue<'a>,
    out: Target,
}

/// Convolves the images of A with one filter a channel, packed by [`pack_depthwise`].
///
/// # Panics
/// If a slice is shorter than the shapes say.
pub fn depthwise(
    threads: &Threads,
    windows: usize,
    image: &Image<'_>,
    weights: &[i8],
    out: Out<'_>,
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    let (channels, taps) = (image.channels, image.kernel[0] * image.kernel[1]);
    assert!(taps <= MAX_TAPS && product(&[channels, taps]) == Some(weights.len()));
    assert!(product(&[channels, taps]).is_some_and(|k| image.fits(windows, k)), "A is too short");
    assert!(windows.checked_mul(channels).is_some_and(|len| out.len() == len), "C has another size");
    e.check(channels);
    let (steps, pairs) = (channels.div_ceil(WIDE), taps.div_ceil(2));
    let (packed, rest) = scratch.split_at_mut(steps * pairs * WIDE);
    let (start, padding) = rest.split_at_mut(steps * WIDE);
    // SAFETY: every bit pattern is an integer of these types, whose alignment is at most that of `f32`.
    let (packed, start, padding) =
        unsafe { (packed.align_to_mut::<[i16; 2]>().1, start.align_to_mut::<i32>().1, padding.align_to_mut::<u8>().1) };
    let (flip, zero) = image.reading();
    padding[..channels].fill(zero as u8 ^ flip);
    prepare(weights, channels, taps, zero, e, packed, start);
    // Zero points of the weights are in them now.
    let e = Epilogue { zeros: &[], zero: 0, ..*e };
    let (isa, out) = (threads.isa(), out.target());
    let task = Work { isa, image, weights: packed, start, padding: &padding[..channels], taps, e: &e, out };
    let tiles = windows.div_ceil(MOST_ROWS);
    let work = windows.saturating_mul(channels).saturating_mul(taps);
    let tasks = threads.count().min(work.div_ceil(128 << 10)).max(1);
    threads.parallel_for(tasks, |index| {
        for first in part(tiles, tasks, index).map(|tile| tile * MOST_ROWS) {
            task.tile(first..(first + MOST_ROWS).min(windows));
        }
    });
}

/// Widens the weights without their zero points, two taps side by side. A sum starts with what the zero point of the image adds to
/// it, as elements are multiplied as they are.
fn prepare(
    weights: &[i8],
    channels: usize,
    taps: usize,
    zero: i16,
    e: &Epilogue<'_>,
    packed: &mut [[i16; 2]],
    start: &mut [i32],
) {
    let pairs = taps.div_ceil(2);
    start.fill(0);
    packed.fill([0; 2]);
    for (tap, weights) in weights.chunks_exact(channels.max(1)).enumerate() {
        for (channel, &weight) in weights.iter().enumerate() {
            let weight = i32::from(weight) - e.zeros.get(channel).copied().unwrap_or(e.zero);
            start[channel] -= i32::from(zero) * weight;
            packed[(channel / WIDE * pairs + tap / 2) * WIDE + slot(channel % WIDE)][tap % 2] = weight as i16;
        }
    }
}

/// Where the weights of one of sixteen channels are: in the order in which AVX2 interleaves two taps, 0 to 3, 8 to 11, 4 to 7 and the rest.
fn slot(channel: usize) -> usize {
    match channel / 4 {
        1 => channel + 4,
        2 => channel - 4,
        _ => channel,
    }
}

impl Work<'_> {
    /// Computes up to six windows.
    fn tile(&self, windows: Range<usize>) {
        let (channels, pairs) = (self.image.channels, self.taps.div_ceil(2));
        // Those outside of the image are padding; an odd number of taps has a weight of 0 behind it.
        let mut taps = [[self.padding.as_ptr(); MAX_TAPS]; MOST_ROWS];
        for (taps, window) in taps.iter_mut().zip(windows.clone()) {
            self.image.taps(window, |tap, channels| taps[tap] = channels.as_ptr());
        }
        for (step, first) in (0..channels).step_by(WIDE).enumerate() {
            let step = Step {
                taps: &taps[..windows.len()],
                first,
                count: WIDE.min(channels - first),
                flip: self.image.reading().0,
                weights: &self.weights[step * pairs * WIDE..][..pairs * WIDE],
            };
            let mut sums = [[0i32; MOST_ROWS * PANEL]; 2];
            for (sums, start) in sums.iter_mut().zip(self.start[first..][..WIDE].chunks_exact(PANEL)) {
                sums.chunks_exact_mut(PANEL).for_each(|row| row.copy_from_slice(start));
            }
            // SAFETY: each tap has as many bytes as there are channels.
            unsafe { step.add(self.isa, &mut sums) };
            for (half, sums) in sums.iter().enumerate() {
                let column = first + half * PANEL;
                if column < channels {
                    let finish = Finish {
                        product: sums,
                        sums: &[0; MOST_ROWS][..windows.len()],
                        row: windows.start,
                        columns: column..(column + PANEL).min(channels),
                        width: channels,
                        out: self.out,
                        e: self.e,
                    };
                    // SAFETY: these windows are this task's own, and `depthwise` looked at the length of C.
                    unsafe { finish::run(self.isa, finish) };
                }
            }
        }
    }
}

/// Sixteen channels, or fewer, of up to six windows.
struct Step<'a> {
    /// Where the channels of each tap are.
    taps: &'a [[*const u8; MAX_TAPS]],
    first: usize,
    count: usize,
    flip: u8,
    /// For each two taps, two weights of each channel.
    weights: &'a [[i16; 2]],
}

/// The sums of rows of eight channels each.
type Sums = [[i32; MOST_ROWS * PANEL]; 2];

impl Step<'_> {
    /// # Safety
    /// `first + count` bytes of each tap may be read.
    unsafe fn add(&self, isa: Isa, sums: &mut Sums) {
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the caller vouches for the taps.
            Isa::Avx2 | Isa::Avx512 if self.count == WIDE => unsafe {
                if self.flip == 0 { x86::add::<false>(self, sums) } else { x86::add::<true>(self, sums) }
            },
            // SAFETY: as above.
            _ => unsafe { self.portable(sums) },
        }
    }

    /// # Safety
    /// As [`Step::add`].
    unsafe fn portable(&self, sums: &mut Sums) {
        for (row, taps) in self.taps.iter().enumerate() {
            for (taps, weights) in taps.chunks_exact(2).zip(self.weights.chunks_exact(WIDE)) {
                for j in 0..self.count {
                    for (tap, &weight) in taps.iter().zip(&weights[slot(j)]) {
                        // SAFETY: the caller vouches for it.
                        let byte = unsafe { *tap.add(self.first + j) } ^ self.flip;
                        sums[j / PANEL][row * PANEL + j % PANEL] += i32::from(byte) * i32::from(weight);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32, _mm256_cvtepu8_epi16,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_permute2x128_si256, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm256_unpackhi_epi16, _mm256_unpacklo_epi16,
    };

    use super::{MAX_TAPS, PANEL, Step, Sums, WIDE};

    /// Sixteen channels of a tap. Not a closure: one that is not inlined has no vectors.
    ///
    /// # Safety
    /// The CPU has AVX2, and the bytes may be read.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load<const SIGNED: bool>(bytes: *const u8) -> __m256i {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { _mm_loadu_si128(bytes.cast::<__m128i>()) };
        _mm256_cvtepu8_epi16(if SIGNED { _mm_xor_si128(bytes, _mm_set1_epi8(i8::MIN)) } else { bytes })
    }

    /// Two products of each channel at a time: 255 times 255, twice, is exact in `i32`.
    ///
    /// # Safety
    /// As [`Step::add`], for sixteen channels; the CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn add<const SIGNED: bool>(step: &Step<'_>, sums: &mut Sums) {
        let pairs = step.weights.len() / WIDE;
        assert!(pairs <= MAX_TAPS / 2);
        // No iterators of slices: what is not inlined has no vectors.
        for row in 0..step.taps.len() {
            let taps = step.taps[row].as_ptr();
            let mut totals = [_mm256_setzero_si256(); 2];
            for pair in 0..pairs {
                // SAFETY: sixteen channels of each tap, and as many pairs of weights.
                unsafe {
                    let weights = step.weights.as_ptr().add(pair * WIDE).cast::<__m256i>();
                    let a = load::<SIGNED>((*taps.add(2 * pair)).add(step.first));
                    let b = load::<SIGNED>((*taps.add(2 * pair + 1)).add(step.first));
                    let low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), _mm256_loadu_si256(weights));
                    let high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), _mm256_loadu_si256(weights.add(1)));
                    totals = [_mm256_add_epi32(totals[0], low), _mm256_add_epi32(totals[1], high)];
                }
            }
            let [low, high] = totals;
            let halves = [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)];
            for half in 0..2 {
                // SAFETY: rows of eight.
                unsafe {
                    let row = sums[half][row * PANEL..][..PANEL].as_mut_ptr().cast::<__m256i>();
                    _mm256_storeu_si256(row, _mm256_add_epi32(_mm256_loadu_si256(row), halves[half]));
                }
            }
        }
    }
}
