//! Models for tests.

use byoc_plugin_api::testing::Rng;

use crate::kmodel::arguments::{Arguments, Kernel, Pooling};
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::layout::ROWS;
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, SEGMENTS, Segment};
use crate::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};

/// Random bytes.
pub(super) fn bytes(random: &mut Rng, count: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.u8(..)).take(count).collect()
}

/// Arguments with one weight load, input at row 0 and output at the end of KPU RAM.
pub(super) fn arguments(inputs: u32, outputs: u32, width: u32, height: u32) -> Arguments {
    Arguments {
        depthwise: false,
        source: 0,
        destination: 0,
        input_channels: inputs,
        output_channels: outputs,
        width,
        height,
        kernel: Kernel::Three,
        pooling: Pooling::None,
        pad_value: 0,
        channels_per_load: outputs,
        loads: 1,
        load_bytes: 0,
        arg_w: 0,
        shr_w: 0,
        arg_x: 0,
        shr_x: 0,
        arg_add: 0,
        send_data_out: false,
    }
    .settled()
}

impl Arguments {
    /// Sets what follows from sizes and pooling.
    pub(super) fn settled(mut self) -> Self {
        self.load_bytes = (self.channel_weights() * u64::from(self.channels_per_load)) as u32;
        let rows = Layout::new(self.output_width()).rows(self.output_channels, self.output_height());
        self.destination = ROWS - rows as u32;
        self
    }
}

/// A convolution with random weights and tables; `wide` makes sums that may exceed 36 bits.
pub(super) fn conv(arguments: Arguments, random: &mut Rng, wide: bool) -> Conv {
    let weights = bytes(random, arguments.weight_bytes() as usize);
    let shift = if wide { 0 } else { 11 };
    let batch_norm = (0..arguments.output_channels).map(|_| BatchNorm {
        mul: random.i32(-200..=30_000),
        add: random.i32(-60_000..=60_000),
        shift,
    });
    let batch_norm = batch_norm.collect();
    Conv { output: 0, batch_norm, weights, activation: activation(random), arguments }
}

/// Random segments by rising start.
pub(super) fn activation(random: &mut Rng) -> [Segment; SEGMENTS] {
    let live = random.usize(1..=15);
    let mut starts: Vec<i64> = (0..live).map(|_| random.i64(-2_000_000..=2_000_000)).collect();
    starts.sort_unstable();
    std::array::from_fn(|number| match number {
        0 => Segment { start: LOWEST, mul: 0, shift: 0, bias: random.u8(..) },
        number if number <= live => Segment {
            start: starts[number - 1],
            mul: random.i16(-50..=400),
            shift: [0, 1, 14, 17, 20][random.usize(0..=4)],
            bias: random.u8(..),
        },
        number => Segment { start: HIGHEST - (SEGMENTS - 1 - number) as i64, mul: 0, shift: 0, bias: 255 },
    })
}

/// A model of one convolution whose output is the model's.
pub(super) fn single(conv: Conv) -> Kmodel {
    let size = conv.arguments.output_bytes() as u32;
    Kmodel {
        max_start_address: 0,
        main_memory: size.next_multiple_of(8),
        outputs: vec![Output { address: 0, size }],
        layers: vec![Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation: Operation::Conv(Box::new(conv)) }],
    }
}
