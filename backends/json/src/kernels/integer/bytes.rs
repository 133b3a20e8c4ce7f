//! Functions of two tensors of 8 bits: sums and products.

use super::linear::{Byte, Grid, Levels, clamp, in_parts};
use super::rows::reading;
use crate::kernels::elementwise::Binary;
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::parallel::Threads;
use crate::kernels::simd::V16;

/// A tensor of 8 bits: each element stands for `(element - zero) * scale`.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// The elements.
    pub bytes: &'a [u8],
    /// What they are.
    pub byte: Byte,
    /// The scale.
    pub scale: f32,
    /// The zero point.
    pub zero: i32,
}

impl Scaled<'_> {
    fn part(&self, range: std::ops::Range<usize>) -> Self {
        Scaled { bytes: &self.bytes[range], ..*self }
    }
}

struct Two<'a> {
    function: Binary,
    a: Scaled<'a>,
    b: Scaled<'a>,
    y: &'a mut [u8],
    grid: Grid,
    clamp: (f32, f32),
}

/// Whether [`combine`] has the function.
pub fn combines(function: Binary) -> bool {
    matches!(function, Binary::Add | Binary::Sub | Binary::Mul)
}

/// The clamped function of each two elements, as numbers, on the grid of the result.
///
/// # Panics
/// If the lengths differ, or for a function that it does not have.
pub fn combine(
    threads: &Threads,
    function: Binary,
    (a, b): (Scaled<'_>, Scaled<'_>),
    (y, grid): (&mut [u8], Grid),
    clamp: (f32, f32),
) {
    assert!(combines(function) && a.bytes.len() == y.len() && b.bytes.len() == y.len());
    in_parts(threads, y, |range, y| {
        let (a, b) = (a.part(range.clone()), b.part(range));
        dispatch(threads.isa(), Two { function, a, b, y, grid, clamp });
    });
}

impl Two<'_> {
    #[inline(always)]
    fn each(self, function: impl Fn(f32, f32) -> f32) {
        let Two { a, b, y, grid, clamp: ends, .. } = self;
        let levels = Levels::new(grid.byte, grid.zero);
        let plain = PlainEnds::new(&levels, [a.scale, b.scale, grid.scale], ends);
        // The sign of a byte is that of its highest bit, or none: one loop for both.
        let ((a_flip, a_zero), (b_flip, b_zero)) = (reading(a.byte, a.zero), reading(b.byte, b.zero));
        let (a_zero, b_zero) = (i32::from(a_zero), i32::from(b_zero));
        let both = y.iter_mut().zip(a.bytes).zip(b.bytes);
        if let Some(PlainEnds(ends)) = plain {
            for ((y, &p), &q) in both {
                let p = (i32::from(p ^ a_flip) - a_zero) as f32 * a.scale;
                let q = (i32::from(q ^ b_flip) - b_zero) as f32 * b.scale;
                *y = nearest(clamp(function(p, q) / grid.scale, ends)).wrapping_add(grid.zero as u8);
            }
            return;
        }
        for ((y, &p), &q) in both {
            let p = (i32::from(p ^ a_flip) - a_zero) as f32 * a.scale;
            let q = (i32::from(q ^ b_flip) - b_zero) as f32 * b.scale;
            *y = levels.byte(clamp(function(p, q), ends) / grid.scale);
        }
    }
}

/// The ends of quotients that are numbers, so that one clamp is enough: division by a positive number keeps the order, and rounding does.
struct PlainEnds((f32, f32));

impl PlainEnds {
    /// `None` where something may not be a number, or the ends are in the wrong order.
    fn new(levels: &Levels, scales: [f32; 3], (lo, hi): (f32, f32)) -> Option<PlainEnds> {
        // Products and quotients of 255 times these are far from the ends of the type.
        let fit = scales.iter().all(|scale| (2f32.powi(-30)..2f32.powi(30)).contains(scale));
        let [_, _, scale] = scales;
        (fit && lo <= hi).then(|| PlainEnds(levels.clamp((lo / scale, hi / scale))))
    }
}

/// The lowest byte of the nearest integer, the even one of two, of a number of at most 2^22: the sum has no bits for less than 1.
#[inline(always)]
pub(super) fn nearest(x: f32) -> u8 {
    const EVEN: f32 = 1.5 * (1 << 23) as f32;
    (x + EVEN).to_bits() as u8
}

impl Kernel for Two<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        match self.function {
            Binary::Add => self.each(|a, b| a + b),
            Binary::Sub => self.each(|a, b| a - b),
            _ => self.each(|a, b| a * b),
        }
    }
}
