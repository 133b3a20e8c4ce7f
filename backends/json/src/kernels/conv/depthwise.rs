//! Depthwise convolution on NCHW16c: one vector is one pixel, so each tap is one load and one multiply-add.

use super::finish::finish;
use super::tile::{cuts, taps_inside};
use super::{ConvParams, Operands};
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32]) {
    let planes = p.n * p.oc.div_ceil(BLOCK);
    // Whole planes for each thread where they share out evenly, else bands of rows.
    let bands = if planes.is_multiple_of(threads.count()) { 1 } else { threads.count().min(p.oh) };
    let parts = if bands == 1 { threads.count() } else { planes * bands };
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        for at in part(planes * bands, parts, i) {
            let rows = part(p.oh, bands, at % bands);
            dispatch(threads.isa(), Band { p, o, out, isa: threads.isa(), plane: at / bands, rows });
        }
    });
}

/// Some rows of one block of channels of one image.
struct Band<'a> {
    p: &'a ConvParams,
    o: Operands<'a>,
    out: SharedMut<'a, f32>,
    isa: Isa,
    plane: usize,
    rows: std::ops::Range<usize>,
}

impl Kernel for Band<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let p = self.p;
        let block = self.plane % p.oc.div_ceil(BLOCK);
        let taps = p.kh * p.kw * BLOCK;
        for row in self.rows {
            let top = (row * p.stride[0]) as isize - p.pad[0] as isize;
            let line = Line {
                p,
                x: &self.o.x[self.plane * p.ih * p.iw * BLOCK..][..p.ih * p.iw * BLOCK],
                w: &self.o.w[block * taps..][..taps],
                kh: taps_inside(top, p.dilation[0], p.ih, p.kh),
                top,
            };
            let at = (self.plane * p.oh + row) * p.ow * BLOCK;
            // SAFETY: rows and planes are disjoint between tasks.
            let y = unsafe { self.out.slice(at, p.ow * BLOCK) };
            // SAFETY: `dispatch` checked the features; y is a row of `ow` pixels.
            unsafe { line.run::<V>(y) };
            let bias = self.o.bias.map(|b| &b[block * BLOCK..]);
            let residual = self.o.residual.map(|r| &r[at..at + p.ow * BLOCK]);
            finish(self.isa, p.act, bias, residual, y);
        }
    }
}

/// The input and weights under one output row.
struct Line<'a> {
    p: &'a ConvParams,
    x: &'a [f32],
    w: &'a [f32],
    kh: std::ops::Range<usize>,
    top: isize,
}

impl Line<'_> {
    /// Sums the taps of every pixel of the row `y`: tiles where all columns exist, single pixels at the borders.
    ///
    /// # Safety
    /// The CPU has the features of `V`; `y` holds a row. That no coordinate wraps is checked by `conv`.
    #[inline(always)]
    unsafe fn run<V: V16>(&self, y: &mut [f32]) {
        let p = self.p;
        let reach = (p.kw - 1) * p.dilation[1];
        // Pixels whose taps all exist: start <= pixel < end.
        let start = p.pad[1].div_ceil(p.stride[1]).min(p.ow);
        let fit = (p.iw + p.pad[1]) as isize - reach as isize;
        let end = if fit <= 0 { 0 } else { fit.unsigned_abs().div_ceil(p.stride[1]).min(p.ow) }.max(start);
        for px in (0..start).chain(end..p.ow) {
            let column = (px * p.stride[1]) as isize - p.pad[1] as isize;
            let kw = taps_inside(column, p.dilation[1], p.iw, p.kw);
            // SAFETY: `taps_inside` clipped the taps to the image, in both directions; px < ow.
            unsafe { self.tile::<V, 1, 0>(y, px, kw) };
        }
        for (at, pixels) in cuts(end - start, 8) {
            let mut px = start + at;
            let stop = px + pixels;
            while px < stop {
                // SAFETY: from `start` to `end` every tap column is on the image, and tap rows were clipped to it; px < ow.
                px += unsafe {
                    match (stop - px, p.stride[1]) {
                        (8, 1) => self.tile::<V, 8, 1>(y, px, 0..p.kw),
                        (8, 2) => self.tile::<V, 8, 2>(y, px, 0..p.kw),
                        (7, 1) => self.tile::<V, 7, 1>(y, px, 0..p.kw),
                        (6.., 1) => self.tile::<V, 6, 1>(y, px, 0..p.kw),
                        (6.., 2) => self.tile::<V, 6, 2>(y, px, 0..p.kw),
                        (5, 1) => self.tile::<V, 5, 1>(y, px, 0..p.kw),
                        (4.., _) => self.tile::<V, 4, 0>(y, px, 0..p.kw),
                        (2.., _) => self.tile::<V, 2, 0>(y, px, 0..p.kw),
                        _ => self.tile::<V, 1, 0>(y, px, 0..p.kw),
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
    unsafe fn tile<V: V16, const P: usize, const S: usize>(
        &self,
        y: &mut [f32],
        px: usize,
        kw: std::ops::Range<usize>,
    ) -> usize {
        let p = self.p;
        let stride = if S == 0 { p.stride[1] } else { S } * BLOCK;
        let column = (px * p.stride[1]) as isize - p.pad[1] as isize;
        // SAFETY: the caller vouches for taps and pixels.
        unsafe {
            let mut acc = [V::splat(0.0); P];
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
                a.store(y.as_mut_ptr().add((px + i) * BLOCK));
            }
        }
        P
    }
}
