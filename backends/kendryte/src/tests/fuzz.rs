//! Random convolutions against the plain implementation: every pooling, kernel and depthwise or not.

use byoc_plugin_api::testing::Rng;

use super::build;
use super::plain;
use crate::kmodel::arguments::{Arguments, Kernel, POOLINGS, Pooling};
use crate::kmodel::{Kmodel, check::Severity};
use crate::simulator::Simulator;
use crate::simulator::isa::Isa;

fn random_arguments(pooling: Pooling, kernel: Kernel, depthwise: bool, random: &mut Rng) -> Arguments {
    let inputs = random.u32(1..=40);
    let outputs = if depthwise { inputs } else { random.u32(1..=9) };
    let (width, height) = (random.u32(4..=70), random.u32(4..=9));
    let mut sizes = build::arguments(inputs, outputs, width, height);
    if random.i64(0..=1) == 1 {
        (sizes.arg_x, sizes.shr_x) = (-random.i32(0..=1100), random.u32(0..=3));
        (sizes.arg_w, sizes.shr_w) = (-random.i32(0..=300), random.u32(0..=3));
    }
    let arg_add = random.i64(-50_000..=50_000);
    Arguments { depthwise, kernel, pooling, pad_value: random.u8(..), arg_add, ..sizes }.settled()
}

#[test]
fn every_pooling_kernel_and_depthwise() {
    let (mut overflows, mut runs, mut grey) = (0, 0, 0);
    for seed in 0..400u64 {
        let mut random = Rng::with_seed(seed);
        let pooling = POOLINGS[(seed % 10) as usize];
        let kernel = if seed / 10 % 2 == 0 { Kernel::One } else { Kernel::Three };
        let arguments = random_arguments(pooling, kernel, seed / 20 % 2 == 1, &mut random);
        let conv = build::conv(arguments, &mut random, seed / 40 % 4 == 3);
        let size = conv.arguments.width * conv.arguments.height * conv.arguments.input_channels;
        let input = build::bytes(&mut random, size as usize);
        let expected = plain::convolve(&conv, &input);
        let file = build::single(conv).emit().expect("a kmodel");
        let kmodel = Kmodel::parse(&file).expect("a kmodel");
        assert!(kmodel.check().iter().all(|problem| problem.severity == Severity::Rule), "{:?}", kmodel.check());
        for isa in Isa::all() {
            let mut simulator = Simulator::with_isa(kmodel.clone(), 1 + (seed % 3) as usize, isa).expect("it can run");
            match (simulator.run(&input), &expected) {
                (Ok(()), Some(expected)) => {
                    assert_eq!(simulator.output(0), Some(&expected[..]), "seed {seed}, {isa:?}");
                }
                (Err(error), None) => {
                    assert!(error.message.ends_with("which has more than 36 bits"), "{error}");
                }
                (ours, plain) => panic!("seed {seed}, {isa:?}: {ours:?}, plain {}", plain.is_some()),
            }
        }
        match expected {
            Some(out) => {
                grey += out.iter().filter(|&&byte| byte != 0 && byte != 255).count();
                runs += 1;
            }
            None => overflows += 1,
        }
    }
    // That the cases say something: few overflows, and outputs that are not all clamped.
    assert!(runs > 300 && grey > 100_000, "{runs} runs, {overflows} overflows, {grey} bytes between 0 and 255");
}

/// Layers large enough for several threads, with more channels than one tile and one pair.
#[test]
fn threads_give_the_same_bytes() {
    for (seed, depthwise) in [(1, false), (2, true)] {
        let mut random = Rng::with_seed(seed);
        let mut arguments = build::arguments(37, 37, 60, 40);
        arguments.depthwise = depthwise;
        let conv = build::conv(arguments.settled(), &mut random, false);
        let input = build::bytes(&mut random, 37 * 60 * 40);
        let expected = plain::convolve(&conv, &input).expect("no overflow");
        for threads in 1..5 {
            let mut simulator = Simulator::new(build::single(conv.clone()), threads).expect("it can run");
            simulator.run(&input).expect("it runs");
            assert!(simulator.output(0).expect("an output") == expected, "{threads} threads");
        }
    }
}

/// Every shift that a segment may have, with slopes up and down.
#[test]
fn every_shift_of_an_activation() {
    for shift in 0..64 {
        let mut random = Rng::with_seed(u64::from(shift));
        let mut conv = build::conv(build::arguments(2, 3, 9, 5), &mut random, false);
        for segment in &mut conv.activation {
            (segment.shift, segment.mul) = (shift, random.i16(-32_768..=32_767));
        }
        let input = build::bytes(&mut random, 2 * 9 * 5);
        let expected = plain::convolve(&conv, &input).expect("no overflow");
        for isa in Isa::all() {
            let mut simulator = Simulator::with_isa(build::single(conv.clone()), 1, isa).expect("it can run");
            simulator.run(&input).expect("it runs");
            assert_eq!(simulator.output(0), Some(&expected[..]), "shift {shift}, {isa:?}");
        }
    }
}
