//! Rules of the reference's arithmetic that random numbers hardly ever meet: ties, sums at the start of a segment, carries of
//! negative sums, and where a softmax starts.

use super::build;
use crate::kmodel::arguments::Kernel;
use crate::kmodel::bodies::{FullyConnected, FullyConnectedSizes, QuantizedAdd, Rescale, Vector};
use crate::kmodel::conv::Conv;
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, SEGMENTS, Segment};
use crate::kmodel::{Kmodel, Layer, OUTPUT_IN_MAIN_MEMORY, Operation, Output};
use crate::simulator::Simulator;
use crate::simulator::isa::Isa;

/// Segments: where one starts, its slope in halves or quarters, and its bias.
const TABLE: [(i64, i16, u8, u8); 5] =
    [(10, 1, 1, 20), (20, 3, 2, 50), (100, 1, 1, 200), (110, -1, 1, 90), (130, 1, 0, 3)];

/// Sums and their bytes, worked out by hand from kmodel v3, section 4.
const EXPECTED: [(u8, u8); 24] = [
    (0, 7),
    // A sum at a start is still in the segment before.
    (10, 7),
    // A half goes to the even neighbour: 0.5, 1, 1.5, 2, 2.5, 3.5.
    (11, 20),
    (12, 21),
    (13, 22),
    (14, 22),
    (15, 22),
    (17, 24),
    (20, 25),
    // 0.75, 1.5, 2.25, 4.5, 7.5.
    (21, 51),
    (22, 52),
    (23, 52),
    (26, 54),
    (30, 58),
    (100, 110),
    (101, 200),
    (103, 202),
    (110, 205),
    // -0.5 is -1 and a half up, and goes away from 0 as it is odd: -2. -1.5 is -2 and a half: -2. -2.5: -4.
    (111, 88),
    (113, 88),
    (115, 86),
    (130, 80),
    (131, 4),
    (255, 128),
];

/// A convolution whose sums are the bytes of its first channel times `2^shift`. Where that is not 0 the second channel could bring the
/// sums beyond 36 bits, so that every sum is looked at.
fn conv(shift: u32) -> Conv {
    let mut arguments = build::arguments(2, 1, 16, 16);
    arguments.kernel = Kernel::One;
    let live = |(start, mul, own_shift, bias): (i64, i16, u8, u8)| Segment {
        start: start << shift,
        mul,
        shift: own_shift + shift as u8,
        bias,
    };
    let activation = std::array::from_fn(|number| match number {
        0 => Segment { start: LOWEST, mul: 0, shift: 0, bias: 7 },
        number if number <= TABLE.len() => live(TABLE[number - 1]),
        number => Segment { start: HIGHEST - (SEGMENTS - 1 - number) as i64, mul: 0, shift: 0, bias: 255 },
    });
    let batch_norm = vec![BatchNorm { mul: 1 << shift, add: 0, shift: 0 }];
    Conv { output: 0, weights: vec![1, 255], batch_norm, activation, arguments: arguments.settled() }
}

#[test]
fn ties_go_to_the_even_byte_and_a_start_belongs_to_the_segment_before() {
    let input: Vec<u8> = (0..=255).chain([0; 256]).collect();
    for (shift, overflows) in [(0, false), (20, true)] {
        let conv = conv(shift);
        let fits = crate::kmodel::range::ranges(&conv, 0).expect("a channel").fit();
        assert_eq!(fits, !overflows, "both ways are tried");
        for isa in Isa::all() {
            let mut simulator = Simulator::with_isa(build::single(conv.clone()), 1, isa).expect("it can run");
            simulator.run(&input).expect("it runs");
            let output = simulator.output(0).expect("an output");
            for (sum, byte) in EXPECTED {
                assert_eq!(output[usize::from(sum)], byte, "{sum}, shift {shift}, {isa:?}");
            }
        }
    }
}

/// `a + b - 200`, halved, plus 100, of bytes that a convolution copies.
#[test]
fn the_carry_of_a_negative_sum_goes_down() {
    const COUNT: u32 = 16;
    let mut arguments = build::arguments(2, 2, 4, 4);
    (arguments.depthwise, arguments.kernel) = (true, Kernel::One);
    let copy = Conv {
        output: 0,
        weights: vec![1; 2],
        batch_norm: vec![BatchNorm { mul: 1, add: 0, shift: 0 }; 2],
        activation: [Segment { start: 0, mul: 1, shift: 0, bias: 0 }; SEGMENTS],
        arguments: arguments.settled(),
    };
    let scale = |offset: i32, shift: i32| Rescale { offset, mul: 1, shift };
    let (a_scale, b_scale, output_scale) = (scale(-200, 0), scale(0, 0), scale(100, 1));
    let sum = QuantizedAdd { a: 0, b: COUNT, output: 2 * COUNT, count: COUNT, a_scale, b_scale, output_scale };
    let layer = |operation| Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation };
    let kmodel = Kmodel {
        max_start_address: 0,
        main_memory: 3 * COUNT,
        outputs: vec![Output { address: 2 * COUNT, size: COUNT }],
        layers: vec![layer(Operation::Conv(Box::new(copy))), layer(Operation::QuantizedAdd(sum))],
    };
    // Sums of 0, 1, 2, 3, then -1, -2, -3, -4, -5.
    let b: [u8; COUNT as usize] = [200, 201, 202, 203, 199, 198, 197, 196, 195, 0, 0, 0, 0, 0, 0, 0];
    let input = [[0; COUNT as usize], b].concat();
    let mut simulator = Simulator::new(kmodel, 1).expect("it can run");
    simulator.run(&input).expect("it runs");
    // An odd sum is halved downwards, and then goes one on in its own direction.
    assert_eq!(simulator.output(0).expect("an output")[..9], [100, 101, 101, 102, 98, 99, 97, 98, 96]);
}

/// The greatest logit is looked for from a tiny positive number on, so far below it all powers are 0.
#[test]
fn a_softmax_of_logits_far_below_0_is_0_through_0() {
    let probabilities = |bias: [f32; 2]| {
        let sizes = FullyConnectedSizes { input: 0, output: 8, input_channels: 1, output_channels: 2, activation: 0 };
        let operations = [
            Operation::FullyConnected(FullyConnected { sizes, weights: vec![0.0; 2], bias: bias.to_vec() }),
            Operation::Softmax(Vector { input: 8, output: 16, count: 2 }),
        ];
        let kmodel = Kmodel {
            max_start_address: 0,
            main_memory: 24,
            outputs: vec![Output { address: 16, size: 8 }],
            layers: operations.map(|operation| Layer { flags: OUTPUT_IN_MAIN_MEMORY, operation }).to_vec(),
        };
        let mut simulator = Simulator::new(kmodel, 1).expect("it can run");
        simulator.run(&1f32.to_le_bytes()).expect("it runs");
        let bytes = simulator.output(0).expect("an output").as_chunks().0.to_vec();
        bytes.into_iter().map(f32::from_le_bytes).collect::<Vec<_>>()
    };
    assert!(probabilities([-120.0, -121.0]).iter().all(|x| x.is_nan()), "{:?}", probabilities([-120.0, -121.0]));
    let near = probabilities([-20.0, -20.0]);
    assert_eq!(near, [0.5, 0.5]);
}
