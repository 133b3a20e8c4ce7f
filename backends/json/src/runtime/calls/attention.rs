//! Calls of attention.

use byoc_plugin_api::Error;

use super::super::memory::Io;
use super::{Call, Nothing, Ready, Signature, bad_shapes};
use crate::kernels::{self, AttentionParams, Math};
use crate::program::{Attention, Side};

struct Attend {
    params: AttentionParams,
    /// Where the first heads of Q, K and V begin.
    starts: [usize; 3],
}

pub(super) fn attention(signature: &Signature<'_>, attention: &Attention) -> Result<Ready, Error> {
    if signature.output(0)?.first() == Some(&0) {
        let empty = (0..3).all(|index| signature.input(index).is_ok_and(|shape| shape.contains(&0)));
        return if empty { Ok(Ready::new(Nothing)) } else { Err(bad_shapes(signature)) };
    }
    let mut params = params(signature, attention).ok_or_else(|| bad_shapes(signature))?;
    if !params.is_on_units(signature.threads) {
        params.math = Math::F32;
    }
    let start = |side: Side| match side {
        Side::HeadsFirst => 0,
        Side::RowsFirst { start, .. } => start,
    };
    let scratch = kernels::attention_scratch_len(&params, signature.threads.count());
    let scratch = scratch.ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready { scratch, ..Ready::new(Attend { params, starts: attention.sides.map(start) }) })
}

fn params(signature: &Signature<'_>, attention: &Attention) -> Option<AttentionParams> {
    let (batch, heads, q_len, value_dim) = match *signature.output(0).ok()? {
        [batch, q_len, heads, value_dim] if attention.rows_first => (batch, heads, q_len, value_dim),
        [batch, heads, q_len, value_dim] => (batch, heads, q_len, value_dim),
        [batch, q_len, hidden] if attention.rows_first && hidden % attention.heads == 0 => {
            (batch, attention.heads, q_len, hidden / attention.heads)
        }
        _ => return None,
    };
    if heads != attention.heads || value_dim != attention.value_dim || batch == 0 {
        return None;
    }
    let kv_heads = attention.kv_heads.unwrap_or(heads);
    // Rows of one batch, and strides by batch, head and row.
    let side = |index: usize, columns: usize, heads: usize| {
        let elements: usize = signature.input(index).ok()?.iter().product();
        let (row, start, used) = match attention.sides[index] {
            Side::HeadsFirst => (columns.checked_mul(heads)?, 0, columns.checked_mul(heads)?),
            Side::RowsFirst { width, start } => (width, start, columns.checked_mul(heads)?.checked_add(start)?),
        };
        // No more than the elements from here on.
        let rows = elements.checked_div(row)? / batch;
        if used > row || start > row || rows * row * batch != elements {
            return None;
        }
        let strides = match attention.sides[index] {
            Side::HeadsFirst => [rows * row, rows * columns, columns],
            Side::RowsFirst { width, .. } => [rows * width, columns, width],
        };
        Some((rows, strides))
    };
    let (rows, q) = side(0, attention.head_dim, heads)?;
    let (kv_len, k) = side(1, attention.head_dim, kv_heads)?;
    let (values, v) = side(2, value_dim, kv_heads)?;
    if rows != q_len || values != kv_len || (attention.causal && q_len != kv_len) {
        return None;
    }
    let mask = match signature.step.input(3) {
        Some(_) => mask(signature.input(3).ok()?, [batch, heads, q_len, kv_len])?,
        None => [0; 4],
    };
    let out = match attention.rows_first {
        true => [q_len * heads * value_dim, value_dim, heads * value_dim],
        false => [heads * q_len * value_dim, q_len * value_dim, value_dim],
    };
    Some(AttentionParams {
        batch,
        heads,
        kv_heads,
        q_len,
        kv_len,
        head_dim: attention.head_dim,
        v_dim: value_dim,
        scale: attention.scale,
        causal: attention.causal,
        hidden_gives_zeros: attention.hidden_gives_zeros,
        q,
        k,
        v,
        out,
        mask,
        math: attention.math,
    })
}

/// Strides of a mask that broadcasts to the scores.
fn mask(shape: &[usize], scores: [usize; 4]) -> Option<[usize; 4]> {
    let lead = 4usize.checked_sub(shape.len())?;
    let (mut strides, mut step) = ([0; 4], 1);
    for axis in (0..shape.len()).rev() {
        if shape[axis] != 1 {
            if shape[axis] != scores[axis + lead] {
                return None;
            }
            strides[axis + lead] = step;
        }
        step *= shape[axis];
    }
    Some(strides)
}

impl Call for Attend {
    fn computed_as(&self) -> Option<&'static str> {
        self.params.math.on_units()
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [q, k, v] = [0, 1, 2].map(|index| {
            let values = io.inputs.slice::<f32>(index)?;
            values.get(self.starts[index]..).ok_or_else(|| Error::new("an operand of the attention is too short"))
        });
        let out = io.outputs.take(0)?;
        kernels::attention(io.threads, &self.params, q?, k?, v?, io.inputs.optional(3)?, out, io.scratch);
        Ok(())
    }
}
