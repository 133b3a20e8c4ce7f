//! Softmax, LogSoftmax and Hardmax, after ONNX 13 (one axis; the importer rewrites the older form, which flattened).

use super::Infer;
use super::infer::FLOAT;
use crate::diagnostic::Result;

/// Softmax, LogSoftmax and Hardmax.
pub(super) fn softmax(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    infer.axis("axis", -1, x.shape.len())?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const SOFTMAXES: &[Case] = &[
        ("Softmax", "", "f32[b,10]", "f32[b,10]"),
        ("LogSoftmax", "axis=0", "f32[b,10]", "f32[b,10]"),
        ("Hardmax", "", "i64[2]", "[B201] input 0 is i64[2], expected one of f32, f64, f16, bf16"),
        ("Softmax", "axis=2", "f32[b,10]", "[B106] axis 2 is out of range for 2 dimensions"),
        (
            "Softmax",
            "axis=-9223372036854775808",
            "f32[b,10]",
            "[B106] axis -9223372036854775808 is out of range for 2 dimensions",
        ),
        ("Softmax", "axis=[1]", "f32[b,10]", "[B106] attribute 'axis' must be an integer"),
        ("Softmax", "", "f32[]", "[B106] axis -1 is out of range for 0 dimensions"),
    ];

    #[test]
    fn softmaxes() {
        check(SOFTMAXES);
    }
}
