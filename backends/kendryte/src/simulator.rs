//! Runs a kmodel on the host, bit-exact to the vendor's reference kernels (kmodel v3, section 4). It was not
//! compared with silicon. Layers in `f32` follow the order of the reference's operations; a board may contract them.

mod activation;
mod conv;
mod dense;
mod depthwise;
mod float;
pub(crate) mod isa;
mod memory;
mod pooling;
mod quantized;
mod threads;

use std::time::{Duration, Instant};

use byoc_plugin_api::{Error, StepTime};

use crate::kmodel::check::Severity;
use crate::kmodel::{Kmodel, Layer, Operation, type_name};

use conv::{Plan, Scratch};
use isa::Isa;
use memory::Memories;
use threads::Threads;

/// What the model wants as its one input (kmodel v3, first layer rule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes in CHW order.
    Bytes {
        /// Channels.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// Little-endian `f32`.
    Floats(usize),
}

impl Input {
    /// Bytes of the input.
    pub fn bytes(&self) -> usize {
        match self {
            Input::Bytes { channels, height, width } => channels * height * width,
            Input::Floats(count) => 4 * count,
        }
    }
}

/// What a model wants as its input.
pub fn input_of(kmodel: &Kmodel) -> Input {
    match kmodel.layers.first().map(|layer| &layer.operation) {
        Some(Operation::Conv(conv)) => Input::Bytes {
            channels: conv.arguments.input_channels as usize,
            height: conv.arguments.height as usize,
            width: conv.arguments.width as usize,
        },
        Some(Operation::FullyConnected(body)) => Input::Floats(body.sizes.input_channels as usize),
        _ => Input::Floats(0),
    }
}

/// A kmodel made ready to run, with the memory that it runs in.
pub struct Simulator {
    kmodel: Kmodel,
    /// One for each layer that is a convolution.
    plans: Vec<Option<Plan>>,
    memories: Memories,
    scratch: Scratch,
    pool: Threads,
    /// Where the times of layers are taken: when each began, from the beginning of the run, and how long it took.
    times: Option<Vec<(Duration, Duration)>>,
}

impl Simulator {
    /// Prepares a model. Errors with the first problem for which it cannot run; `threads` counts the caller's.
    pub fn new(kmodel: Kmodel, threads: usize) -> Result<Self, Error> {
        Simulator::with_isa(kmodel, threads, Isa::best())
    }

    /// As [`Simulator::new`] with a given instruction set.
    pub(crate) fn with_isa(kmodel: Kmodel, threads: usize, isa: Isa) -> Result<Self, Error> {
        if let Some(problem) = kmodel.check().iter().find(|problem| problem.severity == Severity::Broken) {
            return Err(Error::new(format!("the kmodel cannot run: {problem}")));
        }
        let plans = kmodel.layers.iter().map(|layer| match &layer.operation {
            Operation::Conv(conv) => Some(Plan::new(conv, isa)),
            _ => None,
        });
        let plans = plans.collect();
        let memories = Memories::new(kmodel.main_memory as usize);
        Ok(Simulator { kmodel, plans, memories, scratch: Scratch::default(), pool: Threads::new(threads), times: None })
    }

    /// The model.
    pub fn kmodel(&self) -> &Kmodel {
        &self.kmodel
    }

    /// What [`Simulator::run`] takes.
    pub fn input(&self) -> Input {
        input_of(&self.kmodel)
    }

    /// Runs the model. Errors when the input has another size, or when a sum exceeds 36 bits.
    pub fn run(&mut self, input: &[u8]) -> Result<(), Error> {
        let expected = self.input().bytes();
        if input.len() != expected {
            return Err(Error::new(format!("the kmodel takes {expected} bytes, the input has {}", input.len())));
        }
        let begun = Instant::now();
        self.times.as_mut().into_iter().for_each(Vec::clear);
        self.memories.clear();
        match self.kmodel.layers.first().map(|layer| &layer.operation) {
            Some(Operation::Conv(conv)) => self.memories.upload(conv::source(&conv.arguments), input)?,
            Some(Operation::FullyConnected(body)) => self.memories.write(body.sizes.input, input)?,
            _ => {}
        }
        for (index, (layer, plan)) in self.kmodel.layers.iter().zip(&self.plans).enumerate() {
            let start = self.times.is_some().then(Instant::now);
            let result = match plan {
                Some(plan) => plan.run(layer.flags, &mut self.memories, &mut self.scratch, &self.pool),
                None => run_layer(layer, &mut self.memories),
            };
            if let (Some(times), Some(start)) = (&mut self.times, start) {
                times.push((start.duration_since(begun), start.elapsed()));
            }
            result.map_err(|error| {
                Error::new(format!("layer {index} ({}): {error}", type_name(layer.operation.kind())))
            })?;
        }
        Ok(())
    }

    /// Takes the time of each layer of the runs that follow, or no longer does.
    pub fn time_layers(&mut self, on: bool) {
        self.times = on.then(Vec::new);
    }

    /// The layers of the last run, with what each took on this machine: it says nothing about the chip.
    pub fn layer_times(&self) -> Vec<StepTime> {
        let layers = self.kmodel.layers.iter().zip(self.times.iter().flatten());
        let step = |(layer, (start, time)): (&Layer, &(Duration, Duration))| StepTime {
            kernel: type_name(layer.operation.kind()).to_owned(),
            start: start.as_secs_f64(),
            seconds: time.as_secs_f64(),
            ..StepTime::default()
        };
        layers.map(step).collect()
    }

    /// The bytes of an output after a run; none where the model has no such output.
    pub fn output(&self, index: usize) -> Option<&[u8]> {
        let output = self.kmodel.outputs.get(index)?;
        self.memories.read(output.address, u64::from(output.size)).ok()
    }
}

/// A layer that runs on the CPU.
fn run_layer(layer: &Layer, memories: &mut Memories) -> Result<(), Error> {
    match &layer.operation {
        Operation::Add(body) => float::add(body, memories),
        Operation::QuantizedAdd(body) => quantized::add(body, memories),
        Operation::GlobalAveragePool(body) => float::global_average_pool(body, memories),
        Operation::QuantizedMaxPool(body) => quantized::max_pool(body, memories),
        Operation::AveragePool(body, _) => float::average_pool(body, memories),
        Operation::Quantize(body) => float::quantize(body, memories),
        Operation::Dequantize(body) => float::dequantize(body, memories),
        Operation::Requantize(body) => quantized::requantize(body, memories),
        Operation::L2Normalization(body) => float::l2_normalization(body, memories),
        Operation::Softmax(body) => float::softmax(body, memories),
        Operation::Logistic(body) => float::logistic(body, memories),
        Operation::Concat(body) | Operation::QuantizedConcat(body) => quantized::concat(body, memories),
        Operation::FullyConnected(body) => float::fully_connected(body, memories),
        Operation::Flatten(body) => quantized::flatten::<4>(body, memories),
        Operation::QuantizedFlatten(body) => quantized::flatten::<1>(body, memories),
        Operation::ResizeNearest(body) => quantized::resize::<4>(body, memories),
        Operation::QuantizedResizeNearest(body) => quantized::resize::<1>(body, memories),
        Operation::ChannelwiseDequantize(body) => float::channelwise_dequantize(body, memories),
        Operation::AddPadding(body) => quantized::add_padding(body, memories),
        Operation::RemovePadding(body) => quantized::remove_padding(body, memories),
        Operation::Upload(body) => quantized::upload(body, memories),
        Operation::Conv(_) | Operation::Other(..) => Err(Error::new("this layer does not run on the CPU")),
    }
}
