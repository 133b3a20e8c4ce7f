//! The rows of A: those of a matrix, or the windows of a convolution over an image with its channels last.

use std::ops::Range;

use super::linear::Byte;
use super::pack::DEPTH;
use crate::kernels::sizes::{product, reach};

/// A part of a row.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Where it begins, and how many bytes it has.
    Bytes(usize, usize),
    /// So many zeros.
    Zeros(usize),
}

/// Rows of bytes, in pieces.
pub trait Rows: Sync {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Whether there are `m` rows of `k` elements.
    fn fits(&self, m: usize, k: usize) -> bool;

    /// How the bytes are read as `u8`: what changes the sign, and the zero point then.
    fn reading(&self) -> (u8, u8);

    /// Rows that lie one behind another.
    fn contiguous(&self, rows: Range<usize>) -> Option<&[u8]>;

    /// Calls `each` with the pieces of a row, in order.
    fn pieces(&self, row: usize, each: impl FnMut(Piece));

    /// How many rows from this one on have the same pieces, each a step behind the one before; and the step.
    fn alike(&self, row: usize) -> (usize, usize);

    /// The images whose windows they are, unless they are rows as they lie.
    #[cfg(target_arch = "x86_64")]
    fn image(&self) -> Option<&Image<'_>> {
        None
    }
}

/// How bytes with a sign or without one are read as `u8`: what changes the sign, and the zero point then.
#[inline(always)]
pub(super) fn reading(byte: Byte, zero: i32) -> (u8, u8) {
    match byte {
        Byte::U8 => (0, zero as u8),
        Byte::I8 => (0x80, (zero + 128) as u8),
    }
}

/// The rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// The elements.
    pub bytes: &'a [u8],
    /// What they are.
    pub byte: Byte,
    /// What stands for 0, in the range of the type.
    pub zero: i32,
    /// Elements of a row.
    pub columns: usize,
}

impl Rows for Plain<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn fits(&self, m: usize, k: usize) -> bool {
        k == self.columns && m.checked_mul(k).is_some_and(|len| len <= self.bytes.len())
    }

    fn reading(&self) -> (u8, u8) {
        reading(self.byte, self.zero)
    }

    fn contiguous(&self, rows: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(rows.start * self.columns..rows.end * self.columns)
    }

    #[inline(always)]
    fn pieces(&self, row: usize, mut each: impl FnMut(Piece)) {
        each(Piece::Bytes(row * self.columns, self.columns));
    }

    fn alike(&self, _: usize) -> (usize, usize) {
        (usize::MAX, self.columns)
    }
}

/// The windows of images [N, H, W, C], one for each element of [N, OH, OW], as [`window_len`] says.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The elements.
    pub bytes: &'a [u8],
    /// What they are.
    pub byte: Byte,
    /// What stands for 0, in the range of the type.
    pub zero: i32,
    /// Height and width.
    pub size: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Height and width of the results.
    pub out: [usize; 2],
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Distance of windows.
    pub strides: [usize; 2],
    /// Zeros above and to the left.
    pub pads: [usize; 2],
    /// Distance of taps.
    pub dilations: [usize; 2],
}

/// Bytes of a window: of each row of the kernel all channels of its taps, and as many zeros as make it a multiple of [`DEPTH`]. `None` if they
/// cannot be counted.
pub fn window_len(kernel: [usize; 2], channels: usize) -> Option<usize> {
    product(&[kernel[0], product(&[kernel[1], channels])?.checked_next_multiple_of(DEPTH)?])
}

/// Filters [OC, C, KH, KW] in the order of a window whose pixels have `pixel` elements each, C or more, with `fill` in between.
///
/// # Panics
/// If there are not as many elements as the shape says, or too many to count.
pub fn by_window<T: Copy>(filters: &[T], shape: [usize; 4], pixel: usize, fill: T) -> Vec<T> {
    let [count, channels, height, width] = shape;
    assert!(product(&shape) == Some(filters.len()) && pixel >= channels);
    let Some(len) = window_len([height, width], pixel) else { panic!("the sizes are too large") };
    let (taps, line) = (height * width, len / height.max(1));
    let mut windows = vec![fill; count * len];
    for (window, filter) in windows.chunks_exact_mut(len.max(1)).zip(filters.chunks_exact((channels * taps).max(1))) {
        for (channel, from) in filter.chunks_exact(taps).enumerate() {
            for (tap, &weight) in from.iter().enumerate() {
                window[tap / width * line + tap % width * pixel + channel] = weight;
            }
        }
    }
    windows
}

impl Image<'_> {
    /// Bytes of a row of a window without the zeros behind it.
    pub(super) fn line(&self) -> usize {
        self.kernel[1] * self.channels
    }

    /// Whether there are so many windows.
    pub(super) fn holds(&self, m: usize) -> bool {
        let windows = self.out[0].checked_mul(self.out[1]).filter(|&windows| windows > 0);
        let Some(images) = windows.map(|windows| m.div_ceil(windows)) else { return m == 0 };
        let last = |axis: usize| {
            let windows = (self.out[axis].saturating_sub(1)).checked_mul(self.strides[axis])?;
            windows.checked_add(self.kernel[axis].checked_mul(self.dilations[axis])?)
        };
        let counts = [images, self.size[0], self.size[1], self.channels];
        let row = self.size[1].checked_mul(self.channels);
        let image = row.and_then(|row| row.checked_mul(self.size[0]));
        let (Some(row), Some(image)) = (row, image) else { return false };
        last(0).is_some()
            && last(1).is_some()
            && reach(&counts, &[image, row, self.channels, 1]).is_some_and(|len| len <= self.bytes.len())
    }

    /// Whether each window is a row of the image as it lies.
    fn is_plain(&self) -> bool {
        self.kernel == [1, 1] && self.strides == [1, 1] && self.pads == [0, 0] && self.out == self.size
    }

    /// Where a tap of a window is along an axis, if it is in the image.
    #[inline(always)]
    pub(super) fn place(&self, axis: usize, window: usize, tap: usize) -> Option<usize> {
        let from_edge = window * self.strides[axis] + tap * self.dilations[axis];
        from_edge.checked_sub(self.pads[axis]).filter(|&at| at < self.size[axis])
    }
}

/// Where a window is.
#[derive(Clone, Copy)]
struct Place {
    image: usize,
    y: usize,
    x: usize,
}

/// Taps of a window: rows of them, and places of their first channels.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    /// The first one.
    first: usize,
    /// Rows.
    pub(super) rows: usize,
    /// From one row to the next.
    row: usize,
    /// Taps of a row.
    pub(super) columns: usize,
    /// From one to the next.
    column: usize,
}

impl Taps {
    /// The place of a tap.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        self.first + row * self.row + column * self.column
    }
}

impl<'a> Image<'a> {
    #[inline(always)]
    fn window(&self, window: usize) -> Place {
        let (x, rest) = (window % self.out[1], window / self.out[1]);
        Place { image: rest / self.out[0], y: rest % self.out[0], x }
    }

    /// Calls `each` with the number and the channels of each tap of a window that is in the image.
    #[inline(always)]
    pub(super) fn taps(&self, window: usize, mut each: impl FnMut(usize, &'a [u8])) {
        let at = self.window(window);
        let (taps, first) = self.inside(1, at.x);
        for ky in 0..self.kernel[0] {
            let Some(iy) = self.place(0, at.y, ky) else { continue };
            let mut pixel = (at.image * self.size[0] + iy) * self.size[1] + first;
            for kx in taps.clone() {
                each(ky * self.kernel[1] + kx, &self.bytes[pixel * self.channels..][..self.channels]);
                pixel += self.dilations[1];
            }
        }
    }

    /// The taps along an axis of the window that are in the image, and where the first one is.
    #[inline(always)]
    fn inside(&self, axis: usize, window: usize) -> (Range<usize>, usize) {
        let (start, dilation, pad) = (window * self.strides[axis], self.dilations[axis], self.pads[axis]);
        let first = pad.saturating_sub(start).div_ceil(dilation).min(self.kernel[axis]);
        let end = (self.size[axis] + pad).saturating_sub(start).div_ceil(dilation).min(self.kernel[axis]);
        (first..end.max(first), (start + first * dilation).saturating_sub(pad))
    }

    /// Where the taps of a window are that are in the image.
    #[inline(always)]
    pub(super) fn taps_inside(&self, window: usize) -> Taps {
        let at = self.window(window);
        let ((rows, y), (columns, x)) = (self.inside(0, at.y), self.inside(1, at.x));
        Taps {
            first: ((at.image * self.size[0] + y) * self.size[1] + x) * self.channels,
            rows: rows.len(),
            // Where there is one row, or one tap in each, these are not used, and may be too large.
            row: self.dilations[0].saturating_mul(self.size[1] * self.channels),
            columns: columns.len(),
            column: self.dilations[1].saturating_mul(self.channels),
        }
    }
}

impl Rows for Image<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn fits(&self, m: usize, k: usize) -> bool {
        window_len(self.kernel, self.channels) == Some(k) && self.holds(m)
    }

    fn reading(&self) -> (u8, u8) {
        reading(self.byte, self.zero)
    }

    fn contiguous(&self, rows: Range<usize>) -> Option<&[u8]> {
        let dense = self.is_plain() && self.channels.is_multiple_of(DEPTH);
        self.bytes.get(rows.start * self.channels..rows.end * self.channels).filter(|_| dense)
    }

    #[inline(always)]
    fn pieces(&self, row: usize, mut each: impl FnMut(Piece)) {
        let count = self.channels;
        if self.is_plain() {
            each(Piece::Bytes(row * count, count));
            if !count.is_multiple_of(DEPTH) {
                each(Piece::Zeros(count.next_multiple_of(DEPTH) - count));
            }
            return;
        }
        let at = self.window(row);
        let (taps, first) = self.inside(1, at.x);
        let rest = self.line().next_multiple_of(DEPTH) - self.line();
        for ky in 0..self.kernel[0] {
            // A row of the window may be beside the image, too.
            let Some(iy) = self.place(0, at.y, ky).filter(|_| !taps.is_empty()) else {
                each(Piece::Zeros(self.line() + rest));
                continue;
            };
            let line = (at.image * self.size[0] + iy) * self.size[1] + first;
            if taps.start > 0 {
                each(Piece::Zeros(taps.start * count));
            }
            if self.dilations[1] == 1 {
                // Neighbours in the window are neighbours in the image.
                each(Piece::Bytes(line * count, taps.len() * count));
            } else {
                for tap in 0..taps.len() {
                    let pixel = line + tap * self.dilations[1];
                    each(Piece::Bytes(pixel * count, count));
                }
            }
            let behind = (self.kernel[1] - taps.end) * count + rest;
            if behind > 0 {
                each(Piece::Zeros(behind));
            }
        }
    }

    /// Windows of one row of the image whose columns are all in it.
    fn alike(&self, window: usize) -> (usize, usize) {
        if self.is_plain() {
            return (usize::MAX, self.channels);
        }
        let x = window % self.out[1];
        // `fits` looked at the kernels, which have a size and a distance of taps that can be counted.
        let reach = x * self.strides[1] + (self.kernel[1].max(1) - 1) * self.dilations[1] + 1;
        let room = (self.size[1] + self.pads[1]).checked_sub(reach).filter(|_| x * self.strides[1] >= self.pads[1]);
        let alike = room.map_or(1, |room| room / self.strides[1] + 1).min(self.out[1] - x);
        (alike, self.strides[1] * self.channels)
    }

    #[cfg(target_arch = "x86_64")]
    fn image(&self) -> Option<&Image<'_>> {
        (!self.is_plain()).then_some(self)
    }
}
