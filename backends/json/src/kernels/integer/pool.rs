//! Poolings of images of 8 bits with their channels last.

use std::ops::Range;

use super::bytes::Scaled;
use super::linear::{Grid, Levels};
use super::rows::{Image, Rows, Taps, reading};
use super::strips::{self, Strips};
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Most taps of a window: their sum has 16 bits.
pub const MAX_AVERAGED: usize = 128;

/// Calls `each` on parts of the windows and their results, by several threads where there is much to do.
///
/// # Panics
/// If a slice is shorter than the shapes say.
fn in_windows(
    threads: &Threads,
    windows: usize,
    image: &Image<'_>,
    y: &mut [u8],
    each: impl Fn(Range<usize>, &mut [u8]) + Sync,
) {
    let (channels, taps) = (image.channels, image.kernel[0] * image.kernel[1]);
    assert!(image.holds(windows));
    assert_eq!(product(&[windows, channels]), Some(y.len()));
    let y = SharedMut::new(y);
    let tasks = if windows.saturating_mul(channels).saturating_mul(taps) < 1 << 16 { 1 } else { threads.count() };
    threads.parallel_for(tasks, |task| {
        let windows = part(windows, tasks, task);
        // SAFETY: the parts are disjoint.
        let y = unsafe { y.slice(windows.start * channels, windows.len() * channels) };
        each(windows, y);
    });
}

/// The largest of each window, by channel; padding does not count.
///
/// # Panics
/// If a slice is shorter than the shapes say.
pub fn largest(threads: &Threads, windows: usize, image: &Image<'_>, y: &mut [u8]) {
    let isa = threads.isa();
    in_windows(threads, windows, image, y, |windows, y| dispatch(isa, Largest { image, windows, y }));
}

struct Largest<'a> {
    image: &'a Image<'a>,
    windows: Range<usize>,
    y: &'a mut [u8],
}

impl Kernel for Largest<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Largest { image, windows, y } = self;
        let flip = image.reading().0;
        for (window, y) in windows.zip(y.chunks_exact_mut(image.channels.max(1))) {
            let taps = image.taps_inside(window);
            strips::all(y.len(), &mut LargestOf { bytes: image.bytes, taps, flip, y });
        }
    }
}

/// The largest of some taps.
struct LargestOf<'a> {
    bytes: &'a [u8],
    taps: Taps,
    flip: u8,
    y: &'a mut [u8],
}

impl Strips for LargestOf<'_> {
    #[inline(always)]
    fn strip<const N: usize>(&mut self, first: usize) {
        let (taps, flip) = (self.taps, self.flip);
        let mut largest = [0; N];
        for row in 0..taps.rows {
            for column in 0..taps.columns {
                let tap = strips::of::<_, N>(self.bytes, taps.at(row, column) + first);
                for lane in 0..N {
                    largest[lane] = largest[lane].max(tap[lane] ^ flip);
                }
            }
        }
        let y = strips::of_mut::<_, N>(self.y, first);
        for lane in 0..N {
            y[lane] = largest[lane] ^ flip;
        }
    }
}

/// The mean of each window, on the grid of the result. `scale` is that of the image. With `counted`, what is beside the image down to this padding
/// below and to the right counts as 0, and without it not at all.
///
/// # Panics
/// If a slice is shorter than the shapes say, or the windows have too many taps.
pub fn average(
    threads: &Threads,
    windows: usize,
    (image, scale): (&Image<'_>, f32),
    counted: Option<[usize; 2]>,
    (y, grid): (&mut [u8], Grid),
) {
    assert!(image.kernel[0] * image.kernel[1] <= MAX_AVERAGED);
    let isa = threads.isa();
    in_windows(threads, windows, image, y, |windows, y| {
        dispatch(isa, Average { image, scale, counted, windows, y, grid });
    });
}

struct Average<'a> {
    image: &'a Image<'a>,
    scale: f32,
    counted: Option<[usize; 2]>,
    windows: Range<usize>,
    y: &'a mut [u8],
    grid: Grid,
}

impl Average<'_> {
    /// What the sum of a window is divided by, of whose taps so many are in the image.
    fn divisor(&self, window: usize, inside: usize) -> usize {
        let (image, Some(ends)) = (self.image, self.counted) else { return inside };
        let at = [window / image.out[1] % image.out[0], window % image.out[1]];
        let of_axis = |axis: usize| {
            let start = at[axis] * image.strides[axis];
            let size = image.size[axis] + image.pads[axis] + ends[axis];
            size.saturating_sub(start).div_ceil(image.dilations[axis]).min(image.kernel[axis])
        };
        of_axis(0) * of_axis(1)
    }
}

impl Kernel for Average<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let (flip, zero) = self.image.reading();
        let (channels, levels) = (self.image.channels, Levels::new(self.grid.byte, self.grid.zero));
        let steps = f64::from(self.scale) / f64::from(self.grid.scale);
        for window in self.windows.clone() {
            let taps = self.image.taps_inside(window);
            let inside = taps.rows * taps.columns;
            let of_zeros = inside as i32 * i32::from(zero);
            let factor = (steps / self.divisor(window, inside) as f64) as f32;
            let at = (window - self.windows.start) * channels;
            let y = &mut self.y[at..at + channels];
            strips::all(channels, &mut MeanOf { bytes: self.image.bytes, taps, flip, of_zeros, factor, levels, y });
        }
    }
}

/// The mean of taps.
struct MeanOf<'a> {
    bytes: &'a [u8],
    taps: Taps,
    flip: u8,
    of_zeros: i32,
    factor: f32,
    levels: Levels,
    y: &'a mut [u8],
}

impl Strips for MeanOf<'_> {
    #[inline(always)]
    fn strip<const N: usize>(&mut self, first: usize) {
        let (taps, flip) = (self.taps, self.flip);
        let mut sums = [0u16; N];
        for row in 0..taps.rows {
            for column in 0..taps.columns {
                let tap = strips::of::<_, N>(self.bytes, taps.at(row, column) + first);
                for lane in 0..N {
                    sums[lane] += u16::from(tap[lane] ^ flip);
                }
            }
        }
        let y = strips::of_mut::<_, N>(self.y, first);
        for lane in 0..N {
            let total = i32::from(sums[lane]) - self.of_zeros;
            y[lane] = self.levels.byte(total as f32 * self.factor);
        }
    }
}

/// The mean of each channel of `[pixels, channels]`, on the grid of the result.
///
/// # Panics
/// If the lengths do not fit, or there are too many pixels for sums of 32 bits.
pub fn mean(threads: &Threads, x: Scaled<'_>, (y, grid): (&mut [u8], Grid)) {
    let channels = y.len();
    if channels == 0 {
        return;
    }
    assert!(x.bytes.len().is_multiple_of(channels) && x.bytes.len() / channels <= MAX_PIXELS);
    dispatch(threads.isa(), Mean { x, y, grid });
}

/// Pixels whose bytes are summed in 32 bits.
pub const MAX_PIXELS: usize = 1 << 22;

/// Pixels whose bytes are summed in 16 bits.
const PIXELS: usize = 256;

struct Mean<'a> {
    x: Scaled<'a>,
    y: &'a mut [u8],
    grid: Grid,
}

impl Kernel for Mean<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(mut self) {
        strips::all(self.y.len(), &mut self);
    }
}

impl Strips for Mean<'_> {
    #[inline(always)]
    fn strip<const N: usize>(&mut self, first: usize) {
        let (channels, pixels) = (self.y.len(), self.x.bytes.len() / self.y.len());
        let (flip, zero) = reading(self.x.byte, self.x.zero);
        let mut sums = [0u32; N];
        for start in (0..pixels).step_by(PIXELS) {
            let mut some = [0u16; N];
            for pixel in start..pixels.min(start + PIXELS) {
                let x = strips::of::<_, N>(self.x.bytes, pixel * channels + first);
                for lane in 0..N {
                    some[lane] += u16::from(x[lane] ^ flip);
                }
            }
            for lane in 0..N {
                sums[lane] += u32::from(some[lane]);
            }
        }
        let levels = Levels::new(self.grid.byte, self.grid.zero);
        let zeros = pixels as f64 * f64::from(zero);
        let y = strips::of_mut::<_, N>(self.y, first);
        for lane in 0..N {
            // As the mean of numbers of single precision.
            let mean = ((f64::from(sums[lane]) - zeros) * f64::from(self.x.scale) / pixels as f64) as f32;
            y[lane] = levels.byte(mean / self.grid.scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::linear::Byte;
    use super::*;
    use crate::tests::harness::configurations;

    /// Means by their definition, in double precision: of windows inside the image, over its edges and beside it.
    #[test]
    fn means_of_images_are_nearest() {
        for (pixels, channels) in [(1, 1), (7, 3), (49, 24), (300, 70), (1000, 64), (5, 0)] {
            let bytes: Vec<u8> = (0..pixels * channels).map(|at: usize| (at * 31 % 253) as u8).collect();
            for (byte, zero) in [(Byte::U8, 77), (Byte::I8, -9)] {
                let (x, grid) = (
                    Scaled { bytes: &bytes, byte, scale: 0.02, zero },
                    Grid { byte: Byte::U8, scale: 0.031, zero: 100 },
                );
                let levels = Levels::new(grid.byte, grid.zero);
                let total = |channel: usize| -> i64 {
                    let column = bytes.iter().skip(channel).step_by(channels);
                    column.map(|&x| i64::from(byte.number(x) - zero)).sum()
                };
                let want: Vec<u8> = (0..channels)
                    .map(|channel| {
                        levels.byte((total(channel) as f64 * f64::from(0.02f32) / pixels as f64) as f32 / 0.031)
                    })
                    .collect();
                for threads in configurations() {
                    let mut y = vec![9; channels];
                    mean(&threads, x, (&mut y, grid));
                    assert_eq!(y, want, "{pixels} x {channels} {byte:?} {:?}", threads.isa());
                }
            }
        }
    }

    #[test]
    fn means_of_windows_are_nearest() {
        let (size, pads, grid) = ([7, 9], [2, 1], Grid { byte: Byte::I8, scale: 0.37, zero: -3 });
        for (kernel, strides, dilations, ends) in
            [([3, 3], [1, 1], [1, 1], [2, 1]), ([3, 2], [2, 1], [2, 3], [0, 4]), ([8, 16], [1, 2], [1, 1], [2, 9])]
        {
            let out = [0, 1].map(|axis| {
                (size[axis] + pads[axis] + ends[axis] - (kernel[axis] - 1) * dilations[axis] - 1) / strides[axis] + 1
            });
            for (channels, byte, zero) in [(3, Byte::U8, 100), (130, Byte::I8, -5)] {
                let bytes: Vec<u8> = (0..2 * size[0] * size[1] * channels).map(|at| (at * at / 7 + at) as u8).collect();
                let image = Image { bytes: &bytes, byte, zero, size, channels, out, kernel, strides, pads, dilations };
                let windows = 2 * out[0] * out[1];
                for counted in [None, Some(ends)] {
                    let mean = |window: usize, channel: usize| {
                        let (mut sum, mut inside) = (0, 0);
                        image.taps(window, |_, tap| {
                            sum += byte.number(tap[channel]) - zero;
                            inside += 1;
                        });
                        let all = (0..kernel[0] * kernel[1]).filter(|tap| {
                            let at = [window / out[1] % out[0], window % out[1]];
                            let place = [tap / kernel[1], tap % kernel[1]];
                            (0..2).all(|axis| {
                                let end = size[axis] + pads[axis] + ends[axis];
                                at[axis] * strides[axis] + place[axis] * dilations[axis] < end
                            })
                        });
                        let divisor = if counted.is_some() { all.count() } else { inside };
                        f64::from(sum) * f64::from(0.02f32) / divisor as f64 / f64::from(0.37f32)
                    };
                    for threads in configurations() {
                        let mut y = vec![9; windows * channels];
                        average(&threads, windows, (&image, 0.02), counted, (&mut y, grid));
                        for (at, &byte) in y.iter().enumerate() {
                            let level = f64::from(byte as i8) + 3.0;
                            let want = mean(at / channels, at % channels);
                            // Of no pixel the mean is not a number, whose byte is 0.
                            let same = (level - want).abs() <= 0.5001 || want.is_nan() && byte == 0;
                            assert!(same, "{kernel:?} {counted:?} {at}: {level}, {want}");
                        }
                    }
                }
            }
        }
    }
}
