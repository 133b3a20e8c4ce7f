//! Sums of bytes, and tables of bytes.

use byoc_plugin_api::testing::Rng;

use super::activations;
use crate::kmodel::arguments::Kernel;
use crate::kmodel::bodies::{QuantizedAdd, Rescale};
use crate::kmodel::conv::Conv;
use crate::kmodel::tables::{BatchNorm, SEGMENTS, Segment};
use crate::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};
use crate::quantize::{Quantization, add, table};
use crate::simulator::Simulator;
use crate::tests::build;

/// All pairs of bytes.
const PAIRS: u32 = 1 << 16;

/// A model of two channels, which a convolution copies, and their sum.
fn model((a_scale, b_scale, output_scale): (Rescale, Rescale, Rescale)) -> Kmodel {
    let mut arguments = build::arguments(2, 2, 256, 256);
    (arguments.depthwise, arguments.kernel) = (true, Kernel::One);
    let arguments = arguments.settled();
    let copy = Conv {
        output: 0,
        weights: vec![1; 2],
        batch_norm: vec![BatchNorm { mul: 1, add: 0, shift: 0 }; 2],
        activation: [Segment { start: 0, mul: 1, shift: 0, bias: 0 }; SEGMENTS],
        arguments,
    };
    let sum = QuantizedAdd { a: 0, b: PAIRS, output: 2 * PAIRS, count: PAIRS, a_scale, b_scale, output_scale };
    let operations = [Operation::Conv(Box::new(copy)), Operation::QuantizedAdd(sum)];
    Kmodel {
        max_start_address: 0,
        main_memory: 3 * PAIRS,
        outputs: vec![Output { address: 2 * PAIRS, size: PAIRS }],
        layers: operations.map(|operation| Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation }).to_vec(),
    }
}

/// Every pair of bytes against the sum of what they stand for, clamped to the output's range.
#[test]
fn sums_are_the_nearest_bytes() {
    let mut random = Rng::with_seed(31);
    let x: Vec<u8> = (0..PAIRS).map(|pair| (pair >> 8) as u8).chain((0..PAIRS).map(|pair| pair as u8)).collect();
    for case in 0..60 {
        // Scales from a hundredth of the output's to a hundred times it; far apart in the last cases.
        let decades = if case < 50 { 2.0 } else { 12.0 };
        let mut draw = |decades: f64| Quantization {
            scale: 10f64.powf((2.0 * random.f64() - 1.0) * decades) as f32,
            zero_point: [0, 255, random.u8(..), random.u8(..)][random.usize(0..=3)],
        };
        let (a, b, output) = (draw(decades), draw(decades), Quantization { scale: 1.0, ..draw(1.0) });
        let mut simulator = Simulator::new(model(add(a, b, output)), 1).expect("it can run");
        simulator.run(&x).expect("it runs");
        let real = |byte: u8, q: Quantization| (f64::from(byte) - f64::from(q.zero_point)) * f64::from(q.scale);
        for (pair, &byte) in simulator.output(0).expect("an output").iter().enumerate() {
            let sum = real((pair >> 8) as u8, a) + real(pair as u8, b);
            let expected = (sum / f64::from(output.scale) + f64::from(output.zero_point)).clamp(0.0, 255.0);
            let difference = (f64::from(byte) - expected).abs();
            let bound = if case < 50 { 0.5 + 400.0 / f64::from(1 << 20) } else { 1.0 };
            assert!(difference <= bound, "{a:?} + {b:?} = {output:?}: pair {pair} is {byte}, not {expected}");
        }
    }
}

/// With the zero point at 0, clamping is ReLU.
#[test]
fn a_sum_with_relu() {
    let (a, output) = (Quantization::of(-1.0, 1.0), Quantization::of(0.0, 2.0));
    let (left, right, out) = add(a, a, output);
    assert_eq!((left.shift, right.shift, out.mul, out.shift), (20, 20, 1, 0));
    let mut simulator = Simulator::new(model((left, right, out)), 1).expect("it can run");
    simulator.run(&[vec![10; PAIRS as usize], vec![90; PAIRS as usize]].concat()).expect("it runs");
    assert!(simulator.output(0).expect("an output").iter().all(|byte| *byte == 0));
}

#[test]
fn tables_hold_the_nearest_bytes() {
    let ranges = [(-1.0, 1.0), (0.0, 6.0), (-20.0, 3.0)].map(|(low, high)| Quantization::of(low, high));
    for activation in activations() {
        for (input, output) in ranges.iter().flat_map(|input| ranges.map(|output| (*input, output))) {
            for (byte, found) in table(input, output, |x| activation.apply(x)).into_iter().enumerate() {
                let real = activation.apply(f64::from(input.dequantize(byte as u8)));
                let low = f64::from(output.dequantize(0));
                let expected = ((real - low) / f64::from(output.scale)).clamp(0.0, 255.0);
                assert!((f64::from(found) - expected).abs() <= 0.5 + 1e-3, "{activation:?} {byte} {found} {expected}");
            }
        }
    }
    let same = table(ranges[0], ranges[0], |x| x);
    assert!(same.iter().enumerate().all(|(byte, found)| byte == usize::from(*found)));
}
