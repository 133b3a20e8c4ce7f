//! A convolution layer: input from KPU RAM, output to KPU RAM and main memory, output channels shared among threads.

use byoc_plugin_api::Error;

use super::activation::{Channel, Overflow, Step, steps};
use super::dense::{Dense, Image};
use super::depthwise::Depthwise;
use super::memory::Memories;
use super::pooling::{picked, pool};
use crate::kmodel::OUTPUT_IN_MAIN_MEMORY;
use crate::kmodel::arguments::Arguments;
use crate::kmodel::conv::Conv;
use crate::kmodel::tables::SEGMENTS;

/// Products below which a second thread costs more than it gains.
const WORTH_A_THREAD: u64 = 1 << 18;

/// A convolution made ready: what does not depend on the input.
pub(crate) struct Plan {
    arguments: Arguments,
    output: u32,
    channels: Vec<Channel>,
    steps: [Step; SEGMENTS],
    grid: Grid,
    kernel: Kernels,
}

enum Kernels {
    Dense(Dense),
    Depthwise(Depthwise),
}

/// The pixels at which sums are computed: all, or only those that the pooling picks.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// Columns.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// Pixels from one to the next.
    pub(crate) stride: usize,
    /// The first: row and column.
    pub(crate) first: (usize, usize),
}

impl Grid {
    /// Pixels.
    pub(crate) fn pixels(&self) -> usize {
        self.width * self.height
    }
}

/// Buffers that runs and layers share.
#[derive(Default)]
pub(crate) struct Scratch {
    image: Image,
    /// The output, packed CHW.
    out: Vec<u8>,
    workers: Vec<Worker>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct Worker {
    /// Sums of products.
    pub(crate) sums: Vec<i32>,
    /// What sums of the input add, for kernels that find it per channel.
    pub(crate) corrections: Vec<i64>,
    /// Input lines of one channel, for the depthwise kernel.
    pub(crate) lines: Vec<u8>,
    /// Bytes before pooling.
    activated: Vec<u8>,
}

impl Plan {
    /// Of a convolution that was checked: its parts have the lengths that its arguments say.
    pub(crate) fn new(conv: &Conv) -> Self {
        let arguments = conv.arguments.clone();
        let count = arguments.output_channels as usize;
        let channels: Vec<_> = (0..count).filter_map(|channel| Channel::new(conv, channel)).collect();
        let (width, height) = (arguments.width as usize, arguments.height as usize);
        // A pixel that is not picked may be left out, unless its sum could be an error.
        let skip = picked(arguments.pooling).filter(|_| channels.iter().all(|channel| channel.proved));
        let grid = match skip {
            Some(first) => {
                let (width, height) = (arguments.output_width() as usize, arguments.output_height() as usize);
                Grid { width, height, stride: arguments.pooling.stride() as usize, first }
            }
            None => Grid { width, height, stride: 1, first: (0, 0) },
        };
        let kernel = if arguments.depthwise {
            Kernels::Depthwise(Depthwise::new(conv))
        } else {
            Kernels::Dense(Dense::new(conv, &grid))
        };
        Plan { output: conv.output, channels, steps: steps(conv), grid, kernel, arguments }
    }

    /// Runs the layer.
    pub(crate) fn run(
        &self,
        flags: u32,
        memories: &mut Memories,
        scratch: &mut Scratch,
        threads: usize,
    ) -> Result<(), Error> {
        let arguments = &self.arguments;
        let input = memories.map(arguments.source, arguments.width, arguments.height, arguments.input_channels)?;
        let products = arguments.channel_weights() * (self.grid.pixels() * self.channels.len()) as u64;
        let threads = if products < WORTH_A_THREAD { 1 } else { threads };
        if let Kernels::Dense(dense) = &self.kernel {
            dense.load(input, arguments, &mut scratch.image, threads);
        }
        scratch.out.clear();
        scratch.out.resize(arguments.output_bytes() as usize, 0);
        scratch.workers.resize_with(threads.max(scratch.workers.len()), Worker::default);
        self.share(input, scratch, threads).map_err(|overflow| {
            let Overflow { channel, value } = overflow;
            Error::new(format!("a sum of output channel {channel} is {value}, which has more than 36 bits"))
        })?;
        let (width, height) = (arguments.output_width(), arguments.output_height());
        memories.upload(&scratch.out, arguments.destination, width, height, arguments.output_channels)?;
        if flags & OUTPUT_IN_MAIN_MEMORY != 0 {
            memories.write(self.output, &scratch.out)?;
        }
        Ok(())
    }

    /// Gives each thread its output channels.
    fn share(&self, input: &[u8], scratch: &mut Scratch, threads: usize) -> Result<(), Overflow> {
        // The dense kernel takes channels in pairs.
        let each = self.channels.len().div_ceil(threads).next_multiple_of(2);
        let bytes = scratch.out.len() / self.channels.len().max(1);
        let Scratch { image, out, workers } = scratch;
        let image = &*image;
        let mut parts = out.chunks_mut((each * bytes).max(1)).zip(workers).enumerate();
        let work = |(part, (out, worker)): (usize, (&mut [u8], &mut Worker))| {
            let first = part * each;
            self.compute(first..(first + each).min(self.channels.len()), input, image, worker, out)
        };
        if threads == 1 {
            return parts.try_for_each(work);
        }
        std::thread::scope(|scope| {
            let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
            let results = running.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            results.collect()
        })
    }

    /// Some output channels: sums, activation, pooling.
    fn compute(
        &self,
        channels: std::ops::Range<usize>,
        input: &[u8],
        image: &Image,
        worker: &mut Worker,
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let pooled =
            self.grid.stride != self.arguments.pooling.stride() as usize || picked(self.arguments.pooling).is_none();
        let mut activated = std::mem::take(&mut worker.activated);
        let target = if pooled {
            activated.resize(channels.len() * self.grid.pixels(), 0);
            &mut activated[..]
        } else {
            &mut *out
        };
        let result = match &self.kernel {
            Kernels::Dense(dense) => dense.compute(&self.channels[channels], &self.steps, image, worker, target),
            Kernels::Depthwise(depthwise) => {
                depthwise.compute(&self.channels[channels], &self.steps, &self.grid, input, worker, target)
            }
        };
        if pooled {
            let bytes = self.arguments.output_width() as usize * self.arguments.output_height() as usize;
            for (plane, out) in activated.chunks_exact(self.grid.pixels()).zip(out.chunks_exact_mut(bytes)) {
                pool(self.arguments.pooling, plane, self.grid.width, self.grid.height, out);
            }
        }
        worker.activated = activated;
        result
    }
}
