//! Operators that choose elements by place or by value: the results of the reference kernels, to the bit.

use byoc_plugin_api::testing::{RegionBuilder, Rng, Tensor, Type};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{agree, calls, empty, exact, noise};

/// Sizes that factors lead to, as the operator's definition has them.
fn resized(shape: &[usize], scales: &[f64]) -> Vec<usize> {
    shape.iter().zip(scales).map(|(&size, &scale)| (size as f32 * scale as f32) as usize).collect()
}

fn resize(shape: &[usize], scales: &[f64], attributes: &str) -> RegionBuilder {
    let mut net = empty();
    let (x, none) = (net.input(shape), net.numbers([0], &[]));
    let scales_of = net.numbers([scales.len()], scales);
    let y = net.node("Resize", &[x, none, scales_of], resized(shape, scales), attributes);
    net.output(y);
    net
}

#[test]
fn images_are_resized_by_every_rule() {
    let mut random = Rng::with_seed(5);
    let shapes: [(&[usize], [usize; 2]); 5] = [
        (&[2, 3, 7, 9], [2, 3]),
        (&[1, 5, 8, 3], [1, 2]),
        (&[4, 6], [0, 1]),
        (&[2, 1, 9], [2, 2]),
        (&[3, 4, 1, 8], [1, 3]),
    ];
    let coordinates = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"];
    for (shape, axes) in shapes {
        for mode in ["nearest", "linear", "cubic"] {
            for coordinates in coordinates {
                let mut scales = vec![1.0; shape.len()];
                axes.iter().for_each(|&axis| scales[axis] = [0.5, 0.7, 1.0, 1.3, 2.0, 3.0][random.usize(..6)]);
                let nearest = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"][random.usize(..4)];
                let antialias = if mode == "nearest" { 0 } else { random.usize(..2) };
                let outside = if mode == "cubic" { random.usize(..2) } else { 0 };
                let net = resize(
                    shape,
                    &scales,
                    &format!(
                        "mode={mode} coordinate_transformation_mode={coordinates} nearest_mode={nearest} \
                         antialias={antialias} exclude_outside={outside}"
                    ),
                );
                assert_eq!(calls(&net), ["resize"], "{shape:?} {scales:?} {mode}");
                exact(&net, &[]);
            }
        }
    }
}

#[test]
fn parts_of_images_are_resized_and_surrounded() {
    for mode in ["nearest", "linear"] {
        for (starts, ends) in [([0.1, -0.2], [0.8, 1.3]), ([0.5, 0.5], [0.5, 1.5])] {
            let mut net = empty();
            let x = net.input([2, 3, 6, 8]);
            let region = net.numbers([4], &[starts, ends].concat());
            let none = net.numbers([0], &[]);
            let sizes = net.ints(&[5, 20]);
            let attributes = format!(
                "mode={mode} coordinate_transformation_mode=tf_crop_and_resize axes=[2,3] extrapolation_value=2.5"
            );
            let y = net.node("Resize", &[x, region, none, sizes], [2, 3, 5, 20], attributes.as_str());
            net.output(y);
            assert_eq!(calls(&net), ["resize"]);
            exact(&net, &[]);
        }
    }
}

#[test]
fn images_of_sizes_that_the_run_tells() {
    for mode in ["nearest", "linear"] {
        let mut net = empty();
        let (x, none) = (net.input("[n,3,h,w]"), net.numbers([0], &[]));
        let scales = net.numbers([4], &[1.0, 1.0, 2.0, 2.0]);
        let y = net.node("Resize", &[x, none, scales], "[n,3,h*2,w*2]", format!("mode={mode}").as_str());
        net.output(y);
        assert_eq!(calls(&net), ["resize"]);
        for (n, h, w) in [(1, 70, 60), (2, 3, 1), (0, 2, 2)] {
            exact(&net, &[("n", n), ("h", h), ("w", w)]);
        }
    }
}

/// More axes than two, and axes that are apart, are left to the reference kernel.
#[test]
fn volumes_stay_nodes() {
    for scales in [[2.0, 1.0, 2.0], [2.0, 2.0, 2.0]] {
        let net = resize(&[3, 4, 5], &scales, "mode=linear");
        assert_eq!(calls(&net), ["reference"]);
        assert_eq!(calls(&resize(&[3, 4, 5], &scales, "mode=nearest")), ["resize"]);
        exact(&resize(&[3, 4, 5], &scales, "mode=nearest"), &[]);
    }
}

#[test]
fn images_are_sampled_by_every_rule() {
    let places = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1.0, 1.0, 0.0, -1.5, 7.25, -2.0];
    for (shape, rows, columns) in
        [([2, 3, 5, 7], 4, 6), ([1, 20, 30, 30], 25, 31), ([1, 2, 1, 1], 3, 3), ([1, 1, 2, 9], 1, 150)]
    {
        for mode in ["linear", "nearest"] {
            for beyond in ["zeros", "border", "reflection"] {
                for corners in [0, 1] {
                    let mut net = empty();
                    let (x, grid) = (net.input(shape), net.input([shape[0], rows, columns, 2]));
                    let attributes = format!("mode={mode} padding_mode={beyond} align_corners={corners}");
                    let y =
                        net.node("GridSample", &[x, grid], [shape[0], shape[1], rows, columns], attributes.as_str());
                    net.output(y);
                    assert_eq!(calls(&net), ["grid_sample"]);
                    let count = shape[0] * rows * columns * 2;
                    let mut grid: Vec<f32> = noise(count, 3).iter().map(|x| x * 1.4).collect();
                    places.iter().enumerate().for_each(|(at, &place)| grid[(at * 5 + 1) % count] = place);
                    let mut x = noise(shape.iter().product(), 4);
                    x[0] = f32::INFINITY;
                    agree(&net, &[Tensor::of(shape, &x), Tensor::of([shape[0], rows, columns, 2], &grid)], &[]);
                }
            }
        }
    }
}

#[test]
fn what_the_kernel_does_not_sample_stays_a_node() {
    for (shape, grid, out, attributes) in [
        (vec![1, 2, 5, 4], vec![1, 3, 3, 2], vec![1, 2, 3, 3], "mode=cubic"),
        (vec![1, 2, 5], vec![1, 3, 1], vec![1, 2, 3], ""),
    ] {
        let mut net = empty();
        let (x, grid) = (net.input(shape), net.input(grid));
        let y = net.node("GridSample", &[x, grid], out, attributes);
        net.output(y);
        assert_eq!(calls(&net), ["reference"]);
    }
}

/// Of rows the best, with their places or without.
fn best(shape: &[usize], k: usize, attributes: &str, outputs: [bool; 2]) -> RegionBuilder {
    let mut net = empty();
    let (x, count) = (net.input(shape), net.ints(&[k as i64]));
    let mut out = shape.to_vec();
    *out.last_mut().expect("an axis") = k;
    let types = [Type::from(&out), Type::from((DType::I64, out.clone()))];
    let results = net.nodes("TopK", &[Some(x), Some(count)], &types, attributes);
    results.into_iter().zip(outputs).filter(|(_, wanted)| *wanted).for_each(|(value, _)| net.output(value));
    net
}

#[test]
fn the_best_of_rows() {
    for (shape, k) in [(vec![40, 80], 5), (vec![2, 3, 4000], 60), (vec![9], 9), (vec![3, 7], 0), (vec![0, 7], 2)] {
        for attributes in ["", "largest=0", "axis=-1 sorted=0"] {
            for outputs in [[true, true], [false, true], [true, false]] {
                let net = best(&shape, k, attributes, outputs);
                let empty = k == 0 || shape.contains(&0);
                assert!(empty || calls(&net) == ["top_k"], "{shape:?} {k}");
                exact(&net, &[]);
            }
        }
        let net = best(&shape, k, "", [true, true]);
        let mut x: Vec<f32> = noise(shape.iter().product(), 2).iter().map(|x| (x * 6.0).round() / 6.0).collect();
        x.iter_mut().skip(3).step_by(31).for_each(|x| *x = f32::NAN);
        agree(&net, &[Tensor::of(shape.as_slice(), &x)], &[]);
    }
    let along_others = [("axis", Attribute::Int(0))];
    let mut net = empty();
    let (x, count) = (net.input([5, 3]), net.ints(&[2]));
    let types = [Type::from([2, 3]), Type::from((DType::I64, [2, 3]))];
    let values = net.nodes("TopK", &[Some(x), Some(count)], &types, &along_others)[0];
    net.output(values);
    assert_eq!(calls(&net), ["reference"]);
}

#[test]
fn fewer_elements_than_are_wanted_are_an_error() {
    let mut net = empty();
    let (x, count) = (net.input("[3,n]"), net.ints(&[5]));
    let types = [Type::from([3, 5]), Type::from((DType::I64, [3, 5]))];
    let values = net.nodes("TopK", &[Some(x), Some(count)], &types, "")[0];
    net.output(values);
    exact(&net, &[("n", 6)]);
    let symbols = [("n", 4)];
    let error = super::harness::compile(&net, &[]).run(&net.inputs(1, &symbols), &symbols).expect_err("too few");
    assert_eq!(error.message, "K of TopK is 5, but the axis has 4 elements");
}

/// One after another.
pub(super) fn chain() -> RegionBuilder {
    let mut net = empty();
    let (x, grid, none) = (net.input([1, 2, 5, 6]), net.input([1, 4, 5, 2]), net.numbers([0], &[]));
    let twice = net.numbers([4], &[1.0, 1.0, 2.0, 2.0]);
    let large = net.node("Resize", &[x, none, twice], [1, 2, 10, 12], "mode=linear");
    let places = net.node("GridSample", &[large, grid], [1, 2, 4, 5], "padding_mode=reflection");
    let sizes = net.ints(&[1, 2, 8, 5]);
    let high = net.node("Resize", &[places, none, none, sizes], [1, 2, 8, 5], "mode=nearest");
    let count = net.ints(&[3]);
    let types = [Type::from([1, 2, 8, 3]), Type::from((DType::I64, [1, 2, 8, 3]))];
    let results = net.nodes("TopK", &[Some(high), Some(count)], &types, "");
    results.into_iter().for_each(|value| net.output(value));
    net
}

#[test]
fn one_after_another() {
    assert_eq!(calls(&chain()), ["resize", "grid_sample", "resize", "top_k"]);
    exact(&chain(), &[]);
}
