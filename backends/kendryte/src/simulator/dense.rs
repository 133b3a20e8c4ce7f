//! Convolution over all input channels. The input is laid out pixel by pixel with the channels side by side, so that a
//! kernel line is one stretch of memory and a sum is a dot product of 16-bit numbers, which compilers vectorise well.

use super::activation::{Channel, Overflow, Step};
use super::conv::{Grid, Worker};
use crate::kmodel::arguments::Arguments;
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::tables::SEGMENTS;

/// 16-bit numbers that a dot product takes at once. Lines of weights are filled up with zeros to a multiple.
const LANES: usize = 16;

/// Pixels that the inner loop takes at once.
const PIXELS: usize = 4;

/// 16-bit numbers of input that should stay in the first cache while the output channels pass by.
const TILE: usize = 8192;

/// The input: HWC with the border of the kernel, and what its sums add to each output pixel.
#[derive(Default)]
pub(crate) struct Image {
    values: Vec<i16>,
    /// Sums over the channels of each pixel, border included.
    pixel_sums: Vec<i32>,
    /// `(arg_x * sum(x)) >> shr_x` for each output pixel.
    corrections: Vec<i64>,
}

/// The weights and where the kernel is put.
pub(crate) struct Dense {
    /// `[oc][kernel line][LANES * n]`.
    weights: Vec<i16>,
    /// 16-bit numbers of a kernel line, filled up.
    line: usize,
    /// Kernel lines.
    lines: usize,
    /// Numbers of the image from one kernel line to the next.
    pitch: usize,
    /// For each output pixel where its first kernel line starts in the image.
    starts: Vec<u32>,
    /// The same as pixels of the bordered image.
    corners: Vec<u32>,
    border: usize,
}

impl Dense {
    pub(crate) fn new(conv: &Conv, grid: &Grid) -> Self {
        let arguments = &conv.arguments;
        let (size, inputs) = (arguments.kernel.size() as usize, arguments.input_channels as usize);
        let border = arguments.kernel.border() as usize;
        let bordered = arguments.width as usize + 2 * border;
        let line = (size * inputs).next_multiple_of(LANES);
        let mut weights = vec![0; arguments.output_channels as usize * size * line];
        // [oc][ic][kh][kw] to [oc][kh][kw][ic].
        for (index, &weight) in conv.weights.iter().enumerate() {
            let (kx, ky) = (index % size, index / size % size);
            let (input, output) = (index / (size * size) % inputs, index / (size * size * inputs));
            weights[(output * size + ky) * line + kx * inputs + input] = i16::from(weight);
        }
        let rows = (0..grid.height).map(|y| y * grid.stride + grid.first.0);
        let columns = |y: usize| (0..grid.width).map(move |x| y * bordered + x * grid.stride + grid.first.1);
        let corners: Vec<u32> = rows.flat_map(columns).map(|corner| corner as u32).collect();
        let starts = corners.iter().map(|corner| corner * inputs as u32).collect();
        Dense { weights, line, lines: size, pitch: bordered * inputs, starts, corners, border }
    }

    /// Lays out the input, with threads sharing the rows.
    pub(crate) fn load(&self, input: &[u8], arguments: &Arguments, image: &mut Image, threads: usize) {
        let (width, height) = (arguments.width as usize, arguments.height as usize);
        let (border, inputs) = (self.border, arguments.input_channels as usize);
        let (bordered, rows) = (width + 2 * border, height + 2 * border);
        // The last kernel line may be read beyond its end, where the weights are zero.
        image.values.resize(rows * self.pitch + LANES, 0);
        image.pixel_sums.resize(rows * bordered, 0);
        let pad = i16::from(arguments.pad_value);
        let layout = Layout::new(arguments.width);
        let load_rows = |first: usize, values: &mut [i16], sums: &mut [i32]| {
            let lines = values.chunks_exact_mut(self.pitch).zip(sums.chunks_exact_mut(bordered));
            for (row, (values, sums)) in lines.enumerate() {
                let y = (first + row).wrapping_sub(border);
                if border > 0 {
                    values.fill(pad);
                }
                for channel in 0..if y < height { inputs } else { 0 } {
                    let line = &input[layout.line(channel, y, height)..][..width];
                    let pixels = values[border * inputs..].chunks_exact_mut(inputs);
                    pixels.zip(line).for_each(|(pixel, &byte)| pixel[channel] = i16::from(byte));
                }
                for (sum, pixel) in sums.iter_mut().zip(values.chunks_exact(inputs)) {
                    *sum = pixel.iter().map(|&value| i32::from(value)).sum();
                }
            }
        };
        let each = rows.div_ceil(threads);
        let values = image.values[..rows * self.pitch].chunks_mut(each * self.pitch);
        let parts = values.zip(image.pixel_sums.chunks_mut(each * bordered)).enumerate();
        if threads == 1 {
            parts.for_each(|(part, (values, sums))| load_rows(part * each, values, sums));
        } else {
            std::thread::scope(|scope| {
                let load_rows = &load_rows;
                for (part, (values, sums)) in parts {
                    scope.spawn(move || load_rows(part * each, values, sums));
                }
            });
        }
        self.correct(arguments, image, bordered);
    }

    /// What the sum of the input under the kernel adds to each output pixel.
    fn correct(&self, arguments: &Arguments, image: &mut Image, bordered: usize) {
        let (arg_x, shift) = (i64::from(arguments.arg_x), arguments.shr_x);
        let sum = |corner: usize| {
            let line = |line: usize| image.pixel_sums[corner + line * bordered..][..self.lines].iter().sum::<i32>();
            (0..self.lines).map(line).sum::<i32>()
        };
        let corrections = self.corners.iter().map(|&corner| (arg_x * i64::from(sum(corner as usize))) >> shift);
        image.corrections.clear();
        image.corrections.extend(corrections);
    }

    /// The bytes of some output channels, from the first of `channels` on.
    pub(crate) fn compute(
        &self,
        channels: &[Channel],
        steps: &[Step; SEGMENTS],
        image: &Image,
        worker: &mut Worker,
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let pixels = self.starts.len();
        let tile = (TILE / (self.line * self.lines)).clamp(PIXELS, 256).next_multiple_of(PIXELS);
        worker.sums.resize(2 * tile, 0);
        let (first_sums, second_sums) = worker.sums.split_at_mut(tile);
        for begin in (0..pixels).step_by(tile) {
            let end = (begin + tile).min(pixels);
            let pairs = channels.chunks(2).zip(out.chunks_mut(2 * pixels));
            for (pair, out) in pairs {
                let weights = |channel: &Channel| &self.weights[channel.index() * self.lines * self.line..];
                let (first, second) = (&pair[0], &pair[pair.len() - 1]);
                let weights = [weights(first), weights(second)];
                for at in (begin..end).step_by(PIXELS) {
                    // Beyond the last pixel the last one is computed again.
                    let starts = std::array::from_fn(|pixel| self.starts[(at + pixel).min(pixels - 1)] as usize);
                    let [a, b] = self.dots(&image.values, starts, weights);
                    first_sums[at - begin..][..PIXELS].copy_from_slice(&a);
                    second_sums[at - begin..][..PIXELS].copy_from_slice(&b);
                }
                let corrections = &image.corrections[begin..end];
                first.finish(steps, first_sums, corrections, &mut out[begin..end])?;
                if pair.len() == 2 {
                    second.finish(steps, second_sums, corrections, &mut out[pixels + begin..pixels + end])?;
                }
            }
        }
        Ok(())
    }

    /// The sums of products of two output channels at four pixels. They fit: at most 9 x 1024 products of two bytes.
    #[inline(always)]
    fn dots(&self, image: &[i16], starts: [usize; PIXELS], weights: [&[i16]; 2]) -> [[i32; PIXELS]; 2] {
        let mut sums = [[0; PIXELS]; 2];
        for line in 0..self.lines {
            let weights = weights.map(|weights| &weights[line * self.line..][..self.line]);
            let inputs = starts.map(|start| &image[start + line * self.pitch..][..self.line]);
            add_products(&mut sums, inputs, weights);
        }
        sums
    }
}

/// Adds eight dot products of slices of one length. Written out, because in this form the compiler finds the
/// instruction that multiplies and adds neighbours.
#[inline(always)]
fn add_products(sums: &mut [[i32; PIXELS]; 2], x: [&[i16]; PIXELS], weights: [&[i16]; 2]) {
    let length = weights[0].len();
    let [x0, x1, x2, x3] = x.map(|x| &x[..length]);
    let [u, v] = weights.map(|weights| &weights[..length]);
    let [mut u0, mut u1, mut u2, mut u3, mut v0, mut v1, mut v2, mut v3] = [0i32; 8];
    for i in 0..length {
        let [a, b, c, d] = [x0[i], x1[i], x2[i], x3[i]].map(i32::from);
        let [u, v] = [u[i], v[i]].map(i32::from);
        u0 += a * u;
        u1 += b * u;
        u2 += c * u;
        u3 += d * u;
        v0 += a * v;
        v1 += b * v;
        v2 += c * v;
        v3 += d * v;
    }
    for (sums, more) in sums.iter_mut().zip([[u0, u1, u2, u3], [v0, v1, v2, v3]]) {
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
}
