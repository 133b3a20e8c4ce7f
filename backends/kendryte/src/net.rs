//! A region as the layers of a kmodel, before addresses and scales are assigned: used by `check`, and completed by
//! `codegen`.

use crate::kmodel::arguments::{Kernel, Pooling};
use crate::kmodel::bodies::Shape;
use crate::quantize::{Activation, Quantization};

/// Index into [`Net::tensors`].
pub(crate) type TensorId = usize;

/// Memory and element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bytes in KPU RAM, in the layout of maps.
    Kpu,
    /// Bytes in main memory, in CHW order.
    Bytes,
    /// `f32` in main memory, in CHW order.
    Floats,
}

/// A stretch of memory that one layer writes and others read.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) form: Form,
    /// As it was made; a layer that reads the elements in another shape has that in its step.
    pub(crate) shape: Shape,
    /// The region's value whose elements these are: bytes have its scale.
    pub(crate) value: usize,
}

/// Layers that do one job: one of a kmodel, or several for a convolution that is split.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) work: Work,
    pub(crate) inputs: Vec<TensorId>,
    /// A convolution writes KPU RAM and, where it is read there, main memory as well.
    pub(crate) outputs: Vec<TensorId>,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Conv(Conv),
    Add,
    Concat,
    MaxPool(Window),
    /// Pixels of an image in main memory, the first at this row and column.
    Pick {
        /// Windows of one pixel.
        pixels: Window,
        first: [u32; 2],
    },
    /// Of an image of this shape.
    Resize(Shape),
    /// Bytes to bytes, element by element.
    Requantize(Function),
    Upload,
    AddPadding,
    RemovePadding,
    Quantize,
    Dequantize,
    /// Like that, with byte 0 as 0: all of it is greater by the same number, which a softmax does not see.
    DequantizeFromZero,
    /// Of an image of this shape.
    GlobalAveragePool(Shape),
    AveragePool(Window),
    Dense {
        /// The node that has the weights.
        node: usize,
        /// The node that adds the bias, if it is another one.
        bias: Option<usize>,
        activation: DenseActivation,
    },
    Softmax,
    Logistic,
}

/// A convolution with what follows it on the accelerator.
#[derive(Clone, Debug)]
pub(crate) struct Conv {
    /// The node that has the weights: a convolution, or a matrix product, which is one of 1x1.
    pub(crate) node: usize,
    /// The node that normalises the sum, or adds a bias to a matrix product.
    pub(crate) after: Option<usize>,
    pub(crate) kernel: Kernel,
    pub(crate) depthwise: bool,
    pub(crate) activation: Activation,
    pub(crate) pooling: Pooling,
    /// What is done to the image first.
    pub(crate) front: Option<Front>,
}

/// What is done to each channel of an image in front of a convolution: `factor * x + offset`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Front {
    pub(crate) factors: Vec<f64>,
    pub(crate) offsets: Vec<f64>,
}

impl Front {
    /// A node of this operator with a number for each channel as its second operand.
    pub(crate) fn of(op: &str, numbers: &[f64]) -> Front {
        let (ones, zeros) = (vec![1.0; numbers.len()], vec![0.0; numbers.len()]);
        let each = |map: fn(f64) -> f64| numbers.iter().copied().map(map).collect();
        match op {
            "Sub" => Front { factors: ones, offsets: each(|number| -number) },
            "Add" => Front { factors: ones, offsets: each(|number| number) },
            "Div" => Front { factors: each(|number| 1.0 / number), offsets: zeros },
            _ => Front { factors: each(|number| number), offsets: zeros },
        }
    }

    /// `inner`, and then this.
    pub(crate) fn after(&self, inner: &Front) -> Front {
        let factors = self.factors.iter().zip(&inner.factors).map(|(outer, inner)| outer * inner).collect();
        let scaled = self.factors.iter().zip(&inner.offsets).map(|(factor, offset)| factor * offset);
        Front { factors, offsets: scaled.zip(&self.offsets).map(|(scaled, offset)| scaled + offset).collect() }
    }

    /// Whether it can be undone.
    pub(crate) fn is_usable(&self) -> bool {
        self.factors.iter().all(|factor| factor.is_normal()) && self.offsets.iter().all(|offset| offset.is_finite())
    }
}

/// What the SDKs apply after a fully connected layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenseActivation {
    Linear,
    Relu,
    Relu6,
}

/// A function of one number, by a table of 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Monotone(Activation),
    /// `x * sigmoid(alpha * x)`.
    Swish(f32),
    /// `x * clamp(x / 6 + 0.5, 0, 1)`.
    HardSwish,
}

impl Function {
    /// The function at `x`.
    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Function::Monotone(activation) => activation.apply(x),
            Function::Swish(alpha) => x / (1.0 + (-f64::from(alpha) * x).exp()),
            Function::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        }
    }
}

/// A pooling window over an image, as (rows, columns).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// What it moves over.
    pub(crate) image: Shape,
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [u32; 2],
    /// Before the first row and column.
    pub(crate) begin: [u32; 2],
    /// After the last row and column.
    pub(crate) end: [u32; 2],
}

/// A region as steps, in the order in which they run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Net {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) steps: Vec<Step>,
    /// What is there before the first step.
    pub(crate) inputs: Vec<TensorId>,
    /// What the region gives, parallel to its outputs: `f32`, or bytes where the model has integers.
    pub(crate) outputs: Vec<TensorId>,
    /// Values whose bytes have one scale.
    pub(crate) same_scale: Vec<(usize, usize)>,
    /// By value: what its bytes stand for, where the model says so.
    pub(crate) given: Vec<Option<Quantization>>,
}

impl Net {
    pub(crate) fn tensor(&mut self, form: Form, shape: Shape, value: usize) -> TensorId {
        self.tensors.push(Tensor { form, shape, value });
        self.tensors.len() - 1
    }

    /// Adds a step that makes one tensor, and gives the tensor.
    pub(crate) fn step(&mut self, work: Work, inputs: Vec<TensorId>, output: Tensor) -> TensorId {
        self.tensors.push(output);
        let output = self.tensors.len() - 1;
        self.steps.push(Step { work, inputs, outputs: vec![output] });
        output
    }
}

impl Tensor {
    /// Elements.
    pub(crate) fn count(&self) -> u64 {
        self.shape.count()
    }

    /// Bytes of the elements.
    pub(crate) fn bytes(&self) -> u64 {
        if self.form == Form::Floats { 4 * self.count() } else { self.count() }
    }
}
