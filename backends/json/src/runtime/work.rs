//! What a step does, for profiles: its time over these is how fast it is.

use crate::kernels::ConvKind;
use crate::program::{Attention, Conv, Op, Program, Side, Step};

/// Counts of one run of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Multiplications and additions of products, convolutions and attention as their formulas have them, whatever the kernel
    /// saves; 0 for others.
    pub(super) operations: u64,
    /// Bytes of the tensors that it reads and writes, each once; of those that it takes parts of, the parts.
    pub(super) bytes: u64,
    /// What it is computed as, where that is not what the types say.
    pub(super) computed_as: Option<&'static str>,
}

impl Work {
    /// The work of a step on values of these shapes.
    pub(super) fn of(program: &Program, step: &Step, shapes: &[Vec<usize>], computed_as: Option<&'static str>) -> Work {
        let size = |value: usize| program.values[value].bytes(&shapes[value]).unwrap_or(0) as u64;
        let sum = |values: &[Option<usize>]| {
            let mut distinct: Vec<usize> = values.iter().copied().flatten().collect();
            distinct.sort_unstable();
            distinct.dedup();
            distinct.iter().fold(0u64, |sum, &value| sum.saturating_add(size(value)))
        };
        let written = sum(&step.outputs);
        let read = match step.op {
            Op::Gather { .. } | Op::Columns { .. } | Op::Slice { .. } => written,
            _ => sum(&step.inputs),
        };
        // Shapes that no product has are an error of the step itself.
        let sums = sums(step, shapes).unwrap_or(0);
        Work { operations: sums.saturating_mul(2), bytes: read.saturating_add(written), computed_as }
    }
}

/// Pairs of a multiplication and an addition; `None` where the shapes are not those of such a step.
fn sums(step: &Step, shapes: &[Vec<usize>]) -> Option<u64> {
    let (x, y) = (&shapes[step.input(0)?][..], &shapes[step.output(0)?][..]);
    let elements = product(y);
    match &step.op {
        Op::Conv(conv) => convolution(conv, x, y),
        Op::Gemm(gemm) => {
            let inner = if gemm.trans_a { x.len().checked_sub(2)? } else { x.len().checked_sub(1)? };
            Some(elements.saturating_mul(x[inner] as u64))
        }
        Op::IntegerGemm(_) => Some(elements.saturating_mul(*x.last()? as u64)),
        Op::NBits(weights) => Some(elements.saturating_mul(weights.k as u64)),
        Op::IntegerConv(conv) => {
            let channels = if conv.depthwise { 1 } else { *x.last()? };
            Some(elements.saturating_mul(product(&[conv.kernel[0], conv.kernel[1], channels])))
        }
        Op::Recurrent(layer) => {
            let &[outer, inner, input] = x else { return None };
            let gates = product(&[layer.directions, layer.cell.gates(), layer.hidden]);
            Some(product(&[outer, inner, input + layer.hidden]).saturating_mul(gates))
        }
        Op::Attention(attention) => of_attention(attention, y, &shapes[step.input(1)?]),
        _ => Some(0),
    }
}

fn convolution(conv: &Conv, x: &[usize], y: &[usize]) -> Option<u64> {
    let (&[_, inputs, ..], &[_, outputs, ..]) = (x, y) else { return None };
    // Of a transposed one every input pixel adds a window, of the others every output pixel sums one.
    let (pixels, channels) = if conv.kind == ConvKind::Transposed { (x, outputs) } else { (y, inputs) };
    let [kh, kw] = conv.kernel;
    Some(product(pixels).saturating_mul(product(&[channels / conv.group, kh, kw])))
}

fn of_attention(attention: &Attention, y: &[usize], keys: &[usize]) -> Option<u64> {
    let batch = (*y.first()?).max(1) as u64;
    let rows_of_heads = product(y) / (attention.value_dim.max(1) as u64);
    let width = match attention.sides[1] {
        Side::HeadsFirst => attention.kv_heads.unwrap_or(attention.heads) * attention.head_dim,
        Side::RowsFirst { width, .. } => width,
    };
    let keys = product(keys) / batch / (width.max(1) as u64);
    // Query i of as many sees i + 1 keys.
    let pairs =
        if attention.causal { rows_of_heads.saturating_mul(keys + 1) / 2 } else { rows_of_heads.saturating_mul(keys) };
    Some(pairs.saturating_mul((attention.head_dim + attention.value_dim) as u64))
}

fn product(sizes: &[usize]) -> u64 {
    sizes.iter().fold(1, |product, &size| u64::saturating_mul(product, size as u64))
}
