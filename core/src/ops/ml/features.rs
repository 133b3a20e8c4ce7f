//! Operators that prepare features, after `ai.onnx.ml`: version 1, LabelEncoder 4. Rows of a table are examples, columns are
//! features.

use byoc_plugin_api::{DType, Dim};

use super::NUMBERS;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ops::infer::{STRING, bad, mismatch, unknown};
use crate::ops::{Infer, Scalar};

/// Scaler: the difference to an offset times a scale, both for all features or for each.
pub(super) fn scaler(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMBERS)?;
    for (index, name) in [(1, "offset"), (2, "scale")] {
        per_feature(infer, index, name)?;
    }
    infer.set(0, DType::F32, x.shape);
    Ok(())
}

/// Fails where the list of numbers at input `index` is neither one for all features nor one for each.
fn per_feature(infer: &Infer<'_>, index: usize, name: &str) -> Result<()> {
    let (Some(count), x) = (length(infer, index, name)?, infer.input(0)?) else { return Ok(()) };
    let fits = match x.shape.as_slice() {
        _ if count == 1 => true,
        [features] | [_, features] => features.fixed().is_none_or(|features| features == count),
        _ => false,
    };
    let cause =
        || format!("'{name}' has {count} numbers, and input 0 is {x}: expected one, or one for each of its columns");
    if fits { Ok(()) } else { Err(mismatch(cause())) }
}

/// How many elements a list has that is an attribute in ONNX, if it is there.
pub(super) fn length(infer: &Infer<'_>, index: usize, name: &str) -> Result<Option<usize>> {
    if !infer.has(index) {
        return Ok(None);
    }
    let list = infer.input(index)?;
    match list.shape.as_slice() {
        [length] => length.fixed().map(Some),
        _ => None,
    }
    .ok_or_else(|| mismatch(format!("'{name}' is {list}, expected a list of a known length")))
}

/// Normalizer: each row by its norm.
pub(super) fn normalizer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMBERS)?;
    infer.choice("norm", &["MAX", "L1", "L2"])?;
    if !matches!(x.shape.len(), 1 | 2) {
        return Err(mismatch(format!("input 0 is {x}, expected one or two dimensions")));
    }
    infer.set(0, DType::F32, x.shape);
    Ok(())
}

/// Binarizer: 1 above the threshold, else 0.
pub(super) fn binarizer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMBERS)?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// Imputer: another number in the place of a certain one.
pub(super) fn imputer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMBERS)?;
    let (wanted, other) = if x.dtype.is_float() { (1, 2) } else { (2, 1) };
    let names = ["", "imputed_value_floats", "imputed_value_int64s"];
    if infer.has(other) || !infer.has(wanted) {
        return Err(bad(format!("input 0 is {x}, so attribute '{}' must be there, and only that", names[wanted])));
    }
    per_feature(infer, wanted, names[wanted])?;
    infer.set(0, x.dtype, x.shape);
    Ok(())
}

/// ArrayFeatureExtractor: the features of the given numbers. A vector counts as a row.
pub(super) fn extractor(infer: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (infer.typed(0, &[NUMBERS, STRING].concat())?, infer.typed(1, &[DType::I64])?);
    let chosen = y.fixed_shape().map(|shape| shape.iter().product::<usize>());
    let chosen = match (chosen, y.shape.as_slice()) {
        (Some(chosen), _) => Dim::Fixed(chosen),
        (None, [chosen]) => chosen.clone(),
        _ => return Err(unknown(format!("input 1 is {y}: its number of elements is known only at run time"))),
    };
    let Some((features, rows)) = x.shape.split_last() else {
        return Err(mismatch(format!("input 0 is {x}, expected at least one dimension")));
    };
    for index in infer.known(1).into_iter().flatten().filter_map(Scalar::as_i64) {
        if index < 0 || features.fixed().is_some_and(|features| index as usize >= features) {
            return Err(bad(format!("input 1 has {index}, and input 0 is {x}: there is no such feature")));
        }
    }
    let mut shape = if rows.is_empty() { vec![Dim::Fixed(1)] } else { rows.to_vec() };
    shape.push(chosen);
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// FeatureVectorizer: the features of all inputs side by side. A vector counts as a row.
pub(super) fn vectorizer(infer: &mut Infer<'_>) -> Result<()> {
    let widths = infer.ints("inputdimensions")?.ok_or_else(|| bad("attribute 'inputdimensions' is missing"))?;
    if widths.len() != infer.inputs.len() {
        let cause =
            format!("attribute 'inputdimensions' has {} numbers for {} inputs", widths.len(), infer.inputs.len());
        return Err(bad(cause));
    }
    let (mut rows, mut sum) = (Vec::new(), 0usize);
    for (index, &width) in widths.iter().enumerate() {
        let x = infer.typed(index, NUMBERS)?;
        let (count, features) = match x.shape.as_slice() {
            [features] => (Dim::Fixed(1), features.clone()),
            [count, features] => (count.clone(), features.clone()),
            _ => return Err(mismatch(format!("input {index} is {x}, expected one or two dimensions"))),
        };
        let known = usize::try_from(width).ok().filter(|&width| features.fixed().is_none_or(|found| found == width));
        let wrong = || {
            mismatch(format!("input {index} is {x}, but attribute 'inputdimensions' says that it has {width} columns"))
        };
        sum = known.and_then(|width| sum.checked_add(width)).ok_or_else(wrong)?;
        if rows.iter().any(|other: &Dim| other.fixed().zip(count.fixed()).is_some_and(|(other, count)| other != count))
        {
            return Err(mismatch(format!("input {index} is {x}, and another input has {} rows", rows[0])));
        }
        rows.push(count);
    }
    let fixed = rows.iter().find(|rows| rows.fixed().is_some()).or(rows.first());
    let rows = fixed.cloned().ok_or_else(|| bad("there is no input"))?;
    infer.set(0, DType::F32, vec![rows, Dim::Fixed(sum)]);
    Ok(())
}

/// OneHotEncoder: for each element a 1 at the place of its category. Numbers are truncated to integers.
pub(super) fn one_hot(infer: &mut Infer<'_>) -> Result<()> {
    let mut x = infer.typed(0, &[NUMBERS, STRING].concat())?;
    let (at, name) = if x.dtype == DType::String { (2, "cats_strings") } else { (1, "cats_int64s") };
    let categories = length(infer, at, name)?.ok_or_else(|| bad(format!("attribute '{name}' is missing")))?;
    x.shape.push(Dim::Fixed(categories));
    infer.set(0, DType::F32, x.shape);
    Ok(())
}

/// CategoryMapper: the integer of each text, or the text of each integer.
pub(super) fn category_mapper(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, &[DType::I64, DType::String])?;
    let [ints, texts] = [(1, "cats_int64s"), (2, "cats_strings")].map(|(at, name)| length(infer, at, name));
    let (ints, texts) = (ints?.unwrap_or(0), texts?.unwrap_or(0));
    if ints != texts {
        return Err(mismatch(format!("there are {texts} texts for {ints} integers")));
    }
    let dtype = if x.dtype == DType::String { DType::I64 } else { DType::String };
    infer.set(0, dtype, x.shape);
    Ok(())
}

/// LabelEncoder: the value of the key that each element is, or the default.
pub(super) fn label_encoder(infer: &mut Infer<'_>) -> Result<()> {
    const TYPES: &[DType] = &[DType::F32, DType::F64, DType::I64, DType::I32, DType::I16, DType::String];
    let x = infer.typed(0, TYPES)?;
    let (default, keys, values) = (infer.typed(1, TYPES)?, infer.typed(2, TYPES)?, infer.typed(3, TYPES)?);
    for (name, found, expected, of) in [("keys", &keys, &x, "input 0"), ("default", &default, &values, "the values")] {
        if found.dtype != expected.dtype {
            let text = format!("the {name} are {found}, and {of} {expected}: both must have the same element type");
            return Err(Diagnostic::new(Code::TypeMismatch, text));
        }
    }
    let (count, of_values) = (length(infer, 2, "keys_tensor")?, length(infer, 3, "values_tensor")?);
    if count != of_values {
        return Err(mismatch(format!("the keys are {keys} and the values {values}: expected as many")));
    }
    if default.fixed_shape().map(|shape| shape.iter().product()) != Some(1usize) {
        return Err(mismatch(format!("the default is {default}, expected one element")));
    }
    infer.set(0, values.dtype, x.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const FEATURES: &[Case] = &[
        ("ai.onnx.ml.Scaler", "", "f64[n,3] f32[3] f32[1]", "f32[n,3]"),
        ("ai.onnx.ml.Scaler", "", "i64[2,3,4] f32[1] -", "f32[2,3,4]"),
        ("ai.onnx.ml.Scaler", "", "f32[n,m] f32[5] f32[5]", "f32[n,m]"),
        (
            "ai.onnx.ml.Scaler",
            "",
            "f32[n,3] f32[3] f32[2]",
            "[B202] 'scale' has 2 numbers, and input 0 is f32[n,3]: expected one, or one for each of its columns",
        ),
        (
            "ai.onnx.ml.Scaler",
            "",
            "f32[1,2,3] f32[3] f32[3]",
            "[B202] 'offset' has 3 numbers, and input 0 is f32[1,2,3]: expected one, or one for each of its columns",
        ),
        ("ai.onnx.ml.Scaler", "", "u8[3]", "[B201] input 0 is u8[3], expected one of f32, f64, i64, i32"),
        (
            "ai.onnx.ml.Scaler",
            "offset=1",
            "f32[3]",
            "[B106] attribute 'offset' is not known for operator ai.onnx.ml.Scaler",
        ),
        ("ai.onnx.ml.Normalizer", "norm=L2", "i32[n,3]", "f32[n,3]"),
        (
            "ai.onnx.ml.Normalizer",
            "norm=L3",
            "f32[n,3]",
            "[B106] attribute 'norm' is 'L3', expected one of MAX, L1, L2",
        ),
        ("ai.onnx.ml.Normalizer", "", "f32[1,n,3]", "[B202] input 0 is f32[1,n,3], expected one or two dimensions"),
        ("ai.onnx.ml.Binarizer", "", "f64[n,3]", "f64[n,3]"),
        ("ai.onnx.ml.Imputer", "", "f32[n,3] f32[1]", "f32[n,3]"),
        ("ai.onnx.ml.Imputer", "", "i64[n,3] - u8[3]", "i64[n,3]"),
        (
            "ai.onnx.ml.Imputer",
            "",
            "i64[n,3] f32[3]",
            "[B106] input 0 is i64[n,3], so attribute 'imputed_value_int64s' must be there, and only that",
        ),
        ("ai.onnx.ml.ArrayFeatureExtractor", "", "f32[n,3] i64[1,2]=0,2", "f32[n,2]"),
        ("ai.onnx.ml.ArrayFeatureExtractor", "", "i32[3] i64[k]", "i32[1,k]"),
        (
            "ai.onnx.ml.ArrayFeatureExtractor",
            "",
            "i32[3] i64[2]=0,3",
            "[B106] input 1 has 3, and input 0 is i32[3]: there is no such feature",
        ),
        ("ai.onnx.ml.FeatureVectorizer", "inputdimensions=[3,2]", "f32[n,3] i64[n,2]", "f32[n,5]"),
        ("ai.onnx.ml.FeatureVectorizer", "inputdimensions=[3,1]", "f32[3] f32[1,1]", "f32[1,4]"),
        (
            "ai.onnx.ml.FeatureVectorizer",
            "inputdimensions=[3,1]",
            "f32[n,3] f32[n,2]",
            "[B202] input 1 is f32[n,2], but attribute 'inputdimensions' says that it has 1 columns",
        ),
        (
            "ai.onnx.ml.FeatureVectorizer",
            "inputdimensions=[3,2]",
            "f32[4,3] f32[5,2]",
            "[B202] input 1 is f32[5,2], and another input has 4 rows",
        ),
        (
            "ai.onnx.ml.FeatureVectorizer",
            "inputdimensions=[3]",
            "f32[4,3] f32[5,2]",
            "[B106] attribute 'inputdimensions' has 1 numbers for 2 inputs",
        ),
        ("ai.onnx.ml.OneHotEncoder", "", "f32[n,3] u8[4]", "f32[n,3,4]"),
        ("ai.onnx.ml.OneHotEncoder", "", "f32[n,3]", "[B106] attribute 'cats_int64s' is missing"),
        ("ai.onnx.ml.OneHotEncoder", "", "string[n] - string[4]", "f32[n,4]"),
        ("ai.onnx.ml.OneHotEncoder", "", "string[n] u8[4]", "[B106] attribute 'cats_strings' is missing"),
        ("ai.onnx.ml.CategoryMapper", "", "string[n,3] u8[4] string[4]", "i64[n,3]"),
        ("ai.onnx.ml.CategoryMapper", "", "i64[n,3] u8[4] string[4]", "string[n,3]"),
        ("ai.onnx.ml.CategoryMapper", "", "i64[n,3] u8[4] string[3]", "[B202] there are 3 texts for 4 integers"),
        ("ai.onnx.ml.LabelEncoder", "", "i64[n,3] f32[1] i64[4] f32[4]", "f32[n,3]"),
        ("ai.onnx.ml.LabelEncoder", "", "string[n] string[1] string[4] string[4]", "string[n]"),
        (
            "ai.onnx.ml.LabelEncoder",
            "",
            "i64[n,3] f32[1] f32[4] f32[4]",
            "[B201] the keys are f32[4], and input 0 i64[n,3]: both must have the same element type",
        ),
        (
            "ai.onnx.ml.LabelEncoder",
            "",
            "i64[n,3] f32[1] i64[4] f32[3]",
            "[B202] the keys are i64[4] and the values f32[3]: expected as many",
        ),
    ];

    #[test]
    fn features() {
        check(FEATURES);
    }
}
