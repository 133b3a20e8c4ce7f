//! Depthwise convolution on NCHW16c: one vector is one pixel, so each tap is one load and one multiply-add.

mod tile;

use super::taps::taps_inside;
use super::tile::Tile;
use super::{ConvParams, Operands};
use crate::kernels::cuts::Cuts;
use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, image_grid, part};
use std::ops::Range;
use tile::tiles;

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32]) {
    let planes = p.n * p.oc.div_ceil(BLOCK);
    let (plane_parts, row_parts) = image_grid(threads.count(), p.n, planes, p.oh, p.ih * p.iw);
    let out = SharedMut::new(y);
    threads.parallel_for(plane_parts * row_parts, |i| {
        for plane in part(planes, plane_parts, i % plane_parts) {
            let rows = part(p.oh, row_parts, i / plane_parts);
            Band { p, o, threads, out, plane, rows }.run();
        }
    });
}

/// Some rows of one block of channels of one image.
struct Band<'a> {
    p: &'a ConvParams,
    o: Operands<'a>,
    threads: &'a Threads,
    out: SharedMut<'a, f32>,
    plane: usize,
    rows: Range<usize>,
}

impl Band<'_> {
    fn run(self) {
        let (p, isa) = (self.p, self.threads.isa());
        let table = tiles(isa, p.stride[1]);
        let cuts = Cuts::new(p.ow, table.len());
        let mut tile = self.first_tile();
        let (image, w) = (tile.x, tile.w);
        let in_row = p.iw * BLOCK;
        for row in self.rows.clone() {
            let top = (row * p.stride[0]) as isize - p.pad[0] as isize;
            let kh = taps_inside(top, p.dilation[0], p.ih, p.kh);
            let first = image.wrapping_offset((top + (kh.start * p.dilation[0]) as isize) * in_row as isize);
            (tile.kh, tile.w) = (kh.len(), w.wrapping_add(kh.start * p.kw * BLOCK));
            let y = (self.plane * p.oh + row) * p.ow * BLOCK;
            let mut index = 0;
            while index < cuts.count {
                let (start, pixels) = cuts.at(index);
                tile.place(start, pixels, first, p.pad[1]);
                // With other strides a call computes one tile.
                let together = isa == Isa::Avx2 && tile.inside && p.stride[1] <= 2;
                tile.count = if together { tile.inside_with(pixels, cuts.alike(index)) } else { 1 };
                tile.y = self.out.as_ptr().wrapping_add(y + start * BLOCK);
                if let Some(r) = self.o.residual {
                    tile.residual = r.as_ptr().wrapping_add(y + start * BLOCK);
                }
                // SAFETY: the table matches the CPU; the tile's rows are clipped to x by `taps_inside`, its columns by `Tile::outside`,
                // and those behind it are inside; x, w and y are as long as `conv` checked, as it did that no coordinate wraps; tasks
                // write disjoint rows and planes.
                unsafe { table[pixels - 1](&tile) };
                index += tile.count;
            }
            if p.act.as_clamp().is_none() {
                // SAFETY: this task's own pixels, in bounds of y.
                p.act.apply(isa, unsafe { self.out.slice(y, p.ow * BLOCK) });
            }
        }
    }

    /// What does not change from tile to tile; `x` and `w` are where the image and the filters of the block start.
    fn first_tile(&self) -> Tile {
        let p = self.p;
        let block = self.plane % p.oc.div_ceil(BLOCK);
        Tile {
            x: self.o.x[self.plane * p.ih * p.iw * BLOCK..].as_ptr(),
            x_block: 0,
            x_row: p.dilation[0] * p.iw * BLOCK,
            x_column: p.dilation[1] * BLOCK,
            x_pixel: p.stride[1] * BLOCK,
            blocks: 1,
            last_channels: BLOCK,
            kh: p.kh,
            kw: p.kw,
            w: self.o.filters.plain()[block * p.kh * p.kw * BLOCK..].as_ptr(),
            w_last: std::ptr::null(),
            w_out_block: 0,
            w_block: 0,
            w_row: BLOCK,
            ahead: 0,
            inside: false,
            column: 0,
            column_step: p.stride[1],
            tap_step: p.dilation[1],
            width: p.iw,
            count: 1,
            y: std::ptr::null_mut(),
            y_block: 0,
            accumulate: false,
            bias: self.o.bias.map_or(std::ptr::null(), |b| b[block * BLOCK..].as_ptr()),
            bias_left: p.oc - block * BLOCK,
            residual: std::ptr::null(),
            clamp: p.act.as_clamp().unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
        }
    }
}
