//! Convolution of each channel with a kernel of its own, line by line over neighbouring pixels.

use super::activation::{Channel, Overflow, Step};
use super::conv::{Grid, Worker};
use crate::kmodel::arguments::Arguments;
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::tables::SEGMENTS;

pub(crate) struct Depthwise {
    arguments: Arguments,
    /// `[c][kh][kw]`.
    weights: Vec<u8>,
}

impl Depthwise {
    pub(crate) fn new(conv: &Conv) -> Self {
        Depthwise { arguments: conv.arguments.clone(), weights: conv.weights.clone() }
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
        worker.corrections.resize(width, 0);
        let Worker { lines, sums, corrections, .. } = worker;
        for (channel, out) in channels.iter().zip(out.chunks_exact_mut(grid.pixels())) {
            self.load(channel.index(), input, lines);
            let weights = &self.weights[channel.index() * size * size..][..size * size];
            for (row, out) in out.chunks_exact_mut(grid.width).enumerate() {
                let y = row * grid.stride + grid.first.0;
                self.sum_line(lines, y, weights, &mut sums[..width], &mut corrections[..width]);
                for x in 0..if grid.stride == 1 { 0 } else { grid.width } {
                    let column = x * grid.stride + grid.first.1;
                    (sums[x], corrections[x]) = (sums[column], corrections[column]);
                }
                channel.finish(steps, sums, corrections, out)?;
            }
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

    /// Sums of products, and what the sums of the input add, at all pixels of line `y`.
    fn sum_line(&self, lines: &[u8], y: usize, weights: &[u8], sums: &mut [i32], corrections: &mut [i64]) {
        let size = self.arguments.kernel.size() as usize;
        let width = sums.len();
        let bordered = width + 2 * self.arguments.kernel.border() as usize;
        let (arg_x, shift) = (i64::from(self.arguments.arg_x), self.arguments.shr_x);
        let inputs = |index: usize| &lines[(y + index / size) * bordered + index % size..][..width];
        sums.fill(0);
        for index in 0..weights.len() {
            sums.iter_mut().zip(inputs(index)).for_each(|(sum, &x)| *sum += i32::from(x));
        }
        corrections.iter_mut().zip(&*sums).for_each(|(out, &sum)| *out = (arg_x * i64::from(sum)) >> shift);
        sums.fill(0);
        for (index, &weight) in weights.iter().enumerate() {
            sums.iter_mut()
                .zip(inputs(index))
                .for_each(|(sum, &x)| *sum += i32::from(i16::from(x)) * i32::from(weight));
        }
    }
}
