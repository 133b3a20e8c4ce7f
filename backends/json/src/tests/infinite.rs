//! Infinities and NaN, in attributes and in values: code holds them, and fusion does not change what comes of them.

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::Tensor;

use super::harness::{calls, empty, run};

const WAYS: [&[(&str, &str)]; 3] = [&[], &[("fusion", "false")], &[("kernels", "reference")]];

#[test]
fn an_end_of_a_clip_may_be_any_infinity() {
    let (minus, plus) = (f64::NEG_INFINITY, f64::INFINITY);
    for (min, max, expected) in [(minus, minus, minus), (plus, plus, plus), (plus, 0.0, 0.0)] {
        for behind_conv in [false, true] {
            let mut net = empty();
            let shape = [1, 16, 4, 4];
            let x = net.input(shape);
            let y = if behind_conv { net.conv(x, shape[1], 1, 1, 1) } else { x };
            let (min, max) = (net.number(min), net.number(max));
            let clip = net.node("Clip", &[y, min, max], shape, &[]);
            net.output(clip);
            for way in WAYS {
                let found = run(&net, way, 1, &[]);
                assert!(found[0].iter().all(|&value| value == expected), "{way:?} {expected}: {}", found[0][0]);
            }
        }
    }
}

#[test]
fn open_ends_of_a_clip_change_nothing() {
    let mut net = empty();
    let x = net.input([2, 3]);
    let (min, max) = (net.number(f64::NEG_INFINITY), net.number(f64::INFINITY));
    let clip = net.node("Clip", &[x, min, max], [2, 3], &[]);
    net.output(clip);
    for way in WAYS {
        assert_eq!(run(&net, way, 1, &[])[0], net.inputs(1, &[])[0].numbers(), "{way:?}");
    }
}

#[test]
fn infinite_attributes_survive_code() {
    for (op, name) in [("LRN", "bias"), ("BatchNormalization", "epsilon")] {
        let mut net = empty();
        let shape = [1, 4, 3, 3];
        let x = net.input(shape);
        let infinite = (name, Attribute::Float(f32::INFINITY));
        let y = if op == "LRN" {
            net.node(op, &[x], shape, &[infinite, ("size", Attribute::Int(3))])
        } else {
            let zeros = net.numbers([4], &[0.0; 4]);
            let inputs = [x, net.drawn([4], 0.5..1.5), zeros, net.weight([4]), net.drawn([4], 0.5..1.5)];
            net.node(op, &inputs, shape, &[infinite])
        };
        net.output(y);
        for way in WAYS {
            assert!(run(&net, way, 1, &[])[0].iter().all(|&value| value == 0.0), "{op} {way:?}");
        }
    }
}

#[test]
fn softmax_of_masked_scores_is_nan_fused_or_not() {
    let mut net = super::fusion::attention(false, false);
    let mask = [2, 1, 1, 7];
    let constants = net.region.constants.iter();
    let place = constants.clone().position(|known| net.region.values[known.value].fixed_shape() == Some(mask.to_vec()));
    let masked = [[0.0; 7], [f32::NEG_INFINITY; 7]];
    net.refill(place.expect("the mask"), Tensor::of(mask, masked.as_flattened()));
    assert!(calls(&net).contains(&"attention".to_owned()));
    for way in WAYS {
        let y = &run(&net, way, 2, &[])[0];
        let (seen, hidden) = y.split_at(y.len() / 2);
        assert!(seen.iter().all(|value| value.is_finite()) && hidden.iter().all(|value| value.is_nan()), "{way:?}");
    }
}
