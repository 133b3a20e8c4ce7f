//! Convolutions of many forms, run on the host and compared with loops in f64; how they are read, and with what tiles.

use std::collections::BTreeSet;

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::{RegionBuilder, Rng};

use super::epilogue::find;
use super::*;
use crate::kernels::testing::{build, compiled, difference, ints, places, random, region, run, size};
use crate::kernels::{Kind, StandaloneKernel};

/// A convolution over two axes: input, kernel, stride, padding and dilation are the same along both.
fn square(input: usize, kernel: usize, stride: usize, pad: usize, dilation: usize) -> Window {
    let output = (input + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
    Window {
        input: [1, input, input],
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        dilation: [1, dilation, dilation],
        begin: [0, pad, pad],
        end: [0, pad, pad],
        output: [1, output, output],
    }
}

/// Of as many images, of groups of `depth` channels to `filters`.
fn spec(window: Window, batch: Dim, groups: usize, [depth, filters]: [usize; 2]) -> ConvSpec {
    let activation = Activation::None;
    ConvSpec { dtype: DType::F32, window, batch, groups, depth, filters, bias: false, residual: false, activation }
}

fn specs() -> Vec<ConvSpec> {
    let open = || Dim::Symbolic("n".into());
    let line = Window {
        input: [1, 1, 30],
        kernel: [1, 1, 5],
        stride: [1; 3],
        dilation: [1, 1, 2],
        begin: [0, 0, 2],
        end: [0, 0, 2],
        output: [1, 1, 26],
    };
    let volume = Window {
        input: [6, 5, 7],
        kernel: [3, 2, 3],
        stride: [1, 1, 2],
        dilation: [1; 3],
        begin: [1, 0, 1],
        end: [1, 1, 1],
        output: [6, 5, 4],
    };
    vec![
        spec(square(17, 3, 2, 1, 1), 2.into(), 1, [3, 20]),
        spec(square(12, 1, 1, 0, 1), open(), 1, [24, 40]),
        spec(square(12, 1, 1, 0, 1), 3.into(), 1, [5, 40]),
        spec(square(7, 1, 1, 0, 1), 3.into(), 1, [20, 33]),
        spec(square(9, 1, 2, 0, 1), 2.into(), 1, [16, 36]),
        spec(line, 4.into(), 1, [7, 11]),
        spec(volume, 2.into(), 1, [4, 9]),
        spec(square(13, 3, 1, 1, 1), 2.into(), 19, [1, 1]),
        spec(square(13, 3, 2, 1, 1), open(), 9, [2, 3]),
        spec(square(10, 3, 1, 2, 2), 2.into(), 3, [8, 16]),
        spec(square(32, 3, 1, 1, 1), 8.into(), 1, [2, 130]),
        spec(square(64, 1, 1, 0, 1), 4.into(), 1, [8, 70]),
        spec(square(33, 7, 2, 3, 1), open(), 1, [3, 64]),
        spec(square(2, 3, 1, 1, 1), 1.into(), 1, [70, 32]),
        spec(square(32, 1, 1, 0, 1), 8.into(), 1, [6, 64]),
        spec(square(33, 3, 1, 1, 1), 8.into(), 1, [2, 32]),
    ]
}

fn solve(spec: &ConvSpec, operands: &[Vec<f64>]) -> Vec<f64> {
    let ConvSpec { window, groups, depth, filters, .. } = spec;
    let ([in_d, in_h, in_w], [_, out_h, out_w], [_, k_h, k_w]) = (window.input, window.output, window.kernel);
    let taps: usize = window.kernel.iter().product();
    let plane = in_d * in_h * in_w;
    let positions = window.positions();
    let source = |axis: usize, position: usize, tap: usize| {
        let padded = position * window.stride[axis] + tap * window.dilation[axis];
        padded.checked_sub(window.begin[axis]).filter(|&at| at < window.input[axis])
    };
    let mut y = Vec::new();
    for at in 0..size(&spec.batch) * groups * filters * positions {
        let (position, filter) = (at % positions, at / positions % (groups * filters));
        let image = at / positions / (groups * filters);
        let mut sum = 0.0;
        for tap in 0..taps {
            let d = source(0, position / out_w / out_h, tap / k_w / k_h);
            let h = source(1, position / out_w % out_h, tap / k_w % k_h);
            let w = source(2, position % out_w, tap % k_w);
            let (Some(d), Some(h), Some(w)) = (d, h, w) else { continue };
            let first = (image * groups + filter / filters) * depth;
            let value = |channel: usize| operands[0][(first + channel) * plane + (d * in_h + h) * in_w + w];
            sum += (0..*depth)
                .map(|channel| value(channel) * operands[1][(filter * depth + channel) * taps + tap])
                .sum::<f64>();
        }
        let more = [(spec.bias, filter), (spec.residual, at)].into_iter().filter(|(there, _)| *there);
        sum += more.zip(&operands[2..]).map(|((_, at), values)| values[at]).sum::<f64>();
        y.push(match spec.activation {
            Activation::None => sum,
            Activation::Relu => sum.max(0.0),
            Activation::Clip { low, high } => sum.clamp(low.into(), high.into()),
        });
    }
    y
}

fn operands(spec: &ConvSpec, rng: &mut Rng) -> Vec<Vec<f64>> {
    let inputs = size(&spec.batch) * spec.groups * spec.depth * spec.window.input.iter().product::<usize>();
    let filters = spec.groups * spec.filters;
    let weights = filters * spec.depth * spec.window.kernel.iter().product::<usize>();
    let result = size(&spec.batch) * filters * spec.window.positions();
    let counts = [(true, inputs), (true, weights), (spec.bias, filters), (spec.residual, result)];
    let there = counts.into_iter().filter(|(there, _)| *there);
    there.map(|(_, count)| random(spec.dtype, count, rng)).collect()
}

#[test]
fn convolutions() {
    let behind = [
        (false, false, Activation::None),
        (true, true, Activation::Relu),
        (true, false, Activation::Clip { low: -0.5, high: 0.75 }),
    ];
    let mut all_specs = Vec::new();
    for (at, dtype) in [DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
        // Loops of the larger ones take their time.
        let specs = specs().into_iter().filter(|spec| dtype == DType::F32 || spec.filters < 64);
        all_specs.extend(specs.enumerate().map(|(number, spec)| {
            let (bias, residual, activation) = behind[(number + at) % 3];
            ConvSpec { dtype, bias, residual, activation, ..spec }
        }));
    }
    let kernel = |(at, spec): (usize, &ConvSpec)| {
        generate(spec, &format!("k{at}"), &places(2 + usize::from(spec.bias) + usize::from(spec.residual)))
    };
    let all: Vec<_> = all_specs.iter().enumerate().map(kernel).collect();
    let kernels = compiled(&all);
    let mut rng = Rng::with_seed(5);
    for (spec, generated) in all_specs.iter().zip(&all) {
        let operands = operands(spec, &mut rng);
        let expected = solve(spec, &operands);
        let found = run(&kernels, generated, spec.dtype, &operands, expected.len());
        let most = match spec.dtype {
            DType::F16 => 1e-3,
            DType::BF16 => 5e-3,
            _ => 1e-5,
        };
        let found = difference(&found, &expected);
        assert!(found <= most, "{found} for {spec:?}");
    }
}

/// Every tile is met by the convolutions above, and so is the kernel without tiles.
#[test]
fn tiles() {
    let tile = |spec: &ConvSpec| (!spec.is_direct()).then(|| (spec.tile().rows, spec.tile().columns));
    let mut found: Vec<_> = specs().iter().map(tile).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [None, Some((32, 32)), Some((32, 64)), Some((64, 64)), Some((64, 128)), Some((128, 128))]);
}

fn values(shapes: &[&'static [usize]]) -> Vec<(DType, &'static [usize])> {
    shapes.iter().map(|&shape| (DType::F32, shape)).collect()
}

#[test]
fn nodes_are_read() {
    let attributes = [("strides", ints(&[2, 2])), ("pads", ints(&[1, 1, 1, 1])), ("group", Attribute::Int(2))];
    let region = region("Conv", &values(&[&[3, 8, 17, 17], &[6, 4, 3, 3], &[6], &[3, 6, 9, 9]]), &attributes);
    let expected = ConvSpec { bias: true, ..spec(square(17, 3, 2, 1, 1), 3.into(), 2, [4, 3]) };
    assert_eq!(read(&region, &region.nodes[0]), Ok(expected));
    assert_eq!(found(&region).inputs, [0, 1, 2]);
}

/// Only places from a table are of 32 bits, and only those inside a group.
#[test]
fn large_groups_are_refused() {
    let read_of = |shapes: [&'static [usize]; 3], groups: i64| {
        let region = region("Conv", &values(&shapes), &[("group", Attribute::Int(groups))]);
        read(&region, &region.nodes[0]).map(|spec| spec.depth).map_err(|refusal| (refusal.code, refusal.message))
    };
    let x = &[1, 64, 6000, 6000];
    let reason = "'Conv_0' has more elements in the channels of a group than 32 bits can count";
    let refused = Err((RefusalCode::Shape, reason.to_owned()));
    assert_eq!(read_of([x, &[64, 64, 3, 3], &[1, 64, 5998, 5998]], 1), refused);
    assert_eq!(read_of([x, &[64, 32, 3, 3], &[1, 64, 5998, 5998]], 2), Ok(32));
    assert_eq!(read_of([x, &[64, 64, 1, 1], &[1, 64, 6000, 6000]], 1), Ok(64));
    assert_eq!(read_of([x, &[4, 64, 3, 3], &[1, 4, 5998, 5998]], 1), Ok(64));
}

/// Adds a node behind the region's result.
fn behind(net: &mut RegionBuilder, op: &str, others: &[usize]) {
    let result = net.like(op, &[&net.region.outputs, others].concat(), "");
    net.region.outputs = vec![result];
}

/// The convolution that the region begins with.
fn found(region: &Region) -> StandaloneKernel {
    find(region, 0, &BTreeSet::new()).expect("it is taken")
}

fn of(kernel: &StandaloneKernel) -> (bool, Activation) {
    let Kind::Conv(spec) = &kernel.kind else { panic!("{kernel:?}") };
    (spec.residual, spec.activation)
}

#[test]
fn what_follows_is_read() {
    let plain = || build("Conv", &values(&[&[1, 8, 5, 5], &[16, 8, 1, 1], &[1, 16, 5, 5]]), &[]);
    let mut full = plain();
    let residual = full.input([1, 16, 5, 5]);
    behind(&mut full, "Add", &[residual]);
    let (low, high) = (full.number(0.0), full.number(6.0));
    behind(&mut full, "Clip", &[low, high]);
    let mut full = full.region;
    let kernel = found(&full);
    assert_eq!((&kernel.inputs, &kernel.numbers), (&vec![0, 1, residual], &vec![low, high]));
    assert_eq!((of(&kernel), kernel.nodes.len()), ((true, Activation::Clip { low: 0.0, high: 6.0 }), 3));
    assert_eq!(Some(&kernel.output), full.outputs.first());
    // The sum belongs to another convolution already.
    let alone = find(&full, 0, &BTreeSet::from([1])).expect("it is taken");
    assert_eq!((of(&alone), alone.nodes.len()), ((false, Activation::None), 1));
    // The sum is wanted by itself.
    full.outputs.push(full.nodes[1].outputs[0].expect("it has one"));
    assert_eq!(of(&found(&full)), (true, Activation::None));

    let mut row = plain();
    let residual = row.input([1, 16, 1, 1]);
    behind(&mut row, "Add", &[residual]);
    assert_eq!(of(&found(&row.region)), (false, Activation::None));
    let mut other = plain();
    behind(&mut other, "Sigmoid", &[]);
    assert_eq!((of(&found(&other.region)), found(&other.region).output), ((false, Activation::None), 2));
}

#[test]
fn texts() {
    let residual = ConvSpec { bias: true, residual: true, activation: Activation::Relu, ..specs()[10].clone() };
    for (name, spec) in [("tiled", residual), ("direct", specs()[8].clone())] {
        let inputs = 2 + usize::from(spec.bias) + usize::from(spec.residual);
        let generated = generate(&spec, "k0", &places(inputs));
        let launch = serde_json::to_string(&generated.launch).expect("it is plain data");
        let found = format!("// {launch}\n{}", generated.text);
        let path = format!("{}/src/kernels/conv/texts/{name}.cu", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &found).expect("the checkout can be written");
        }
        let expected = std::fs::read_to_string(&path).expect("it is in the checkout");
        assert!(found == expected, "{name} has changed: UPDATE_GOLDEN=1 rewrites it");
    }
}
