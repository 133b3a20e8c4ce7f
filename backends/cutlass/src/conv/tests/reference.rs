//! What a region computes, by loops over [N, C, H, W] in double precision.

use std::collections::HashMap;

use byoc_plugin_api::{Node, Region};

use super::build::Build;

/// A tensor of four dimensions, or a constant of any.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

impl Tensor {
    fn new(shape: &[usize], of: impl Fn([usize; 4]) -> f64) -> Tensor {
        let [n, c, h, w] = *shape else { panic!("{shape:?} is no image") };
        let at = |i: usize| of([i / (c * h * w), i / (h * w) % c, i / w % h, i % w]);
        Tensor { shape: shape.to_vec(), data: (0..n * c * h * w).map(at).collect() }
    }

    fn at(&self, [n, c, y, x]: [usize; 4]) -> f64 {
        let shape = &self.shape;
        self.data[((n * shape[1] + c) * shape[2] + y) * shape[3] + x]
    }

    /// A pixel of a window, or nothing where it is in the padding.
    fn seen(&self, [n, c, y, x]: [i64; 4]) -> Option<f64> {
        let within = |at: i64, axis: usize| at >= 0 && (at as usize) < self.shape[axis];
        (within(y, 2) && within(x, 3)).then(|| self.at([n, c, y, x].map(|at| at as usize)))
    }

    /// Zero-sized dimensions broadcast.
    fn broadcast(&self, at: [usize; 4]) -> f64 {
        let axes: Vec<usize> = (0..4).map(|axis| at[axis].min(self.shape[axis] - 1)).collect();
        self.at(axes.try_into().expect("four"))
    }
}

/// All values of the region, where a batch of unknown size has `batch` images.
pub(super) fn run(build: &Build, batch: usize, inputs: &[Vec<f32>]) -> HashMap<usize, Tensor> {
    let region = &build.region;
    let mut values = HashMap::new();
    for (&value, data) in region.inputs.iter().zip(inputs) {
        let data = data.iter().copied().map(f64::from).collect();
        values.insert(value, Tensor { shape: shape(region, value, batch), data });
    }
    for (constant, (_, _, data)) in region.constants.iter().zip(&build.constants) {
        let data = data.iter().copied().map(f64::from).collect();
        values.insert(constant.value, Tensor { shape: shape(region, constant.value, batch), data });
    }
    for node in &region.nodes {
        let to = node.output(0).expect("it has a result");
        let result = node_of(node, &values, &shape(region, to, batch));
        values.insert(to, result);
    }
    values
}

pub(super) fn shape(region: &Region, value: usize, batch: usize) -> Vec<usize> {
    region.values[value].shape.iter().map(|dim| dim.fixed().unwrap_or(batch)).collect()
}

fn node_of(node: &Node, values: &HashMap<usize, Tensor>, shape: &[usize]) -> Tensor {
    let input = |position: usize| node.input(position).map(|value| &values[&value]);
    let x = input(0).expect("it has an operand");
    let number = |position: usize| input(position).map(|tensor| tensor.data[0]);
    let each = |of: &dyn Fn(f64) -> f64| Tensor::new(shape, |at| of(x.at(at)));
    match node.op.as_str() {
        "Conv" => conv(node, x, input(1).expect("weights"), input(2), shape),
        "BatchNormalization" => {
            let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|position| input(position).expect("four vectors"));
            Tensor::new(shape, |at| {
                let root = (variance.data[at[1]] + f64::from(1e-5f32)).sqrt();
                (x.at(at) - mean.data[at[1]]) / root * scale.data[at[1]] + shift.data[at[1]]
            })
        }
        "Add" | "Mul" => {
            let other = input(1).expect("two operands");
            let of = |a: f64, b: f64| if node.op == "Add" { a + b } else { a * b };
            Tensor::new(shape, |at| of(x.broadcast(at), other.broadcast(at)))
        }
        "MaxPool" | "AveragePool" => pool(node, x, shape),
        "GlobalAveragePool" => {
            let pixels = x.shape[2] * x.shape[3];
            Tensor::new(shape, |[n, c, ..]| {
                (0..pixels).map(|at| x.at([n, c, at / x.shape[3], at % x.shape[3]])).sum::<f64>() / pixels as f64
            })
        }
        "Concat" => Tensor::new(shape, |[n, mut c, y, x]| {
            for part in node.inputs.iter().flatten().map(|value| &values[value]) {
                if c < part.shape[1] {
                    return part.at([n, c, y, x]);
                }
                c -= part.shape[1];
            }
            panic!("there are fewer channels")
        }),
        "Relu" => each(&|x| x.max(0.0)),
        "Clip" => each(&|x| x.max(number(1).unwrap_or(f64::MIN)).min(number(2).unwrap_or(f64::MAX))),
        "Sigmoid" => each(&|x| 1.0 / (1.0 + (-x).exp())),
        "HardSigmoid" => each(&|x| (0.2 * x + 0.5).clamp(0.0, 1.0)),
        "HardSwish" => each(&|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        "LeakyRelu" => each(&|x| if x < 0.0 { 0.01 * x } else { x }),
        "Tanh" => each(&f64::tanh),
        other => panic!("{other}"),
    }
}

/// Rows and columns of a window's pixels, for a pixel of the result.
fn pixels(node: &Node, kernel: [usize; 2], [y, x]: [usize; 2]) -> impl Iterator<Item = [i64; 2]> {
    let pair = |name: &str, usual: i64| node.ints(name).map_or([usual; 2], |ints| [ints[0], ints[1]]);
    let (strides, dilations, pads) = (pair("strides", 1), pair("dilations", 1), pair("pads", 0));
    let along =
        move |axis: usize, at: usize, tap: usize| at as i64 * strides[axis] - pads[axis] + tap as i64 * dilations[axis];
    (0..kernel[0] * kernel[1]).map(move |tap| [along(0, y, tap / kernel[1]), along(1, x, tap % kernel[1])])
}

fn conv(node: &Node, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, shape: &[usize]) -> Tensor {
    let (each, kernel) = (w.shape[1], [w.shape[2], w.shape[3]]);
    let group = node.int("group", 1) as usize;
    Tensor::new(shape, |[n, k, row, column]| {
        let first = k / (shape[1] / group) * each;
        let mut sum = bias.map_or(0.0, |bias| bias.data[k]);
        for (tap, [y, x_at]) in pixels(node, kernel, [row, column]).enumerate() {
            for c in 0..each {
                let seen = x.seen([n as i64, (first + c) as i64, y, x_at]);
                sum += seen.unwrap_or(0.0) * w.at([k, c, tap / kernel[1], tap % kernel[1]]);
            }
        }
        sum
    })
}

fn pool(node: &Node, x: &Tensor, shape: &[usize]) -> Tensor {
    let kernel = node.ints("kernel_shape").map(|ints| [ints[0] as usize, ints[1] as usize]).expect("a kernel");
    let padded = node.int("count_include_pad", 0) != 0;
    Tensor::new(shape, |[n, c, row, column]| {
        let seen: Vec<_> =
            pixels(node, kernel, [row, column]).map(|[y, at]| x.seen([n as i64, c as i64, y, at])).collect();
        let inside = seen.iter().flatten();
        match node.op.as_str() {
            "MaxPool" => inside.copied().fold(f64::NEG_INFINITY, f64::max),
            _ if padded => inside.sum::<f64>() / seen.len() as f64,
            _ => inside.clone().sum::<f64>() / inside.count() as f64,
        }
    })
}
