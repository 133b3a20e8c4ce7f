//! kmodel files as netron reads them: what our emitter writes means the same to a reader that others wrote.

use byoc_kendryte_backend::kmodel::arguments::{Arguments, Kernel, POOLINGS};
use byoc_kendryte_backend::kmodel::bodies::{
    AddPadding, Dequantize, FullyConnected, FullyConnectedSizes, GlobalAveragePool, Pool, Quantization, Quantize,
    QuantizedAdd, RemovePadding, Requantize, Rescale, Shape, Upload, Vector,
};
use byoc_kendryte_backend::kmodel::conv::Conv;
use byoc_kendryte_backend::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, Segment};
use byoc_kendryte_backend::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{netron, places};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("convolutions_of_every_kind", || compare(convolutions())),
        trial("layers_on_the_cpu", || compare(on_the_cpu())),
        trial("what_netron_does_not_know_is_left_out", || compare(with_a_sum())),
    ]
}

/// Writes the layers and reads them both ways.
fn compare(operations: Vec<Operation>) -> Needed<()> {
    let layers = operations.into_iter().map(|operation| Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation }).collect();
    let kmodel =
        Kmodel { max_start_address: 0, main_memory: 4096, outputs: vec![Output { address: 8, size: 16 }], layers };
    let folder = places::temporary();
    netron::compare(&places::write(folder.path(), "test.kmodel", kmodel.emit().expect("a kmodel")))
}

/// Every kernel with every pooling and every layout of a map, registers and tables full.
fn convolutions() -> Vec<Operation> {
    let mut operations = Vec::new();
    for (number, &pooling) in POOLINGS.iter().enumerate() {
        for (kernel, depthwise) in [(Kernel::One, false), (Kernel::Three, false), (Kernel::Three, true)] {
            let number = number as u32 * 3 + operations.len() as u32 % 3;
            let (input_channels, output_channels) = if depthwise { (6, 6) } else { (3, 6) };
            let mut arguments = Arguments {
                depthwise,
                source: 100 + number,
                destination: 32_767 - number,
                input_channels,
                output_channels,
                width: [16, 32, 160][number as usize % 3],
                height: 8,
                kernel,
                pooling,
                pad_value: 200 + number as u8,
                channels_per_load: if depthwise { 6 } else { 2 },
                loads: if depthwise { 1 } else { 3 },
                load_bytes: 0,
                arg_w: -(number as i32) - 1,
                shr_w: number % 16,
                arg_x: -0x7f_ffff + number as i32,
                shr_x: 15 - number % 16,
                arg_add: 585_225 + i64::from(number),
                send_data_out: number.is_multiple_of(2),
            };
            arguments.load_bytes = arguments.channel_weights() as u32 * arguments.channels_per_load;
            operations.push(Operation::Conv(Box::new(convolution(arguments, number))));
        }
    }
    operations
}

fn convolution(arguments: Arguments, number: u32) -> Conv {
    let weights = (0..arguments.weight_bytes()).map(|index| (index * 37 + u64::from(number)) as u8).collect();
    let norm = |channel: u32| BatchNorm {
        mul: 8_388_607 - 3_000_000 * channel as i32,
        add: (i64::from(i32::MIN) + 850_000_000 * i64::from(channel)) as i32,
        shift: (channel + number) as u8 % 16,
    };
    let batch_norm = (0..arguments.output_channels).map(norm).collect();
    let activation = std::array::from_fn(|segment| match segment {
        0 => Segment { start: LOWEST, mul: 0, shift: 0, bias: 255 },
        15 => Segment { start: HIGHEST, mul: i16::MIN, shift: 43, bias: 128 },
        _ => Segment {
            start: segment as i64 * 100_000_000,
            mul: segment as i16 * -90,
            shift: 20,
            bias: segment as u8 * 18,
        },
    });
    Conv { output: 8 * number, arguments, weights, batch_norm, activation }
}

fn on_the_cpu() -> Vec<Operation> {
    let shape = Shape { width: 5, height: 4, channels: 3 };
    let quantization = Quantization { scale: 0.1, bias: -1.7 };
    let sizes = FullyConnectedSizes { input: 8, output: 24, input_channels: 3, output_channels: 2, activation: 0 };
    vec![
        Operation::Upload(Upload { input: 64, kpu_output: 7, shape }),
        Operation::QuantizedMaxPool(Pool {
            input: 8,
            output: 72,
            input_shape: shape,
            output_shape: Shape { width: 2, height: 1, channels: 3 },
            kernel_width: 3,
            kernel_height: 4,
            stride_width: 2,
            stride_height: 5,
            padding_width: 1,
            padding_height: 0,
        }),
        Operation::Quantize(Quantize { input: 16, output: 88, count: 12, quantization }),
        Operation::Requantize(Box::new(Requantize {
            input: 88,
            output: 104,
            count: 12,
            table: std::array::from_fn(|byte| 255 - byte as u8),
        })),
        Operation::Dequantize(Dequantize { input: 104, output: 200, count: 12, quantization }),
        Operation::GlobalAveragePool(GlobalAveragePool { input: 200, output: 300, kernel_size: 4, channels: 3 }),
        Operation::FullyConnected(FullyConnected {
            sizes,
            weights: vec![0.1, -2.5, 3.0, 1e-30, -0.0, 7.25],
            bias: vec![-1.5, 2e10],
        }),
        Operation::Softmax(Vector { input: 24, output: 32, count: 2 }),
        Operation::AddPadding(AddPadding { input: 40, kpu_output: 9, channels: 11 }),
        Operation::RemovePadding(RemovePadding { input: 48, output: 56, channels: 12 }),
    ]
}

fn with_a_sum() -> Vec<Operation> {
    let scale = Rescale { offset: -3, mul: 77, shift: 9 };
    let (a_scale, b_scale, output_scale) = (scale, scale, scale);
    let sum = QuantizedAdd { a: 0, b: 16, output: 32, count: 16, a_scale, b_scale, output_scale };
    let mut operations = convolutions();
    operations.truncate(2);
    operations.insert(1, Operation::QuantizedAdd(sum));
    operations
}
