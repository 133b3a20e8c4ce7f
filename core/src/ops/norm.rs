//! Normalisation, after ONNX: BatchNormalization 15, LayerNormalization 17, RMSNormalization 23,
//! LRN 13; and Dropout 22.

use byoc_plugin_api::{DType, Dim};

use super::Infer;
use super::infer::{BOOL, FLOAT, FLOAT8, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

/// BatchNormalization.
pub(super) fn batch(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let training = infer.int("training_mode", 0)? != 0;
    // A tensor of one dimension has one channel.
    let channels = x.shape.get(1).cloned().unwrap_or(Dim::Fixed(1));
    if x.shape.is_empty() {
        return Err(mismatch(format!("X is {x}, expected at least one dimension")));
    }
    for index in 1..5 {
        let ty = infer.ranked(index, FLOAT, 1)?;
        if dim::same(&ty.shape[0], &channels).is_none() {
            return Err(mismatch(format!(
                "input {index} is {ty}, expected one number for each of {channels} channels"
            )));
        }
    }
    if training {
        let statistics = infer.input(3)?;
        infer.set(1, statistics.dtype, vec![channels.clone()]);
        infer.set(2, statistics.dtype, vec![channels]);
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// LayerNormalization with its optional mean and inverse deviation.
pub(super) fn layer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let axis = infer.axis("axis", -1, x.shape.len())?;
    for index in 1..3 {
        if infer.has(index) {
            let ty = infer.like_first(index)?;
            scale_fits(index, &ty, &x.shape[axis..])?;
        }
    }
    let stash = match infer.int("stash_type", 1)? {
        1 => DType::F32,
        16 => DType::BF16,
        other => {
            return Err(bad(format!("attribute 'stash_type' is {other}, expected 1 (f32) or 16 (bf16)")));
        }
    };
    let mut reduced = x.shape[..axis].to_vec();
    reduced.resize(x.shape.len(), Dim::Fixed(1));
    infer.set(1, stash, reduced.clone());
    infer.set(2, stash, reduced);
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// RMSNormalization: the result has the scale's type.
pub(super) fn rms(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let scale = infer.typed(1, FLOAT)?;
    let axis = infer.axis("axis", -1, x.shape.len())?;
    // Kernels compute in f32 at least.
    match infer.int("stash_type", 1)? {
        1 | 10 | 11 | 16 => {}
        other => return Err(bad(format!("attribute 'stash_type' is {other}, expected 1, 10, 11 or 16"))),
    }
    scale_fits(1, &scale, &x.shape[axis..])?;
    infer.set(0, scale.dtype, x.shape);
    Ok(())
}

/// A scale or bias broadcasts to the normalised dimensions, and does not enlarge them.
fn scale_fits(index: usize, ty: &TensorType, normalised: &[Dim]) -> Result<()> {
    let fits = ty.shape.len() <= normalised.len()
        && dim::broadcast(normalised, &ty.shape)
            .is_some_and(|wide| wide.iter().zip(normalised).all(|(a, b)| dim::same(a, b).is_some()));
    if fits {
        return Ok(());
    }
    let sizes = normalised.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
    Err(mismatch(format!("input {index} is {ty}, which does not broadcast to the normalised dimensions [{sizes}]")))
}

/// LRN.
pub(super) fn lrn(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    match infer.optional_int("size")? {
        None => return Err(bad("attribute 'size' is missing")),
        Some(size) if size < 1 => return Err(bad(format!("attribute 'size' is {size}, expected at least 1"))),
        Some(_) => {}
    }
    if x.shape.len() < 2 {
        return Err(mismatch(format!("X is {x}, expected at least 2 dimensions")));
    }
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// Dropout: the input and a mask that is true everywhere, or in training mode (input 2) a random one and what it leaves.
pub(super) fn dropout(infer: &mut Infer<'_>) -> Result<()> {
    let floats = [FLOAT, FLOAT8].concat();
    let x = infer.typed(0, &floats)?;
    for (index, types) in [(1, floats.as_slice()), (2, BOOL)] {
        if infer.has(index) && infer.typed(index, types)?.shape.iter().any(|size| size.fixed().is_some_and(|n| n != 1))
        {
            return Err(mismatch(format!("input {index} is {}, expected one element", infer.input(index)?)));
        }
    }
    infer.set(1, DType::Bool, x.shape.clone());
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const NORMALISATIONS: &[Case] = &[
        ("BatchNormalization", "", "f32[n,3,4,4] f32[3] f32[3] f32[3] f32[3]", "f32[n,3,4,4]"),
        ("BatchNormalization", "", "f16[n,3] f32[3] f32[3] f32[3] f32[3]", "f16[n,3]"),
        (
            "BatchNormalization",
            "",
            "f32[n,3,4] f32[3] f32[3] f32[4] f32[3]",
            "[B202] input 3 is f32[4], expected one number for each of 3 channels",
        ),
        ("BatchNormalization", "training_mode=1", "f16[n,3] f16[3] f16[3] f32[3] f32[3]", "f16[n,3] f32[3] f32[3]"),
        ("LayerNormalization", "", "f32[b,s,768] f32[768] f32[768]", "f32[b,s,768] f32[b,s,1] f32[b,s,1]"),
        ("LayerNormalization", "axis=1", "f16[b,3,4] f16[3,4]", "f16[b,3,4] f32[b,1,1]"),
        ("LayerNormalization", "axis=3", "f32[b,3,4] f32[4]", "[B106] axis 3 is out of range for 3 dimensions"),
        (
            "LayerNormalization",
            "",
            "f32[b,3,4] f32[3]",
            "[B202] input 1 is f32[3], which does not broadcast to the normalised dimensions [4]",
        ),
        (
            "LayerNormalization",
            "stash_type=7",
            "f32[4] f32[4]",
            "[B106] attribute 'stash_type' is 7, expected 1 (f32) or 16 (bf16)",
        ),
        ("RMSNormalization", "", "f16[b,4] f32[4]", "f32[b,4]"),
        (
            "RMSNormalization",
            "stash_type=7",
            "f16[b,4] f16[4]",
            "[B106] attribute 'stash_type' is 7, expected 1, 10, 11 or 16",
        ),
        (
            "RMSNormalization",
            "",
            "f16[b,1] f16[4]",
            "[B202] input 1 is f16[4], which does not broadcast to the normalised dimensions [1]",
        ),
        ("LRN", "size=5", "f32[1,3,4,4]", "f32[1,3,4,4]"),
        ("LRN", "size=0", "f32[1,3,4,4]", "[B106] attribute 'size' is 0, expected at least 1"),
        ("LRN", "", "f32[1,3,4,4]", "[B106] attribute 'size' is missing"),
        ("Dropout", "", "f32[2,3]", "f32[2,3] bool[2,3]"),
        ("Dropout", "", "f32[2,3] f32[]=0.5 bool[]=0", "f32[2,3]"),
        ("Dropout", "", "f32[2,3] f32[]=0.5 bool[]=1", "f32[2,3] bool[2,3]"),
        ("Dropout", "", "f8e5m2[2,3] f32[] bool[]", "f8e5m2[2,3] bool[2,3]"),
        ("Dropout", "", "f32[2,3] f32[2]", "[B202] input 1 is f32[2], expected one element"),
        ("Dropout", "", "f32[2,3] f32[]=0 bool[]=1", "f32[2,3] bool[2,3]"),
    ];

    #[test]
    fn normalisations() {
        check(NORMALISATIONS);
    }
}
