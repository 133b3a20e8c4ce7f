//! What a net computes, by the reference kernels in f64.

use byoc_conformance::tensor::Tensor;
use byoc_json_backend::reference::{self, Array};
use byoc_plugin_api::{DType, Node};
use ndarray::{ArrayD, Ix2};

use super::{Gemm, Net, Op, Source};
use crate::wrong::Wrong;

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
        let part = |((found, expected), sum): ((f64, &f64), &f64)| {
            let allowed = self.of_result * expected.abs() + self.of_sum * sum + self.at_least;
            let difference = (found - expected).abs();
            (found, *expected, if difference == 0.0 { 0.0 } else { difference / allowed })
        };
        let all = found.floats().zip(&expected.data).zip(&sums.data).map(part);
        let (columns, of) = (expected.shape.last().copied().unwrap_or(1), expected.data.len());
        Wrong::find(all, columns).map_err(|wrong| wrong.text(of))
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
    match op {
        // What is multiplied with it is at most as large as before.
        Op::Sigmoid if unsigned => Values { shape: operands[0].shape.clone(), data: vec![1.0; operands[0].data.len()] },
        Op::Relu | Op::Gelu | Op::GeluErf if unsigned => operands[0].clone(),
        Op::Gemm(Gemm { alpha, beta, trans_a, trans_b }) if unsigned => {
            let gemm = Gemm { alpha: alpha.abs(), beta: beta.abs(), trans_a, trans_b };
            computed(Op::Gemm(gemm), operands)
        }
        Op::MatMul => match operands {
            [x, w] if x.shape.len() == 2 && w.shape.len() == 2 => multiplied(x, w),
            _ => computed(op, operands),
        },
        op => computed(op, operands),
    }
}

/// A product of two matrices by ndarray, in f64: large ones take long in the reference kernels.
fn multiplied(x: &Values, w: &Values) -> Values {
    let matrix = |values: &Values| {
        let matrix = ArrayD::from_shape_vec(values.shape.as_slice(), values.data.clone());
        let matrix = matrix.expect("a shape counts its elements").into_dimensionality::<Ix2>();
        matrix.expect("it has two dimensions")
    };
    let product = matrix(x).dot(&matrix(w));
    Values { shape: product.shape().to_vec(), data: product.iter().copied().collect() }
}

/// What the reference kernels make of the operands, in f64.
fn computed(op: Op, operands: &[&Values]) -> Values {
    let array = |values: &&Values| {
        let array = ArrayD::from_shape_vec(values.shape.as_slice(), values.data.clone());
        Some(Array::from_f64(DType::F64, array.expect("a shape counts its elements")))
    };
    let (name, attributes) = op.onnx();
    let node = Node {
        name: name.into(),
        op: name.into(),
        inputs: (0..operands.len()).map(Some).collect(),
        outputs: vec![Some(operands.len())],
        attributes: attributes.into_iter().collect(),
        ..Node::default()
    };
    let made = reference::compute(&node, operands.iter().map(array).collect(), &[Some(DType::F64)]);
    let made = made.unwrap_or_else(|error| panic!("{}", error.message)).remove(0);
    Values { shape: made.shape().to_vec(), data: made.to_f64().iter().copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(shape: &[usize], data: &[f64]) -> Values {
        Values { shape: shape.to_vec(), data: data.to_vec() }
    }

    #[test]
    fn wrong_results_and_nan_are_found() {
        let (expected, sums) = (values(&[2], &[1.0, -2.0]), values(&[2], &[3.0, 3.0]));
        let worst = |found: [f32; 2]| {
            Allowed::new(DType::F32, false, false).worst(&Tensor::f32(&[2], &found), &expected, &sums)
        };
        assert_eq!(worst([1.0, -2.0]), Ok(0.0));
        assert!(worst([1.0, -2.000_003]).is_ok_and(|part| part > 0.1));
        assert!(worst([1.0, f32::NAN]).is_err_and(|text| text.starts_with("1 of 2 elements are NaN; rows 0 to 0")));
        assert!(worst([1.001, -2.0]).is_err_and(|text| text.starts_with("element 0 of 2 is 1.001")));
        assert!(worst([f32::INFINITY, -2.0]).is_err());
    }
}
