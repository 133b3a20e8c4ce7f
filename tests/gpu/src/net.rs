//! Small models of products of matrices: each is written as ONNX, and computed by the reference kernels in f64.

mod reference;

use byoc_conformance::onnx::{Fill, Model};
use byoc_conformance::tensor::Tensor;
use byoc_plugin_api::{Attribute, DType};

use crate::random;

pub(crate) use reference::{Allowed, rows};

/// A value of a net, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(usize);

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// As numpy's `matmul`.
    MatMul,
    /// `alpha A B + beta C`.
    Gemm(Gemm),
    /// A convolution in two dimensions.
    Conv(Window),
    /// Swaps the last two dimensions.
    Transpose,
    Add,
    Mul,
    Relu,
    Sigmoid,
    /// GELU in the form with tanh.
    Gelu,
    /// GELU in the form with erf.
    GeluErf,
}

/// The attributes of a `Conv`, in both dimensions alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// Rows and columns of zeros on each side.
    pub(crate) pad: usize,
    /// How far apart windows are.
    pub(crate) stride: usize,
}

impl Window {
    /// Of one pixel.
    pub(crate) const PIXEL: Window = Window { pad: 0, stride: 1 };
}

/// The attributes of a `Gemm`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gemm {
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
}

/// Where a value comes from.
enum Source {
    /// The first size is known at run time only where it is symbolic.
    Input {
        shape: Vec<usize>,
        symbolic: bool,
    },
    Constant(Tensor),
    Step(Op, Vec<Id>),
}

/// A model. All its values are of one type, and the last one is its output.
pub(crate) struct Net {
    pub(crate) dtype: DType,
    values: Vec<Source>,
}

impl Net {
    /// A model of nothing yet.
    pub(crate) fn new(dtype: DType) -> Net {
        Net { dtype, values: Vec::new() }
    }

    fn add(&mut self, value: Source) -> Id {
        self.values.push(value);
        Id(self.values.len() - 1)
    }

    /// Adds an input.
    pub(crate) fn input(&mut self, shape: &[usize]) -> Id {
        self.add(Source::Input { shape: shape.to_vec(), symbolic: false })
    }

    /// Adds an input whose first size is known at run time only.
    pub(crate) fn batch_input(&mut self, shape: &[usize]) -> Id {
        self.add(Source::Input { shape: shape.to_vec(), symbolic: true })
    }

    /// Adds a constant of random elements up to `scale`.
    pub(crate) fn constant(&mut self, random: &mut fastrand::Rng, shape: &[usize], scale: f32) -> Id {
        let tensor = random::tensor(random, self.dtype, shape, scale);
        self.add(Source::Constant(tensor))
    }

    /// Adds a step.
    pub(crate) fn step(&mut self, op: Op, inputs: &[Id]) -> Id {
        self.add(Source::Step(op, inputs.to_vec()))
    }

    /// The shapes of the inputs, with `batch` where the first size is not fixed.
    pub(crate) fn input_shapes(&self, batch: usize) -> Vec<Vec<usize>> {
        let shape = |value: &Source| match value {
            Source::Input { shape, symbolic } if *symbolic => Some([&[batch], &shape[1..]].concat()),
            Source::Input { shape, .. } => Some(shape.clone()),
            _ => None,
        };
        self.values.iter().filter_map(shape).collect()
    }

    /// Random inputs.
    pub(crate) fn inputs(&self, random: &mut fastrand::Rng, batch: usize) -> Vec<Tensor> {
        let shapes = self.input_shapes(batch);
        shapes.iter().map(|shape| random::tensor(random, self.dtype, shape, 1.0)).collect()
    }

    /// The bytes of all constants.
    pub(crate) fn constant_bytes(&self) -> u64 {
        let bytes = |value: &Source| match value {
            Source::Constant(tensor) => tensor.bytes.len() as u64,
            _ => 0,
        };
        self.values.iter().map(bytes).sum()
    }

    /// The elements of one constant.
    pub(crate) fn constant_of(&self, id: Id) -> Option<&Tensor> {
        match &self.values[id.0] {
            Source::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The ONNX file.
    pub(crate) fn onnx(&self) -> Vec<u8> {
        let mut model = Model::default();
        for (index, value) in self.values.iter().enumerate() {
            let name = name(Id(index));
            match value {
                Source::Input { shape, symbolic } => model.input(&name, self.dtype, shape, Fill::Any, *symbolic),
                Source::Constant(tensor) => model.constant(&name, tensor.clone()),
                Source::Step(op, inputs) => {
                    let inputs = inputs.iter().copied().map(crate::net::name).collect();
                    let (op, attributes) = op.onnx();
                    model.node(("", op), inputs, vec![name], &attributes);
                }
            }
        }
        if let Some(last) = self.values.len().checked_sub(1) {
            model.output(&name(Id(last)), self.dtype);
        }
        model.finish()
    }
}

fn name(id: Id) -> String {
    format!("v{}", id.0)
}

impl Op {
    /// The operator and its attributes.
    fn onnx(self) -> (&'static str, Vec<(String, Attribute)>) {
        let flag = |name: &str, set: bool| (name.to_owned(), Attribute::Int(i64::from(set)));
        match self {
            Op::MatMul => ("MatMul", vec![]),
            Op::Gemm(Gemm { alpha, beta, trans_a, trans_b }) => {
                let numbers = [("alpha", alpha), ("beta", beta)];
                let numbers = numbers.map(|(name, value)| (name.to_owned(), Attribute::Float(value)));
                ("Gemm", numbers.into_iter().chain([flag("transA", trans_a), flag("transB", trans_b)]).collect())
            }
            Op::Conv(Window { pad, stride }) => {
                let ints =
                    |name: &str, value: usize, count| (name.to_owned(), Attribute::Ints(vec![value as i64; count]));
                ("Conv", vec![ints("pads", pad, 4), ints("strides", stride, 2)])
            }
            Op::Transpose => ("Transpose", vec![("perm".into(), Attribute::Ints(vec![1, 0]))]),
            Op::Add => ("Add", vec![]),
            Op::Mul => ("Mul", vec![]),
            Op::Relu => ("Relu", vec![]),
            Op::Sigmoid => ("Sigmoid", vec![]),
            Op::GeluErf => ("Gelu", vec![]),
            Op::Gelu => ("Gelu", vec![("approximate".into(), Attribute::String("tanh".into()))]),
        }
    }
}
