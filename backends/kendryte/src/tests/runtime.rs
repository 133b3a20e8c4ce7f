//! A kmodel as an executable region.

use byoc_plugin_api::{TensorView, TensorViewMut};

use byoc_plugin_api::testing::Rng;

use super::build;
use crate::runtime::load;
use crate::simulator::Simulator;

#[test]
fn tensors_go_in_and_come_out() {
    let conv = build::conv(build::arguments(3, 5, 8, 6), &mut Rng::with_seed(7), false);
    let kmodel = build::single(conv);
    let input = build::bytes(&mut Rng::with_seed(8), 3 * 8 * 6);
    let mut simulator = Simulator::new(kmodel.clone(), 1).expect("it can run");
    simulator.run(&input).expect("it runs");

    let mut region = load(&kmodel.emit().expect("a kmodel"), 2).expect("it can run");
    let view = TensorView::from_slice(&input, &[1, 3, 6, 8], &[144, 48, 8, 1]).expect("a tensor");
    let mut out = vec![0u8; 5 * 8 * 6];
    let target = TensorViewMut::from_slice(&mut out, &[1, 5, 6, 8], &[240, 48, 8, 1]).expect("a tensor");
    region.run(&[view], &mut [target]).expect("it runs");
    assert_eq!(out, simulator.output(0).expect("an output"));
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let kmodel = build::single(build::conv(build::arguments(3, 5, 8, 6), &mut Rng::with_seed(7), false));
    let mut region = load(&kmodel.emit().expect("a kmodel"), 1).expect("it can run");
    let mut message = |input: TensorView<'_>, outputs: &mut [TensorViewMut<'_>]| {
        region.run(&[input], outputs).expect_err("it does not fit").message
    };
    let (floats, bytes, mut out) = ([0f32; 144], [0u8; 144], [0u8; 7]);
    let wrong_type = TensorView::from_slice(&floats, &[144], &[1]).expect("a tensor");
    assert_eq!(message(wrong_type, &mut []), "the kmodel takes u8, not f32");
    let short = TensorView::from_slice(&bytes[..7], &[7], &[1]).expect("a tensor");
    assert_eq!(message(short, &mut []), "the kmodel takes 144 bytes, the input has 7");
    let right = TensorView::from_slice(&bytes, &[144], &[1]).expect("a tensor");
    assert_eq!(message(right, &mut []), "the kmodel has 1 outputs, not 0");
    let target = TensorViewMut::from_slice(&mut out, &[7], &[1]).expect("a tensor");
    assert_eq!(message(right, &mut [target]), "output 0 of the kmodel has 240 bytes");
}
