//! The bounds of every number in code. Code comes from an untrusted file, and kernels calculate
//! addresses from its numbers: within these bounds nothing of that wraps. Steps and recipes are taken apart to the last
//! field, so that a new number cannot be forgotten.

use byoc_plugin_api::{DType, Dim};

use super::op::{Attention, Conv, Gemm, GridSample, Op, Pool, Side};
use super::{Combine, IntegerAverage, IntegerConv, IntegerGemm, IntegerPool, NBits, Program, Recurrent, Source, Value};
use crate::constants::{Form, Part, Recipe};
use crate::kernels::BLOCK;
use crate::kernels::integer::{MAX_AVERAGED, MAX_TAPS};

/// Most of a window, a stride, a dilation, a padding, and of groups.
const MAX_WINDOW: usize = 1 << 20;

/// Most of an axis, and of sizes that are not shapes.
const MAX_SIZE: usize = 1 << 31;

impl Program {
    /// Whether every number is within its bounds; if not, which one of what.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        for (index, value) in self.values.iter().enumerate() {
            let fixed: Vec<usize> = value.shape.iter().map(|dim| dim.fixed().unwrap_or(1)).collect();
            if value.bytes(&fixed).is_none() {
                return Err(format!("value {index} of shape {} is too large", text(&value.shape)));
            }
        }
        for constant in &self.constants {
            if let Source::Derived { recipe, carrier: _, stored: _ } = &constant.source {
                recipe.check().map_err(|what| format!("value {}: {what}", constant.value))?;
            }
        }
        self.steps.iter().try_for_each(|step| step.op.check().map_err(|what| format!("step '{}': {what}", step.name)))
    }
}

fn text(shape: &[Dim]) -> String {
    format!("[{}]", shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "))
}

impl Value {
    /// Bytes of the value where it has this shape; `None` if they cannot be counted. Sizes of 0 do not hide the others:
    /// kernels multiply parts of a shape.
    pub(crate) fn bytes(&self, shape: &[usize]) -> Option<usize> {
        let mut elements = 1usize;
        for (axis, &size) in shape.iter().enumerate() {
            let padded = if self.blocked && axis == 1 { size.checked_next_multiple_of(BLOCK)? } else { size };
            elements = elements.checked_mul(padded.max(1))?;
        }
        let bytes = self.dtype.bytes_for(elements)?;
        let countable = bytes <= isize::MAX as usize / 2;
        countable.then_some(if shape.contains(&0) { 0 } else { bytes })
    }
}

/// Whether each number is `least` to `most`.
fn range(what: &str, numbers: &[usize], least: usize, most: usize) -> Result<(), String> {
    match numbers.iter().find(|number| !(least..=most).contains(*number)) {
        Some(number) => Err(format!("{what} is {number}, not {least} to {most}")),
        None => Ok(()),
    }
}

/// Kernel, strides and dilations of a window.
fn window(kernel: &[usize], strides: &[usize], dilations: &[usize]) -> Result<(), String> {
    range("a size of the window", kernel, 1, MAX_WINDOW)?;
    range("a stride", strides, 1, MAX_WINDOW)?;
    range("a dilation", dilations, 1, MAX_WINDOW)
}

impl Op {
    /// Whether every number is within its bounds; if not, which one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let axes = |axes: &[usize]| range("an axis", axes, 0, MAX_SIZE);
        match self {
            // What reads attributes checks them itself, with safe arithmetic.
            Op::Reference { op: _, attributes: _ } | Op::Resize { attributes: _ } => Ok(()),
            Op::View | Op::Convert | Op::Expand | Op::Choose => Ok(()),
            Op::ToBlocked | Op::FromBlocked => Ok(()),
            Op::GridSample(GridSample { sampling: _, beyond: _, align_corners: _ }) => Ok(()),
            Op::TopK { smallest: _ } => Ok(()),
            Op::GlobalPool { max: _ } | Op::Affine { act: _ } | Op::Unary { function: _ } => Ok(()),
            Op::Binary { function: _, act: _ } => Ok(()),
            Op::NBits(NBits { k, n, bits, block, bytes: _ }) => {
                range("a size of the weights", &[*k, *n, *block], 1, MAX_SIZE)?;
                range("the number of bits", &[*bits], 4, 8)
            }
            Op::IntegerMean | Op::IntegerAffine { act: _ } | Op::Combine(Combine { function: _, act: _ }) => Ok(()),
            Op::Quantize | Op::DynamicQuantize => Ok(()),
            Op::Lookup { table } if table.len() != 512 => Err(format!("a table of {} digits", table.len())),
            Op::Lookup { table: _ } => Ok(()),
            Op::Dequantize { axis } => axes(axis.as_slice()),
            Op::IntegerGemm(IntegerGemm { trans_b: _, packed, unsigned: _, act: _ }) => {
                range("a size of the packed matrix", packed.as_ref().map_or(&[], |sizes| sizes), 0, MAX_SIZE)
            }
            Op::IntegerConv(conv) => {
                let IntegerConv { depthwise: _, unsigned: _, kernel, strides, pads, dilations, act: _ } = conv;
                window(kernel, strides, dilations)?;
                range("a padding", pads, 0, MAX_WINDOW)
            }
            Op::IntegerPool(pool) => pool.check(),
            Op::IntegerAverage(IntegerAverage { pool, counted }) => {
                pool.check()?;
                let taps = pool.kernel[0].saturating_mul(pool.kernel[1]);
                range("the number of taps", &[taps], 1, MAX_AVERAGED)?;
                range("a padding", counted.as_ref().map_or(&[], |ends| ends), 0, MAX_WINDOW)
            }
            Op::ScaleFilters { filters } => range("the number of filters", &[*filters], 1, MAX_SIZE),
            Op::Conv(conv) => conv.check(),
            Op::Gemm(gemm) => gemm.check(),
            Op::Pool(pool) => pool.check(),
            Op::Attention(attention) => attention.check(),
            Op::Recurrent(Recurrent { cell: _, directions, hidden, backwards: _, by_batch: _ }) => {
                range("the number of directions", &[*directions], 1, 2)?;
                range("the size of a state", &[*hidden], 1, MAX_SIZE)
            }
            Op::Lrn { size, alpha: _, beta: _, bias: _ } => range("the size", &[*size], 1, MAX_SIZE),
            Op::Softmax { axis, log: _ } | Op::LayerNorm { axis, eps: _, rms: _ } => axes(&[*axis]),
            Op::Concat { axis } | Op::Split { axis } | Op::Gather { axis } | Op::Scatter { axis } => axes(&[*axis]),
            Op::Columns { packed } => range("a size of the packed matrix", packed, 0, MAX_SIZE),
            Op::Reduce { function: _, from, to } => axes(&[*from, *to]),
            Op::Transpose { perm: list } | Op::Pad { axes: list } => axes(list),
            // Any number: ONNX means "to the end" by the largest and the smallest. They are clamped to the tensor.
            Op::Slice { starts: _, steps: _ } => Ok(()),
        }
    }
}

impl Conv {
    fn check(&self) -> Result<(), String> {
        let Conv { kind: _, kernel, strides, pads, dilations, group, act: _, math: _, rounded: _ } = self;
        window(kernel, strides, dilations)?;
        range("a padding", pads, 0, MAX_WINDOW)?;
        range("the number of groups", &[*group], 1, MAX_WINDOW)
    }
}

impl Gemm {
    fn check(&self) -> Result<(), String> {
        let Gemm { trans_a: _, trans_b: _, packed, alpha: _, act: _, math: _ } = self;
        range("a size of the packed matrix", packed.as_ref().map_or(&[], |sizes| sizes), 0, MAX_SIZE)
    }
}

impl Pool {
    fn check(&self) -> Result<(), String> {
        let Pool { max: _, count_include_pad: _, kernel, strides, pads, dilations } = self;
        window(kernel, strides, dilations)?;
        range("a padding", pads, 0, MAX_WINDOW)
    }
}

impl Attention {
    fn check(&self) -> Result<(), String> {
        let Attention { heads, kv_heads, head_dim, value_dim, .. } = self;
        let Attention { scale: _, causal: _, sides, rows_first: _, hidden_gives_zeros: _, .. } = self;
        let kv_heads = kv_heads.unwrap_or(*heads);
        range("the number of heads", &[*heads, kv_heads], 1, MAX_SIZE)?;
        if heads % kv_heads != 0 {
            return Err(format!("{heads} heads do not divide into {kv_heads} of keys"));
        }
        range("the size of a head", &[*head_dim, *value_dim], 1, MAX_SIZE)?;
        sides.iter().try_for_each(|side| match side {
            Side::HeadsFirst => Ok(()),
            Side::RowsFirst { width, start } => {
                range("the width of a row", &[*width], 1, MAX_SIZE)?;
                range("the start of a head", &[*start], 0, MAX_SIZE)
            }
        })
    }
}

impl IntegerPool {
    fn check(&self) -> Result<(), String> {
        let IntegerPool { kernel, strides, pads, dilations } = self;
        window(kernel, strides, dilations)?;
        range("a padding", pads, 0, MAX_WINDOW)
    }
}

impl Form {
    fn check(&self) -> Result<(), String> {
        match self {
            Form::Matrix { transposed: _, k, n } => range("a size of the matrix", &[*k, *n], 0, MAX_SIZE),
            Form::Filters([filters, channels, kernel @ ..]) => {
                range("a number of channels", &[*filters, *channels], 0, MAX_SIZE)?;
                range("a size of the window", kernel, 1, MAX_WINDOW)
            }
            Form::Depthwise { channels, taps } => {
                range("a number of channels", &[*channels], 0, MAX_SIZE)?;
                range("a size of the window", &[*taps], 1, MAX_TAPS)
            }
        }
    }
}

impl Recipe {
    /// Whether every number is within its bounds; if not, which one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let parts = match self {
            Recipe::Weights { weights: _, kind, shape, group, parts, dtype } => {
                let is_float = *dtype == DType::F32 || matches!(dtype, DType::F16 | DType::BF16) && kind.takes_narrow();
                if !is_float {
                    return Err(format!("filters of {dtype}"));
                }
                let [filters, channels, kernel @ ..] = shape;
                range("a number of channels", &[*filters, *channels], 0, MAX_SIZE)?;
                range("a size of the window", kernel, 1, MAX_WINDOW)?;
                range("the number of groups", &[*group], 1, MAX_WINDOW)?;
                parts
            }
            Recipe::Rounded { weights: _, shape, parts } => {
                let [filters, channels, kernel @ ..] = shape;
                range("a number of channels", &[*filters, *channels], 0, MAX_SIZE)?;
                range("a size of the window", kernel, 1, MAX_WINDOW)?;
                parts
            }
            Recipe::Floats { constant: _, len: _ } => &Vec::new(),
            Recipe::Matrix { matrix: _, transposed: _, k, n, dtype } => {
                if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::I8) {
                    return Err(format!("a matrix of {dtype}"));
                }
                range("a size of the matrix", &[*k, *n], 0, MAX_SIZE)?;
                &Vec::new()
            }
            Recipe::Gates { weights: _, count, k, n } => {
                range("a number of gates", &[*count], 1, 8)?;
                range("a size of the matrix", &[*k, *n], 0, MAX_SIZE)?;
                &Vec::new()
            }
            Recipe::Integer { weights: _, form, unsigned: _ } => {
                form.check()?;
                &Vec::new()
            }
            Recipe::Scale { channels, parts } | Recipe::Shift { channels, start: _, parts } => {
                range("a number of channels", &[*channels], 0, MAX_SIZE)?;
                parts
            }
        };
        // No part holds a number that counts anything.
        parts.iter().for_each(|part| match part {
            Part::Norm { scale: _, bias: _, mean: _, variance: _, eps: _ } | Part::Mul(_) | Part::Add(_) => {}
        });
        match self.len().and_then(|len| len.checked_mul(self.dtype().unpacked_bytes())) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
            _ => Err("a recipe that no kernel takes".into()),
        }
    }
}
