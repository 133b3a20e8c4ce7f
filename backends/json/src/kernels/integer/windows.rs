//! Windows of images, multiplied where they are: rows of pixels are copied once with their padding, not each window, and a row of A has
//! a piece in each of them.

use std::ops::Range;

use super::finish::{Finish, Target};
use super::pack::{DEPTH, PANEL};
use super::rows::{Image, Rows};
use super::tile::{Places, Tiles};
use super::{Block, Right, as_bytes, multiply};
use crate::kernels::parallel::part;

/// Lines of windows: those in a row of an image.
pub(super) struct Lines<'a> {
    image: &'a Image<'a>,
    /// Bytes of the pixels that a line reads of each of its rows.
    width: usize,
    /// Rows of pixels that a line reads, from the first one to the last.
    height: usize,
    /// Bytes behind the last row, which the last window reads and multiplies with zeros.
    behind: usize,
    /// Lines whose pixels are copied together.
    most: usize,
}

impl<'a> Lines<'a> {
    /// Those of a product, where they can be multiplied so.
    pub(super) fn of<R: Rows>(block: &Block<'a, R>) -> Option<Lines<'a>> {
        let image = block.a.image()?;
        let Image { kernel, strides, dilations, out, channels, .. } = *image;
        let alone = kernel[1] == 1 || dilations[1] == 1;
        // Where windows have no pixels in common, gathered ones lie closer.
        let shared = kernel[0] * kernel[1] > strides[0] * strides[1];
        let fits = block.dot.takes_pieces() && alone && shared;
        // What ends a line counts its rows from the first one of the line, so that none may have a factor of its own.
        let plain = !block.e.needs_sums() && block.e.rows.is_empty() && !matches!(block.out, Target::Sums(_));
        let known = matches!(block.b, Right::Packed(_, stats) if !stats.is_empty());
        if !fits || !plain || !known || block.shape.k == 0 || !block.shape.m.is_multiple_of(out[1]) {
            return None;
        }
        // `Image::holds` looked at everything but this product.
        let width = ((out[1] - 1) * strides[1] + kernel[1]).checked_mul(channels)?;
        let height = (kernel[0] - 1) * dilations[0] + 1;
        // What would hold gathered rows holds these.
        let behind = image.line().next_multiple_of(DEPTH) - image.line();
        let room = (block.space.rows * block.space.depth).saturating_sub(behind) / width;
        Some(Lines { image, width, height, behind, most: room.checked_sub(height)? / strides[0] + 1 })
    }

    /// Windows of a line.
    pub(super) fn windows(&self) -> usize {
        self.image.out[1]
    }

    /// Multiplies lines with columns.
    ///
    /// # Safety
    /// As [`Block::run`], of the rows that these lines are.
    pub(super) unsafe fn run<R: Rows>(
        &self,
        block: &Block<'_, R>,
        lines: Range<usize>,
        columns: Range<usize>,
        scratch: &mut [f32],
    ) {
        let (units, bytes) = scratch.split_at_mut(block.space.units);
        let (units, bytes) = (as_bytes(units), as_bytes(bytes));
        let mut next = lines.start;
        while next < lines.end {
            let (image, y) = (next / self.image.out[0], next % self.image.out[0]);
            let left = (self.image.out[0] - y).min(lines.end - next);
            // Blocks of nearly as many lines each.
            let count = part(left, left.div_ceil(self.most), 0).len().max(1);
            let rows = (count - 1) * self.image.strides[0] + self.height;
            let bytes = &mut bytes[..rows * self.width + self.behind];
            for (row, out) in bytes.chunks_exact_mut(self.width).enumerate() {
                self.copy(image, y * self.image.strides[0] + row, out);
            }
            // SAFETY: the caller vouches for the rows and columns of C.
            unsafe { self.multiply(block, bytes, next..next + count, columns.clone(), units) };
            next += count;
        }
    }

    /// Copies a row of pixels, counted from the first one of the padding.
    fn copy(&self, image: usize, row: usize, out: &mut [u8]) {
        let Image { bytes, channels, size: [height, width], pads, .. } = *self.image;
        let (flip, zero) = self.image.reading();
        let Some(row) = row.checked_sub(pads[0]).filter(|&row| row < height) else {
            out.fill(zero);
            return;
        };
        let (before, rest) = out.split_at_mut((pads[1] * channels).min(self.width));
        let (inside, after) = rest.split_at_mut(rest.len().min(width * channels));
        before.fill(zero);
        after.fill(zero);
        let from = &bytes[(image * height + row) * width * channels..][..inside.len()];
        if flip == 0 {
            inside.copy_from_slice(from);
        } else {
            inside.iter_mut().zip(from).for_each(|(out, &byte)| *out = byte ^ flip);
        }
    }

    /// Multiplies copied lines with columns.
    ///
    /// # Safety
    /// As [`Lines::run`].
    unsafe fn multiply<R: Rows>(
        &self,
        block: &Block<'_, R>,
        bytes: &[u8],
        lines: Range<usize>,
        columns: Range<usize>,
        units: &mut [u8],
    ) {
        let Right::Packed(b, stats) = block.b else { return };
        let (depth, step) = (block.space.depth, block.dot.panels());
        let Image { kernel, strides, dilations, channels, out, .. } = *self.image;
        let places = Places {
            lines: lines.len(),
            // Where there is one line, or one row of the kernel, these are not used, and may be too large.
            line: strides[0].saturating_mul(self.width),
            row: strides[1] * channels,
            pieces: kernel[0],
            piece: dilations[0].saturating_mul(self.width),
        };
        for first in (columns.start / PANEL..columns.end.div_ceil(PANEL)).step_by(step) {
            let columns = first * PANEL..((first + step) * PANEL).min(columns.end);
            let range = first..first + columns.len().div_ceil(PANEL);
            let finish = Finish {
                sums: &[],
                rows: lines.len() * out[1],
                row: lines.start * out[1],
                columns,
                steps: block.steps,
                out: block.out,
                e: block.e,
            };
            let tiles = Tiles {
                bytes,
                places,
                ahead: true,
                wide: &[],
                peaks: &[],
                zero: self.image.reading().1,
                b: &b[range.start * depth * PANEL..range.end * depth * PANEL],
                finds: false,
                stats: &stats[range],
                depth,
                finish,
            };
            // SAFETY: the caller vouches for C, and what dot products there are was checked against the CPU.
            unsafe { multiply::multiply(&tiles, block.dot, true, units) };
        }
    }
}
