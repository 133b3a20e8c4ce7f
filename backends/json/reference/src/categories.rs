//! Operators of `ai.onnx.ml` that look elements up in a list: `CategoryMapper`, `LabelEncoder`, `OneHotEncoder`.

use std::collections::HashMap;

use byoc_plugin_api::{DType, Error, Handle};
use ndarray::ArrayViewD;

use super::array::{Array, Item, each, shaped};
use super::call::{Call, Outputs, same};
use super::features::{LABEL, TABLE};
use super::{ANY, I64, Kernel, STRING, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ai.onnx.ml.CategoryMapper", map_categories, &[I64.or(STRING), ANY, STRING]),
    kernel("ai.onnx.ml.LabelEncoder", encode_labels, &[LABEL.or(STRING), ANY.or(STRING)]),
    kernel("ai.onnx.ml.OneHotEncoder", one_hot, &[TABLE.or(STRING), ANY.or(STRING)]),
];

/// `OneHotEncoder`: for each element a 1 at the place of its category, the last one where it has several.
fn one_hot(call: &Call<'_, '_>) -> Outputs {
    let at = if call.input(0)?.dtype() == DType::String { 2 } else { 1 };
    call.optional(at).ok_or_else(|| Error::new("OneHotEncoder has no categories"))?;
    let [x, categories] = &call.comparable([0, at])?;
    let categories = categories.to_ints();
    let places: HashMap<i64, usize> =
        categories.iter().enumerate().map(|(place, &category)| (category, place)).collect();
    let shape = [x.shape(), &[categories.len()]].concat();
    let mut values = vec![0f32; call.count(&shape)?];
    for (place, (element, row)) in
        x.to_ints().into_iter().zip(values.chunks_exact_mut(categories.len().max(1))).enumerate()
    {
        match places.get(&element) {
            Some(&place) => row[place] = 1.0,
            None if call.node.int("zeros", 1) != 0 => {}
            None => {
                let element = call.shown(0, place);
                return Err(Error::new(format!("{element} is not one of the categories of OneHotEncoder"))
                    .hint("Give it only what it was trained with, or export it with zeros=1"));
            }
        }
    }
    Ok(vec![Item::wrap(shaped(&shape, values)?)])
}

/// What stands for a key: both zeros are one, and so are all NaNs.
fn key<T: Item>(value: T) -> i128 {
    match value.to_f64() {
        _ if !T::DTYPE.is_float() => value.to_int(),
        float if float.is_nan() => i128::MAX,
        float => i128::from((float + 0.0).to_bits()),
    }
}

/// `LabelEncoder`: the value of the first key that each element is, or the default.
fn encode_labels(call: &Call<'_, '_>) -> Outputs {
    fn keys_of(array: &Array<'_>) -> Vec<i128> {
        each!(array, x => x.iter().map(|&value| key(value)).collect())
    }
    let (default, values) = (call.input(1)?, call.input(3)?);
    let [x, keys] = &call.comparable([0, 2])?;
    if x.dtype() != keys.dtype()
        || values.dtype() != default.dtype()
        || keys.len() != values.len()
        || default.len() != 1
    {
        return Err(Error::new("the keys, the values and the default of LabelEncoder do not fit"));
    }
    let mut places = HashMap::new();
    for (place, key) in keys_of(keys).into_iter().enumerate() {
        places.entry(key).or_insert(place);
    }
    let found: Vec<Option<usize>> = keys_of(x).iter().map(|key| places.get(key).copied()).collect();
    fn pick<T: Item>(values: ArrayViewD<'_, T>, default: &Array<'_>, found: &[Option<usize>]) -> Result<Vec<T>, Error> {
        let default = same(&values, default)?.first().copied().unwrap_or_default();
        let values: Vec<T> = values.iter().copied().collect();
        let one = |place: &Option<usize>| place.and_then(|place| values.get(place).copied()).unwrap_or(default);
        Ok(found.iter().map(one).collect())
    }
    each!(values, values => Ok(vec![Item::wrap(shaped(x.shape(), pick(values.view(), default, &found)?)?)]))
}

/// `CategoryMapper`: the integer of each text, or the text of each integer; of one that is not there, the default.
fn map_categories(call: &Call<'_, '_>) -> Outputs {
    let none = || Error::new("CategoryMapper has no categories");
    let (ints, texts) = (call.ints(1).ok_or_else(none)?, call.optional(2).ok_or_else(none)?);
    if ints.len() != texts.len() {
        return Err(Error::new("the texts and the integers of CategoryMapper do not fit"));
    }
    if call.input(0)?.dtype() == DType::String {
        let [x, known] = &call.comparable([0, 2])?;
        let places: HashMap<i64, i64> = known.to_ints().into_iter().zip(ints).collect();
        let default = call.node.int("default_int64", -1);
        let values = x.to_ints().iter().map(|key| places.get(key).copied().unwrap_or(default)).collect();
        return Ok(vec![Item::wrap(shaped(x.shape(), values)?)]);
    }
    let handles = Handle::of(texts).ok_or_else(none)?;
    let places: HashMap<i64, Handle> = ints.into_iter().zip(handles.iter().copied()).collect();
    let (x, default) = (call.input(0)?, call.handle(call.node.string("default_string", "_Unused"))?);
    let values = x.to_ints().iter().map(|key| places.get(key).copied().unwrap_or(default)).collect();
    Ok(vec![Item::wrap(shaped(x.shape(), values)?)])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use crate::testing::{all, first, tensor};

    const NAN: f32 = f32::NAN;

    #[test]
    fn categories_and_labels() {
        let x = || tensor(&[2], &[2.9f32, -1.0]);
        let hot = first("ai.onnx.ml.OneHotEncoder", &[], vec![x(), tensor(&[2], &[1u8, 2])]);
        assert_eq!(hot, (vec![2, 2], vec![0.0, 1.0, 0.0, 0.0]));
        let zeros = [("zeros", Attribute::Int(0))];
        let strict = all("ai.onnx.ml.OneHotEncoder", &zeros, vec![x(), tensor(&[1], &[2u8])]).map(drop);
        assert_eq!(strict.expect_err("no category").message, "-1 is not one of the categories of OneHotEncoder");
        let of =
            |x, keys, values| first("ai.onnx.ml.LabelEncoder", &[], vec![x, tensor(&[1], &[-1f32]), keys, values]).1;
        let values = || tensor(&[3], &[5f32, 6.0, 7.0]);
        assert_eq!(of(tensor(&[3], &[1i64, 2, 3]), tensor(&[3], &[1i64, 1, 3]), values()), [5.0, -1.0, 7.0]);
        assert_eq!(of(tensor(&[3], &[NAN, -0.0, 2.0]), tensor(&[3], &[0f32, NAN, 1.0]), values()), [6.0, 5.0, -1.0]);
    }
}
