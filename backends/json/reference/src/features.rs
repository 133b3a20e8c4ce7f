//! Operators of `ai.onnx.ml` that prepare features: rows of a table are examples, columns are features.

use byoc_plugin_api::{DType, Error};
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, each, shaped};
use super::call::{Call, Outputs};
use super::types::Types;
use super::{ANY, I64, Kernel, STRING, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ai.onnx.ml.ArrayFeatureExtractor", extract, &[TABLE.or(STRING), I64]),
    kernel("ai.onnx.ml.Binarizer", binarize, &[TABLE]),
    kernel("ai.onnx.ml.FeatureVectorizer", concatenate, &[TABLE]),
    kernel("ai.onnx.ml.Imputer", impute, &[TABLE, ANY]),
    kernel("ai.onnx.ml.Normalizer", normalize, &[TABLE]),
    kernel("ai.onnx.ml.Scaler", scale, &[TABLE, ANY]),
];

/// The element types of a table of features.
pub(super) const TABLE: Types = Types::of(&[DType::F32, DType::F64, DType::I32, DType::I64]);
pub(super) const LABEL: Types = TABLE.or(Types::of(&[DType::I16]));

/// The numbers of a list that is one for all columns or one for each, by the place of an element of `x`.
fn per_column<T: Copy>(x: &Array<'_>, list: &[T]) -> Result<impl Fn(usize) -> T, Error> {
    let columns = x.shape().last().copied().unwrap_or(1);
    let fits = list.len() == 1 || x.shape().len() <= 2 && list.len() == columns && columns > 0;
    if !fits {
        return Err(Error::new(format!("{} numbers for a table of shape {:?}", list.len(), x.shape())));
    }
    Ok(|place| list[place % list.len()])
}

fn floats(array: Option<&Array<'_>>) -> Option<Vec<f64>> {
    array.map(|array| array.to_f64().into_iter().collect())
}

/// One output of `f32`.
pub(super) fn as_f32(values: ArrayD<f64>) -> Outputs {
    Ok(vec![Array::from_f64(DType::F32, values)])
}

/// `Scaler`: `(x - offset) * scale`.
fn scale(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let offset = floats(call.optional(1)).unwrap_or_else(|| vec![0.0]);
    let scale = floats(call.optional(2)).unwrap_or_else(|| vec![1.0]);
    let (offset, scale) = (per_column(x, &offset)?, per_column(x, &scale)?);
    let mut values = x.to_f64();
    values.iter_mut().enumerate().for_each(|(place, value)| *value = (*value - offset(place)) * scale(place));
    as_f32(values)
}

/// `Normalizer`: each row by its largest element, by the sum of absolute values, or by the root of the sum of squares. A row
/// whose norm is 0 stays.
fn normalize(call: &Call<'_, '_>) -> Outputs {
    let norm = match call.node.string("norm", "MAX") {
        "MAX" => |row: &[f64]| row.iter().copied().fold(f64::NEG_INFINITY, Item::larger),
        "L1" => |row: &[f64]| row.iter().map(|value| value.abs()).sum(),
        "L2" => |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>().sqrt(),
        other => return Err(Error::new(format!("there is no norm '{other}'"))),
    };
    let mut values = call.input(0)?.to_f64();
    let columns = values.shape().last().copied().unwrap_or(1);
    for row in values.as_slice_mut().unwrap_or_default().chunks_exact_mut(columns.max(1)) {
        let norm = norm(row);
        if norm != 0.0 {
            row.iter_mut().for_each(|value| *value /= norm);
        }
    }
    as_f32(values)
}

/// `Binarizer`: 1 above the threshold, else 0.
fn binarize(call: &Call<'_, '_>) -> Outputs {
    let threshold = f64::from(call.node.float("threshold", 0.0));
    call.rounded(call.input(0)?.to_f64().mapv(|value| f64::from(u8::from(value > threshold))))
}

/// `Imputer`: the replacement of its column for each element that is to be replaced; all NaNs are one.
fn impute(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    if x.dtype().is_float() {
        let list = floats(call.optional(1)).ok_or_else(|| Error::new("Imputer has no numbers to put in"))?;
        let (other, replaced) = (per_column(x, &list)?, f64::from(call.node.float("replaced_value_float", 0.0)));
        let mut values = x.to_f64();
        for (place, value) in values.iter_mut().enumerate() {
            if *value == replaced || value.is_nan() && replaced.is_nan() {
                *value = other(place);
            }
        }
        return call.rounded(values);
    }
    let list = call.ints(2).ok_or_else(|| Error::new("Imputer has no numbers to put in"))?;
    let (other, replaced) = (per_column(x, &list)?, call.node.int("replaced_value_int64", 0));
    let filled = |(place, value)| if value == replaced { other(place) } else { value };
    let values: Vec<i64> = x.to_ints().into_iter().enumerate().map(filled).collect();
    let values = shaped(x.shape(), values)?;
    Ok(vec![match x.dtype() {
        DType::I32 => Item::wrap(values.mapv(|value| i32::from_int(value.into()))),
        _ => Item::wrap(values),
    }])
}

/// `ArrayFeatureExtractor`: the columns of the given numbers. A vector counts as a row.
fn extract(call: &Call<'_, '_>) -> Outputs {
    fn chosen<T: Item>(call: &Call<'_, '_>, x: ArrayViewD<'_, T>) -> Outputs {
        let Some((&columns, rows)) = x.shape().split_last() else { return Err(Error::new("a scalar has no features")) };
        let index = |index: i64| {
            let found = usize::try_from(index).ok().filter(|&index| index < columns);
            found.ok_or_else(|| Error::new(format!("there is no feature {index} among {columns}")))
        };
        let indices = call.ints(1).unwrap_or_default().into_iter().map(index).collect::<Result<Vec<_>, _>>()?;
        let mut shape = if rows.is_empty() { vec![1] } else { rows.to_vec() };
        shape.push(indices.len());
        let mut values = Vec::with_capacity(call.count(&shape)?);
        for row in x.as_standard_layout().as_slice().unwrap_or_default().chunks_exact(columns.max(1)) {
            values.extend(indices.iter().map(|&index| row[index]));
        }
        Ok(vec![T::wrap(shaped(&shape, values)?)])
    }
    each!(call.input(0)?, x => chosen(call, x.view()))
}

/// `FeatureVectorizer`: the columns of all inputs side by side. A vector counts as a row.
fn concatenate(call: &Call<'_, '_>) -> Outputs {
    let widths = call.node.ints("inputdimensions").unwrap_or_default();
    let mut tables = Vec::new();
    for (index, table) in call.inputs().enumerate() {
        let (rows, columns) = match *table.shape() {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            ref shape => return Err(Error::new(format!("input {index} has the shape {shape:?}"))),
        };
        if widths.get(index).copied() != i64::try_from(columns).ok() {
            return Err(Error::new(format!("input {index} has {columns} columns, unlike 'inputdimensions'")));
        }
        tables.push((rows, columns, table.to_f64()));
    }
    let rows = tables.first().map_or(0, |(rows, ..)| *rows);
    if tables.iter().any(|(other, ..)| *other != rows) {
        return Err(Error::new("the inputs have different numbers of rows"));
    }
    let shape = [rows, tables.iter().map(|(_, columns, _)| columns).sum()];
    let mut values = Vec::with_capacity(call.count(&shape)?);
    for row in 0..rows {
        for (_, columns, table) in &tables {
            values.extend_from_slice(&table.as_slice().unwrap_or_default()[row * columns..(row + 1) * columns]);
        }
    }
    as_f32(shaped(&shape, values)?)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use crate::testing::{all, first, ints, list, tensor, text};

    const NAN: f32 = f32::NAN;

    fn message(op: &str, attributes: &[(&str, Attribute)], inputs: Vec<Option<super::Array<'static>>>) -> String {
        all(op, attributes, inputs).map(drop).expect_err("it does not fit").message
    }

    #[test]
    fn features_are_scaled_and_normalized() {
        let x = || tensor(&[2, 2], &[1f32, -2.0, 3.0, 4.0]);
        let scaled = first("ai.onnx.ml.Scaler", &[], vec![x(), tensor(&[2], &[1f32, 2.0]), tensor(&[1], &[0.5f32])]);
        assert_eq!(scaled, (vec![2, 2], vec![0.0, -2.0, 1.0, 1.0]));
        assert_eq!(first("ai.onnx.ml.Scaler", &[], vec![x()]).1, [1.0, -2.0, 3.0, 4.0]);
        let three = vec![x(), tensor(&[3], &[1f32; 3])];
        assert_eq!(message("ai.onnx.ml.Scaler", &[], three), "3 numbers for a table of shape [2, 2]");
        let normalized = |norm: &str, x| first("ai.onnx.ml.Normalizer", &[("norm", text(norm))], vec![x]).1;
        assert_eq!(normalized("MAX", x()), [1.0, -2.0, 0.75, 1.0]);
        assert_eq!(normalized("L1", tensor(&[2], &[1i64, -3])), [0.25, -0.75]);
        assert_eq!(
            normalized("L2", tensor(&[2, 2], &[3f64, -4.0, 0.0, 0.0])),
            [f64::from(0.6f32), f64::from(-0.8f32), 0.0, 0.0]
        );
        assert_eq!(first("ai.onnx.ml.Normalizer", &[], vec![tensor::<f32>(&[2, 0], &[])]).0, [2, 0]);
    }

    #[test]
    fn features_are_replaced() {
        let threshold = [("threshold", Attribute::Float(1.0))];
        assert_eq!(first("ai.onnx.ml.Binarizer", &threshold, vec![tensor(&[3], &[1f32, 1.5, NAN])]).1, [0.0, 1.0, 0.0]);
        let of = |value| [("replaced_value_float", Attribute::Float(value))];
        let filled = |value, x: &[f32], list: &[f32]| {
            first("ai.onnx.ml.Imputer", &of(value), vec![tensor(&[1, x.len()], x), tensor(&[list.len()], list)]).1
        };
        assert_eq!(filled(NAN, &[1.0, NAN], &[7.0]), [1.0, 7.0]);
        assert_eq!(filled(1.0, &[1.0, 1.0], &[7.0, 8.0]), [7.0, 8.0]);
        let integers = [("replaced_value_int64", Attribute::Int(2))];
        let found =
            first("ai.onnx.ml.Imputer", &integers, vec![tensor(&[1, 2], &[2i32, 3]), None, tensor(&[1], &[255u8])]);
        assert_eq!(found.1, [255.0, 3.0]);
    }

    #[test]
    fn features_are_chosen_and_joined() {
        let x = || tensor(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
        let chosen = first("ai.onnx.ml.ArrayFeatureExtractor", &[], vec![x(), ints(&[2, 0])]);
        assert_eq!(chosen, (vec![2, 2], vec![3.0, 1.0, 6.0, 4.0]));
        let of_vector = vec![tensor(&[2], &[1f32, 2.0]), ints(&[1])];
        assert_eq!(first("ai.onnx.ml.ArrayFeatureExtractor", &[], of_vector), (vec![1, 1], vec![2.0]));
        assert_eq!(
            message("ai.onnx.ml.ArrayFeatureExtractor", &[], vec![x(), ints(&[-1])]),
            "there is no feature -1 among 3"
        );
        let joined = |widths: &[i64], inputs| {
            first("ai.onnx.ml.FeatureVectorizer", &[("inputdimensions", list(widths))], inputs)
        };
        let both = joined(&[3, 1], vec![x(), tensor(&[2, 1], &[8i32, 9])]);
        assert_eq!(both, (vec![2, 4], vec![1.0, 2.0, 3.0, 8.0, 4.0, 5.0, 6.0, 9.0]));
        assert_eq!(joined(&[2], vec![tensor(&[2], &[1f32, 2.0])]).0, [1, 2]);
        let wrong = message("ai.onnx.ml.FeatureVectorizer", &[("inputdimensions", list(&[2]))], vec![x()]);
        assert_eq!(wrong, "input 0 has 3 columns, unlike 'inputdimensions'");
    }
}
