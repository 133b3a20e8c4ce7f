//! A small model with a layer of every type, and the results of the layers that run on the CPU.

use byoc_plugin_api::testing::Rng;

use super::build;
use crate::kmodel::bodies::{
    AddPadding, Binary, ChannelwiseDequantize, Concat, Dequantize, Flatten, FullyConnected, FullyConnectedSizes,
    GlobalAveragePool, Pool, Quantization, Quantize, QuantizedAdd, Range, RemovePadding, Requantize, Rescale, Resize,
    Shape, Upload, Vector,
};
use crate::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};
use crate::simulator::Simulator;

/// Where the results are in main memory. The convolution writes 2 x 4 x 4 bytes to 0.
const BYTES: u32 = 0;
const FLOATS: u32 = 64;
const RESULTS: u32 = 256;
const STEP: u32 = 256;

fn shape(width: u32, height: u32, channels: u32) -> Shape {
    Shape { width, height, channels }
}

fn pool(input: u32, output: u32) -> Pool {
    Pool {
        input,
        output,
        input_shape: shape(4, 4, 2),
        output_shape: shape(2, 2, 2),
        kernel_width: 3,
        kernel_height: 3,
        stride_width: 2,
        stride_height: 2,
        padding_width: 1,
        padding_height: 1,
    }
}

fn quantization() -> Quantization {
    Quantization { scale: 0.5, bias: -3.0 }
}

fn rescale(offset: i32, mul: i32, shift: i32) -> Rescale {
    Rescale { offset, mul, shift }
}

/// Bytes of the convolution to `f32` and both kinds through every layer; result `n` is at `RESULTS + n * STEP`.
fn operations() -> Vec<Operation> {
    let at = |number: u32| RESULTS + number * STEP;
    let vector = |number| Vector { input: FLOATS, output: at(number), count: 32 };
    let flatten = |input, number| Flatten { input, output: at(number), shape: shape(4, 4, 2) };
    let resize = |input, number| Resize {
        input,
        output: at(number),
        shape: shape(4, 4, 2),
        output_width: 5,
        output_height: 3,
        align_corners: 0,
    };
    let table = std::array::from_fn(|x| 255 - x as u8);
    let ranges = vec![Range { start: 16, size: 16 }, Range { start: 0, size: 8 }];
    let sizes =
        FullyConnectedSizes { input: FLOATS, output: at(12), input_channels: 32, output_channels: 3, activation: 2 };
    vec![
        Operation::Dequantize(Dequantize { input: BYTES, output: FLOATS, count: 32, quantization: quantization() }),
        Operation::Add(Binary { a: FLOATS, b: FLOATS, output: at(0), count: 32 }),
        Operation::QuantizedAdd(QuantizedAdd {
            a: BYTES,
            b: BYTES + 8,
            output: at(1),
            count: 24,
            a_scale: rescale(-3, 40, 4),
            b_scale: rescale(2, 30, 5),
            output_scale: rescale(5, 3, 4),
        }),
        Operation::GlobalAveragePool(GlobalAveragePool { input: FLOATS, output: at(2), kernel_size: 16, channels: 2 }),
        Operation::QuantizedMaxPool(pool(BYTES, at(3))),
        Operation::AveragePool(pool(FLOATS, at(4)), 0),
        Operation::Quantize(Quantize { input: FLOATS, output: at(5), count: 32, quantization: quantization() }),
        Operation::Requantize(Box::new(Requantize { input: BYTES, output: at(6), count: 32, table })),
        Operation::L2Normalization(vector(7)),
        Operation::Softmax(vector(8)),
        Operation::Logistic(vector(9)),
        Operation::Concat(Concat { output: at(10), inputs: ranges.clone() }),
        Operation::QuantizedConcat(Concat { output: at(11), inputs: ranges }),
        Operation::FullyConnected(FullyConnected {
            sizes,
            weights: (0..96).map(|index| index as f32 / 64.0 - 0.5).collect(),
            bias: vec![0.25, -1.0, 2.0],
        }),
        Operation::Flatten(flatten(FLOATS, 13)),
        Operation::QuantizedFlatten(flatten(BYTES, 14)),
        Operation::ResizeNearest(resize(FLOATS, 15)),
        Operation::QuantizedResizeNearest(resize(BYTES, 16)),
        Operation::ChannelwiseDequantize(ChannelwiseDequantize {
            input: BYTES,
            output: at(17),
            channel_size: 16,
            channels: vec![quantization(), Quantization { scale: 2.0, bias: 1.0 }],
        }),
        Operation::AddPadding(AddPadding { input: BYTES, kpu_output: 1000, channels: 6 }),
        Operation::RemovePadding(RemovePadding { input: BYTES, output: at(18), channels: 2 }),
        Operation::Upload(Upload { input: BYTES, kpu_output: 2000, shape: shape(4, 4, 2) }),
    ]
}

/// One layer of every type that is executed, each result an output.
pub(super) fn every_layer() -> Kmodel {
    let conv = build::conv(build::arguments(2, 2, 4, 4), &mut Rng::with_seed(21), false);
    let mut operations = operations();
    operations.insert(0, Operation::Conv(Box::new(conv)));
    let layers = operations.into_iter().map(|operation| Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation });
    let mut kmodel =
        Kmodel { max_start_address: 0, main_memory: RESULTS + 20 * STEP, outputs: vec![], layers: layers.collect() };
    let writes = kmodel.layers.iter().flat_map(Layer::accesses).filter(|access| access.write);
    let main = writes.filter(|access| access.memory == crate::kmodel::access::Memory::Main);
    kmodel.outputs = main.map(|access| Output { address: access.start as u32, size: access.bytes as u32 }).collect();
    kmodel
}

/// An input of that model.
pub(super) fn input() -> Vec<u8> {
    build::bytes(&mut Rng::with_seed(5), 32)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Every result against the formula written out (kmodel v3, layer types).
#[test]
fn layers_of_the_cpu() {
    let mut simulator = Simulator::new(every_layer(), 1).expect("it can run");
    simulator.run(&input()).expect("it runs");
    let output = |number: usize| simulator.output(number).expect("an output");
    // Outputs: the convolution, the `f32` form of it, then results from 0 on.
    let (q, result) = (output(0), |number: usize| output(number + 2));
    let x: Vec<f32> = q.iter().map(|&byte| f32::from(byte) * 0.5 - 3.0).collect();
    assert!(q.iter().any(|byte| *byte != q[0]), "{q:?}");
    let mapped = |function: &dyn Fn(f32) -> f32| x.iter().map(|&x| function(x)).collect::<Vec<_>>();
    assert_eq!(floats(output(1)), x);
    assert_eq!(floats(result(0)), mapped(&|x| x + x));
    assert_eq!(result(1), quantized_sums(q));
    assert_eq!(floats(result(2)), [x[..16].iter().sum::<f32>() / 16.0, x[16..].iter().sum::<f32>() / 16.0]);
    assert_eq!(result(5), q, "quantize undoes dequantize");
    assert_eq!(result(6), q.iter().map(|byte| 255 - byte).collect::<Vec<_>>());
    let length = x.iter().map(|x| x * x).sum::<f32>();
    assert_eq!(floats(result(7)), mapped(&|x| x * (1.0 / length.sqrt())));
    let most = x.iter().fold(0f32, |most, x| most.max(*x));
    let total = x.iter().map(|x| (x - most).exp()).sum::<f32>();
    assert_eq!(floats(result(8)), mapped(&|x| (x - most).exp() / total));
    assert_eq!(floats(result(9)), mapped(&|x| 1.0 / (1.0 + (-x).exp())));
    assert_eq!(result(10), [&q[16..32], &q[..8]].concat());
    assert_eq!(result(11), result(10));
    let dense = |row: usize| x.iter().enumerate().map(|(i, x)| x * ((row * 32 + i) as f32 / 64.0 - 0.5)).sum::<f32>();
    let dense = [dense(0) + 0.25, dense(1) - 1.0, dense(2) + 2.0];
    assert_eq!(floats(result(12)), dense.map(|x| x.clamp(0.0, 6.0)));
    assert_eq!(floats(result(13)), (0..32).map(|i| x[i % 2 * 16 + i / 2]).collect::<Vec<_>>());
    assert_eq!(result(14), (0..32).map(|i| q[i % 2 * 16 + i / 2]).collect::<Vec<_>>());
    let nearest = |i: usize| i / 15 * 16 + (i % 15 / 5 * 4 / 3) * 4 + i % 5 * 4 / 5;
    assert_eq!(floats(result(15)), (0..30).map(|i| x[nearest(i)]).collect::<Vec<_>>());
    assert_eq!(result(16), (0..30).map(|i| q[nearest(i)]).collect::<Vec<_>>());
    let scaled = q.iter().enumerate().map(|(i, &q)| f32::from(q) * [0.5, 2.0][i / 16] + [-3.0, 1.0][i / 16]);
    assert_eq!(floats(result(17)), scaled.collect::<Vec<_>>());
    assert_eq!(result(18), [q[0], q[16]]);
    check_pools(q, &x, result(3), &floats(result(4)));
}

/// `QUANTIZED_ADD` of `q` and `q` from 8 on with the scales of `operations`.
fn quantized_sums(q: &[u8]) -> Vec<u8> {
    let sum = |i: usize| {
        let (a, b) = ((i64::from(q[i]) - 3) * 40, (i64::from(q[i + 8]) + 2) * 30);
        let v = ((a >> 4) + (b >> 5)) * 3;
        let up = if v >> 3 & 1 == 0 {
            v >> 4
        } else if v < 0 {
            (v >> 4) - 1
        } else {
            (v >> 4) + 1
        };
        (up + 5).clamp(0, 255) as u8
    };
    (0..24).map(sum).collect()
}

/// Windows of 3x3, stride 2, one cell of padding: cells outside do not count.
fn check_pools(q: &[u8], x: &[f32], most: &[u8], means: &[f32]) {
    for index in 0..8 {
        let (channel, top, left) = (index / 4 * 16, index % 4 / 2 * 2, index % 2 * 2);
        let cells = (top.max(1) - 1..top + 2)
            .flat_map(|y: usize| (left.max(1) - 1..left + 2).map(move |x: usize| channel + y * 4 + x));
        assert_eq!(most[index], cells.clone().map(|cell| q[cell]).max().expect("cells"));
        let count = cells.clone().count() as f32;
        assert_eq!(means[index], cells.map(|cell| x[cell]).sum::<f32>() / count);
    }
}

/// What goes to KPU RAM: a padded vector and an uploaded map, read by convolutions that copy.
#[test]
fn layers_that_write_kpu_ram() {
    let mut random = Rng::with_seed(3);
    let mut kmodel = every_layer();
    let mut copy = build::arguments(2, 2, 4, 4);
    (copy.depthwise, copy.kernel) = (true, crate::kmodel::arguments::Kernel::One);
    (copy.channels_per_load, copy.source) = (2, 2000);
    let mut conv = build::conv(copy.settled(), &mut random, false);
    conv.weights.fill(1);
    conv.batch_norm.fill(crate::kmodel::tables::BatchNorm { mul: 1, add: 0, shift: 0 });
    conv.activation.fill(crate::kmodel::tables::Segment { start: 0, mul: 1, shift: 0, bias: 0 });
    let mut padded = conv.clone();
    padded.arguments.source = 1000;
    for (conv, address) in [(conv, RESULTS), (padded, RESULTS + STEP)] {
        let operation = Operation::Conv(Box::new(crate::kmodel::conv::Conv { output: address, ..conv }));
        kmodel.layers.push(Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation });
    }
    kmodel.outputs =
        [(BYTES, 32), (RESULTS, 32), (RESULTS + STEP, 32)].map(|(address, size)| Output { address, size }).to_vec();
    let mut simulator = Simulator::new(kmodel, 1).expect("it can run");
    simulator.run(&input()).expect("it runs");
    let output = |number: usize| simulator.output(number).expect("an output").to_vec();
    assert_eq!(output(1), output(0));
    assert_eq!(output(2).iter().step_by(16).collect::<Vec<_>>(), [&output(0)[0], &output(0)[1]]);
}
