//! The elements of inputs and constants: usual ones, and those that operators get wrong.

use byoc_plugin_api::{DType, text_block, texts_of_block};
use byoc_tests::tensor::Tensor;
use half::{bf16, f16};

use super::random::Random;

/// What elements are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    /// Numbers of a usual size.
    Tame,
    /// Whole and half numbers with many ties.
    Ties,
    /// Zeros, infinities, NaN, denormals, the largest and smallest numbers.
    Odd,
    /// Integers that anything may be divided by.
    Divisor,
    /// Whole numbers from 0 to 3.
    Exponent,
    /// Numbers above 0.
    Positive,
    /// Indices into an axis of that size, from both ends.
    Index(usize),
    /// Texts of ASCII alone.
    Ascii,
    /// Integers of the whole range of their type.
    Any,
    /// Indices into an axis of that size, from its start.
    Place(usize),
}

/// An element as it is drawn. Integers keep all their bits.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

/// A tensor of that type and shape.
pub(crate) fn tensor(random: &mut Random, dtype: DType, shape: &[usize], mood: Mood) -> Tensor {
    let count: usize = shape.iter().product();
    if dtype == DType::String {
        let known = if mood == Mood::Ascii { &TEXTS[..ASCII] } else { &TEXTS[..] };
        return texts(shape, &(0..count).map(|_| random.of(known)).collect::<Vec<_>>());
    }
    let mut bytes = Vec::with_capacity(count * dtype.unpacked_bytes());
    for _ in 0..count {
        // Odd values stand among usual ones, or all would be NaN.
        let mood = if mood == Mood::Odd && random.chance(60) { Mood::Tame } else { mood };
        bytes.extend(encode(dtype, draw(random, dtype, mood)));
    }
    Tensor::new(dtype, shape.iter().map(|&size| size as i64).collect(), bytes)
}

/// What texts are drawn from: words, numbers, spaces at the ends, what is longer in upper case, and nothing.
const TEXTS: [&str; 12] = [
    "",
    "cat",
    "Dog",
    "  emu ",
    "a,b,,c",
    "12",
    "-0.5",
    "x y  z",
    "THE",
    "stra\u{df}e",
    "d\u{e9}j\u{e0} vu",
    "\u{1f600}",
];

/// How many of them are of ASCII.
const ASCII: usize = 9;

/// A tensor of texts.
pub(crate) fn texts(shape: &[usize], texts: &[&str]) -> Tensor {
    let bytes = text_block(texts).expect("few texts");
    Tensor::new(DType::String, shape.iter().map(|&size| size as i64).collect(), bytes)
}

/// A vector of i64.
pub(crate) fn ints(values: &[i64]) -> Tensor {
    Tensor::new(DType::I64, vec![values.len() as i64], values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// A vector of these numbers.
pub(crate) fn vector(dtype: DType, values: &[f64]) -> Tensor {
    let bytes = values.iter().flat_map(|&value| scalar(dtype, value).bytes).collect();
    Tensor::new(dtype, vec![values.len() as i64], bytes)
}

/// One element, without dimensions.
pub(crate) fn scalar(dtype: DType, value: f64) -> Tensor {
    let number = if dtype.is_float() { Number::Float(value) } else { Number::Int(value as i128) };
    Tensor::new(dtype, vec![], encode(dtype, number))
}

fn draw(random: &mut Random, dtype: DType, mood: Mood) -> Number {
    if dtype == DType::Bool {
        return Number::Int(random.below(2).try_into().expect("0 or 1"));
    }
    let signed = !matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let low = if signed { -5 } else { 0 };
    let whole = |random: &mut Random, low: i64, high: i64| Number::Int(random.between(low, high).into());
    match mood {
        Mood::Place(size) => whole(random, 0, size as i64 - 1),
        Mood::Index(size) => whole(random, -(size as i64), size as i64 - 1),
        Mood::Exponent if !dtype.is_float() => whole(random, 0, 3),
        Mood::Exponent => Number::Float(random.of(&[0.0, 1.0, 2.0, 3.0, 0.5, -1.0])),
        Mood::Divisor if !dtype.is_float() => {
            // The smallest integer by -1 stops onnxruntime.
            let value = random.between(2, 7);
            Number::Int(if signed && random.chance(50) { -value } else { random.of(&[1, value]) }.into())
        }
        Mood::Any if !dtype.is_float() => {
            let (least, _) = ends(dtype, signed);
            Number::Int(least + i128::from(random.next() >> (64 - 8 * dtype.unpacked_bytes())))
        }
        Mood::Odd if !dtype.is_float() => {
            let (least, most) = ends(dtype, signed);
            Number::Int(random.of(&[least, most, 0, 1, least + 1, most - 1, most / 2]))
        }
        _ if !dtype.is_float() => whole(random, low, 5),
        Mood::Odd => Number::Float(odd_float(random, dtype)),
        Mood::Ties => Number::Float(random.between(-4, 4) as f64 / 2.0),
        Mood::Positive => Number::Float(0.25 + random.unit() * 2.0),
        _ => Number::Float((random.unit() * 4.0 - 2.0) * if random.chance(10) { 8.0 } else { 1.0 }),
    }
}

/// The least and the most that an integer type has.
fn ends(dtype: DType, signed: bool) -> (i128, i128) {
    let bits = dtype.unpacked_bytes() as u32 * 8 - u32::from(signed);
    (if signed { -(1i128 << bits) } else { 0 }, (1i128 << bits) - 1)
}

fn odd_float(random: &mut Random, dtype: DType) -> f64 {
    let (most, least) = match dtype {
        DType::F16 => (65504.0, 5.960_464_477_539_063e-8),
        DType::F64 => (f64::MAX, f64::from_bits(1)),
        _ => (f64::from(f32::MAX), f64::from(f32::from_bits(1))),
    };
    random.of(&[0.0, -0.0, 1.0, -1.0, 0.5, -0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, most, -most, least, 100.0])
}

fn encode(dtype: DType, number: Number) -> Vec<u8> {
    match (dtype, number) {
        (DType::F32, Number::Float(value)) => (value as f32).to_le_bytes().to_vec(),
        (DType::F64, Number::Float(value)) => value.to_le_bytes().to_vec(),
        (DType::F16, Number::Float(value)) => f16::from_f64(value).to_le_bytes().to_vec(),
        (DType::BF16, Number::Float(value)) => bf16::from_f64(value).to_le_bytes().to_vec(),
        (_, Number::Int(value)) if dtype.is_float() => encode(dtype, Number::Float(value as f64)),
        // Two's complement, so the low bytes are the narrower type's.
        (_, Number::Int(value)) => value.to_le_bytes()[..dtype.unpacked_bytes()].to_vec(),
        (_, Number::Float(value)) => encode(dtype, Number::Int(value as i128)),
    }
}

/// Every element as a number; integers that f64 does not hold are rounded, and texts are told by a hash of theirs.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    if tensor.dtype == DType::String {
        let hash = |text: &str| text.bytes().fold(1u64, |hash, byte| (hash * 257 + u64::from(byte)) % 0x1f_ffff_ffff);
        return texts_of_block(&tensor.bytes).unwrap_or_default().into_iter().map(|text| hash(text) as f64).collect();
    }
    if tensor.dtype.is_float() {
        return tensor.floats().collect();
    }
    let signed = !matches!(tensor.dtype, DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let read = |bytes: &[u8]| {
        let negative = signed && bytes.last().is_some_and(|&byte| byte >= 0x80);
        let mut wide = if negative { [0xff; 16] } else { [0; 16] };
        wide[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(wide) as f64
    };
    tensor.bytes.chunks_exact(tensor.dtype.unpacked_bytes()).map(read).collect()
}

/// The tensor with each element changed by `change`. Integers are left as they are where they stay the same.
pub(crate) fn mapped(tensor: &Tensor, mut change: impl FnMut(usize, f64) -> f64) -> Tensor {
    let size = tensor.dtype.unpacked_bytes();
    let mut changed = tensor.clone();
    for (index, value) in numbers(tensor).into_iter().enumerate() {
        let new = change(index, value);
        if new.to_bits() != value.to_bits() {
            let bytes = encode(tensor.dtype, Number::Float(new));
            changed.bytes[index * size..(index + 1) * size].copy_from_slice(&bytes);
        }
    }
    changed
}

/// A tensor as text, cut where it is long.
pub(crate) fn show(tensor: &Tensor) -> String {
    if tensor.dtype == DType::String {
        return format!("{:?} {:?}", tensor.shape, texts_of_block(&tensor.bytes).unwrap_or_default());
    }
    let numbers = numbers(tensor);
    let shown: Vec<_> = numbers.iter().take(64).map(|value| format!("{value:?}")).collect();
    let rest = if numbers.len() > shown.len() { ", ..." } else { "" };
    format!("{:?} {}{rest}", tensor.shape, shown.join(", "))
}
