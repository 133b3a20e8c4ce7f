//! Max and average pooling over windows and over whole images, in NCHW and NCHW16c.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, image_grid, part};
use super::reduce::{Reduce, reduce};
use super::simd::V16;
use super::sizes::{product, reach};
use std::ops::Range;

/// Memory layout of an image tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// [N][C][H][W]
    Nchw,
    /// [N][ceil(C / 16)][H][W][16]
    Blocked,
}

/// What a window becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Its largest value; padding does not count.
    Max,
    /// Its mean.
    Avg {
        /// Divide by the taps on the padded image, not only by those on the image itself.
        count_include_pad: bool,
    },
}

/// The shape of a 2-D pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolParams {
    /// Images.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Input height.
    pub ih: usize,
    /// Input width.
    pub iw: usize,
    /// Output height.
    pub oh: usize,
    /// Output width.
    pub ow: usize,
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Padding: top, left, bottom, right. Windows may reach further when the output size was rounded up; what is
    /// beyond the padding never counts.
    pub pad: [usize; 4],
    /// Vertical and horizontal distance between window taps.
    pub dilation: [usize; 2],
}

impl PoolParams {
    /// Whether no stride, dilation or window is 0, and every coordinate that a window can name can be counted.
    pub fn is_valid(&self) -> bool {
        let positive = !self.kernel.iter().chain(&self.stride).chain(&self.dilation).any(|&value| value == 0);
        let far = |axis: usize| {
            let (size, outputs) = ([self.ih, self.iw][axis], [self.oh, self.ow][axis].max(1));
            let under = reach(&[outputs, self.kernel[axis]], &[self.stride[axis], self.dilation[axis]])?;
            under.checked_add(size)?.checked_add(self.pad[axis])?.checked_add(self.pad[axis + 2])
        };
        positive && (0..2).all(|axis| far(axis).is_some_and(|far| far <= isize::MAX as usize))
    }
}

/// The taps of one window along one axis: those on the image, and how many are on the padded image.
fn taps(p: &PoolParams, axis: usize, out: usize) -> (Range<usize>, usize) {
    let (size, step) = ([p.ih, p.iw][axis] as isize, p.dilation[axis]);
    let first = (out * p.stride[axis]) as isize - p.pad[axis] as isize;
    let until = |end: isize| {
        if end <= first { 0 } else { (end - first).unsigned_abs().div_ceil(step) }
    };
    let start = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(step) };
    let end = until(size).min(p.kernel[axis]);
    let padded = until(size + p.pad[axis + 2] as isize).min(p.kernel[axis]);
    (start.min(end)..end, padded)
}

/// Pools every channel of every image.
///
/// # Panics
/// If a length is wrong or the parameters are not valid.
pub fn pool2d(threads: &Threads, kind: PoolKind, layout: Layout, p: &PoolParams, x: &[f32], y: &mut [f32]) {
    assert!(p.is_valid(), "no such windows: {p:?}");
    let (channels, lanes) = match layout {
        Layout::Nchw => (p.c, 1),
        Layout::Blocked => (p.c.div_ceil(BLOCK), BLOCK),
    };
    assert_eq!(Some(x.len()), product(&[p.n, channels, p.ih, p.iw, lanes]));
    assert_eq!(Some(y.len()), product(&[p.n, channels, p.oh, p.ow, lanes]));
    if y.is_empty() {
        return;
    }
    let taps = p.kernel[0].saturating_mul(p.kernel[1]);
    let (parts, planes) = (parts_of(threads, y.len().saturating_mul(taps)), p.n * channels);
    let (plane_parts, row_parts) = image_grid(parts, p.n, planes, p.oh, p.ih * p.iw);
    let out = SharedMut::new(y);
    threads.parallel_for(plane_parts * row_parts, |i| {
        for plane in part(planes, plane_parts, i % plane_parts) {
            let image = &x[plane * p.ih * p.iw * lanes..][..p.ih * p.iw * lanes];
            for row in part(p.oh, row_parts, i / plane_parts) {
                // SAFETY: rows are disjoint.
                let y = unsafe { out.slice((plane * p.oh + row) * p.ow * lanes, p.ow * lanes) };
                let row = Row { kind, p, x: image, row, y };
                if lanes == 1 { row.plain() } else { dispatch(threads.isa(), row) }
            }
        }
    });
}

/// Pools whole images: y has the layout of x with one pixel. `kind` is usually `Mean` or `Max`.
///
/// # Panics
/// If a length is wrong.
#[expect(clippy::too_many_arguments, reason = "the shape of an image tensor")]
pub fn global_pool(
    threads: &Threads,
    kind: Reduce,
    layout: Layout,
    n: usize,
    c: usize,
    hw: usize,
    x: &[f32],
    y: &mut [f32],
) {
    match layout {
        Layout::Nchw => reduce(threads, kind, n.saturating_mul(c), hw, 1, x, y),
        Layout::Blocked => reduce(threads, kind, n.saturating_mul(c.div_ceil(BLOCK)), hw, BLOCK, x, y),
    }
}

/// One output row of one plane (NCHW) or block (NCHW16c).
struct Row<'a> {
    kind: PoolKind,
    p: &'a PoolParams,
    x: &'a [f32],
    row: usize,
    y: &'a mut [f32],
}

impl Row<'_> {
    /// What a window's sum is multiplied by.
    fn factor(&self, rows: &(Range<usize>, usize), columns: &(Range<usize>, usize)) -> f32 {
        match self.kind {
            PoolKind::Max => 1.0,
            PoolKind::Avg { count_include_pad: true } => 1.0 / (rows.1 * columns.1) as f32,
            PoolKind::Avg { count_include_pad: false } => 1.0 / (rows.0.len() * columns.0.len()) as f32,
        }
    }

    /// The input index (in pixels) under tap `kh`, `kw` of output pixel `px`.
    fn pixel(&self, px: usize, kh: usize, kw: usize) -> usize {
        let p = self.p;
        let iy = self.row * p.stride[0] + kh * p.dilation[0] - p.pad[0];
        iy * p.iw + px * p.stride[1] + kw * p.dilation[1] - p.pad[1]
    }

    fn plain(self) {
        let rows = taps(self.p, 0, self.row);
        for px in 0..self.p.ow {
            let columns = taps(self.p, 1, px);
            let window = rows.0.clone().flat_map(|kh| columns.0.clone().map(move |kw| (kh, kw)));
            let values = window.map(|(kh, kw)| self.x[self.pixel(px, kh, kw)]);
            self.y[px] = match self.kind {
                PoolKind::Max => values.fold(f32::NEG_INFINITY, |m, v| if v > m || v.is_nan() { v } else { m }),
                PoolKind::Avg { .. } => values.sum::<f32>() * self.factor(&rows, &columns),
            };
        }
    }
}

impl Kernel for Row<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let rows = taps(self.p, 0, self.row);
        for px in 0..self.p.ow {
            let columns = taps(self.p, 1, px);
            // SAFETY: `dispatch` checked the features; `taps` leaves those on the image, in arithmetic that `is_valid`
            // says does not wrap, and `pool2d` gave the rows of a plane of that size; px < ow, the pixels of y.
            unsafe {
                let max = self.kind == PoolKind::Max;
                let mut acc = V::splat(if max { f32::NEG_INFINITY } else { 0.0 });
                for kh in rows.0.clone() {
                    for kw in columns.0.clone() {
                        let v = V::load(self.x.as_ptr().add(self.pixel(px, kh, kw) * BLOCK));
                        acc = if max { acc.max(v) } else { acc.add(v) };
                    }
                }
                let v = if max { acc } else { acc.mul(V::splat(self.factor(&rows, &columns))) };
                v.store(self.y.as_mut_ptr().add(px * BLOCK));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::kernels::layout::{blocked_len, from_blocked, to_blocked};

    fn reference(kind: PoolKind, p: &PoolParams, x: &[f32]) -> Vec<f64> {
        let mut y = Vec::new();
        for at in 0..p.n * p.c * p.oh * p.ow {
            let (ox, oy, plane) = (at % p.ow, at / p.ow % p.oh, at / p.ow / p.oh);
            let (mut largest, mut sum, mut inside, mut padded) = (f64::NEG_INFINITY, 0.0, 0, 0);
            for kh in 0..p.kernel[0] {
                for kw in 0..p.kernel[1] {
                    let iy = (oy * p.stride[0] + kh * p.dilation[0]) as isize - p.pad[0] as isize;
                    let ix = (ox * p.stride[1] + kw * p.dilation[1]) as isize - p.pad[1] as isize;
                    let (h, w) = (p.ih as isize, p.iw as isize);
                    padded += usize::from(iy < h + p.pad[2] as isize && ix < w + p.pad[3] as isize);
                    if (0..h).contains(&iy) && (0..w).contains(&ix) {
                        let v = f64::from(x[(plane * p.ih + iy as usize) * p.iw + ix as usize]);
                        largest = largest.max(v);
                        sum += v;
                        inside += 1;
                    }
                }
            }
            y.push(match kind {
                PoolKind::Max => largest,
                PoolKind::Avg { count_include_pad: true } => sum / f64::from(padded as u32),
                PoolKind::Avg { count_include_pad: false } => sum / f64::from(inside as u32),
            });
        }
        y
    }

    #[test]
    fn windows_and_whole_images() {
        for (n, c, size, out, kernel, stride, pad, dilation) in [
            (1, 1, [4, 4], [2, 2], [2, 2], [2, 2], [0; 4], [1, 1]),
            (2, 17, [7, 9], [4, 5], [3, 3], [2, 2], [1; 4], [1, 1]),
            (1, 16, [8, 8], [5, 5], [2, 2], [2, 2], [1, 1, 0, 0], [1, 1]),
            (1, 20, [6, 6], [3, 3], [3, 3], [2, 2], [0, 0, 1, 1], [1, 1]),
            (1, 3, [9, 9], [5, 5], [3, 3], [1, 1], [0; 4], [2, 2]),
            (1, 33, [5, 30], [3, 30], [3, 1], [2, 1], [1, 0, 1, 0], [1, 1]),
        ] {
            let p =
                PoolParams { n, c, ih: size[0], iw: size[1], oh: out[0], ow: out[1], kernel, stride, pad, dilation };
            let (hw, out_hw) = (p.ih * p.iw, p.oh * p.ow);
            let x: Vec<f32> = (0..n * c * hw).map(|i| ((i * 7919) % 101) as f32 - 70.0).collect();
            for kind in
                [PoolKind::Max, PoolKind::Avg { count_include_pad: true }, PoolKind::Avg { count_include_pad: false }]
            {
                let want = reference(kind, &p, &x);
                for &isa in Isa::available() {
                    let threads = Threads::with_isa(2, isa);
                    let mut plain = vec![0.0; n * c * out_hw];
                    pool2d(&threads, kind, Layout::Nchw, &p, &x, &mut plain);
                    let mut xb = vec![0.0; blocked_len(n, c, hw)];
                    to_blocked(&threads, n, c, hw, &x, &mut xb);
                    let mut yb = vec![0.0; blocked_len(n, c, out_hw)];
                    pool2d(&threads, kind, Layout::Blocked, &p, &xb, &mut yb);
                    let mut blocked = vec![0.0; plain.len()];
                    from_blocked(&threads, n, c, out_hw, &yb, &mut blocked);
                    for (got, want) in plain.iter().chain(&blocked).zip(want.iter().chain(&want)) {
                        assert!((f64::from(*got) - want).abs() < 1e-4, "{kind:?} {p:?} {got} {want}");
                    }
                    let (mut g, mut gb) = (vec![0.0; n * c], vec![0.0; blocked_len(n, c, 1)]);
                    global_pool(&threads, Reduce::Max, Layout::Nchw, n, c, hw, &x, &mut g);
                    global_pool(&threads, Reduce::Max, Layout::Blocked, n, c, hw, &xb, &mut gb);
                    let mut back = vec![0.0; n * c];
                    from_blocked(&threads, n, c, 1, &gb, &mut back);
                    assert_eq!(g, back);
                }
            }
        }
    }
}
