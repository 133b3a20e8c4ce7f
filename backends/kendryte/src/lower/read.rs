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
    node.output(0).ok_or_else(|| shape("nobody reads the output"))
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

    /// A value as it lies in main memory: an image where it is one, else a vector.
    pub(super) fn lying(&self, value: usize) -> Result<Shape, Refusal> {
        self.map(value).or_else(|_| self.vector(value))
    }

    /// The window of a convolution or pooling of an image whose kernel is `kernel`.
    pub(super) fn window(&self, node: &Node, kernel: [usize; 2], image: &Shape) -> Result<Window, Refusal> {
        let pair = |name: &str| -> Result<[u32; 2], Refusal> {
            match node.ints(name) {
                None => Ok([1, 1]),
                Some(&[rows, columns]) => Ok([small(rows, name)?, small(columns, name)?]),
                Some(other) => Err(attribute(format!("{name} {other:?}, two numbers are needed"))),
            }
        };
        if pair("dilations")? != [1, 1] {
            return Err(attribute(format!("dilations {:?}, only 1 has code", pair("dilations")?)));
        }
        let stride = pair("strides")?;
        let kernel = [small(kernel[0] as i64, "kernel")?, small(kernel[1] as i64, "kernel")?];
        let (begin, end) = match (node.string("auto_pad", "NOTSET"), node.ints("pads")) {
            ("NOTSET" | "", Some(&[top, left, bottom, right])) => {
                let number = |pad| small(pad, "pads");
                ([number(top)?, number(left)?], [number(bottom)?, number(right)?])
            }
            ("NOTSET" | "", None) | ("VALID", _) => ([0, 0], [0, 0]),
            (same @ ("SAME_UPPER" | "SAME_LOWER"), _) => {
                let size = [image.height, image.width];
                let total: [u32; 2] = std::array::from_fn(|axis| {
                    let covered = (size[axis].div_ceil(stride[axis].max(1)) - 1) * stride[axis] + kernel[axis];
                    covered.saturating_sub(size[axis])
                });
                let small = total.map(|total| total / 2);
                let large = [total[0] - small[0], total[1] - small[1]];
                if same == "SAME_UPPER" { (small, large) } else { (large, small) }
            }
            (other, pads) => return Err(attribute(format!("auto_pad '{other}' with pads {pads:?}"))),
        };
        if stride.contains(&0) || kernel.contains(&0) {
            return Err(attribute("a stride or a kernel of 0"));
        }
        Ok(Window { image: *image, kernel, stride, begin, end })
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

fn small(number: i64, name: &str) -> Result<u32, Refusal> {
    u32::try_from(number)
        .ok()
        .filter(|&number| number < 1 << 16)
        .ok_or_else(|| attribute(format!("{name} has {number}")))
}
