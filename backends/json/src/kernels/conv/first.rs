//! Convolution from NCHW to NCHW16c for few input channels: copies a band of input rows with its zero border into
//! scratch (cheap for few channels), so that the register tile needs no border handling.

use super::finish::finish;
use super::{ConvParams, Operands};
use crate::kernels::cuts::Cuts;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;
use crate::kernels::unrolled::unrolled;

/// Output rows computed from one band.
const BAND: usize = 4;

/// A band of input rows, border included.
#[derive(Clone, Copy)]
struct Band {
    /// Pixels of a row.
    width: usize,
    /// f32 values of all rows.
    len: usize,
}

impl Band {
    fn new(p: &ConvParams) -> Option<Band> {
        let [height, width] = p.window(BAND.min(p.oh), p.ow)?;
        Some(Band { width, len: product(&[height, width, p.ic])? })
    }
}

/// f32 values of scratch for one thread.
pub(super) fn scratch_len(p: &ConvParams) -> Option<usize> {
    Band::new(p).map(|band| band.len)
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    let bands = p.oh.div_ceil(BAND);
    let tasks = threads.count();
    let Some(band) = Band::new(p) else { panic!("`conv` takes no such parameters") };
    let (out, scratch) = (SharedMut::new(y), SharedMut::new(scratch));
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * band.len, band.len) };
        for at in part(p.n * bands, tasks, task) {
            let (image, first_row) = (at / bands, at % bands * BAND);
            fill(p, band, &o.x[image * p.ic * p.ih * p.iw..], first_row, scratch);
            let rows = BAND.min(p.oh - first_row);
            convolve(p, &o, threads.isa(), image, first_row, rows, (band, scratch), out);
        }
    });
}

/// Copies the input rows that output rows from `first_row` read into `scratch` [band height][band width][IC].
/// Channels are innermost so that one kernel row is one run of values, and pixels are apart from each other: the
/// compiler would load neighbours as one vector and shuffle.
fn fill(p: &ConvParams, band: Band, image: &[f32], first_row: usize, scratch: &mut [f32]) {
    let w = band.width;
    for (line, row) in scratch.chunks_exact_mut(w * p.ic).enumerate() {
        let iy = (first_row * p.stride[0] + line) as isize - p.pad[0] as isize;
        row.fill(0.0);
        if iy < 0 || iy >= p.ih as isize {
            continue;
        }
        let to = &mut row[p.pad[1].min(w) * p.ic..];
        let line = |channel: usize| &image[(channel * p.ih + iy.unsigned_abs()) * p.iw..][..p.iw];
        match p.ic {
            1 => interleave([line(0)], to),
            3 => interleave([line(0), line(1), line(2)], to),
            _ => (0..p.ic).for_each(|channel| {
                let pixels = to.chunks_exact_mut(p.ic).zip(line(channel));
                pixels.for_each(|(pixel, value)| pixel[channel] = *value);
            }),
        }
    }
}

/// Puts the values of C channels side by side, for as many pixels as both sides have.
fn interleave<const C: usize>(from: [&[f32]; C], to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<C>();
    let len = from.iter().map(|line| line.len()).fold(to.len(), usize::min);
    let from = from.map(|line| &line[..len]);
    for (at, pixel) in to[..len].iter_mut().enumerate() {
        for (value, line) in pixel.iter_mut().zip(from) {
            *value = line[at];
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the coordinates of a band")]
fn convolve(
    p: &ConvParams,
    o: &Operands<'_>,
    isa: Isa,
    image: usize,
    first_row: usize,
    rows: usize,
    (band, band_rows): (Band, &[f32]),
    out: SharedMut<'_, f32>,
) {
    let w = band.width;
    let (blocks, plane, taps) = (p.oc.div_ceil(BLOCK), p.oh * p.ow * BLOCK, p.ic * p.kh * p.kw);
    // Bias and clamp are done in registers, but for a residual, which comes between them.
    let alone = o.residual.is_none();
    let (bias, clamp) = (o.bias.filter(|_| alone), p.act.as_clamp().filter(|_| alone));
    let (pmax, pair) = match isa {
        Isa::Avx512 => (14, 2),
        Isa::Avx2 => (6, 1),
        Isa::Portable => (3, 1),
    };
    let cuts = Cuts::new(p.ow, pmax);
    for block in (0..blocks).step_by(pair) {
        let count = pair.min(blocks - block);
        for row in 0..rows {
            let at = (image * blocks + block) * plane + (first_row + row) * p.ow * BLOCK;
            let line = Line {
                p,
                x: &band_rows[row * p.stride[0] * w * p.ic..],
                x_row: w * p.dilation[0] * p.ic,
                w: &o.filters.plain()[block * taps * BLOCK..],
                bias: bias.map(|bias| &bias[block * BLOCK..]),
                clamp: clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY)),
                y: out.as_ptr().wrapping_add(at),
                plane,
                blocks: count,
                cuts,
            };
            dispatch(isa, line);
            for b in (0..count).filter(|_| clamp.is_none()) {
                let at = at + b * plane;
                // SAFETY: this task's own pixels, in bounds of y.
                let y = unsafe { out.slice(at, p.ow * BLOCK) };
                match o.residual {
                    Some(residual) => {
                        let bias = o.bias.map(|bias| &bias[(block + b) * BLOCK..]);
                        finish(isa, p.act, bias, Some(&residual[at..at + y.len()]), y);
                    }
                    None => p.act.apply(isa, y),
                }
            }
        }
    }
}

/// One output row, for one or two blocks of output channels.
struct Line<'a> {
    p: &'a ConvParams,
    x: &'a [f32],
    x_row: usize,
    w: &'a [f32],
    /// The biases of the blocks' channels: none are 0.
    bias: Option<&'a [f32]>,
    /// The range that the sums are brought into.
    clamp: (f32, f32),
    y: *mut f32,
    plane: usize,
    blocks: usize,
    cuts: Cuts,
}

impl Kernel for Line<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let step = self.p.stride[1] * self.p.ic;
        for (start, pixels) in self.cuts.iter() {
            let (mut at, end) = (start, start + pixels);
            while at < end {
                // SAFETY: `dispatch` checked the features; the pixels up to `end` are in the row.
                at += unsafe {
                    match (end - at, self.blocks, step) {
                        (14, 2, 3) => self.tile::<V, 14, 2, 3>(at),
                        (14, 2, 6) => self.tile::<V, 14, 2, 6>(at),
                        (8.., 2, _) => self.tile::<V, 8, 2, 0>(at),
                        (14, 1, 3) => self.tile::<V, 14, 1, 3>(at),
                        (14, 1, 6) => self.tile::<V, 14, 1, 6>(at),
                        (6.., 1, 3) => self.tile::<V, 6, 1, 3>(at),
                        (6.., 1, 6) => self.tile::<V, 6, 1, 6>(at),
                        (3.., 1, _) => self.tile::<V, 3, 1, 0>(at),
                        (4.., 2, _) => self.tile::<V, 4, 2, 0>(at),
                        (_, 2, _) => self.tile::<V, 1, 2, 0>(at),
                        _ => self.tile::<V, 1, 1, 0>(at),
                    }
                };
            }
        }
    }
}

impl Line<'_> {
    /// P pixels, S values apart (0: what the parameters say), from pixel `start`; returns P.
    ///
    /// # Safety
    /// The CPU has the features of `V`; the row's pixels `start..start + P` exist.
    #[inline(always)]
    unsafe fn tile<V: V16, const P: usize, const OB: usize, const S: usize>(&self, start: usize) -> usize {
        let p = self.p;
        let step = if S == 0 { p.stride[1] * p.ic } else { S };
        let block = p.ic * p.kh * p.kw * BLOCK;
        // Without dilation a kernel row is one run.
        let (runs, run) = if p.dilation[1] == 1 { (1, p.kw * p.ic) } else { (p.kw, p.ic) };
        // SAFETY: `Band` reaches every tap of every pixel of its rows, the packed weights hold every tap of every block,
        // y the pixels: the lengths of all three are checked by `conv`, in arithmetic that does not wrap.
        unsafe {
            let mut acc = [[V::splat(0.0); OB]; P];
            if let Some(bias) = self.bias {
                unrolled!(o in 0..OB of FEW {
                    let bias = &bias[o * BLOCK..];
                    let bias = V::load_part(bias.as_ptr(), bias.len().min(BLOCK), 0.0);
                    unrolled!(px in 0..P {
                        acc[px][o] = bias;
                    });
                });
            }
            let mut w = self.w.as_ptr();
            for kh in 0..p.kh {
                let row = self.x.as_ptr().add(kh * self.x_row + start * step);
                for kw in 0..runs {
                    let x = row.add(kw * p.dilation[1] * p.ic);
                    for i in 0..run {
                        let mut wv = [V::splat(0.0); OB];
                        unrolled!(o in 0..OB of FEW {
                            wv[o] = V::load(w.add(o * block));
                        });
                        unrolled!(px in 0..P {
                            let xv = V::splat(*x.add(px * step + i));
                            unrolled!(o in 0..OB of FEW {
                                acc[px][o] = xv.fma(wv[o], acc[px][o]);
                            });
                        });
                        w = w.add(BLOCK);
                    }
                }
            }
            let (lo, hi) = (V::splat(self.clamp.0), V::splat(self.clamp.1));
            unrolled!(o in 0..OB of FEW {
                unrolled!(px in 0..P {
                    hi.min(lo.max(acc[px][o])).store(self.y.add(o * self.plane + (start + px) * BLOCK));
                });
            });
        }
        P
    }
}
