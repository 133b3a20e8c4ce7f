//! Values of inputs and constants: the same seed gives the same values.

use byoc_plugin_api::DType;
use byoc_plugin_api::small::{self, Round};
use half::{bf16, f16};

use crate::onnx::Fill;
use crate::tensor::Tensor;

/// Floats that are easy to get wrong. The largest is small enough for a sum of squares: when a sum overflows depends on
/// the order in which it is added up.
const SPECIAL: [f32; 8] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e15, f32::MIN_POSITIVE, 1.0];

/// Texts.
pub(crate) const WORDS: [&str; 6] = ["", "one", "two words", "Three", "zwölf Uhr", "7 of 9"];

/// A tensor of random values.
pub(crate) fn random(dtype: DType, shape: &[i64], fill: Fill, seed: &str) -> Tensor {
    let mut state = seed.bytes().fold(0x9e37_79b9_7f4a_7c15u64, |hash, byte| mix(hash ^ u64::from(byte)));
    let values = std::iter::from_fn(|| {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        Some((state >> 40) as f64 / (1u64 << 24) as f64)
    });
    if dtype == DType::String {
        let texts = values.map(|unit| WORDS[(unit * WORDS.len() as f64) as usize]);
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
        return Tensor::texts(shape, &texts.take(count).collect::<Vec<_>>());
    }
    let values = values.map(|unit| match (fill, dtype) {
        (Fill::Below(limit), _) => (unit * limit as f64).floor(),
        (Fill::Within(limit), _) => (unit * 2.0 * limit as f64).floor() - limit as f64,
        (_, DType::Bool) => unit.round(),
        (Fill::NonZero, dtype) if dtype.is_float() && unit < 0.5 => -0.25 - 2.0 * unit,
        (Fill::NonZero, dtype) if dtype.is_float() => 2.0 * unit - 0.75,
        (Fill::NonZero, dtype) if unit < 0.5 && !is_unsigned(dtype) => -1.0 - (unit * 10.0).floor(),
        (Fill::NonZero, _) => 1.0 + (unit * 5.0).floor(),
        (Fill::Large, dtype) if dtype.is_float() => unit * 80.0 - 40.0,
        (Fill::Far, dtype) if dtype.is_float() => 60.0 + unit,
        (Fill::Few, dtype) if dtype.is_float() => (unit * 3.0).floor() - 1.0,
        (Fill::Positive, dtype) if dtype.is_float() => 0.25 + unit,
        (Fill::Positive, _) => 1.0 + (unit * 4.0).floor(),
        (Fill::Bytes, DType::U8) => (unit * 256.0).floor(),
        (Fill::Bytes, DType::I8) => (unit * 256.0).floor() - 128.0,
        (Fill::Any | Fill::Bytes | Fill::Finite, dtype) if dtype.is_float() => unit * 2.0 - 1.0,
        (_, dtype) if is_unsigned(dtype) => (unit * 9.0).floor(),
        _ => (unit * 9.0).floor() - 4.0,
    });
    tensor(dtype, shape, values)
}

/// A tensor of floats that are easy to get wrong, among random ones.
pub(crate) fn special(dtype: DType, shape: &[i64], seed: &str) -> Tensor {
    let plain = random(dtype, shape, Fill::Any, seed);
    let values: Vec<_> = plain.floats().collect();
    let mixed = values.iter().enumerate().map(|(index, &value)| match index % 3 {
        0 => f64::from(SPECIAL[index / 3 % SPECIAL.len()]),
        _ => value,
    });
    tensor(dtype, shape, mixed)
}

/// A tensor of as many of `values` as the shape has elements.
pub(crate) fn tensor(dtype: DType, shape: &[i64], values: impl IntoIterator<Item = f64>) -> Tensor {
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
    let bytes: Vec<u8> = values.into_iter().take(count).flat_map(|value| element(dtype, value)).collect();
    Tensor::new(dtype, shape.to_vec(), dtype.pack(&bytes))
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

fn mix(value: u64) -> u64 {
    // The finaliser of SplitMix64.
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn element(dtype: DType, value: f64) -> Vec<u8> {
    if let Some(code) = small::encode(dtype, value, true, Round::Nearest) {
        return vec![code];
    }
    match dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::C64 => [(value as f32).to_le_bytes(), [0; 4]].concat(),
        DType::C128 => [value.to_le_bytes(), [0; 8]].concat(),
        _ => (value as i64).to_le_bytes()[..dtype.unpacked_bytes()].to_vec(),
    }
}
