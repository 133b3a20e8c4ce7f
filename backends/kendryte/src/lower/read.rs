//! Reads nodes and values of a region: shapes, windows, functions, each with the reason where it has no code.

use byoc_plugin_api::{Node, Refusal, RefusalCode, Region};

use super::Lowering;
use crate::kmodel::bodies::Shape;
use crate::net::{Form, Function, Tensor, Window};
use crate::quantize::Activation;

pub(super) fn attribute(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Attribute, message)
}

pub(super) fn shape(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}

pub(super) fn input(node: &Node, index: usize) -> Result<usize, Refusal> {
    node.input(index).ok_or_else(|| shape(format!("input {index} is absent")))
}

pub(super) fn output(node: &Node) -> Result<usize, Refusal> {
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return Err(shape("only the first output has code"));
    }
    node.output(0).ok_or_else(|| shape("the output is not used"))
}

pub(super) fn tensor(form: Form, shape: Shape, value: usize) -> Tensor {
    Tensor { form, shape, value }
}

impl Lowering<'_> {
    /// The sizes of a value, all of them known.
    pub(super) fn fixed(&self, value: usize) -> Result<Vec<usize>, Refusal> {
        let value = &self.region.values[value];
        value.fixed_shape().ok_or_else(|| {
            let sizes: Vec<_> = value.shape.iter().map(ToString::to_string).collect();
            shape(format!("'{}' is [{}]: every size must be fixed by --shape or --dim", value.name, sizes.join(",")))
        })
    }

    /// The sizes of a value that is one image, [1, channels, height, width].
    pub(super) fn map(&self, value: usize) -> Result<Shape, Refusal> {
        let sizes = self.fixed(value)?;
        let name = &self.region.values[value].name;
        let [batch, channels, height, width] = *sizes.as_slice() else {
            return Err(shape(format!("'{name}' is {sizes:?}, an image of rank 4 is needed")));
        };
        if batch != 1 {
            return Err(Refusal::limit(format!("'{name}' has a batch of {batch}"), batch as f64, 1.0));
        }
        let size = |size: usize| u32::try_from(size).ok().filter(|&size| size > 0);
        match (size(channels), size(height), size(width)) {
            (Some(channels), Some(height), Some(width)) => Ok(Shape { width, height, channels }),
            _ => Err(shape(format!("'{name}' is {sizes:?}"))),
        }
    }

    /// A value as one vector, whatever its rank.
    pub(super) fn vector(&self, value: usize) -> Result<Shape, Refusal> {
        let sizes = self.fixed(value)?;
        let count = sizes.iter().try_fold(1u32, |count, &size| count.checked_mul(u32::try_from(size).ok()?));
        let channels = count.filter(|&count| count > 0).ok_or_else(|| shape(format!("a tensor of {sizes:?}")))?;
        Ok(Shape { width: 1, height: 1, channels })
    }

    /// A value as it is in main memory: an image where it is one, else a vector.
    pub(super) fn lying(&self, value: usize) -> Result<Shape, Refusal> {
        self.map(value).or_else(|_| self.vector(value))
    }

    /// The window of a pooling of an image, or of a convolution whose weights have these rows and columns.
    pub(super) fn window(&self, node: &Node, weights: Option<&[usize]>, image: &Shape) -> Result<Window, Refusal> {
        let read = byoc_plugin_api::Window::of(node, 2, weights)?;
        if read.dilations != [1, 1] {
            return Err(attribute(format!("dilations {:?}, only 1 has code", read.dilations)));
        }
        let pair = |list: &[usize], name: &str| -> Result<[u32; 2], Refusal> {
            Ok([small(list[0], name)?, small(list[1], name)?])
        };
        Ok(Window {
            image: *image,
            kernel: pair(&read.kernel, "kernel")?,
            stride: pair(&read.strides, "strides")?,
            begin: pair(&read.begin, "pads")?,
            end: pair(&read.end, "pads")?,
        })
    }

    /// The function of a node with one input, if it has code.
    pub(super) fn function_of(&self, node: &Node) -> Result<Function, Refusal> {
        let alpha = |default: f32| node.float("alpha", default);
        let monotone = match node.op.as_str() {
            "Relu" => Activation::Relu,
            "LeakyRelu" if alpha(0.01) >= 0.0 => Activation::LeakyRelu { slope: alpha(0.01) },
            "LeakyRelu" => {
                return Err(attribute(format!("a slope of {}, only rising functions have code", alpha(0.01))));
            }
            "Sigmoid" => Activation::Sigmoid,
            "Tanh" => Activation::Tanh,
            "HardSigmoid" if alpha(0.2) > 0.0 => {
                Activation::HardSigmoid { alpha: alpha(0.2), beta: node.float("beta", 0.5) }
            }
            "Clip" => {
                let min = bound(self.region, node, 1)?.unwrap_or(f32::NEG_INFINITY);
                let max = bound(self.region, node, 2)?.unwrap_or(f32::INFINITY);
                if min > max || min.is_nan() || max.is_nan() {
                    return Err(attribute(format!("clips to {min} to {max}")));
                }
                Activation::Clip { min, max }
            }
            "HardSwish" => return Ok(Function::HardSwish),
            "Swish" => return Ok(Function::Swish(alpha(1.0))),
            other => return Err(super::other(format!("{other} has no code"))),
        };
        if !monotone.is_monotone() {
            return Err(attribute(format!("{monotone:?}, only rising functions have code")));
        }
        Ok(Function::Monotone(monotone))
    }
}

/// A limit of Clip, which is a small constant.
fn bound(region: &Region, node: &Node, index: usize) -> Result<Option<f32>, Refusal> {
    let Some(value) = node.input(index) else { return Ok(None) };
    match region.constant_floats(value).as_deref() {
        Some(&[bound]) => Ok(Some(bound as f32)),
        _ => Err(Refusal::new(RefusalCode::ConstantNeeded, "the limits must be constants of one element")),
    }
}

fn small(number: usize, name: &str) -> Result<u32, Refusal> {
    u32::try_from(number)
        .ok()
        .filter(|&number| number < 1 << 16)
        .ok_or_else(|| attribute(format!("{name} has {number}")))
}
