//! The operators of a region in `f64`, written from ONNX's formulas.

use byoc_plugin_api::Node;

use super::build::Build;

/// The elements of every value, by value.
pub(super) fn evaluate(build: &Build, input: &[f32]) -> Vec<Vec<f64>> {
    let mut values = vec![Vec::new(); build.region.values.len()];
    let wide = |data: &[f32]| data.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    values[build.region.inputs[0]] = wide(input);
    for (value, data) in &build.constants {
        values[*value] = wide(data);
    }
    for node in &build.region.nodes {
        let result = compute(build, node, &values);
        values[node.outputs[0].expect("an output")] = result;
    }
    values
}

fn compute(build: &Build, node: &Node, values: &[Vec<f64>]) -> Vec<f64> {
    let input = |index: usize| values[node.input(index).expect("an input")].as_slice();
    let each = |function: &dyn Fn(f64) -> f64| input(0).iter().map(|&x| function(x)).collect();
    let alpha = |default: f32| f64::from(node.float("alpha", default));
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match node.op.as_str() {
        "Conv" => conv(build, node, values),
        "BatchNormalization" => norm(build, node, values),
        "Relu" => each(&|x| x.max(0.0)),
        "LeakyRelu" => each(&|x| if x < 0.0 { x * alpha(0.01) } else { x }),
        "Clip" => {
            let limit = |index: usize, none: f64| node.input(index).map_or(none, |value| values[value][0]);
            let (min, max) = (limit(1, f64::NEG_INFINITY), limit(2, f64::INFINITY));
            each(&|x| x.max(min).min(max))
        }
        "Sigmoid" => each(&sigmoid),
        "Tanh" => each(&f64::tanh),
        "HardSwish" => each(&|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        "Mul" => input(0).iter().zip(input(1)).map(|(a, b)| a * b).collect(),
        "Add" => {
            let repeated = input(1).iter().cycle();
            input(0).iter().zip(repeated).map(|(a, b)| a + b).collect()
        }
        "Concat" => (0..node.inputs.len()).flat_map(|index| input(index).to_vec()).collect(),
        "MaxPool" | "AveragePool" => pool(build, node, values),
        "Resize" => resize(build, node, values),
        "GlobalAveragePool" | "ReduceMean" => {
            let pixels = input(0).len() / build.sizes(node.input(0).expect("an input"))[1];
            input(0).chunks(pixels).map(|map| map.iter().sum::<f64>() / pixels as f64).collect()
        }
        "Flatten" | "Reshape" => input(0).to_vec(),
        "Gemm" => dense(input(0), input(1), input(2)),
        "MatMul" => {
            let outputs = build.sizes(node.input(1).expect("weights"))[1];
            let sum = |column: usize| {
                input(0).iter().zip(input(1)[column..].iter().step_by(outputs)).map(|(a, b)| a * b).sum()
            };
            (0..outputs).map(sum).collect()
        }
        "Softmax" => {
            let most = input(0).iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = input(0).iter().map(|x| (x - most).exp()).sum();
            each(&|x| (x - most).exp() / sum)
        }
        other => panic!("{other}"),
    }
}

fn conv(build: &Build, node: &Node, values: &[Vec<f64>]) -> Vec<f64> {
    let [x, w] = [0, 1].map(|index| node.input(index).expect("an input"));
    let output = node.output(0).expect("an output");
    let ([_, channels, height, width], [_, outputs, rows, columns]) = (dims(build, x), dims(build, output));
    let [_, inputs, kernel, _] = dims(build, w);
    let (stride, pad) = (node.ints("strides").map_or(1, |strides| strides[0] as usize), kernel / 2);
    let groups = channels / inputs;
    let mut out = Vec::new();
    for o in 0..outputs {
        for y in 0..rows * columns {
            let (row, column) = (y / columns * stride, y % columns * stride);
            let mut sum = node.input(2).map_or(0.0, |bias| values[bias][o]);
            for i in 0..inputs {
                let channel = o / (outputs / groups) * inputs + i;
                for k in 0..kernel * kernel {
                    let (at_y, at_x) = (row + k / kernel, column + k % kernel);
                    if at_y >= pad && at_x >= pad && at_y - pad < height && at_x - pad < width {
                        let pixel = values[x][(channel * height + at_y - pad) * width + at_x - pad];
                        sum += pixel * values[w][(o * inputs + i) * kernel * kernel + k];
                    }
                }
            }
            out.push(sum);
        }
    }
    out
}

fn dims(build: &Build, value: usize) -> [usize; 4] {
    build.sizes(value).try_into().expect("four sizes")
}

fn norm(build: &Build, node: &Node, values: &[Vec<f64>]) -> Vec<f64> {
    let parameter = |index: usize, channel: usize| values[node.input(index).expect("a parameter")][channel];
    let x = node.input(0).expect("an input");
    let [_, channels, height, width] = dims(build, x);
    let epsilon = f64::from(node.float("epsilon", 1e-5));
    let scaled = |channel: usize| {
        let scale = parameter(1, channel) / (parameter(4, channel) + epsilon).sqrt();
        let map = &values[x][channel * height * width..][..height * width];
        map.iter().map(move |x| (x - parameter(3, channel)) * scale + parameter(2, channel))
    };
    (0..channels).flat_map(scaled).collect()
}

fn pool(build: &Build, node: &Node, values: &[Vec<f64>]) -> Vec<f64> {
    let x = node.input(0).expect("an input");
    let ([_, channels, height, width], [_, _, rows, columns]) =
        (dims(build, x), dims(build, node.output(0).expect("an output")));
    let kernel = node.ints("kernel_shape").expect("a kernel")[0];
    let stride = node.ints("strides").map_or(1, |strides| strides[0]);
    let pads = node.ints("pads").unwrap_or(&[0, 0, 0, 0]);
    let mut out = Vec::new();
    for channel in 0..channels {
        for y in 0..rows * columns {
            let [top, left] = [(y / columns) as i64 * stride - pads[0], (y % columns) as i64 * stride - pads[1]];
            let cells = (0..kernel * kernel).map(|k| (top + k / kernel, left + k % kernel));
            let inside = cells.filter(|&(y, x)| (0..height as i64).contains(&y) && (0..width as i64).contains(&x));
            let found: Vec<_> = inside
                .map(|(row, column)| values[x][(channel * height + row as usize) * width + column as usize])
                .collect();
            out.push(match node.op.as_str() {
                "MaxPool" => found.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                _ => found.iter().sum::<f64>() / found.len() as f64,
            });
        }
    }
    out
}

fn resize(build: &Build, node: &Node, values: &[Vec<f64>]) -> Vec<f64> {
    let x = node.input(0).expect("an input");
    let ([_, channels, height, width], [_, _, rows, columns]) =
        (dims(build, x), dims(build, node.output(0).expect("an output")));
    let pixel = |channel: usize, y: usize, at: usize| {
        values[x][(channel * height + y * height / rows) * width + at * width / columns]
    };
    let line = |channel: usize, y: usize| (0..columns).map(move |at| (channel, y, at));
    let all = (0..channels).flat_map(|channel| (0..rows).flat_map(move |y| line(channel, y)));
    all.map(|(channel, y, at)| pixel(channel, y, at)).collect()
}

fn dense(x: &[f64], weights: &[f64], bias: &[f64]) -> Vec<f64> {
    let rows = weights.chunks(x.len()).zip(bias);
    rows.map(|(row, bias)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias).collect()
}
