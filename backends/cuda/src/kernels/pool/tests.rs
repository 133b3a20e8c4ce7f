//! Poolings of many forms, read from nodes, run on the host and compared with loops in f64.

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::Rng;

use super::*;
use crate::kernels::testing::{compiled, difference, ints, places, random, region, run, size};

/// A node: sizes of input and result along the spatial axes, and its attributes.
type Case = (&'static [usize], &'static [usize], Vec<(&'static str, Attribute)>);

fn cases() -> Vec<Case> {
    let list = |lists: &[(&'static str, &[i64])]| -> Vec<_> {
        lists.iter().map(|(name, values)| (*name, ints(values))).collect()
    };
    let with = |mut attributes: Vec<(&'static str, Attribute)>, name, value| {
        attributes.push((name, value));
        attributes
    };
    let ceil = |attributes| with(attributes, "ceil_mode", Attribute::Int(1));
    vec![
        (&[17, 19], &[9, 10], list(&[("kernel_shape", &[3, 3]), ("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])])),
        (&[8], &[4], ceil(list(&[("kernel_shape", &[3]), ("strides", &[2]), ("pads", &[1, 0])]))),
        (
            &[7, 6, 5],
            &[4, 6, 3],
            ceil(list(&[("kernel_shape", &[2, 2, 2]), ("strides", &[2, 1, 2]), ("pads", &[0, 0, 0, 1, 1, 0])])),
        ),
        (&[20, 20], &[10, 10], list(&[("kernel_shape", &[2, 2]), ("strides", &[2, 2])])),
        (&[21, 21], &[2, 2], list(&[("kernel_shape", &[14, 14]), ("strides", &[7, 7])])),
        (
            &[12, 9],
            &[8, 4],
            list(&[("kernel_shape", &[3, 2]), ("strides", &[1, 2]), ("dilations", &[3, 2]), ("pads", &[2, 0, 0, 1])]),
        ),
        (&[7], &[4], list(&[("kernel_shape", &[4]), ("strides", &[2]), ("pads", &[1, 2])])),
        (&[7], &[4], list(&[("kernel_shape", &[4]), ("strides", &[2]), ("pads", &[2, 1])])),
        (&[7], &[2], list(&[("kernel_shape", &[4]), ("strides", &[2])])),
    ]
}

/// What a window holds along one axis: the input's places, and how many places are not behind its padding.
fn along(window: &Window, axis: usize, position: usize) -> (Vec<usize>, usize) {
    let padded: Vec<_> =
        (0..window.kernel[axis]).map(|tap| position * window.stride[axis] + tap * window.dilation[axis]).collect();
    let end = window.begin[axis] + window.input[axis];
    let inside = padded.iter().filter(|&&at| (window.begin[axis]..end).contains(&at));
    let inside = inside.map(|at| at - window.begin[axis]).collect();
    (inside, padded.iter().filter(|&&at| at < end + window.end[axis]).count())
}

fn solve(spec: &PoolSpec, x: &[f64]) -> Vec<f64> {
    let window = &spec.window;
    let [depth, rows, columns] = window.input;
    let mut y = Vec::new();
    for plane in x.chunks(depth * rows * columns) {
        for position in 0..window.positions() {
            let [_, y_rows, y_columns] = window.output;
            let at = [position / y_columns / y_rows, position / y_columns % y_rows, position % y_columns];
            let [(d, in_d), (h, in_h), (w, in_w)] = [0, 1, 2].map(|axis| along(window, axis, at[axis]));
            let row = |d: usize, h: usize| w.iter().map(move |w| plane[(d * rows + h) * columns + w]);
            let values: Vec<f64> = d.iter().flat_map(|&d| h.iter().flat_map(move |&h| row(d, h))).collect();
            y.push(match spec.kind {
                Kind::Maximum if values.iter().any(|value| value.is_nan()) => f64::NAN,
                Kind::Maximum => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                Kind::Mean { padding_counts: true } => values.iter().sum::<f64>() / (in_d * in_h * in_w) as f64,
                Kind::Mean { padding_counts: false } => values.iter().sum::<f64>() / values.len() as f64,
            });
        }
    }
    y
}

/// The pooling of a case: of 2 images, or of as many as there are, with 5 channels each.
fn spec(case: &Case, dtype: DType, op: &str, include: i64, open: bool) -> PoolSpec {
    let (input, output, attributes) = case;
    let (input, output) = ([&[2, 5], *input].concat(), [&[2, 5], *output].concat());
    let include = ("count_include_pad", Attribute::Int(include));
    let attributes: Vec<_> = attributes.iter().cloned().chain((op == "AveragePool").then_some(include)).collect();
    let mut region = region(op, &[(dtype, &input), (dtype, &output)], &attributes);
    if open {
        region.values.iter_mut().for_each(|value| value.shape[0] = Dim::Symbolic("n".into()));
    }
    read(&region, &region.nodes[0]).expect("it is taken")
}

#[test]
fn poolings() {
    let kinds = [("MaxPool", 0), ("AveragePool", 0), ("AveragePool", 1)];
    let mut specs = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::U8, DType::I8] {
        for (op, include) in kinds.iter().filter(|(op, _)| dtype.unpacked_bytes() > 1 || *op == "MaxPool") {
            specs.extend(cases().iter().enumerate().map(|(at, case)| spec(case, dtype, op, *include, at % 2 == 1)));
        }
    }
    let generate = |(at, spec): (usize, &PoolSpec)| generate(spec, &format!("k{at}"), &places(1));
    let all: Vec<_> = specs.iter().enumerate().map(generate).collect();
    let kernels = compiled(&all);
    let mut rng = Rng::with_seed(3);
    for (spec, generated) in specs.iter().zip(&all) {
        let count = size(&spec.count);
        let inputs = count / spec.window.positions() * spec.window.input.iter().product::<usize>();
        let mut x = random(spec.dtype, inputs, &mut rng);
        if spec.kind == Kind::Maximum && spec.dtype.unpacked_bytes() > 1 {
            x.iter_mut().step_by(37).for_each(|value| *value = f64::NAN);
        }
        let found = run(&kernels, generated, spec.dtype, &[x.clone()], count);
        let most = match spec.dtype {
            DType::F16 => 1e-3,
            DType::BF16 => 5e-3,
            DType::F32 => 1e-6,
            _ => 1e-14,
        };
        let found = difference(&found, &solve(spec, &x));
        assert!(found <= most, "{found} for {spec:?}");
    }
}

#[test]
fn what_is_refused() {
    let refused = |op: &str, dtype: DType, shape: &[usize], attributes: &[(&str, Attribute)]| {
        let region = region(op, &[(dtype, shape), (dtype, shape)], attributes);
        read(&region, &region.nodes[0]).expect_err("it is not taken").to_string()
    };
    let kernel = |sizes: &[i64]| vec![("kernel_shape", ints(sizes))];
    assert_eq!(
        refused("AveragePool", DType::U8, &[1, 2, 8], &kernel(&[1])),
        "type: 'x0' is u8, which poolings do not support"
    );
    let axes = refused("MaxPool", DType::F32, &[1, 2, 3, 3, 3, 3], &kernel(&[1, 1, 1, 1]));
    assert_eq!(axes, "shape: 'x0' has 4 spatial axes; supported are 1 to 3");
    let windows = refused("MaxPool", DType::F32, &[1, 2, 8], &kernel(&[1, 1]));
    assert_eq!(
        windows,
        "attribute: 'MaxPool_0' has kernel_shape [1, 1], which is not a list of length 1 of numbers from 1 on"
    );
    let mut region = region("MaxPool", &[(DType::F32, &[1, 2, 8]), (DType::F32, &[1, 2, 8])], &kernel(&[1]));
    region.nodes[0].outputs.push(Some(1));
    let indices = read(&region, &region.nodes[0]).expect_err("it is not taken").to_string();
    assert_eq!(indices, "attribute: 'MaxPool_0' outputs indices, which the kernel does not compute");
    region.nodes[0].outputs.pop();
    region.values[0].shape[2] = Dim::Symbolic("w".into());
    let open = read(&region, &region.nodes[0]).expect_err("it is not taken").to_string();
    assert_eq!(open, "shape: the spatial sizes of 'x0' are not known: fix them with --dim");
}
