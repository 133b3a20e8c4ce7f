//! Attention and rotary position embedding, after ONNX: Attention 23 to 25, RotaryEmbedding 23. Both take heads as a
//! dimension of their own (4-D) or folded into the last one (3-D, with the number of heads as an attribute).

use byoc_plugin_api::{DType, Dim};

use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

/// A query, key or value as `[batch, heads, length, size]`.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

impl Heads {
    fn read(infer: &Infer<'_>, ty: &TensorType, what: &str, attribute: &str) -> Result<Heads> {
        match ty.shape.as_slice() {
            [batch, heads, length, size] => {
                Ok(Heads { batch: batch.clone(), heads: heads.clone(), length: length.clone(), size: size.clone() })
            }
            [batch, length, hidden] => {
                let heads = infer
                    .optional_int(attribute)?
                    .filter(|&heads| heads >= 1)
                    .and_then(|heads| usize::try_from(heads).ok());
                let heads = heads
                    .ok_or_else(|| bad(format!("{what} is {ty}, which needs attribute '{attribute}' of at least 1")))?;
                if hidden.fixed().is_some_and(|hidden| hidden % heads != 0) {
                    return Err(mismatch(format!("{what} is {ty}: {hidden} does not divide into {heads} heads")));
                }
                let heads = Dim::Fixed(heads);
                Ok(Heads { batch: batch.clone(), size: dim::div(hidden, &heads)?, heads, length: length.clone() })
            }
            _ => Err(mismatch(format!("{what} is {ty}, expected 3 or 4 dimensions"))),
        }
    }
}

/// Checks that sizes are equal.
fn agree(a: &Dim, b: &Dim, what: &str) -> Result<Dim> {
    dim::same(a, b).ok_or_else(|| mismatch(format!("{what}: {a} against {b}")))
}

/// Attention.
pub(super) fn attention(infer: &mut Infer<'_>) -> Result<()> {
    let (q_ty, k_ty, v_ty) = (infer.typed(0, FLOAT)?, infer.like_first(1)?, infer.typed(2, FLOAT)?);
    let rank = q_ty.shape.len();
    if k_ty.shape.len() != rank || v_ty.shape.len() != rank {
        return Err(mismatch(format!("Q is {q_ty}, K is {k_ty} and V is {v_ty}, expected as many dimensions")));
    }
    let q = Heads::read(infer, &q_ty, "Q", "q_num_heads")?;
    let k = Heads::read(infer, &k_ty, "K", "kv_num_heads")?;
    let v = Heads::read(infer, &v_ty, "V", "kv_num_heads")?;
    let batch = agree(&q.batch, &k.batch, "Q and K have different batch sizes")?;
    let batch = agree(&batch, &v.batch, "Q and V have different batch sizes")?;
    let kv_heads = agree(&k.heads, &v.heads, "K and V have different numbers of heads")?;
    let length = agree(&k.length, &v.length, "K and V have different lengths")?;
    agree(&q.size, &k.size, "Q and K have different head sizes")?;
    if let (Some(q_heads), Some(kv)) = (q.heads.fixed(), kv_heads.fixed())
        && (kv == 0 || q_heads % kv != 0)
    {
        return Err(mismatch(format!("{q_heads} heads of Q do not divide into {kv} of K and V")));
    }
    let past = past_length(infer, &batch, &kv_heads, &k.size, &v.size)?;
    let total = past.map_or_else(|| Ok(length.clone()), |past| dim::add(&past, &length))?;
    check_mask(infer, &[batch.clone(), q.heads.clone(), q.length.clone(), total.clone()])?;
    if infer.has(6) {
        let ty = infer.ranked(6, &[DType::I64], 1)?;
        agree(&ty.shape[0], &batch, "nonpad_kv_seqlen has another batch size than Q")?;
    }
    settings(infer)?;
    match infer.int("qk_matmul_output_mode", 0)? {
        0..=3 => {}
        other => {
            return Err(bad(format!("attribute 'qk_matmul_output_mode' is {other}, expected 0 to 3")));
        }
    }
    let output = match rank {
        3 => vec![batch.clone(), q.length.clone(), dim::mul(&q.heads, &v.size)?],
        _ => vec![batch.clone(), q.heads.clone(), q.length.clone(), v.size.clone()],
    };
    infer.set(1, k_ty.dtype, vec![batch.clone(), kv_heads.clone(), total.clone(), k.size]);
    infer.set(2, v_ty.dtype, vec![batch.clone(), kv_heads, total.clone(), v.size]);
    infer.set(3, q_ty.dtype, vec![batch, q.heads, q.length, total]);
    infer.set(0, q_ty.dtype, output);
    Ok(())
}

/// Fails where a setting has no meaning.
fn settings(infer: &Infer<'_>) -> Result<()> {
    for name in ["left_window_size", "right_window_size"] {
        let size = infer.int(name, -1)?;
        if size < -1 {
            return Err(bad(format!("attribute '{name}' is {size}, expected at least -1")));
        }
    }
    // Every kernel computes as precisely as f32 at least.
    match infer.optional_int("softmax_precision")? {
        None | Some(1 | 10 | 11 | 16) => Ok(()),
        Some(other) => Err(bad(format!("attribute 'softmax_precision' is {other}, expected 1, 10, 11 or 16"))),
    }
}

/// The length of the past keys and values, which come together.
fn past_length(infer: &Infer<'_>, batch: &Dim, heads: &Dim, k_size: &Dim, v_size: &Dim) -> Result<Option<Dim>> {
    match (infer.has(4), infer.has(5)) {
        (false, false) => return Ok(None),
        (true, true) => {}
        _ => {
            return Err(bad("inputs 4 (past_key) and 5 (past_value) must both be given, or neither"));
        }
    }
    let (key, value) = (infer.ranked(4, FLOAT, 4)?, infer.ranked(5, FLOAT, 4)?);
    for (ty, size, what) in [(&key, k_size, "past_key"), (&value, v_size, "past_value")] {
        agree(&ty.shape[0], batch, &format!("{what} has another batch size than Q"))?;
        agree(&ty.shape[1], heads, &format!("{what} has another number of heads than K"))?;
        agree(&ty.shape[3], size, &format!("{what} has another head size"))?;
    }
    agree(&key.shape[2], &value.shape[2], "past_key and past_value have different lengths").map(Some)
}

/// The mask broadcasts to the scores; its last dimension may be shorter, what is missing is masked (Attention 24).
fn check_mask(infer: &Infer<'_>, scores: &[Dim]) -> Result<()> {
    if !infer.has(3) {
        return Ok(());
    }
    let mask = infer.input(3)?;
    let Some((last, front)) = mask.shape.split_last().filter(|_| mask.shape.len() <= 4) else {
        return Err(mismatch(format!("input 3 (attn_mask) is {mask}, expected 1 to 4 dimensions")));
    };
    let place = scores.len() - mask.shape.len();
    let fits = front
        .iter()
        .zip(&scores[place..])
        .all(|(size, score)| *size == Dim::Fixed(1) || dim::same(size, score).is_some());
    let longer = last.fixed().zip(scores[3].fixed()).is_some_and(|(last, total)| last > total);
    if fits && !longer {
        return Ok(());
    }
    let sizes = scores.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
    Err(mismatch(format!("input 3 (attn_mask) is {mask}, which does not broadcast to [{sizes}]")))
}

/// RotaryEmbedding: the shape of the input.
pub(super) fn rotary(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let heads = Heads::read(infer, &x, "X", "num_heads")?;
    let (cos, sin) = (infer.like_first(1)?, infer.like_first(2)?);
    let rank = if infer.has(3) { 2 } else { 3 };
    if cos.shape.len() != rank || sin.shape.len() != rank {
        let why = if rank == 2 { "with" } else { "without" };
        return Err(mismatch(format!(
            "cos_cache is {cos} and sin_cache is {sin}, expected {rank} dimensions {why} position_ids"
        )));
    }
    let rotated = usize::try_from(infer.int("rotary_embedding_dim", 0)?);
    let rotated = rotated.map_err(|_| bad("attribute 'rotary_embedding_dim' is negative"))?;
    let rotated = if rotated == 0 { heads.size.clone() } else { Dim::Fixed(rotated) };
    if rotated.fixed().is_some_and(|size| size % 2 != 0 || heads.size.fixed().is_some_and(|all| size > all)) {
        return Err(mismatch(format!(
            "{rotated} of {} elements of a head are rotated, expected an even number of them",
            heads.size
        )));
    }
    let half = dim::div(&rotated, &Dim::Fixed(2))?;
    agree(&cos.shape[rank - 1], &half, "cos_cache has another last size than half the rotated elements")?;
    agree(&sin.shape[rank - 1], &half, "sin_cache has another last size than half the rotated elements")?;
    if rank == 3 {
        agree(&cos.shape[1], &heads.length, "cos_cache has another length than X")?;
    } else {
        infer.ranked(3, &[DType::I64], 2)?;
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const ATTENTIONS: &[Case] = &[
        ("Attention", "left_window_size=2", "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8]", "f32[2,3,4,8]"),
        (
            "Attention",
            "right_window_size=-2",
            "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8]",
            "[B106] attribute 'right_window_size' is -2, expected at least -1",
        ),
        (
            "Attention",
            "softmax_precision=7",
            "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8]",
            "[B106] attribute 'softmax_precision' is 7, expected 1, 10, 11 or 16",
        ),
        ("Attention", "left_window_size=-1", "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8]", "f32[2,3,4,8]"),
        ("Attention", "", "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,10]", "f32[2,3,4,10]"),
        ("Attention", "q_num_heads=9 kv_num_heads=3", "f32[2,4,72] f32[2,6,24] f32[2,6,24]", "f32[2,4,72]"),
        (
            "Attention",
            "q_num_heads=3 kv_num_heads=3",
            "f32[b,s,24] f32[b,s,24] f32[b,s,30] f32[s,p+s] f32[b,3,p,8] f32[b,3,p,10]",
            "f32[b,s,30] f32[b,3,p + s,8] f32[b,3,p + s,10] f32[b,3,s,p + s]",
        ),
        ("Attention", "", "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8] bool[4,4] - - i64[2]", "f32[2,3,4,8]"),
        (
            "Attention",
            "",
            "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8] bool[4,7]",
            "[B202] input 3 (attn_mask) is bool[4,7], which does not broadcast to [2,3,4,6]",
        ),
        (
            "Attention",
            "",
            "f32[2,4,72] f32[2,6,24] f32[2,6,24]",
            "[B106] Q is f32[2,4,72], which needs attribute 'q_num_heads' of at least 1",
        ),
        (
            "Attention",
            "q_num_heads=5",
            "f32[2,4,72] f32[2,6,24] f32[2,6,24]",
            "[B202] Q is f32[2,4,72]: 72 does not divide into 5 heads",
        ),
        (
            "Attention",
            "",
            "f32[2,4,4,8] f32[2,3,6,8] f32[2,3,6,8]",
            "[B202] 4 heads of Q do not divide into 3 of K and V",
        ),
        (
            "Attention",
            "",
            "f32[2,3,4,8] f32[2,3,6,9] f32[2,3,6,8]",
            "[B202] Q and K have different head sizes: 8 against 9",
        ),
        (
            "Attention",
            "",
            "f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,8] - f32[2,3,5,8]",
            "[B106] inputs 4 (past_key) and 5 (past_value) must both be given, or neither",
        ),
        (
            "Attention",
            "",
            "f32[2,3,4,8] f32[2,6,8] f32[2,3,6,8]",
            "[B202] Q is f32[2,3,4,8], K is f32[2,6,8] and V is f32[2,3,6,8], expected as many dimensions",
        ),
    ];

    #[test]
    fn attentions() {
        check(ATTENTIONS);
    }

    const ROTARY_EMBEDDINGS: &[Case] = &[
        ("RotaryEmbedding", "", "f32[2,4,3,8] f32[50,4] f32[50,4] i64[2,3]", "f32[2,4,3,8]"),
        ("RotaryEmbedding", "num_heads=4", "f32[2,3,32] f32[2,3,4] f32[2,3,4]", "f32[2,3,32]"),
        ("RotaryEmbedding", "rotary_embedding_dim=4", "f32[2,4,3,8] f32[50,2] f32[50,2] i64[2,3]", "f32[2,4,3,8]"),
        (
            "RotaryEmbedding",
            "",
            "f32[2,4,3,8] f32[50,4] f32[50,4]",
            "[B202] cos_cache is f32[50,4] and sin_cache is f32[50,4], expected 3 dimensions without position_ids",
        ),
        (
            "RotaryEmbedding",
            "",
            "f32[2,3,32] f32[2,3,4] f32[2,3,4]",
            "[B106] X is f32[2,3,32], which needs attribute 'num_heads' of at least 1",
        ),
        (
            "RotaryEmbedding",
            "",
            "f32[2,4,3,8] f32[50,3] f32[50,4] i64[2,3]",
            "[B202] cos_cache has another last size than half the rotated elements: 3 against 4",
        ),
        (
            "RotaryEmbedding",
            "rotary_embedding_dim=3",
            "f32[2,4,3,8] f32[50,3] f32[50,4] i64[2,3]",
            "[B202] 3 of 8 elements of a head are rotated, expected an even number of them",
        ),
    ];

    #[test]
    fn rotary_embeddings() {
        check(ROTARY_EMBEDDINGS);
    }
}
