//! How a convolution by products of bf16 is cut into bands of lines that stay in a cache.

use super::super::ConvParams;
use super::super::pack::group_blocks;
use crate::kernels::bf16::terms::{SIDE, SUMS};
use crate::kernels::bf16::{TILE, TILE_BYTES};
use crate::kernels::precision::Math;
use crate::kernels::sizes::product;

/// Bytes of lines that stay in the second-level cache while the filters pass by.
const BUDGET: usize = 768 * 1024;
/// Most bytes of lines, and of filters: one row more than fits is taken, more are left to the vector units.
const MOST_BYTES: usize = 3 * BUDGET / 2;
/// Positions for which it pays to put filters into tiles, if the image has more rows.
const LEAST_POSITIONS: usize = 96;
/// Bytes of a line.
pub(super) const LINE: usize = 64;
/// Windows of more taps are left to the vector units.
const MOST_TAPS: usize = 128;

/// How the work is cut, and how many lines that takes.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) in_blocks: usize,
    pub(super) out_blocks: usize,
    pub(super) groups: usize,
    /// Pairs of input blocks: what a line has.
    pub(super) pairs: usize,
    /// Rows and columns of a stride of which taps meet some: as many planes.
    pub(super) planes: [usize; 2],
    /// Output columns that are computed together: all, but of very long rows.
    pub(super) columns: usize,
    /// Positions of a row of a plane, with those that only taps meet.
    pub(super) width: usize,
    /// Output rows that are computed together.
    pub(super) band: usize,
    /// Lines from the first row of a window to its last tap.
    pub(super) reach: usize,
    /// Lines of a band, for each pair, piece and plane.
    pub(super) lines: usize,
    /// f32 values of the tiles of the filters of two output blocks.
    pub(super) filters: usize,
    /// f32 values of scratch of one thread.
    pub(super) each: usize,
}

impl Plan {
    /// `None` where the vector units are to compute it.
    pub(super) fn new(p: &ConvParams) -> Option<Plan> {
        if p.math == Math::F32 || p.oh == 0 || p.ow == 0 || product(&[p.kh, p.kw])? > MOST_TAPS {
            return None;
        }
        let (in_blocks, out_blocks, groups) = group_blocks(p);
        let pairs = in_blocks.div_ceil(2);
        let last = [product(&[p.kh - 1, p.dilation[0]])?, product(&[p.kw - 1, p.dilation[1]])?];
        let planes = [p.stride[0].min(last[0].saturating_add(1)), p.stride[1].min(last[1].saturating_add(1))];
        let [down, right] = [last[0] / p.stride[0], last[1] / p.stride[1]];
        let pieces = p.math.pieces();
        let most = BUDGET / product(&[pairs, pieces, planes[0], planes[1], LINE])?;
        let row = most / down.checked_add(1)?;
        let parts = match p.ow.checked_add(right)? > row {
            true => p.ow.div_ceil(row.checked_sub(right).filter(|columns| *columns >= LEAST_POSITIONS)?),
            false => 1,
        };
        let columns = p.ow.div_ceil(parts);
        let width = columns + right;
        let reach = product(&[down, width])?.checked_add(right)?;
        let band = (most / width).saturating_sub(down).clamp(1, p.oh);
        let lines = product(&[band, width])?.checked_next_multiple_of(SIDE)?.checked_add(reach)?;
        let filter_bytes = product(&[pairs, p.kh, p.kw, pieces, 2 * TILE_BYTES])?;
        let line_bytes = product(&[lines, pairs, pieces, planes[0], planes[1], LINE])?;
        let many = (band == p.oh && parts == 1) || band * width >= LEAST_POSITIONS;
        if filter_bytes > MOST_BYTES || line_bytes > MOST_BYTES || !many {
            return None;
        }
        let filters = filter_bytes / size_of::<f32>();
        let each = line_bytes / size_of::<f32>() + filters + SUMS + 2 * TILE;
        Some(Plan {
            in_blocks,
            out_blocks,
            groups,
            pairs,
            planes,
            columns,
            width,
            band,
            reach,
            lines,
            filters,
            each: each.next_multiple_of(TILE),
        })
    }

    /// Bytes from the lines of a piece to those of the next.
    pub(super) fn piece(&self) -> usize {
        self.planes[0] * self.planes[1] * self.lines * LINE
    }

    /// How many lines further than a position the input of each tap is.
    pub(super) fn taps(&self, p: &ConvParams) -> [usize; MOST_TAPS] {
        let mut taps = [0; MOST_TAPS];
        for (tap, line) in taps.iter_mut().enumerate().take(p.kh * p.kw) {
            let [row, column] = [tap / p.kw * p.dilation[0], tap % p.kw * p.dilation[1]];
            let plane = row % p.stride[0] * self.planes[1] + column % p.stride[1];
            *line = plane * self.lines + row / p.stride[0] * self.width + column / p.stride[1];
        }
        taps
    }
}
