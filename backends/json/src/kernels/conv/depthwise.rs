//! Depthwise convolution on NCHW16c: one vector is one pixel, so each tap is one load and one multiply-add.

use super::finish::finish;
use super::tile::taps_inside;
use super::{ConvParams, Operands};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use std::ops::Range;

/// Pixels of the largest image that is copied, with zeros around it, so that no pixel is at a border: with more the copy takes as
/// long as it saves (5x5 of 1152 channels at 7x7 0.057 and not 0.080 ms, of 672 at 14x14 0.133 and not 0.122).
const FRAMED: usize = 144;

/// The same convolution of the image with its zeros around it, where that is small enough to be copied and has so many taps
/// that copying pays: with 3x3 it does not. Zeros are multiplied there, so that an infinite weight is felt at the border.
fn framed(p: &ConvParams) -> Option<ConvParams> {
    let [ih, iw] = p.window(p.oh, p.ow)?;
    let fits = p.kh * p.kw > 9 && p.pad != [0, 0] && ih.checked_mul(iw)? <= FRAMED && p.pad[0] <= ih && p.pad[1] <= iw;
    fits.then(|| ConvParams { ih, iw, pad: [0, 0], ..p.clone() })
}

/// Copies the pixels of one block of channels into a frame that is zero elsewhere.
fn enframe(p: &ConvParams, framed: &ConvParams, x: &[f32], frame: &mut [f32]) {
    let width = p.iw.min(framed.iw - p.pad[1]) * BLOCK;
    for row in 0..p.ih.min(framed.ih - p.pad[0]) {
        let to = ((row + p.pad[0]) * framed.iw + p.pad[1]) * BLOCK;
        frame[to..][..width].copy_from_slice(&x[row * p.iw * BLOCK..][..width]);
    }
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32]) {
    let planes = p.n * p.oc.div_ceil(BLOCK);
    let framed = framed(p);
    // Whole planes for each thread where they share out evenly, else bands of rows.
    let bands = if planes.is_multiple_of(threads.count()) { 1 } else { threads.count().min(p.oh) };
    let parts = if bands == 1 { threads.count() } else { planes * bands };
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        let mut frame = framed.as_ref().map(|_| [0.0; FRAMED * BLOCK]);
        for at in part(planes * bands, parts, i) {
            let (plane, rows) = (at / bands, part(p.oh, bands, at % bands));
            let x = &o.x[plane * p.ih * p.iw * BLOCK..][..p.ih * p.iw * BLOCK];
            let (p, x) = match framed.as_ref().zip(frame.as_mut()) {
                Some((framed, frame)) => {
                    enframe(p, framed, x, frame);
                    (framed, &frame[..framed.ih * framed.iw * BLOCK])
                }
                None => (p, x),
            };
            dispatch(threads.isa(), Band { p, o, x, out, isa: threads.isa(), plane, rows });
        }
    });
}

/// Some rows of one block of channels of one image.
struct Band<'a> {
    p: &'a ConvParams,
    o: Operands<'a>,
    /// The pixels of the block.
    x: &'a [f32],
    out: SharedMut<'a, f32>,
    isa: Isa,
    plane: usize,
    rows: Range<usize>,
}

impl Kernel for Band<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let p = self.p;
        let block = self.plane % p.oc.div_ceil(BLOCK);
        let taps = p.kh * p.kw * BLOCK;
        let bias = self.o.bias.map_or(&[][..], |b| &b[block * BLOCK..]);
        let clamp = p.act.as_clamp().filter(|_| self.o.residual.is_none());
        let columns = Columns::new(p);
        // SAFETY: `dispatch` checked the features; `load_part` reads no more than `bias` holds.
        let (bias, (lo, hi)) = unsafe {
            let (lo, hi) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
            (V::load_part(bias.as_ptr(), bias.len().min(BLOCK), 0.0), (V::splat(lo), V::splat(hi)))
        };
        for row in self.rows {
            let top = (row * p.stride[0]) as isize - p.pad[0] as isize;
            let kh = taps_inside(top, p.dilation[0], p.ih, p.kh);
            let line = Line { p, x: self.x, w: &self.o.w[block * taps..][..taps], kh, top, bias, lo, hi };
            let at = (self.plane * p.oh + row) * p.ow * BLOCK;
            // SAFETY: rows and planes are disjoint between tasks.
            let y = unsafe { self.out.slice(at, p.ow * BLOCK) };
            // SAFETY: `dispatch` checked the features; y is a row of `ow` pixels.
            unsafe { line.run(&columns, y) };
            if clamp.is_none() {
                finish(self.isa, p.act, None, self.o.residual.map(|r| &r[at..at + p.ow * BLOCK]), y);
            }
        }
    }
}

/// The pixels of a row: from `start` to `end` every tap column is on the image.
struct Columns {
    start: usize,
    end: usize,
    /// Tiles between the two, of `least` pixels or one more.
    tiles: usize,
    least: usize,
    longer: usize,
}

impl Columns {
    /// Pixels of the longest tile.
    const MOST: usize = 8;

    fn new(p: &ConvParams) -> Columns {
        let reach = (p.kw - 1) * p.dilation[1];
        let start = p.pad[1].div_ceil(p.stride[1]).min(p.ow);
        let fit = (p.iw + p.pad[1]) as isize - reach as isize;
        let end = if fit <= 0 { 0 } else { fit.unsigned_abs().div_ceil(p.stride[1]).min(p.ow) }.max(start);
        let tiles = (end - start).div_ceil(Columns::MOST);
        let least = (end - start).checked_div(tiles).unwrap_or(0);
        Columns { start, end, tiles, least, longer: end - start - least * tiles }
    }
}

/// The input and weights under one output row, and what becomes of its sums.
struct Line<'a, V> {
    p: &'a ConvParams,
    x: &'a [f32],
    w: &'a [f32],
    kh: Range<usize>,
    top: isize,
    bias: V,
    lo: V,
    hi: V,
}

impl<V: V16> Line<'_, V> {
    /// Sums the taps of every pixel of the row `y`: tiles where all columns exist, single pixels at the borders.
    ///
    /// # Safety
    /// The CPU has the features of `V`; `y` holds a row. That no coordinate wraps is checked by `conv`.
    #[inline(always)]
    unsafe fn run(&self, columns: &Columns, y: &mut [f32]) {
        let p = self.p;
        for px in (0..columns.start).chain(columns.end..p.ow) {
            let column = (px * p.stride[1]) as isize - p.pad[1] as isize;
            let kw = taps_inside(column, p.dilation[1], p.iw, p.kw);
            // SAFETY: `taps_inside` clipped the taps to the image, in both directions; px < ow.
            unsafe { self.tile::<1, 0>(y, px, kw) };
        }
        let mut px = columns.start;
        for tile in 0..columns.tiles {
            let stop = px + columns.least + usize::from(tile < columns.longer);
            while px < stop {
                // SAFETY: from `start` to `end` every tap column is on the image, and tap rows were clipped to it; px < ow.
                px += unsafe {
                    match (stop - px, p.stride[1]) {
                        (8, 1) => self.tile::<8, 1>(y, px, 0..p.kw),
                        (8, 2) => self.tile::<8, 2>(y, px, 0..p.kw),
                        (7, 1) => self.tile::<7, 1>(y, px, 0..p.kw),
                        (7, 2) => self.tile::<7, 2>(y, px, 0..p.kw),
                        (6.., 1) => self.tile::<6, 1>(y, px, 0..p.kw),
                        (6.., 2) => self.tile::<6, 2>(y, px, 0..p.kw),
                        (5, 1) => self.tile::<5, 1>(y, px, 0..p.kw),
                        (4.., _) => self.tile::<4, 0>(y, px, 0..p.kw),
                        (2.., _) => self.tile::<2, 0>(y, px, 0..p.kw),
                        _ => self.tile::<1, 0>(y, px, 0..p.kw),
                    }
                };
            }
        }
    }

    /// P pixels from pixel `px` with the tap columns `kw`; returns P.
    ///
    /// # Safety
    /// The CPU has the features of `V`; these taps are on the image and these pixels in `y`.
    #[inline(always)]
    unsafe fn tile<const P: usize, const S: usize>(&self, y: &mut [f32], px: usize, kw: Range<usize>) -> usize {
        let p = self.p;
        let stride = if S == 0 { p.stride[1] } else { S } * BLOCK;
        let column = (px * p.stride[1]) as isize - p.pad[1] as isize;
        // SAFETY: the caller vouches for taps and pixels.
        unsafe {
            let mut acc = [self.bias; P];
            for kh in self.kh.clone() {
                let row = (self.top + (kh * p.dilation[0]) as isize) * p.iw as isize + column;
                for kw in kw.clone() {
                    let w = V::load(self.w.as_ptr().add((kh * p.kw + kw) * BLOCK));
                    let x = self.x.as_ptr().wrapping_offset((row + (kw * p.dilation[1]) as isize) * BLOCK as isize);
                    for (i, a) in acc.iter_mut().enumerate() {
                        *a = V::load(x.wrapping_add(i * stride)).fma(w, *a);
                    }
                }
            }
            for (i, a) in acc.iter().enumerate() {
                self.hi.min(self.lo.max(*a)).store(y.as_mut_ptr().add((px + i) * BLOCK));
            }
        }
        P
    }
}
