//! A factor and an offset for each channel of images of 8 bits, whose channels are last.

use super::bytes::{Scaled, nearest};
use super::linear::{Grid, Levels, clamp};
use super::rows::reading;
use super::strips::{self, Strips};
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;

/// Elements that one task takes at least.
const PIECE: usize = 16 << 10;

/// What is nearest to `clamp((x - zero) * factor + offset)`, plus the zero point of `grid`: factors and offsets, one for each channel, hold the
/// scales of both sides, and the ends are those of quotients. What is not a number becomes the lower end.
///
/// # Panics
/// If the lengths differ, or are no multiple of the channels.
pub fn affine(
    threads: &Threads,
    x: Scaled<'_>,
    (factors, offsets): (&[f32], &[f32]),
    (y, grid): (&mut [u8], Grid),
    ends: (f32, f32),
) {
    let channels = factors.len();
    assert!(offsets.len() == channels && x.bytes.len() == y.len() && y.len().is_multiple_of(channels.max(1)));
    if y.is_empty() {
        return;
    }
    let (flip, zero) = reading(x.byte, x.zero);
    let ends = Levels::new(grid.byte, grid.zero).clamp(ends);
    let common = Common { flip, zero: i32::from(zero), ends, y_zero: grid.zero as u8 };
    let pixels = y.len() / channels;
    let tasks = threads.count().min(y.len().div_ceil(PIECE)).min(pixels);
    let y = SharedMut::new(y);
    threads.parallel_for(tasks, |task| {
        let range = part(pixels, tasks, task);
        let (start, len) = (range.start * channels, range.len() * channels);
        // SAFETY: the parts are disjoint.
        let y = unsafe { y.slice(start, len) };
        dispatch(threads.isa(), Affine { x: &x.bytes[start..start + len], factors, offsets, y, common });
    });
}

struct Affine<'a> {
    x: &'a [u8],
    factors: &'a [f32],
    offsets: &'a [f32],
    y: &'a mut [u8],
    common: Common,
}

/// What all elements have in common.
#[derive(Clone, Copy)]
struct Common {
    /// The sign of a byte is that of its highest bit, or none: one loop for both.
    flip: u8,
    zero: i32,
    ends: (f32, f32),
    y_zero: u8,
}

impl Common {
    #[inline(always)]
    fn byte(self, x: u8, factor: f32, offset: f32) -> u8 {
        let number = (i32::from(x ^ self.flip) - self.zero) as f32;
        nearest(clamp(number * factor + offset, self.ends)).wrapping_add(self.y_zero)
    }
}

impl Kernel for Affine<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(mut self) {
        strips::all(self.factors.len(), &mut self);
    }
}

impl Strips for Affine<'_> {
    #[inline(always)]
    fn strip<const N: usize>(&mut self, first: usize) {
        let channels = self.factors.len();
        let (factors, offsets) = (*strips::of::<_, N>(self.factors, first), *strips::of::<_, N>(self.offsets, first));
        let common = self.common;
        let mut at = first;
        while at + N <= self.y.len() {
            let (x, y) = (strips::of::<_, N>(self.x, at), strips::of_mut::<_, N>(self.y, at));
            for lane in 0..N {
                y[lane] = common.byte(x[lane], factors[lane], offsets[lane]);
            }
            at += channels;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::linear::Byte;
    use super::*;
    use crate::kernels::isa::Isa;

    #[test]
    fn every_channel_has_its_own() {
        for (pixels, channels) in [(1, 1), (3, 5), (40, 32), (7, 95), (900, 64)] {
            let bytes: Vec<u8> = (0..pixels * channels).map(|at| (at * 37 % 251) as u8).collect();
            let factors: Vec<f32> = (0..channels).map(|c| 0.05 * (c % 9) as f32 - 0.2).collect();
            let offsets: Vec<f32> = (0..channels).map(|c| (c % 7) as f32 * 3.3 - 8.0).collect();
            for (from, to) in [(Byte::U8, Byte::I8), (Byte::I8, Byte::U8), (Byte::I8, Byte::I8)] {
                let x = Scaled { bytes: &bytes, byte: from, scale: 1.0, zero: 4 };
                let grid = Grid { byte: to, scale: 1.0, zero: 17 };
                let ends = (-20.0, 90.5);
                let levels = Levels::new(to, 17);
                let want: Vec<u8> = (0..bytes.len())
                    .map(|at| {
                        let number = (from.number(bytes[at]) - 4) as f32;
                        levels.byte(clamp(number * factors[at % channels] + offsets[at % channels], ends))
                    })
                    .collect();
                for &isa in Isa::available() {
                    let mut y = vec![0; bytes.len()];
                    affine(&Threads::with_isa(2, isa), x, (&factors, &offsets), (&mut y, grid), ends);
                    assert_eq!(y, want, "{isa:?} {pixels} x {channels} {from:?} {to:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_the_least() {
        let x = Scaled { bytes: &[0, 1, 2], byte: Byte::U8, scale: 1.0, zero: 1 };
        let grid = Grid { byte: Byte::U8, scale: 1.0, zero: 3 };
        let mut y = [9; 3];
        affine(&Threads::new(1), x, (&[f32::INFINITY], &[0.0]), (&mut y, grid), (f32::NEG_INFINITY, f32::INFINITY));
        assert_eq!(y, [0, 0, 255]);
    }
}
