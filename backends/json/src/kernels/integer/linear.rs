//! Numbers to 8 bits and back: an element stands for `(element - zero point) * scale`.

use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;

/// A type of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// 0 to 255.
    U8,
    /// -128 to 127.
    I8,
}

impl Byte {
    /// The least and the most.
    pub fn range(self) -> (i32, i32) {
        match self {
            Byte::U8 => (0, 255),
            Byte::I8 => (-128, 127),
        }
    }

    /// An element as a number.
    #[inline(always)]
    pub fn number(self, byte: u8) -> i32 {
        match self {
            Byte::U8 => i32::from(byte),
            Byte::I8 => i32::from(byte as i8),
        }
    }
}

/// Type, scale and zero point of a tensor: an element stands for `(element - zero) * scale`.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// The type.
    pub byte: Byte,
    /// The scale.
    pub scale: f32,
    /// The zero point.
    pub zero: i32,
}

/// The number within two ends; the lower one for what is not a number. `f32::max` would look for that on both sides.
#[inline(always)]
pub(super) fn clamp(x: f32, (lo, hi): (f32, f32)) -> f32 {
    let above = if x > lo { x } else { lo };
    if above < hi { above } else { hi }
}

/// The elements of a type, with the zero point at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(super) least: f32,
    pub(super) most: f32,
    zero: i32,
}

impl Levels {
    pub(crate) fn new(byte: Byte, zero: i32) -> Levels {
        let (least, most) = byte.range();
        Levels { least: (least - zero) as f32, most: (most - zero) as f32, zero }
    }

    /// The ends that are left of these.
    #[inline(always)]
    pub(super) fn clamp(&self, (lo, hi): (f32, f32)) -> (f32, f32) {
        (lo.max(self.least).min(self.most), hi.max(self.least).min(self.most))
    }

    /// The element that is nearest to a number, the even one of two, within the range of the type.
    #[inline(always)]
    pub(crate) fn byte(&self, quotient: f32) -> u8 {
        // An integer made of what is not a number is 0.
        let quotient = if quotient.is_nan() { -self.zero as f32 } else { quotient };
        let rounded = clamp(quotient, (self.least, self.most)).round_ties_even();
        // SAFETY: within the range of the type, which is within that of `i32`.
        (unsafe { rounded.to_int_unchecked::<i32>() } + self.zero) as u8
    }
}

/// Elements that one task takes at least.
const PIECE: usize = 16 << 10;

/// Calls `each` on parts of `y` and their places, by several threads where there are many.
pub(super) fn in_parts<T: Send>(
    threads: &Threads,
    y: &mut [T],
    each: impl Fn(std::ops::Range<usize>, &mut [T]) + Sync,
) {
    let len = y.len();
    let tasks = threads.count().min(len.div_ceil(PIECE)).max(1);
    let y = SharedMut::new(y);
    threads.parallel_for(tasks, |task| {
        let range = part(len, tasks, task);
        // SAFETY: the parts are disjoint.
        let y = unsafe { y.slice(range.start, range.len()) };
        each(range, y);
    });
}

struct Quantise<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
    byte: Byte,
    scale: f32,
    zero: i32,
}

/// `round(x / scale) + zero`, to the nearest even number and within the range of the type.
///
/// # Panics
/// If the lengths differ.
pub fn quantise(threads: &Threads, x: &[f32], y: &mut [u8], byte: Byte, scale: f32, zero: i32) {
    assert_eq!(x.len(), y.len());
    in_parts(threads, y, |range, y| {
        dispatch(threads.isa(), Quantise { x: &x[range], y, byte, scale, zero });
    });
}

impl Kernel for Quantise<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Quantise { x, y, byte, scale, zero } = self;
        let levels = Levels::new(byte, zero);
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = levels.byte(x / scale));
    }
}

struct Dequantise<'a> {
    x: &'a [u8],
    y: &'a mut [f32],
    byte: Byte,
    scale: f32,
    zero: i32,
}

/// `(x - zero) * scale`.
///
/// # Panics
/// If the lengths differ.
pub fn dequantise(threads: &Threads, x: &[u8], y: &mut [f32], byte: Byte, scale: f32, zero: i32) {
    assert_eq!(x.len(), y.len());
    in_parts(threads, y, |range, y| {
        dispatch(threads.isa(), Dequantise { x: &x[range], y, byte, scale, zero });
    });
}

impl Kernel for Dequantise<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Dequantise { x, y, byte, scale, zero } = self;
        match byte {
            Byte::U8 => y.iter_mut().zip(x).for_each(|(y, &x)| *y = (i32::from(x) - zero) as f32 * scale),
            Byte::I8 => y.iter_mut().zip(x).for_each(|(y, &x)| *y = (i32::from(x as i8) - zero) as f32 * scale),
        }
    }
}

struct Range<'a>(&'a [f32]);

impl Kernel for Range<'_> {
    type Out = (f32, f32);

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> (f32, f32) {
        let (mut least, mut most) = ([0f32; 32], [0f32; 32]);
        let mut chunks = self.0.chunks_exact(32);
        for chunk in &mut chunks {
            for j in 0..32 {
                // What is not a number does not count: both comparisons are false.
                least[j] = if chunk[j] < least[j] { chunk[j] } else { least[j] };
                most[j] = if chunk[j] > most[j] { chunk[j] } else { most[j] };
            }
        }
        let rest = || chunks.remainder().iter().copied();
        let least = rest().chain(least).fold(0f32, f32::min);
        (least, rest().chain(most).fold(0f32, f32::max))
    }
}

/// The least and the most of the elements and 0. `parts` has room for two numbers a thread.
///
/// # Panics
/// If `parts` is too short.
pub fn range(threads: &Threads, x: &[f32], parts: &mut [f32]) -> (f32, f32) {
    let tasks = threads.count().min(x.len().div_ceil(PIECE)).max(1);
    assert!(parts.len() >= 2 * tasks);
    let isa = threads.isa();
    let shared = SharedMut::new(&mut *parts);
    threads.parallel_for(tasks, |task| {
        let (least, most) = dispatch(isa, Range(&x[part(x.len(), tasks, task)]));
        // SAFETY: two elements for each task.
        unsafe { shared.slice(2 * task, 2) }.copy_from_slice(&[least, most]);
    });
    let ends = parts[..2 * tasks].chunks_exact(2);
    ends.fold((0f32, 0f32), |(least, most), part| (least.min(part[0]), most.max(part[1])))
}

/// Scale and zero point of `DynamicQuantizeLinear`: the range of the elements and 0 is that of `u8`.
pub fn dynamic_range((least, most): (f32, f32)) -> (f32, u8) {
    let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    (scale, zero as u8)
}
