//! Transposed convolution on NCHW: a product of the weights with the input, a row for each tap of each output channel, whose
//! rows are added up where the taps lie on the output.
//!
//! The sums are gathered by output row and by phase, the outputs that are a stride apart: within a phase neighbours read
//! neighbours, so that they are added as vectors, and each output is written once.

use super::{ConvParams, Operands, plain};
use crate::kernels::gemm::{GemmParams, PlainProduct, block_scratch_len};
use crate::kernels::parallel::{SharedMut, Threads};
use crate::kernels::sizes::product;
use std::ops::Range;

/// About how many rows and columns of the product are there at a time: they stay in the second-level cache.
const ROWS: usize = 128;
const PIXELS: usize = 1024;

/// How the output is cut.
struct Cut {
    /// Output channels, and output rows, at a time.
    channels: usize,
    rows: usize,
    /// The most input rows that so many output rows need.
    input_rows: usize,
}

impl Cut {
    fn new(p: &ConvParams) -> Cut {
        let channels = (ROWS / (p.kh * p.kw)).clamp(1, (p.oc / p.group).max(1));
        let rows = (PIXELS / p.iw.max(1)).max(1).saturating_mul(p.stride[0]).min(p.oh.max(1));
        let input_rows = ((rows - 1 + (p.kh - 1) * p.dilation[0]) / p.stride[0] + 1).min(p.ih);
        Cut { channels, rows, input_rows }
    }
}

/// f32 values of scratch for one thread: the product, a phase of an output row, and room to pack operands.
fn spaces(p: &ConvParams) -> Option<[usize; 3]> {
    let cut = Cut::new(p);
    let (rows, columns) = (product(&[cut.channels, p.kh, p.kw])?, product(&[cut.input_rows, p.iw])?);
    let packing = block_scratch_len(rows, columns, p.ic / p.group)?;
    Some([product(&[rows, columns])?, p.ow.div_ceil(p.stride[1]), packing])
}

/// f32 values of scratch for one thread.
pub(super) fn scratch_len(p: &ConvParams) -> Option<usize> {
    spaces(p)?.iter().try_fold(0usize, |sum, &space| sum.checked_add(space))
}

pub(super) fn run(threads: &Threads, p: &ConvParams, o: Operands<'_>, y: &mut [f32], scratch: &mut [f32]) {
    let (cut, Some([columns, phase, packing])) = (Cut::new(p), spaces(p)) else {
        panic!("`conv` takes no such parameters")
    };
    let of_group = p.oc / p.group;
    let (strips, blocks) = (p.oh.div_ceil(cut.rows), of_group.div_ceil(cut.channels));
    let total = p.n * p.group * blocks * strips;
    let tasks = threads.count().min(total);
    let each = columns + phase + packing;
    let (out, scratch) = (SharedMut::new(y), SharedMut::new(scratch));
    threads.parallel_for(tasks, |task| {
        // SAFETY: one part of the scratch for each task.
        let scratch = unsafe { scratch.slice(task * each, each) };
        let (columns, rest) = scratch.split_at_mut(columns);
        let (phase, packing) = rest.split_at_mut(phase);
        // Every tasks-th part: neighbours share the input in the shared cache.
        for at in (task..total).step_by(tasks) {
            let (strip, rest) = (at % strips, at / strips);
            let (block, rest) = (rest % blocks, rest / blocks);
            let first = block * cut.channels;
            let rows = strip * cut.rows..((strip + 1) * cut.rows).min(p.oh);
            let part = Part {
                p,
                image: rest / p.group,
                group: rest % p.group,
                channels: first..(first + cut.channels).min(of_group),
                input_rows: input_rows(p, &rows),
                rows,
            };
            part.multiply(threads, &o, columns, packing);
            part.gather(threads, &o, columns, phase, out);
        }
    });
}

/// The input rows whose taps reach some output rows.
fn input_rows(p: &ConvParams, rows: &Range<usize>) -> Range<usize> {
    let (stride, reach) = (p.stride[0], (p.kh - 1) * p.dilation[0]);
    let start = (rows.start + p.pad[0]).saturating_sub(reach).div_ceil(stride).min(p.ih);
    let end = ((rows.end - 1 + p.pad[0]) / stride + 1).min(p.ih);
    start..end.max(start)
}

/// Some rows of some output channels of a group of an image.
struct Part<'a> {
    p: &'a ConvParams,
    image: usize,
    group: usize,
    channels: Range<usize>,
    rows: Range<usize>,
    input_rows: Range<usize>,
}

impl Part<'_> {
    /// Pixels of the input.
    fn pixels(&self) -> usize {
        self.input_rows.len() * self.p.iw
    }

    /// columns[channel][tap][input pixel] = weights x input.
    fn multiply(&self, threads: &Threads, o: &Operands<'_>, columns: &mut [f32], packing: &mut [f32]) {
        let (p, pixels) = (self.p, self.pixels());
        let (ic, oc, taps, plane) = (p.ic / p.group, p.oc / p.group, p.kh * p.kw, p.ih * p.iw);
        if pixels == 0 {
            return;
        }
        let (m, row) = (self.channels.len() * taps, oc * taps);
        let w = &o.filters.plain()[self.group * ic * row..][..ic * row];
        let x = &o.x[(self.image * p.group + self.group) * ic * plane..][..ic * plane];
        // Without input channels there is nothing behind these starts.
        let w = w.get(self.channels.start * taps..).unwrap_or_default();
        let x = x.get(self.input_rows.start * p.iw..).unwrap_or_default();
        let product = GemmParams { a: [1, row], b: [plane, 1], ..GemmParams::dense(m, pixels, ic) };
        let columns = &mut columns[..m * pixels];
        let product = PlainProduct { isa: threads.isa(), p: &product, a: w, b: x, padded: false };
        // SAFETY: the slice holds `m` rows of `pixels`.
        unsafe { product.run(columns.as_mut_ptr(), packing) };
    }

    /// Adds up the rows of the product for each output row.
    fn gather(&self, threads: &Threads, o: &Operands<'_>, columns: &[f32], phase: &mut [f32], out: SharedMut<'_, f32>) {
        let p = self.p;
        let first = (self.image * p.group + self.group) * (p.oc / p.group);
        for (channel, oy) in self.channels.clone().flat_map(|channel| self.rows.clone().map(move |oy| (channel, oy))) {
            let at = ((first + channel) * p.oh + oy) * p.ow;
            // SAFETY: this part's own rows.
            let row = unsafe { out.slice(at, p.ow) };
            for start in 0..p.stride[1].min(p.ow) {
                let len = (p.ow - start).div_ceil(p.stride[1]);
                if p.stride[1] == 1 {
                    self.add_taps(columns, channel, oy, start, row);
                } else {
                    self.add_taps(columns, channel, oy, start, &mut phase[..len]);
                    row[start..].iter_mut().step_by(p.stride[1]).zip(&*phase).for_each(|(y, sum)| *y = *sum);
                }
            }
            plain::finish_row(threads, p, o, self.group * (p.oc / p.group) + channel, at, row);
        }
    }

    /// The sums of the outputs `start`, `start + stride` and so on of a row.
    fn add_taps(&self, columns: &[f32], channel: usize, oy: usize, start: usize, sums: &mut [f32]) {
        let (p, pixels) = (self.p, self.pixels());
        sums.fill(0.0);
        for tap in 0..p.kh * p.kw {
            let (ky, kx) = (tap / p.kw, tap % p.kw);
            // The input pixel whose tap lies on the first of the outputs: that of the next one is its neighbour.
            let from = |place: usize, tap: usize, axis: usize| {
                let distance = (place + p.pad[axis]) as isize - (tap * p.dilation[axis]) as isize;
                let stride = p.stride[axis] as isize;
                (distance % stride == 0).then_some(distance / stride)
            };
            let (Some(iy), Some(ix)) = (from(oy, ky, 0), from(start, kx, 1)) else { continue };
            let Some(iy) = usize::try_from(iy).ok().filter(|iy| self.input_rows.contains(iy)) else { continue };
            let row = ((channel - self.channels.start) * p.kh * p.kw + tap) * pixels;
            let values = &columns[row + (iy - self.input_rows.start) * p.iw..][..p.iw];
            let (skip, ahead) = ((-ix).max(0) as usize, ix.max(0) as usize);
            let (Some(sums), Some(values)) = (sums.get_mut(skip..), values.get(ahead..)) else { continue };
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
}
