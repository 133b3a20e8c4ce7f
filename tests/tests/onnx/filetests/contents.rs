//! Bytes of constants as a test writes them: `seed 7` for noise, `fill 2` for one number.

use byoc_core::ir::{self, TensorType};
use byoc_plugin_api::DType;
use half::f16;

/// The bytes that `text` stands for, if it is one of these forms.
pub(crate) fn bytes(ty: &TensorType, text: &str) -> Option<Vec<u8>> {
    let count: usize = ty.fixed_shape()?.iter().product();
    if let Some(value) = text.strip_prefix("fill ") {
        let element = ty.dtype.unpack(&ir::elements(ty.dtype, value)?, 1)?;
        return Some(ty.dtype.pack(&element.repeat(count)));
    }
    let mut random = fastrand::Rng::with_seed(text.strip_prefix("seed ")?.trim().parse().ok()?);
    Some(match ty.dtype {
        // Numbers: no infinity, and hardly an element like another.
        DType::F32 => (0..count).flat_map(|_| (random.f32() - 0.5).to_le_bytes()).collect(),
        DType::F16 => (0..count).flat_map(|_| f16::from_f32(random.f32() - 0.5).to_le_bytes()).collect(),
        dtype => (0..dtype.bytes_for(count)?).map(|_| random.u8(..)).collect(),
    })
}

/// A constant from `TYPE CONTENTS`, such as `f32[2] 1 2`.
pub(crate) fn constant(text: &str) -> Result<(TensorType, Vec<u8>), String> {
    let model = ir::read(&format!("entry e\n y = Identity(c<{text}>)"), &bytes)?;
    let value = model.entries[0].values.iter().find(|value| value.constant.is_some());
    let (ty, constant) = value.and_then(|value| value.ty.clone().zip(value.constant.as_ref())).ok_or("no constant")?;
    Ok((ty, model.constants.materialize(constant)))
}
