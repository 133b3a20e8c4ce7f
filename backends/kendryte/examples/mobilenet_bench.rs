//! Times the simulator on a kmodel of the shape of MobileNetV1-0.75 at 224x224 with random weights:
//! `cargo run --release -p byoc-kendryte --example mobilenet_bench -- [THREADS]`.

use std::time::Instant;

use byoc_kendryte_backend::kmodel::arguments::{Arguments, Kernel, Pooling};
use byoc_kendryte_backend::kmodel::conv::Conv;
use byoc_kendryte_backend::kmodel::layout::{Layout, ROWS};
use byoc_kendryte_backend::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, Segment};
use byoc_kendryte_backend::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};
use byoc_kendryte_backend::simulator::Simulator;
use byoc_plugin_api::testing::Rng;

/// Output channels of the separable blocks, and whether the map is halved: by the 1x1 convolution, as on a K210.
const BLOCKS: [(u32, bool); 13] = [
    (48, false),
    (96, true),
    (96, false),
    (192, true),
    (192, false),
    (384, true),
    (384, false),
    (384, false),
    (384, false),
    (384, false),
    (384, false),
    (768, true),
    (768, false),
];

/// Builds layers one after another, each reading what the one before wrote.
struct Builder {
    layers: Vec<Layer>,
    channels: u32,
    size: u32,
    random: Rng,
}

impl Builder {
    fn conv(&mut self, outputs: u32, kernel: Kernel, depthwise: bool, halve: bool) {
        let pooling = if halve { Pooling::LeftTop2 } else { Pooling::None };
        let mut arguments = Arguments {
            depthwise,
            source: 0,
            destination: 0,
            input_channels: self.channels,
            output_channels: outputs,
            width: self.size,
            height: self.size,
            kernel,
            pooling,
            pad_value: 128,
            channels_per_load: outputs,
            loads: 1,
            load_bytes: 0,
            arg_w: -128,
            shr_w: 0,
            arg_x: -128,
            shr_x: 0,
            arg_add: i64::from(kernel.size() * kernel.size()) * 128 * 128,
            send_data_out: false,
        };
        if !depthwise {
            let fitting = 30 * 1024 / arguments.channel_weights() as u32;
            arguments.channels_per_load = fitting.min(outputs);
            arguments.loads = outputs.div_ceil(arguments.channels_per_load);
        }
        arguments.load_bytes = arguments.channels_per_load * arguments.channel_weights() as u32;
        // Inputs and outputs take turns at the two ends of KPU RAM.
        let rows = |size: u32, channels: u32| ROWS - Layout::new(size).rows(channels, size) as u32;
        if self.layers.len().is_multiple_of(2) {
            arguments.destination = rows(arguments.output_width(), outputs);
        } else {
            arguments.source = rows(self.size, self.channels);
        }
        let weights = (0..arguments.weight_bytes()).map(|_| self.random.u8(..)).collect();
        let batch_norm =
            (0..outputs).map(|_| BatchNorm { mul: 12_000 + i32::from(self.random.u8(..)), add: 900, shift: 10 });
        let batch_norm = batch_norm.collect();
        let activation = std::array::from_fn(|number| match number {
            0 => Segment { start: LOWEST, mul: 0, shift: 0, bias: 0 },
            1 => Segment { start: 0, mul: 150, shift: 20, bias: 0 },
            number => Segment { start: HIGHEST - 15 + number as i64, mul: 0, shift: 0, bias: 255 },
        });
        (self.channels, self.size) = (outputs, arguments.output_width());
        let conv = Conv { output: 0, arguments, weights, batch_norm, activation };
        self.layers.push(Layer { flags: 0, operation: Operation::Conv(Box::new(conv)) });
    }
}

fn mobilenet() -> Kmodel {
    let mut builder = Builder { layers: Vec::new(), channels: 3, size: 224, random: Rng::with_seed(1) };
    builder.conv(24, Kernel::Three, false, true);
    for (outputs, halve) in BLOCKS {
        builder.conv(builder.channels, Kernel::Three, true, false);
        builder.conv(outputs, Kernel::One, false, halve);
    }
    let mut layers = builder.layers;
    if let Some(last) = layers.last_mut() {
        last.flags = OUTPUT_IN_MAIN_MEMORY;
    }
    let size = builder.channels * builder.size * builder.size;
    Kmodel { max_start_address: 0, main_memory: size, outputs: vec![Output { address: 0, size }], layers }
}

#[expect(clippy::print_stdout, reason = "an example's only purpose")]
fn main() {
    let threads = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let file = mobilenet().emit().expect("a kmodel");
    let kmodel = Kmodel::parse(&file).expect("a kmodel");
    for problem in kmodel.check() {
        println!("{problem}");
    }
    let start = Instant::now();
    let mut simulator = Simulator::new(kmodel, threads).expect("it can run");
    println!("{} bytes, made ready in {:.1?}", file.len(), start.elapsed());
    let input: Vec<u8> = (0..3 * 224 * 224u32).map(|index| (index * 7 + index / 224 * 13) as u8).collect();
    let mut times: Vec<_> = (0..15)
        .map(|_| {
            let start = Instant::now();
            simulator.run(&input).expect("it runs");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{threads} threads: median {:.1?}, least {:.1?} of {}", times[7], times[0], times.len());
    let output = simulator.output(0).unwrap_or_default();
    let hash = output
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    println!("output: {} bytes, FNV-1a {hash:#018x}", output.len());
}
