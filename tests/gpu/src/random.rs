//! Random tensors: the same seed gives the same ones.

use byoc_conformance::tensor::Tensor;
use byoc_plugin_api::DType;
use fastrand::Rng;
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};

/// Floats between -1 and 1 times `scale`, rounded to the type.
pub(crate) fn tensor(random: &mut Rng, dtype: DType, shape: &[usize], scale: f32) -> Tensor {
    let count: usize = shape.iter().product();
    if dtype == DType::F16 {
        return Tensor::new(dtype, sizes(shape), halves(random, count, scale));
    }
    let mut bytes = Vec::with_capacity(count * dtype.unpacked_bytes());
    for _ in 0..count {
        let value = (random.f32() * 2.0 - 1.0) * scale;
        match dtype {
            DType::BF16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
            DType::F64 => bytes.extend(((random.f64() * 2.0 - 1.0) * f64::from(scale)).to_le_bytes()),
            _ => bytes.extend(value.to_le_bytes()),
        }
    }
    Tensor::new(dtype, sizes(shape), bytes)
}

/// As above for f16, of which large models have hundreds of millions: four from each random number, of 16 bits.
fn halves(random: &mut Rng, count: usize, scale: f32) -> Vec<u8> {
    const AT_ONCE: usize = 1 << 16;
    let mut bytes = Vec::with_capacity(count * 2);
    let (mut wide, mut narrow) = (Vec::with_capacity(AT_ONCE), vec![f16::ZERO; AT_ONCE]);
    while bytes.len() < count * 2 {
        let some = AT_ONCE.min(count - bytes.len() / 2);
        wide.clear();
        while wide.len() < some {
            let four = random.u64(..).to_le_bytes();
            let value = |two: &[u8; 2]| (f32::from(i16::from_le_bytes(*two)) + 0.5) / 32768.0 * scale;
            wide.extend(four.as_chunks().0.iter().map(value));
        }
        narrow[..some].convert_from_f32_slice(&wide[..some]);
        bytes.extend(narrow[..some].iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

/// One number, rounded to the type.
pub(crate) fn number(dtype: DType, value: f32) -> Tensor {
    let bytes = match dtype {
        DType::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        DType::F64 => f64::from(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    Tensor::new(dtype, vec![], bytes)
}

/// A shape as tensors have it.
pub(crate) fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

/// A size of a matrix, up to about `most`: 1, odd ones, powers of two and their neighbours are likely.
pub(crate) fn size(random: &mut Rng, most: usize) -> usize {
    let power = 1 << random.u32(0..=most.max(1).ilog2());
    match random.u8(0..6) {
        0 => 1,
        1 => power,
        2 => power + 1,
        3 => (power - 1).max(1),
        _ => random.usize(1..=most.max(1)),
    }
}
