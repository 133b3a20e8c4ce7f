//! Convolution over all input channels. The input is laid out pixel by pixel with the channels side by side, so that a
//! kernel line is one stretch of memory.

use super::activation::{Channel, Overflow, Step};
use super::conv::{Grid, Worker};
use super::isa::{Isa, LANES, Lanes, OUTPUTS, PIXELS, Tile};
use super::threads::Threads;
use crate::kmodel::arguments::Arguments;
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::tables::SEGMENTS;

/// What is taken from a weight, so that it has a sign: one factor of a product has none and the other has one in the
/// instructions that multiply bytes. Each sum of the input adds as much again.
const OFFSET: u8 = 128;

/// Bytes of input that should stay in the first cache while the output channels pass by.
const TILE: usize = 16_384;

/// Channels that are put side by side at once.
const BLOCK: usize = 8;

/// The input: HWC with the border of the kernel, and what its sums add to each output pixel.
#[derive(Default)]
pub(crate) struct Image {
    values: Vec<u8>,
    /// Sums over the channels of each pixel, border included.
    pixel_sums: Vec<u32>,
    /// `((arg_x * sum(x)) >> shr_x) + OFFSET * sum(x)` for each output pixel.
    corrections: Vec<i64>,
}

/// The weights and where the kernel is put.
pub(crate) struct Dense {
    /// `[oc / OUTPUTS][kernel line][place / LANES]`, filled up with zeros.
    weights: Vec<Lanes>,
    /// Of a kernel line.
    steps: usize,
    /// Kernel lines.
    lines: usize,
    /// Bytes of the image from one kernel line to the next.
    pitch: usize,
    /// For each output pixel where its first kernel line starts in the image. The last one is repeated.
    starts: Vec<u32>,
    /// The same as pixels of the bordered image, not repeated.
    corners: Vec<u32>,
    border: usize,
    isa: Isa,
}

impl Dense {
    pub(crate) fn new(conv: &Conv, grid: &Grid, isa: Isa) -> Self {
        let arguments = &conv.arguments;
        let (size, inputs) = (arguments.kernel.size() as usize, arguments.input_channels as usize);
        let border = arguments.kernel.border() as usize;
        let bordered = arguments.width as usize + 2 * border;
        let rows = (0..grid.height).map(|y| y * grid.stride + grid.first.0);
        let columns = |y: usize| (0..grid.width).map(move |x| y * bordered + x * grid.stride + grid.first.1);
        let corners: Vec<u32> = rows.flat_map(columns).map(|corner| corner as u32).collect();
        let mut starts: Vec<_> = corners.iter().map(|corner| corner * inputs as u32).collect();
        let last = starts.last().copied().unwrap_or_default();
        starts.resize(starts.len().next_multiple_of(PIXELS), last);
        let weights = lay_out(&conv.weights, size, inputs);
        let steps = (size * inputs).div_ceil(LANES);
        Dense { weights, steps, lines: size, pitch: bordered * inputs, starts, corners, border, isa }
    }

    /// Lays out the input, with threads sharing the rows.
    pub(crate) fn load(&self, input: &[u8], arguments: &Arguments, image: &mut Image, pool: &Threads, threads: usize) {
        let (width, height) = (arguments.width as usize, arguments.height as usize);
        let (bordered, rows) = (width + 2 * self.border, height + 2 * self.border);
        // The last kernel line may be read beyond its end, where the weights are zero.
        image.values.resize(rows * self.pitch + LANES, 0);
        image.pixel_sums.resize(rows * bordered, 0);
        let each = rows.div_ceil(threads);
        let values = image.values[..rows * self.pitch].chunks_mut(each * self.pitch);
        let parts = values.zip(image.pixel_sums.chunks_mut(each * bordered)).enumerate();
        pool.share(parts, |(part, (values, sums))| {
            self.isa.with(
                #[inline(always)]
                || self.load_rows(input, arguments, part * each, values, sums),
            );
        });
        self.correct(arguments, image, bordered);
    }

    /// Lays out rows of the bordered image from `first` on, and adds up each pixel.
    #[inline(always)]
    fn load_rows(&self, input: &[u8], arguments: &Arguments, first: usize, values: &mut [u8], sums: &mut [u32]) {
        let (width, height) = (arguments.width as usize, arguments.height as usize);
        let (border, inputs) = (self.border, arguments.input_channels as usize);
        let layout = Layout::new(arguments.width);
        let lines = values.chunks_exact_mut(self.pitch).zip(sums.chunks_exact_mut(width + 2 * border));
        for (row, (values, sums)) in lines.enumerate() {
            let y = (first + row).wrapping_sub(border);
            if border > 0 {
                values.fill(arguments.pad_value);
            }
            if y < height {
                let line = |channel: usize| &input[layout.line(channel, y, height)..][..width];
                side_by_side(line, inputs, &mut values[border * inputs..][..width * inputs]);
            }
            for (sum, pixel) in sums.iter_mut().zip(values.chunks_exact(inputs)) {
                *sum = pixel.iter().map(|&value| u32::from(value)).sum();
            }
        }
    }

    /// What the sum of the input under the kernel adds to each output pixel.
    fn correct(&self, arguments: &Arguments, image: &mut Image, bordered: usize) {
        let (arg_x, shift) = (i64::from(arguments.arg_x), arguments.shr_x);
        let sum = |corner: usize| {
            let line = |line: usize| image.pixel_sums[corner + line * bordered..][..self.lines].iter().sum::<u32>();
            i64::from((0..self.lines).map(line).sum::<u32>())
        };
        let correction = |sum: i64| ((arg_x * sum) >> shift) + i64::from(OFFSET) * sum;
        image.corrections.clear();
        image.corrections.extend(self.corners.iter().map(|&corner| correction(sum(corner as usize))));
    }

    /// The bytes of some output channels, from the first of `channels` on, which is the first of a group.
    pub(crate) fn compute(
        &self,
        channels: &[Channel],
        steps: &[Step; SEGMENTS],
        image: &Image,
        worker: &mut Worker,
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let (pixels, group_weights) = (self.corners.len(), self.lines * self.steps);
        let tile = (TILE / (group_weights * LANES)).clamp(PIXELS, 256).next_multiple_of(PIXELS);
        worker.sums.resize(OUTPUTS * tile, 0);
        for (starts, begin) in self.starts.chunks(tile).zip((0..).step_by(tile)) {
            let range = begin..(begin + tile).min(pixels);
            for (group, out) in channels.chunks(OUTPUTS).zip(out.chunks_mut(OUTPUTS * pixels)) {
                let weights = &self.weights[group[0].index() / OUTPUTS * group_weights..][..group_weights];
                let tile_of = Tile { image: &image.values, starts, pitch: self.pitch, weights, lines: self.lines };
                self.isa.products(&tile_of, &mut worker.sums, tile);
                let planes = worker.sums.chunks_exact(tile).zip(out.chunks_exact_mut(pixels));
                for (channel, (sums, out)) in group.iter().zip(planes) {
                    let (corrections, out) = (&image.corrections[range.clone()], &mut out[range.clone()]);
                    self.isa.with(
                        #[inline(always)]
                        || channel.finish(steps, sums, corrections, out),
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// `[oc][ic][kh][kw]` to `[oc / OUTPUTS][kh][(kw, ic) / LANES]`.
fn lay_out(weights: &[u8], size: usize, inputs: usize) -> Vec<Lanes> {
    let steps = (size * inputs).div_ceil(LANES);
    let kernels = weights.chunks_exact(inputs * size * size);
    let mut out = vec![Lanes([[0; LANES]; OUTPUTS]); kernels.len().div_ceil(OUTPUTS) * size * steps];
    let mut places = vec![0; size * inputs];
    for (channel, kernel) in kernels.enumerate() {
        for (ky, line) in out[channel / OUTPUTS * size * steps..][..size * steps].chunks_exact_mut(steps).enumerate() {
            for (kx, places) in places.chunks_exact_mut(inputs).enumerate() {
                let weights = kernel[ky * size + kx..].iter().step_by(size * size);
                places.iter_mut().zip(weights).for_each(|(place, weight)| *place = weight.wrapping_sub(OFFSET));
            }
            for (target, places) in line.iter_mut().zip(places.chunks(LANES)) {
                let target = target.0[channel % OUTPUTS].iter_mut();
                target.zip(places).for_each(|(target, place)| *target = place.cast_signed());
            }
        }
    }
    out
}

/// Puts a line of each channel into pixels.
#[inline(always)]
fn side_by_side<'a>(line: impl Fn(usize) -> &'a [u8], channels: usize, pixels: &mut [u8]) {
    let whole = channels - channels % BLOCK;
    for first in (0..whole).step_by(BLOCK) {
        let lines: [&[u8]; BLOCK] = std::array::from_fn(|number| line(first + number));
        for (x, pixel) in pixels.chunks_exact_mut(channels).enumerate() {
            let bytes: [u8; BLOCK] = std::array::from_fn(|number| lines[number][x]);
            pixel[first..first + BLOCK].copy_from_slice(&bytes);
        }
    }
    for channel in whole..channels {
        let targets = pixels.chunks_exact_mut(channels);
        targets.zip(line(channel)).for_each(|(pixel, &byte)| pixel[channel] = byte);
    }
}
