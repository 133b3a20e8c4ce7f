//! Convolution of each channel with a kernel of its own, line by line over neighbouring pixels.

use super::activation::{Channel, Overflow, Step};
use super::conv::{Grid, Worker};
use super::isa::Isa;
use crate::kmodel::arguments::{Arguments, Kernel};
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::tables::SEGMENTS;

pub(crate) struct Depthwise {
    arguments: Arguments,
    /// `[c][kh][kw]`.
    weights: Vec<u8>,
    isa: Isa,
}

impl Depthwise {
    pub(crate) fn new(conv: &Conv, isa: Isa) -> Self {
        Depthwise { arguments: conv.arguments.clone(), weights: conv.weights.clone(), isa }
    }

    /// The bytes of some channels, from the first of `channels` on.
    pub(crate) fn compute(
        &self,
        channels: &[Channel],
        steps: &[Step; SEGMENTS],
        grid: &Grid,
        input: &[u8],
        worker: &mut Worker,
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let size = self.arguments.kernel.size() as usize;
        let (width, border) = (self.arguments.width as usize, self.arguments.kernel.border() as usize);
        worker.lines.resize((width + 2 * border) * (self.arguments.height as usize + 2 * border), 0);
        worker.sums.resize(width, 0);
        worker.windows.resize(width, 0);
        worker.corrections.resize(width, 0);
        for (channel, out) in channels.iter().zip(out.chunks_exact_mut(grid.pixels())) {
            self.load(channel.index(), input, &mut worker.lines);
            let weights = &self.weights[channel.index() * size * size..][..size * size];
            self.isa.with(
                #[inline(always)]
                || self.plane(channel, weights, steps, grid, worker, out),
            )?;
        }
        Ok(())
    }

    /// The bytes of a channel.
    #[inline(always)]
    fn plane(
        &self,
        channel: &Channel,
        weights: &[u8],
        steps: &[Step; SEGMENTS],
        grid: &Grid,
        worker: &mut Worker,
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let Worker { lines, sums, windows, corrections, .. } = worker;
        let width = self.arguments.width as usize;
        let (sums, windows, corrections) = (&mut sums[..width], &mut windows[..width], &mut corrections[..width]);
        let (arg_x, shift) = (i64::from(self.arguments.arg_x), self.arguments.shr_x);
        for (row, out) in out.chunks_exact_mut(grid.width).enumerate() {
            self.sum_line(lines, row * grid.stride + grid.first.0, weights, sums, windows);
            for (correction, &window) in corrections.iter_mut().zip(&*windows) {
                *correction = (arg_x * i64::from(window)).wrapping_shr(shift);
            }
            for x in 0..if grid.stride == 1 { 0 } else { grid.width } {
                let column = x * grid.stride + grid.first.1;
                (sums[x], corrections[x]) = (sums[column], corrections[column]);
            }
            channel.finish(steps, sums, corrections, out)?;
        }
        Ok(())
    }

    /// Copies a channel out of KPU RAM and puts the border round it.
    fn load(&self, channel: usize, input: &[u8], lines: &mut [u8]) {
        let (width, height) = (self.arguments.width as usize, self.arguments.height as usize);
        let border = self.arguments.kernel.border() as usize;
        let layout = Layout::new(self.arguments.width);
        if border > 0 {
            lines.fill(self.arguments.pad_value);
        }
        for (y, line) in lines.chunks_exact_mut(width + 2 * border).skip(border).take(height).enumerate() {
            line[border..][..width].copy_from_slice(&input[layout.line(channel, y, height)..][..width]);
        }
    }

    /// Sums of products and sums of the input at all pixels of line `y`.
    #[inline(always)]
    fn sum_line(&self, lines: &[u8], y: usize, weights: &[u8], sums: &mut [i32], windows: &mut [i32]) {
        let (border, width) = (self.arguments.kernel.border() as usize, sums.len());
        sums.fill(0);
        windows.fill(0);
        let lines = lines.chunks_exact(width + 2 * border).skip(y);
        // Loops and no closures, which would not be compiled for the instruction set of the caller.
        match self.arguments.kernel {
            Kernel::One => {
                for (line, weights) in lines.zip(weights.as_chunks().0) {
                    add::<1>(line, weights, sums, windows);
                }
            }
            Kernel::Three => {
                for (line, weights) in lines.zip(weights.as_chunks().0) {
                    add::<3>(line, weights, sums, windows);
                }
            }
        }
    }
}

/// Adds what a line contributes under `N` weights of one kernel line.
#[inline(always)]
fn add<const N: usize>(line: &[u8], weights: &[u8; N], sums: &mut [i32], windows: &mut [i32]) {
    let width = sums.len();
    let windows = &mut windows[..width];
    let taps: [&[u8]; N] = std::array::from_fn(|index| &line[index..][..width]);
    for x in 0..width {
        for index in 0..N {
            let value = i32::from(taps[index][x]);
            windows[x] += value;
            sums[x] += value * i32::from(weights[index]);
        }
    }
}
