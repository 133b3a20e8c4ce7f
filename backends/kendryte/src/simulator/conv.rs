//! A convolution layer: input from KPU RAM, output to KPU RAM and main memory, output channels shared among threads.

use byoc_plugin_api::Error;

use super::activation::{Channel, Overflow, Step, steps};
use super::dense::{Dense, Image};
use super::depthwise::Depthwise;
use super::isa::{Isa, OUTPUTS};
use super::memory::{Maps, Memories};
use super::pooling::{picked, pool};
use super::threads::Threads;
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
    /// Sums of the input, for kernels that find them per channel.
    pub(crate) windows: Vec<i32>,
    /// What sums of the input add, for kernels that find it per channel.
    pub(crate) corrections: Vec<i64>,
    /// Input lines of one channel, for the depthwise kernel.
    pub(crate) lines: Vec<u8>,
    /// Bytes before pooling.
    activated: Vec<u8>,
    overflow: Option<Overflow>,
}

impl Plan {
    /// Of a convolution that was checked: its parts have the lengths that its arguments say.
    pub(crate) fn new(conv: &Conv, isa: Isa) -> Self {
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
            Kernels::Depthwise(Depthwise::new(conv, isa))
        } else {
            Kernels::Dense(Dense::new(conv, &grid, isa))
        };
        Plan { output: conv.output, channels, steps: steps(conv), grid, kernel, arguments }
    }

    /// Runs the layer.
    pub(crate) fn run(
        &self,
        flags: u32,
        memories: &mut Memories,
        scratch: &mut Scratch,
        pool: &Threads,
    ) -> Result<(), Error> {
        let arguments = &self.arguments;
        let input = memories.map(source(arguments))?;
        let products = arguments.channel_weights() * (self.grid.pixels() * self.channels.len()) as u64;
        let threads = if products < WORTH_A_THREAD { 1 } else { pool.count() };
        if let Kernels::Dense(dense) = &self.kernel {
            dense.load(input, arguments, &mut scratch.image, pool, threads);
        }
        scratch.out.resize(arguments.output_bytes() as usize, 0);
        scratch.workers.resize_with(threads.max(scratch.workers.len()), Worker::default);
        self.share(input, scratch, pool, threads).map_err(|overflow| {
            let Overflow { channel, value } = overflow;
            Error::new(format!("a sum of output channel {channel} is {value}, which has more than 36 bits"))
        })?;
        let (width, height) = (arguments.output_width(), arguments.output_height());
        let target = Maps { row: arguments.destination, width, height, channels: arguments.output_channels };
        memories.upload(target, &scratch.out)?;
        if flags & OUTPUT_IN_MAIN_MEMORY != 0 {
            memories.write(self.output, &scratch.out)?;
        }
        Ok(())
    }

    /// Gives each thread its output channels. Errors with the first sum of the first thread that met one too large.
    fn share(&self, input: &[u8], scratch: &mut Scratch, pool: &Threads, threads: usize) -> Result<(), Overflow> {
        let group = if self.arguments.depthwise { 1 } else { OUTPUTS };
        let each = self.channels.len().div_ceil(threads).next_multiple_of(group);
        let bytes = scratch.out.len() / self.channels.len().max(1);
        let Scratch { image, out, workers } = scratch;
        let image = &*image;
        workers.iter_mut().for_each(|worker| worker.overflow = None);
        let parts = out.chunks_mut((each * bytes).max(1)).zip(&mut *workers).enumerate();
        pool.share(parts, |(part, (out, worker))| {
            let first = part * each;
            let channels = first..(first + each).min(self.channels.len());
            worker.overflow = self.compute(channels, input, image, worker, out).err();
        });
        workers.iter().find_map(|worker| worker.overflow).map_or(Ok(()), Err)
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

/// The maps that a convolution reads.
pub(crate) fn source(arguments: &Arguments) -> Maps {
    let Arguments { source, width, height, input_channels, .. } = *arguments;
    Maps { row: source, width, height, channels: input_channels }
}
