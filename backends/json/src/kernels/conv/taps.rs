//! The taps of a filter: which of them are on the image, and the way over them.

use std::ops::Range;

use super::tile::Tile;
use crate::kernels::layout::BLOCK;

/// The way over the taps in the columns `kws` of all rows of all blocks, as one loop: in a nest of three the compiler stores and loads
/// all sums once a tap, which costs up to a third of the time.
pub(super) struct Taps {
    pub(super) x: *const f32,
    pub(super) w: *const f32,
    /// Taps to go, in all, in this block and in this row.
    pub(super) left: usize,
    block_left: usize,
    row_left: usize,
    pub(super) in_block: usize,
    in_row: usize,
    /// From a tap to the next one in its row, from the last one of a row to the next row and of a block to the next block, in x and w.
    step: (usize, usize),
    next_row: (usize, usize),
    next_block: (usize, usize),
    /// The first column.
    column: usize,
}

impl Taps {
    #[inline(always)]
    pub(super) fn new(t: &Tile, kws: Range<usize>) -> Taps {
        let (in_row, in_block) = (kws.len(), kws.len() * t.kh);
        let tap = BLOCK * t.w_row;
        // Back to the first column, and to the first row.
        let row = (t.x_column.wrapping_mul(in_row.wrapping_sub(1)), tap.wrapping_mul(in_row.wrapping_sub(1)));
        let rows = t.kh.wrapping_sub(1);
        let block = (rows.wrapping_mul(t.x_row).wrapping_add(row.0), rows.wrapping_mul(t.kw * tap).wrapping_add(row.1));
        let mut taps = Taps {
            x: t.x.wrapping_add(kws.start * t.x_column),
            w: t.w.wrapping_add(kws.start * tap),
            left: t.blocks * in_block,
            block_left: in_block,
            row_left: in_row,
            in_block,
            in_row,
            step: (t.x_column, tap),
            next_row: (t.x_row.wrapping_sub(row.0), (t.kw * tap).wrapping_sub(row.1)),
            next_block: (t.x_block.wrapping_sub(block.0), t.w_block.wrapping_sub(block.1)),
            column: kws.start,
        };
        if t.blocks == 1 && t.last_channels < BLOCK {
            taps.enter_narrow(t);
        }
        taps
    }

    /// Goes to the weights of a last block with fewer channels, of which each tap has as many rows.
    #[inline(always)]
    fn enter_narrow(&mut self, t: &Tile) {
        let tap = t.last_channels * t.w_row;
        self.w = t.w_last.wrapping_add(self.column * tap);
        self.step.1 = tap;
        self.next_row.1 = (t.kw * tap).wrapping_sub(tap.wrapping_mul(self.in_row.wrapping_sub(1)));
    }

    /// Whether this is a tap of the last block.
    #[inline(always)]
    pub(super) fn last(&self) -> bool {
        self.left <= self.in_block
    }

    #[inline(always)]
    pub(super) fn next(&mut self, t: &Tile) {
        self.left -= 1;
        self.row_left -= 1;
        self.block_left -= 1;
        let (x, w) = if self.block_left == 0 {
            (self.block_left, self.row_left) = (self.in_block, self.in_row);
            self.next_block
        } else if self.row_left == 0 {
            self.row_left = self.in_row;
            self.next_row
        } else {
            self.step
        };
        (self.x, self.w) = (self.x.wrapping_add(x), self.w.wrapping_add(w));
        if self.left == self.in_block && t.last_channels < BLOCK {
            self.enter_narrow(t);
        }
    }
}

/// The taps `k` in `0..taps` for which `first + k * step` is in `0..size`.
pub(super) fn taps_inside(first: isize, step: usize, size: usize, taps: usize) -> Range<usize> {
    let start = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(step) };
    let left = size as isize - first;
    // Most often all of them are, and a division takes as long as a tap.
    if start == 0 && left > ((taps - 1) * step) as isize {
        return 0..taps;
    }
    let end = if left <= 0 { 0 } else { left.unsigned_abs().div_ceil(step).min(taps) };
    start.min(end)..end
}
