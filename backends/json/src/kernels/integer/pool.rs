//! Poolings of images of 8 bits with their channels last.

use std::ops::Range;

use super::linear::{Grid, Levels};
use super::rows::{Image, Rows};
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Most taps of a window: their sum has 16 bits.
pub const MAX_AVERAGED: usize = 128;

/// Channels whose sums are in registers.
const CHUNK: usize = 64;

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
            y.fill(0);
            image.taps(window, |_, x| y.iter_mut().zip(x).for_each(|(y, &x)| *y = (*y).max(x ^ flip)));
            y.iter_mut().for_each(|y| *y ^= flip);
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
            let (mut taps, mut count) = ([&[][..]; MAX_AVERAGED], 0);
            self.image.taps(window, |_, tap| {
                taps[count] = tap;
                count += 1;
            });
            let of_zeros = count as i32 * i32::from(zero);
            let factor = (steps / self.divisor(window, count) as f64) as f32;
            let at = (window - self.windows.start) * channels;
            let y = &mut self.y[at..at + channels];
            for first in (0..channels).step_by(CHUNK) {
                let len = CHUNK.min(channels - first);
                let mut sums = [0u16; CHUNK];
                for tap in &taps[..count] {
                    add(&mut sums, &tap[first..first + len], flip);
                }
                for index in 0..len {
                    let total = i32::from(sums[index]) - of_zeros;
                    y[first + index] = levels.byte(total as f32 * factor);
                }
            }
        }
    }
}

/// Adds the channels of a tap to the sums.
#[inline(always)]
fn add(sums: &mut [u16; CHUNK], tap: &[u8], flip: u8) {
    if let Ok(tap) = <&[u8; CHUNK]>::try_from(tap) {
        for index in 0..CHUNK {
            sums[index] += u16::from(tap[index] ^ flip);
        }
    } else {
        for index in 0..tap.len() {
            sums[index] += u16::from(tap[index] ^ flip);
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
