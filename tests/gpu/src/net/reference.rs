//! What a net computes, by plain loops in f64. Nothing of byoc is used here.

use byoc_conformance::tensor::Tensor;
use byoc_plugin_api::DType;

use super::{Gemm, Net, Op, Source, Window};

/// A tensor of f64.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

/// How far results of a type may be from those in f64: so much of the result itself, which is rounded to the type, and
/// so much of the sum of what was added up, taken without signs. TF32 rounds factors to 10 bits, or cuts them off; sums
/// of f16 and bf16 are kept in f32, but cublasLt may add up parts of them in the type itself. And the smallest numbers of
/// f16 are 2^-24 apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    of_result: f64,
    of_sum: f64,
    at_least: f64,
}

impl Allowed {
    /// For a type; `tf32` where f32 is multiplied in TF32, `gelu` where GELU follows, whose tanh is the device's own.
    pub(crate) fn new(dtype: DType, tf32: bool, gelu: bool) -> Allowed {
        let (of_result, of_sum) = match dtype {
            DType::F64 => (1e-14, 1e-13),
            DType::F16 => (1e-3, 2e-4),
            DType::BF16 => (8e-3, 2e-3),
            _ if tf32 => (1e-6, 2e-3),
            _ => (1e-6, 2e-6),
        };
        let at_least = if dtype == DType::F16 { 2f64.powi(-24) } else { 0.0 };
        Allowed { of_result, of_sum: if gelu { of_sum + 1e-3 } else { of_sum }, at_least }
    }

    /// The greatest difference as a part of what is allowed; an error where it is more than 1, and for NaN.
    pub(crate) fn worst(self, found: &Tensor, expected: &Values, sums: &Values) -> Result<f64, String> {
        let shape: Vec<_> = expected.shape.iter().map(|&size| size as i64).collect();
        if found.shape != shape {
            return Err(format!("is {:?}, expected {shape:?}", found.shape));
        }
        let mut worst = (0.0, 0);
        for (index, found) in found.floats().enumerate() {
            if found.is_nan() {
                return Err(format!("element {index} of {} is NaN", expected.data.len()));
            }
            let relative = self.of_result * expected.data[index].abs() + self.of_sum * sums.data[index];
            let allowed = relative + self.at_least;
            let difference = (found - expected.data[index]).abs();
            let part = if difference == 0.0 { 0.0 } else { difference / allowed };
            if part > worst.0 {
                worst = (part, index);
            }
        }
        let (part, index) = worst;
        if part <= 1.0 {
            return Ok(part);
        }
        let (value, of) = (found.floats().nth(index).unwrap_or(f64::NAN), expected.data.len());
        let expected = expected.data[index];
        Err(format!("element {index} of {of} is {value:e}, expected {expected:e}: {part:.1} times what is allowed"))
    }
}

/// Some rows of a tensor: those of its first dimension from `first` on.
pub(crate) fn rows(tensor: &Tensor, first: usize, count: usize) -> Tensor {
    let row = tensor.bytes.len() / usize::try_from(tensor.shape[0]).unwrap_or(1).max(1);
    let bytes = tensor.bytes[first * row..(first + count) * row].to_vec();
    Tensor::new(tensor.dtype, [&[count as i64], &tensor.shape[1..]].concat(), bytes)
}

impl Net {
    /// The output for these inputs, and for each of its elements the sum of what was added up, without signs.
    pub(crate) fn evaluate(&self, inputs: &[Tensor]) -> (Values, Values) {
        (self.compute(inputs, false), self.compute(inputs, true))
    }

    /// With `unsigned`, all values and factors are taken without their signs, and functions do nothing.
    fn compute(&self, inputs: &[Tensor], unsigned: bool) -> Values {
        let mut given = inputs.iter();
        let mut values: Vec<Values> = Vec::new();
        for source in &self.values {
            let value = match source {
                Source::Input { .. } => read(given.next(), unsigned),
                Source::Constant(tensor) => read(Some(tensor), unsigned),
                Source::Step(op, inputs) => {
                    let operands: Vec<_> = inputs.iter().map(|id| &values[id.0]).collect();
                    step(*op, &operands, unsigned)
                }
            };
            values.push(value);
        }
        values.pop().unwrap_or(Values { shape: vec![0], data: vec![] })
    }
}

fn read(tensor: Option<&Tensor>, unsigned: bool) -> Values {
    let Some(tensor) = tensor else { return Values { shape: vec![0], data: vec![] } };
    let shape = tensor.shape.iter().map(|&size| size as usize).collect();
    Values { shape, data: tensor.floats().map(|value| if unsigned { value.abs() } else { value }).collect() }
}

fn step(op: Op, operands: &[&Values], unsigned: bool) -> Values {
    let sign = |value: f32| f64::from(if unsigned { value.abs() } else { value });
    match op {
        Op::MatMul => matmul(operands[0], operands[1]),
        Op::Gemm(Gemm { alpha, beta, trans_a, trans_b }) => {
            let turned = |value: &Values, turn: bool| if turn { transpose(value) } else { value.clone() };
            let product = matmul(&turned(operands[0], trans_a), &turned(operands[1], trans_b));
            let product = product.map(|value| sign(alpha) * value);
            match operands.get(2) {
                Some(c) => together(&product, &c.map(|value| sign(beta) * value), |a, b| a + b),
                None => product,
            }
        }
        Op::Conv(window) => {
            let sums = conv(operands[0], operands[1], window);
            match operands.get(2) {
                Some(bias) => {
                    let bias = Values { shape: vec![bias.shape[0], 1, 1], data: bias.data.clone() };
                    together(&sums, &bias, |a, b| a + b)
                }
                None => sums,
            }
        }
        Op::Transpose => transpose(operands[0]),
        Op::Add => together(operands[0], operands[1], |a, b| a + b),
        Op::Mul => together(operands[0], operands[1], |a, b| a * b),
        Op::Relu if !unsigned => operands[0].map(|value| value.max(0.0)),
        Op::Gelu if !unsigned => operands[0].map(gelu),
        Op::GeluErf if !unsigned => operands[0].map(|x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        Op::Sigmoid if !unsigned => operands[0].map(|x| 1.0 / (1.0 + (-x).exp())),
        // What is multiplied with it is at most as large as before.
        Op::Sigmoid => operands[0].map(|_| 1.0),
        Op::Relu | Op::Gelu | Op::GeluErf => operands[0].clone(),
    }
}

/// GELU in the form with tanh, as ONNX defines it.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

impl Values {
    fn map(&self, function: impl Fn(f64) -> f64) -> Values {
        Values { shape: self.shape.clone(), data: self.data.iter().map(|&value| function(value)).collect() }
    }
}

fn transpose(value: &Values) -> Values {
    let (rows, columns) = (value.shape[0], value.shape[1]);
    let data = (0..columns).flat_map(|column| (0..rows).map(move |row| value.data[row * columns + column]));
    Values { shape: vec![columns, rows], data: data.collect() }
}

/// The error function: its series, and for large arguments the continued fraction of its complement (Abramowitz and
/// Stegun, 7.1.5 and 7.1.14).
fn erf(x: f64) -> f64 {
    let positive = x.abs();
    let value = if positive < 2.5 {
        let term = |(sum, term): (f64, f64), n: i32| {
            let next = -term * positive * positive / f64::from(n);
            (sum + next / f64::from(2 * n + 1), next)
        };
        2.0 / std::f64::consts::PI.sqrt() * (1..60).fold((positive, positive), term).0
    } else {
        let fraction = (1..60).rev().fold(positive, |below, n| positive + f64::from(n) / 2.0 / below);
        1.0 - (-positive * positive).exp() / std::f64::consts::PI.sqrt() / fraction
    };
    value.copysign(x)
}

/// A convolution of images, rows by columns.
fn conv(x: &Values, w: &Values, window: Window) -> Values {
    let ([images, channels, rows, columns], [filters, _, height, width]) = (four(x), four(w));
    let places = |size: usize, own: usize| (size + 2 * window.pad - own) / window.stride + 1;
    let (down, across) = (places(rows, height), places(columns, width));
    let mut data = Vec::with_capacity(images * filters * down * across);
    // Where an element of the window lies in the image, if it is not in its border.
    let inside = |place: usize, own: usize, size: usize| {
        (place * window.stride + own).checked_sub(window.pad).filter(|&at| at < size)
    };
    for (image, filter) in (0..images).flat_map(|image| (0..filters).map(move |filter| (image, filter))) {
        for (y, x_place) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
            let mut sum = 0.0;
            for (channel, i) in (0..channels).flat_map(|channel| (0..height).map(move |i| (channel, i))) {
                let Some(row) = inside(y, i, rows) else { continue };
                for j in 0..width {
                    let Some(column) = inside(x_place, j, columns) else { continue };
                    let value = x.data[((image * channels + channel) * rows + row) * columns + column];
                    sum += value * w.data[((filter * channels + channel) * height + i) * width + j];
                }
            }
            data.push(sum);
        }
    }
    Values { shape: vec![images, filters, down, across], data }
}

fn four(value: &Values) -> [usize; 4] {
    std::array::from_fn(|axis| value.shape[axis])
}

/// As numpy's `matmul`: a vector is a row on the left and a column on the right, and batches broadcast.
fn matmul(a: &Values, b: &Values) -> Values {
    let left = if a.shape.len() == 1 { [&[1], a.shape.as_slice()].concat() } else { a.shape.clone() };
    let right = if b.shape.len() == 1 { [b.shape.as_slice(), &[1]].concat() } else { b.shape.clone() };
    let (batch_a, rest_a) = left.split_at(left.len() - 2);
    let (batch_b, rest_b) = right.split_at(right.len() - 2);
    let (m, k, n) = (rest_a[0], rest_a[1], rest_b[1]);
    let batch = broadcast(batch_a, batch_b);
    let mut data = Vec::with_capacity(batch.iter().product::<usize>() * m * n);
    for index in 0..batch.iter().product() {
        let x = &a.data[place(&batch, index, batch_a) * m * k..][..m * k];
        let w = &b.data[place(&batch, index, batch_b) * k * n..][..k * n];
        for row in x.chunks_exact(k) {
            let mut sums = vec![0.0; n];
            for (value, weights) in row.iter().zip(w.chunks_exact(n)) {
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
            }
            data.extend(sums);
        }
    }
    let (row, column) = (a.shape.len() > 1, b.shape.len() > 1);
    let shape = batch.into_iter().chain(row.then_some(m)).chain(column.then_some(n));
    Values { shape: shape.collect(), data }
}

/// Element by element, as numpy broadcasts.
fn together(a: &Values, b: &Values, function: impl Fn(f64, f64) -> f64) -> Values {
    let shape = broadcast(&a.shape, &b.shape);
    let count = shape.iter().product();
    let value = |index| function(a.data[place(&shape, index, &a.shape)], b.data[place(&shape, index, &b.shape)]);
    Values { data: (0..count).map(value).collect(), shape }
}

fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank).map(|axis| size(a, axis).max(size(b, axis))).collect()
}

/// Where the element `index` of a tensor of `shape` is in one of the shape `own` that is broadcast to it.
fn place(shape: &[usize], mut index: usize, own: &[usize]) -> usize {
    let (mut place, mut step) = (0, 1);
    for axis in (0..shape.len()).rev() {
        let at = index % shape[axis];
        index /= shape[axis];
        let Some(own_axis) = (axis + own.len()).checked_sub(shape.len()) else { continue };
        if own[own_axis] > 1 {
            place += at * step;
        }
        step *= own[own_axis];
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(shape: &[usize], data: &[f64]) -> Values {
        Values { shape: shape.to_vec(), data: data.to_vec() }
    }

    #[test]
    fn products_of_batches_broadcast() {
        let a = values(&[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let b = values(&[3, 2, 1], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(matmul(&a, &b), values(&[2, 3, 1, 1], &[1.0, 2.0, 3.0, 3.0, 4.0, 7.0]));
        let (row, matrix) = (values(&[2], &[1.0, 2.0]), values(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(matmul(&row, &matrix), values(&[2], &[7.0, 10.0]));
        assert_eq!(matmul(&matrix, &row), values(&[2], &[5.0, 11.0]));
        assert_eq!(together(&matrix, &row, |a, b| a + b), values(&[2, 2], &[2.0, 4.0, 4.0, 6.0]));
    }

    #[test]
    fn a_convolution_of_one_pixel_mixes_channels() {
        let x = values(&[1, 2, 1, 2], &[1.0, 2.0, 10.0, 20.0]);
        let w = values(&[3, 2, 1, 1], &[1.0, 0.0, 0.0, 1.0, 1.0, -1.0]);
        let mixed = values(&[1, 3, 1, 2], &[1.0, 2.0, 10.0, 20.0, -9.0, -18.0]);
        assert_eq!(conv(&x, &w, Window::PIXEL), mixed);
        assert_eq!(transpose(&values(&[1, 2], &[1.0, 2.0])), values(&[2, 1], &[1.0, 2.0]));
        // Of the definition with 40 digits.
        assert!((gelu(1.0) - 0.841_191_990_608_276_7).abs() < 1e-12, "{}", gelu(1.0));
    }

    #[test]
    fn a_convolution_has_a_border_of_zeros() {
        let (x, w) = (values(&[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), values(&[1, 1, 3, 3], &[1.0; 9]));
        let sums = |stride, shape, data: &[f64]| {
            assert_eq!(conv(&x, &w, Window { pad: 1, stride }), values(shape, data));
        };
        sums(1, &[1, 1, 2, 3], &[12.0, 21.0, 16.0, 12.0, 21.0, 16.0]);
        sums(2, &[1, 1, 1, 2], &[12.0, 16.0]);
    }

    #[test]
    fn the_error_function() {
        // Of the definition with 40 digits.
        for (x, expected) in
            [(0.5, 0.520_499_877_813_046_5), (-2.0, -0.995_322_265_018_952_7), (3.0, 0.999_977_909_503_001_4)]
        {
            assert!((erf(x) - expected).abs() < 1e-15, "{x}: {}", erf(x));
        }
    }

    #[test]
    fn wrong_results_and_nan_are_found() {
        let (expected, sums) = (values(&[2], &[1.0, -2.0]), values(&[2], &[3.0, 3.0]));
        let worst = |found: [f32; 2]| {
            Allowed::new(DType::F32, false, false).worst(&Tensor::f32(&[2], &found), &expected, &sums)
        };
        assert_eq!(worst([1.0, -2.0]), Ok(0.0));
        assert!(worst([1.0, -2.000_003]).is_ok_and(|part| part > 0.1));
        assert_eq!(worst([1.0, f32::NAN]), Err("element 1 of 2 is NaN".into()));
        assert!(worst([1.001, -2.0]).is_err_and(|text| text.starts_with("element 0 of 2 is 1.001")));
        assert!(worst([f32::INFINITY, -2.0]).is_err());
    }
}
