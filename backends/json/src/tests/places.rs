//! Elements put in places: the results of the reference kernels, to the bit, of every type.

use byoc_plugin_api::testing::{RegionBuilder, Tensor};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{agree, calls, compile, empty, exact};

const TYPES: [DType; 5] = [DType::F32, DType::I64, DType::U8, DType::F16, DType::F64];

#[test]
fn elements_are_chosen_by_a_condition() {
    let cases: [([&[usize]; 3], &[usize]); 6] = [
        ([&[2, 3], &[2, 3], &[2, 3]], &[2, 3]),
        ([&[1, 1, 30, 1], &[2, 8, 30, 40], &[]], &[2, 8, 30, 40]),
        ([&[4, 1], &[1], &[3, 1, 5]], &[3, 4, 5]),
        ([&[], &[5, 1], &[4]], &[5, 4]),
        ([&[0, 1], &[3], &[]], &[0, 3]),
        ([&[5000], &[], &[1]], &[5000]),
    ];
    for (shapes, out) in cases {
        for dtype in TYPES {
            let mut net = empty();
            let condition = net.input((DType::Bool, shapes[0]));
            let (a, b) = (net.input((dtype, shapes[1])), net.input((dtype, shapes[2])));
            let y = net.node("Where", &[condition, a, b], (dtype, out), &[]);
            net.output(y);
            assert_eq!(calls(&net), ["choose"]);
            exact(&net, &[]);
        }
    }
}

#[test]
fn elements_are_scattered() {
    for dtype in TYPES {
        for (shape, indices, axis, places) in [
            (vec![3, 4, 2], vec![3, 1, 2], 1, vec![3i64, 3, -4, -4, 1, 0]),
            (vec![2, 5], vec![2, 3], 1, vec![0, 4, -2, 1, 1, 1]),
            (vec![4], vec![2], -1, vec![-1, 0]),
            (vec![3, 2], vec![0, 2], 0, vec![]),
        ] {
            let mut net = empty();
            let (x, updates) = (net.input((dtype, shape.clone())), net.input((dtype, indices.clone())));
            let numbers: Vec<f64> = places.iter().map(|&place| place as f64).collect();
            let places = net.numbers((DType::I64, indices), &numbers);
            let y =
                net.node("ScatterElements", &[x, places, updates], (dtype, shape), &[("axis", Attribute::Int(axis))]);
            net.output(y);
            assert_eq!(calls(&net), ["scatter"]);
            exact(&net, &[]);
        }
    }
}

#[test]
fn sums_of_scattered_elements_stay_a_node() {
    let mut net = empty();
    let (x, places, updates) = (net.input([4]), net.ints(&[1, 1]), net.input([2]));
    let y = net.node("ScatterElements", &[x, places, updates], [4], "reduction=add");
    net.output(y);
    assert_eq!(calls(&net), ["reference"]);
}

fn scattered(place: i64) -> (RegionBuilder, Vec<Tensor>) {
    let mut net = empty();
    let (x, places, updates) = (net.input([4]), net.input((DType::I64, [1])), net.input([1]));
    let y = net.node("ScatterElements", &[x, places, updates], [4], &[]);
    net.output(y);
    let inputs = vec![Tensor::of([4], &[1f32; 4]), Tensor::of([1], &[place]), Tensor::of([1], &[2f32])];
    (net, inputs)
}

#[test]
fn places_beyond_an_axis_are_errors() {
    for place in [-4, 3] {
        let (net, inputs) = scattered(place);
        agree(&net, &inputs, &[]);
    }
    for place in [4, -5, i64::MIN, i64::MAX] {
        let (net, inputs) = scattered(place);
        for kernels in ["fast", "reference"] {
            let error = compile(&net, &[("kernels", kernels)]).run(&inputs, &[]).expect_err("out of range");
            assert_eq!(error.message, format!("index {place} is out of range for 4 elements"));
        }
    }
}

#[test]
fn tensors_are_surrounded_and_cut() {
    for dtype in TYPES {
        for (shape, out, widths) in [
            (vec![2, 3, 4], vec![2, 6, 4], vec![0, 0, 0, 0, 3, 0]),
            (vec![2, 3, 4], vec![4, 2, 5], vec![1, -1, 2, 1, 0, -1]),
            (vec![5], vec![2], vec![-3, 0]),
            (vec![0, 2], vec![1, 3], vec![1, 0, 0, 1]),
        ] {
            for (told, filled) in [(true, true), (true, false), (false, true)] {
                let mut net = empty();
                let x = net.input((dtype, shape.clone()));
                let widths_of = if told { net.ints(&widths) } else { net.input((DType::I64, [widths.len()])) };
                let mut inputs = vec![x, widths_of];
                if filled {
                    inputs.push(net.numbers((dtype, [0; 0]), &[3.0]));
                }
                let y = net.node("Pad", &inputs, (dtype, out.clone()), &[]);
                net.output(y);
                assert_eq!(calls(&net), ["pad"]);
                let mut tensors = net.inputs(1, &[]);
                if let Some(place) = tensors.get_mut(1) {
                    *place = Tensor::of([widths.len()], &widths);
                }
                agree(&net, &tensors, &[]);
            }
        }
    }
    let mut net = empty();
    let (x, widths, axes) = (net.input([2, 3]), net.ints(&[1, 2]), net.ints(&[-1]));
    let fill = net.number(0.5);
    let y = net.node("Pad", &[x, widths, fill, axes], [2, 6], &[]);
    net.output(y);
    assert_eq!(calls(&net), ["pad"]);
    exact(&net, &[]);
}

#[test]
fn widths_that_do_not_fit_are_errors() {
    let mut net = empty();
    let (x, widths) = (net.input([3]), net.input((DType::I64, [2])));
    let y = net.node("Pad", &[x, widths], [5], &[]);
    net.output(y);
    for (widths, size) in [([1i64, 2], "6"), ([-1, 0], "2"), ([i64::MAX, 1], "9223372036854775811")] {
        let inputs = [Tensor::of([3], &[1f32; 3]), Tensor::of([2], &widths)];
        let error = compile(&net, &[]).run(&inputs, &[]).expect_err("another size");
        assert_eq!(error.message, format!("Pad computes [{size}] for an output of [5]"));
    }
}

#[test]
fn nothing_around_and_reflections_are_no_padding() {
    for (mode, widths, out, expected) in
        [("constant", [0, 0], [4], vec!["view"]), ("reflect", [1, 1], [6], vec!["reference"])]
    {
        let mut net = empty();
        let (x, widths) = (net.input([4]), net.ints(&widths));
        let y = net.node("Pad", &[x, widths], out, format!("mode={mode}").as_str());
        net.output(y);
        assert_eq!(calls(&net), expected);
        exact(&net, &[]);
    }
}

/// New keys behind those of a cache that is kept up to some place, as a language model's are.
pub(super) fn cache() -> RegionBuilder {
    let mut net = empty();
    let (past, new) = (net.input([1, 2, 9, 4]), net.input([1, 2, 2, 4]));
    let widths = net.ints(&[0, 0, 0, 0, 0, 0, 3, 0]);
    let (kept, zero) = (net.numbers((DType::Bool, [1, 1, 12, 1]), &[1.0; 12]), net.number(0.0));
    let long = net.node("Pad", &[past, widths], [1, 2, 12, 4], &[]);
    let long = net.node("Where", &[kept, long, zero], [1, 2, 12, 4], &[]);
    let places = net.numbers((DType::I64, [1, 1, 2, 1]), &[5.0, 6.0]);
    let shape = net.ints(&[1, 2, 2, 4]);
    let places = net.node("Expand", &[places, shape], (DType::I64, [1, 2, 2, 4]), &[]);
    let y = net.node("ScatterElements", &[long, places, new], [1, 2, 12, 4], &[("axis", Attribute::Int(2))]);
    net.output(y);
    net
}

#[test]
fn a_cache_is_filled_in_place() {
    let net = cache();
    assert_eq!(calls(&net), ["pad", "choose", "expand", "scatter"]);
    exact(&net, &[]);
}
