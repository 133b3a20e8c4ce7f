//! Convolution on NCHW for what the blocked kernels do not cover (odd channel groups): im2col and GEMM.

use super::{ConvParams, Operands};
use crate::kernels::gemm::{GemmParams, PlainProduct, block_scratch_len};
use crate::kernels::parallel::{SharedMut, Threads};
use crate::kernels::sizes::product;

/// Output pixels whose columns are gathered at a time; bounds the scratch.
const STRIP: usize = 512;

/// f32 values of scratch for one thread: the gathered columns of a strip, and room to pack them.
fn spaces(p: &ConvParams) -> Option<(usize, usize)> {
    let (ic, oc) = p.group_channels();
    let (strip, k) = (STRIP.min(product(&[p.oh, p.ow])?), product(&[ic, p.kh, p.kw])?);
    Some((product(&[k, strip])?, block_scratch_len(oc, strip, k)?))
}

/// f32 values of scratch for one thread.
pub(super) fn scratch_len(p: &ConvParams) -> Option<usize> {
    let (columns, packing) = spaces(p)?;
    columns.checked_add(packing)
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    let pixels = p.oh * p.ow;
    let strip = STRIP.min(pixels);
    let strips = pixels.div_ceil(strip);
    let total = p.n * p.group * strips;
    let Some((columns_len, packing_len)) = spaces(p) else { panic!("`conv` takes no such parameters") };
    let each = columns_len + packing_len;
    let tasks = threads.count().min(total);
    let (out, scratch) = (SharedMut::new(y), SharedMut::new(scratch));
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * each, each) };
        let (columns, packing) = scratch.split_at_mut(columns_len);
        // Every tasks-th strip, not a contiguous part: neighbours share input rows in the shared cache.
        for at in (task..total).step_by(tasks) {
            let (start, rest) = (at % strips * strip, at / strips);
            let count = strip.min(pixels - start);
            let (group, image) = (rest % p.group, rest / p.group);
            let b = if direct(p) {
                // The images are the columns already.
                let ic = p.ic / p.group;
                (&o.x[(image * p.group + group) * ic * pixels + start..], pixels)
            } else {
                gather(p, o.x, image, group, start, count, columns);
                (&*columns, count)
            };
            multiply(p, &o, threads, (image, group, start, count), b, packing, out);
        }
    });
}

/// Whether each output pixel depends on the input pixel at the same place only.
fn direct(p: &ConvParams) -> bool {
    p.kh == 1 && p.kw == 1 && p.stride == [1, 1] && p.pad == [0, 0] && p.ih == p.oh && p.iw == p.ow
}

/// columns[(c * KH + kh) * KW + kw][pixel] = the input under that tap.
fn gather(p: &ConvParams, x: &[f32], image: usize, group: usize, start: usize, count: usize, columns: &mut [f32]) {
    let ic = p.ic / p.group;
    for (at, row) in columns.chunks_exact_mut(count).take(ic * p.kh * p.kw).enumerate() {
        let (channel, kh, kw) = (at / (p.kh * p.kw), at / p.kw % p.kh, at % p.kw);
        let plane = &x[((image * p.group + group) * ic + channel) * p.ih * p.iw..][..p.ih * p.iw];
        for (i, v) in row.iter_mut().enumerate() {
            let (oy, ox) = ((start + i) / p.ow, (start + i) % p.ow);
            let iy = (oy * p.stride[0] + kh * p.dilation[0]).wrapping_sub(p.pad[0]);
            let ix = (ox * p.stride[1] + kw * p.dilation[1]).wrapping_sub(p.pad[1]);
            *v = if iy < p.ih && ix < p.iw { plane[iy * p.iw + ix] } else { 0.0 };
        }
    }
}

fn multiply(
    p: &ConvParams,
    o: &Operands<'_>,
    threads: &Threads,
    (image, group, start, count): (usize, usize, usize, usize),
    (columns, row): (&[f32], usize),
    packing: &mut [f32],
    out: SharedMut<'_, f32>,
) {
    let (ic, oc) = p.group_channels();
    let (k, pixels) = (ic * p.kh * p.kw, p.oh * p.ow);
    let base = ((image * p.group + group) * oc) * pixels + start;
    let w = &o.filters.plain()[group * oc * k..][..oc * k];
    let product = GemmParams { b: [row, 1], c_row: pixels, ..GemmParams::dense(oc, count, k) };
    let product = PlainProduct { isa: threads.isa(), p: &product, a: w, b: columns, padded: false };
    // SAFETY: this task's strip of each row; rows are `pixels` apart, and `conv` checked that y holds them all.
    unsafe { product.run(out.as_ptr().add(base), packing) };
    for c in 0..oc {
        let at = base + c * pixels;
        // SAFETY: as above.
        let row = unsafe { out.slice(at, count) };
        finish_row(threads, p, o, group * oc + c, at, row);
    }
}

/// act(row + bias + residual), for a row of an output channel that starts at `at`.
pub(super) fn finish_row(
    threads: &Threads,
    p: &ConvParams,
    o: &Operands<'_>,
    channel: usize,
    at: usize,
    row: &mut [f32],
) {
    let bias = o.bias.map_or(0.0, |b| b[channel]);
    match o.residual {
        Some(r) => row.iter_mut().zip(&r[at..]).for_each(|(v, r)| *v += bias + r),
        None => row.iter_mut().for_each(|v| *v += bias),
    }
    p.act.apply(threads.isa(), row);
}
