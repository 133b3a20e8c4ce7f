//! Models for tests, and random numbers that are the same in every run.

use crate::kmodel::arguments::{Arguments, Kernel, Pooling};
use crate::kmodel::conv::Conv;
use crate::kmodel::layout::Layout;
use crate::kmodel::layout::ROWS;
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, SEGMENTS, Segment};
use crate::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// From -1 to 1.
    pub(super) fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }
    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
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
pub(super) fn conv(arguments: Arguments, random: &mut Random, wide: bool) -> Conv {
    let weights = random.bytes(arguments.weight_bytes() as usize);
    let shift = if wide { 0 } else { 11 };
    let batch_norm = (0..arguments.output_channels).map(|_| BatchNorm {
        mul: random.between(-200, 30_000) as i32,
        add: random.between(-60_000, 60_000) as i32,
        shift,
    });
    let batch_norm = batch_norm.collect();
    Conv { output: 0, batch_norm, weights, activation: activation(random), arguments }
}

/// Random segments by rising start.
pub(super) fn activation(random: &mut Random) -> [Segment; SEGMENTS] {
    let live = random.between(1, 15) as usize;
    let mut starts: Vec<i64> = (0..live).map(|_| random.between(-2_000_000, 2_000_000)).collect();
    starts.sort_unstable();
    std::array::from_fn(|number| match number {
        0 => Segment { start: LOWEST, mul: 0, shift: 0, bias: random.next() as u8 },
        number if number <= live => Segment {
            start: starts[number - 1],
            mul: random.between(-50, 400) as i16,
            shift: [0, 1, 14, 17, 20][random.between(0, 4) as usize],
            bias: random.next() as u8,
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
