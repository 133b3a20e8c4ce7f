//! Random numbers, after ONNX: Bernoulli, Multinomial, RandomNormal, RandomNormalLike, RandomUniform and RandomUniformLike 22.

use byoc_plugin_api::{DType, Dim};

use super::attributes::{AttributeDef, Default, Kind, List, float_or, int, int_or, ints};
use super::cast::from_onnx;
use super::infer::{FLOAT, Infer, NUMERIC, bad};
use crate::diagnostic::Result;

/// In canonical form every node has one.
const SEED: AttributeDef = AttributeDef::new("seed", Kind::Float, Default::Shapes);

pub(super) const BERNOULLI: List = &[int("dtype"), SEED];
pub(super) const MULTINOMIAL: List = &[int_or("dtype", 6), int_or("sample_size", 1), SEED];
pub(super) const NORMAL: List =
    &[int_or("dtype", 1), float_or("mean", 0.0), float_or("scale", 1.0), SEED, ints("shape").required()];
pub(super) const NORMAL_LIKE: List = &[int("dtype"), float_or("mean", 0.0), float_or("scale", 1.0), SEED];
pub(super) const UNIFORM: List =
    &[int_or("dtype", 1), float_or("high", 1.0), float_or("low", 0.0), SEED, ints("shape").required()];
pub(super) const UNIFORM_LIKE: List = &[int("dtype"), float_or("high", 1.0), float_or("low", 0.0), SEED];

/// The type that the attribute names, of these; without it the other one.
fn dtype(infer: &Infer<'_>, types: &[DType], otherwise: DType) -> Result<DType> {
    let found = match infer.optional_int("dtype")? {
        None => Some(otherwise),
        Some(code) => from_onnx(code),
    };
    found.filter(|dtype| types.contains(dtype)).ok_or_else(|| {
        let names: Vec<_> = types.iter().map(|dtype| dtype.name()).collect();
        bad(format!("attribute 'dtype' does not name one of {}", names.join(", ")))
    })
}

/// Bernoulli.
pub(super) fn bernoulli(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let dtype = dtype(infer, &[NUMERIC, &[DType::Bool]].concat(), x.dtype)?;
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// Multinomial.
pub(super) fn multinomial(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.ranked(0, FLOAT, 2)?;
    let dtype = dtype(infer, &[DType::I32, DType::I64], DType::I32)?;
    let count = infer.int("sample_size", 1)?;
    let samples = usize::try_from(count).ok().filter(|&count| count > 0);
    let samples = samples.ok_or_else(|| bad(format!("attribute 'sample_size' is {count}, expected at least 1")))?;
    infer.set(0, dtype, vec![x.shape[0].clone(), Dim::Fixed(samples)]);
    Ok(())
}

/// RandomNormal and RandomUniform.
pub(super) fn of_shape(infer: &mut Infer<'_>) -> Result<()> {
    let shape = infer.ints("shape")?.ok_or_else(|| bad("attribute 'shape' is missing"))?;
    let size = |&size: &i64| {
        let size_of = usize::try_from(size).map(Dim::Fixed);
        size_of.map_err(|_| bad(format!("attribute 'shape' is {shape:?}, expected no negative number")))
    };
    let sizes = shape.iter().map(size).collect::<Result<Vec<_>>>()?;
    let dtype = dtype(infer, FLOAT, DType::F32)?;
    infer.set(0, dtype, sizes);
    Ok(())
}

/// RandomNormalLike and RandomUniformLike.
pub(super) fn like(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let dtype = dtype(infer, FLOAT, x.dtype)?;
    infer.set(0, dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const NUMBERS: &[Case] = &[
        ("Bernoulli", "", "f32[n,3]", "f32[n,3]"),
        ("Bernoulli", "dtype=9", "f16[n,3]", "bool[n,3]"),
        ("Multinomial", "sample_size=5 dtype=7", "f32[n,3]", "i64[n,5]"),
        ("Multinomial", "", "f32[n,3]", "i32[n,1]"),
        ("Multinomial", "sample_size=0", "f32[n,3]", "[B106] attribute 'sample_size' is 0, expected at least 1"),
        ("Multinomial", "dtype=1", "f32[n,3]", "[B106] attribute 'dtype' does not name one of i32, i64"),
        ("RandomNormal", "shape=[2,3] dtype=11", "", "f64[2,3]"),
        ("RandomUniform", "shape=[]", "", "f32[]"),
        ("RandomUniform", "shape=[-1]", "", "[B106] attribute 'shape' is [-1], expected no negative number"),
        ("RandomUniform", "", "", "[B106] attribute 'shape' is missing"),
        ("RandomNormalLike", "dtype=10", "i64[n]", "f16[n]"),
        ("RandomUniformLike", "", "f32[n]", "f32[n]"),
        ("RandomUniformLike", "", "i32[n]", "[B106] attribute 'dtype' does not name one of f32, f64, f16, bf16"),
    ];

    #[test]
    fn numbers() {
        check(NUMBERS);
    }
}
