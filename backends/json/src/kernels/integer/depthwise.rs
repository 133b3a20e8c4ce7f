//! Convolutions of one filter a channel, over images with their channels last.

#[cfg(target_arch = "x86_64")]
mod columns;

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::dot::Dot;
use super::finish::{Epilogue, Finish, Out, Target};
use super::linear::Byte;
use super::pack::PANEL;
use super::rows::{Image, Rows};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::parallel::grid;
use crate::kernels::parallel::{Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Channels of a step: two panels.
const WIDE: usize = 2 * PANEL;

/// Most taps of a window.
pub const MAX_TAPS: usize = 128;

/// Taps of the windows that are computed together, at most.
const MOST_POINTERS: usize = 1280;

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
    assert!(image.holds(windows), "A is too short");
    assert!(out.fits(windows, channels) && !matches!(out, Out::Blocked(_)), "C has another size");
    e.check(windows, channels);
    assert!(e.rows.is_empty(), "no factors by row");
    #[cfg(target_arch = "x86_64")]
    let mut out = out;
    #[cfg(target_arch = "x86_64")]
    if let Out::Bytes(out, byte, zero) = &mut out
        && Dot::of(threads.isa()) == Dot::Vnni512
        && windows.is_multiple_of(image.out[1].max(1))
        && let Some(columns) = columns::Columns::new(image, weights, e, (out.as_mut_ptr(), *byte, *zero))
    {
        return in_columns(threads, windows, &columns, image);
    }
    let (steps, pairs) = (channels.div_ceil(WIDE), taps.div_ceil(2));
    let (packed, rest) = scratch.split_at_mut(steps * pairs * WIDE);
    let (start, padding) = rest.split_at_mut(steps * WIDE);
    // SAFETY: every bit pattern is an integer of these types, whose alignment is at most that of `f32`.
    let (packed, start, padding) =
        unsafe { (packed.align_to_mut::<[i16; 2]>().1, start.align_to_mut::<i32>().1, padding.align_to_mut::<u8>().1) };
    let (flip, zero) = image.reading();
    padding[..channels].fill(zero ^ flip);
    dispatch(threads.isa(), Prepare { weights, channels, taps, zero: i16::from(zero), e, packed, start });
    // Zero points of the weights are in them now, and the bias is where the sums start.
    let e = Epilogue { zeros: &[], zero: 0, bias: &[], ..*e };
    let (isa, out) = (threads.isa(), out.target());
    let task = Work { isa, image, weights: packed, start, padding: &padding[..channels], taps, e: &e, out };
    // A block has a multiple of four windows.
    let block = (MOST_POINTERS / (2 * pairs).max(1)).clamp(4, 128) / 4 * 4;
    let blocks = windows.div_ceil(block);
    let work = windows.saturating_mul(channels).saturating_mul(taps);
    let tasks = threads.count().min(work.div_ceil(128 << 10)).max(1);
    threads.parallel_for(tasks, |index| {
        let mut pointers = [task.padding.as_ptr(); MOST_POINTERS];
        for first in part(blocks, tasks, index).map(|index| index * block) {
            let windows = first..(first + block).min(windows);
            let pointers = &mut pointers[..windows.len() * 2 * pairs];
            task.find(windows.clone(), pointers);
            task.block(windows, pointers);
        }
    });
}

/// Convolves by steps of many channels and rows of windows.
#[cfg(target_arch = "x86_64")]
fn in_columns(threads: &Threads, windows: usize, columns: &columns::Columns<'_>, image: &Image<'_>) {
    let (steps, rows) = (columns.steps(), windows / image.out[1].max(1));
    let work = windows.saturating_mul(image.channels).saturating_mul(image.kernel[0] * image.kernel[1]);
    let wanted = threads.count().min(work.div_ceil(256 << 10)).max(1);
    // Cut between channels first: each task prepares the weights of its own.
    let (by_step, by_row) = grid(wanted, 1, steps, rows, true);
    threads.parallel_for(by_step * by_row, |task| {
        let rows = part(rows, by_row, task / by_step);
        for step in part(steps, by_step, task % by_step) {
            // SAFETY: `depthwise` looked at the CPU and the lengths; a task has its own steps of its own rows.
            unsafe { columns.run(step, rows.clone()) };
        }
    });
}

/// Weights as they are multiplied.
struct Prepare<'a> {
    weights: &'a [i8],
    channels: usize,
    taps: usize,
    /// The zero point of the image.
    zero: i16,
    e: &'a Epilogue<'a>,
    packed: &'a mut [[i16; 2]],
    start: &'a mut [i32],
}

impl Kernel for Prepare<'_> {
    type Out = ();

    /// Widens the weights without their zero points, two taps side by side. A sum starts with the bias, and with what the zero point
    /// of the image adds to it, as elements are multiplied as they are.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Prepare { weights, channels, taps, zero, e, packed, start } = self;
        start.fill(0);
        start[..e.bias.len()].copy_from_slice(e.bias);
        packed.fill([0; 2]);
        let of_step = taps.div_ceil(2) * WIDE;
        for (step, (packed, start)) in packed.chunks_exact_mut(of_step).zip(start.chunks_exact_mut(WIDE)).enumerate() {
            let first = step * WIDE;
            let count = WIDE.min(channels - first);
            let mut zeros = [e.zero; WIDE];
            if let Some(of_channels) = e.zeros.get(first..first + count) {
                zeros[..count].copy_from_slice(of_channels);
            }
            for tap in 0..taps {
                let weights = &weights[tap * channels + first..][..count];
                let packed = &mut packed[tap / 2 * WIDE..][..count];
                for channel in 0..count {
                    let weight = i32::from(weights[channel]) - zeros[channel];
                    start[channel] = start[channel].wrapping_sub(i32::from(zero) * weight);
                    packed[channel][tap % 2] = weight as i16;
                }
            }
        }
    }
}

impl Work<'_> {
    /// Looks for the taps of windows. Those outside of the image are padding; an odd number of taps has a weight of 0 behind it.
    fn find(&self, windows: Range<usize>, taps: &mut [*const u8]) {
        taps.fill(self.padding.as_ptr());
        let each = self.taps.next_multiple_of(2);
        let mut window = windows.start;
        while window < windows.end {
            let (alike, step) = self.image.alike(window);
            let alike = alike.min(windows.end - window);
            let taps = &mut taps[(window - windows.start) * each..][..alike * each];
            let mut steps = [0; MAX_TAPS];
            self.image.taps(window, |tap, channels| {
                taps[tap] = channels.as_ptr();
                steps[tap] = step;
            });
            for next in 1..alike {
                let (before, next) = taps[(next - 1) * each..][..2 * each].split_at_mut(each);
                for tap in 0..self.taps {
                    next[tap] = before[tap].wrapping_add(steps[tap]);
                }
            }
            window += alike;
        }
    }

    /// Computes windows.
    fn block(&self, windows: Range<usize>, taps: &[*const u8]) {
        let (channels, pairs) = (self.image.channels, self.taps.div_ceil(2));
        for (step, first) in (0..channels).step_by(WIDE).enumerate() {
            let finish = |columns: Range<usize>| Finish {
                sums: &[],
                rows: windows.len(),
                row: windows.start,
                columns: columns.start.min(channels)..columns.end.min(channels),
                steps: [channels, BLOCK],
                out: self.out,
                e: self.e,
            };
            let step = Step {
                windows: windows.len(),
                taps,
                first,
                flip: self.image.reading().0,
                weights: &self.weights[step * pairs * WIDE..][..pairs * WIDE],
                start: &self.start[first..][..WIDE],
                halves: [finish(first..first + PANEL), finish(first + PANEL..first + WIDE)],
            };
            // SAFETY: each tap has as many bytes as there are channels; these windows are this task's own, and `depthwise` looked
            // at the length of C.
            unsafe { step.run(self.isa) };
        }
    }
}

/// Sixteen channels, or fewer, of a block of windows.
struct Step<'a> {
    windows: usize,
    /// Where the channels of the taps of each window are: an even number of taps.
    taps: &'a [*const u8],
    first: usize,
    flip: u8,
    /// For each two taps, two weights of each channel.
    weights: &'a [[i16; 2]],
    /// What the sums start with.
    start: &'a [i32],
    /// What follows eight channels each.
    halves: [Finish<'a>; 2],
}

impl Step<'_> {
    /// # Safety
    /// The channels of each tap may be read, the windows and channels are in C, and nothing else accesses them.
    unsafe fn run(&self, isa: Isa) {
        assert!(self.taps.len() == self.windows * 2 * (self.weights.len() / WIDE) && self.start.len() == WIDE);
        match isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the lengths were checked above; the caller
            // vouches for the rest.
            Isa::Avx2 | Isa::Avx512 if self.halves[1].columns.len() == PANEL => unsafe {
                if self.flip == 0 { x86::run::<false>(self) } else { x86::run::<true>(self) }
            },
            // SAFETY: as above.
            _ => unsafe { self.portable() },
        }
    }

    /// # Safety
    /// As [`Step::run`].
    unsafe fn portable(&self) {
        for row in 0..self.windows {
            let each = self.taps.len() / self.windows;
            let taps = &self.taps[row * each..][..each];
            for (half, finish) in self.halves.iter().enumerate() {
                let mut sums = [0i32; PANEL];
                for (j, sum) in sums.iter_mut().enumerate().take(finish.columns.len()) {
                    let channel = half * PANEL + j;
                    *sum = self.start[channel];
                    for (taps, weights) in taps.chunks_exact(2).zip(self.weights.chunks_exact(WIDE)) {
                        for (tap, &weight) in taps.iter().zip(&weights[channel]) {
                            // SAFETY: the caller vouches for it.
                            let byte = unsafe { *tap.add(self.first + channel) } ^ self.flip;
                            *sum = sum.wrapping_add(i32::from(byte) * i32::from(weight));
                        }
                    }
                }
                // SAFETY: the caller vouches for C.
                unsafe { finish.row(row, &sums) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm_xor_si128,
        _mm256_add_epi32, _mm256_cvtepu8_epi16, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_setzero_si256,
    };

    use super::super::avx2::Panel;
    use super::super::pack::PANEL;
    use super::{Step, WIDE};

    /// Sixteen bytes as `i16`. Not a closure: what is not inlined has no vectors.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn widen<const SIGNED: bool>(bytes: __m128i) -> __m256i {
        _mm256_cvtepu8_epi16(if SIGNED { _mm_xor_si128(bytes, _mm_set1_epi8(i8::MIN)) } else { bytes })
    }

    /// # Safety
    /// As [`Step::run`], for sixteen channels; the CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn run<const SIGNED: bool>(step: &Step<'_>) {
        // SAFETY: the caller vouches for it.
        unsafe {
            let panels = [Panel::new(&step.halves[0], [0; PANEL]), Panel::new(&step.halves[1], [0; PANEL])];
            let mut window = 0;
            while window + 4 <= step.windows {
                windows::<SIGNED, 4>(step, &panels, window);
                window += 4;
            }
            match step.windows - window {
                0 => {}
                1 => windows::<SIGNED, 1>(step, &panels, window),
                2 => windows::<SIGNED, 2>(step, &panels, window),
                _ => windows::<SIGNED, 3>(step, &panels, window),
            }
        }
    }

    /// Two products of each channel at a time: 255 times 255, twice, is exact in `i32`.
    ///
    /// # Safety
    /// As [`run`], for P windows that there are.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn windows<const SIGNED: bool, const P: usize>(step: &Step<'_>, panels: &[Panel<'_>; 2], window: usize) {
        let pairs = step.weights.len() / WIDE;
        // SAFETY: sixteen channels of each tap, as many pairs of weights, and as many sums to start with.
        unsafe {
            let taps = step.taps.as_ptr().add(window * 2 * pairs);
            let start = step.start.as_ptr().cast::<__m256i>();
            let start = [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))];
            let (mut low, mut high) = ([_mm256_setzero_si256(); P], [_mm256_setzero_si256(); P]);
            for pair in 0..pairs {
                let weights = step.weights.as_ptr().add(pair * WIDE).cast::<__m256i>();
                let weights = [_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1))];
                for p in 0..P {
                    let pair = taps.add(2 * (p * pairs + pair));
                    // Channels of both taps in turn.
                    let a = _mm_loadu_si128((*pair).add(step.first).cast::<__m128i>());
                    let b = _mm_loadu_si128((*pair.add(1)).add(step.first).cast::<__m128i>());
                    let left = widen::<SIGNED>(_mm_unpacklo_epi8(a, b));
                    let right = widen::<SIGNED>(_mm_unpackhi_epi8(a, b));
                    low[p] = _mm256_add_epi32(low[p], _mm256_madd_epi16(left, weights[0]));
                    high[p] = _mm256_add_epi32(high[p], _mm256_madd_epi16(right, weights[1]));
                }
            }
            for p in 0..P {
                low[p] = _mm256_add_epi32(low[p], start[0]);
                high[p] = _mm256_add_epi32(high[p], start[1]);
            }
            panels[0].write(window, low);
            panels[1].write(window, high);
        }
    }
}
