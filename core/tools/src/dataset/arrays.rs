//! Arrays of files as samples of inputs.

use std::path::Path;

use super::bad;
use crate::npy::{self, Array};
use crate::text;
use byoc_core::calibrate::Input;
use byoc_core::diagnostic::{Diagnostic, Result};
use byoc_plugin_api::{DType, closest};

/// Reads a `.npy` file, which must be for the only input.
pub(super) fn read_npy(path: &Path, inputs: &[Input]) -> Result<Array> {
    if inputs.len() != 1 {
        let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
        let message = format!("'{}' holds one array, and the inputs are {}", path.display(), names.join(", "));
        return Err(bad(message).hint("Use .npz files with an array for each input"));
    }
    npy::open(path)
}

/// The array of each input, by name. Others are labels or for other inputs.
pub(super) fn by_name(path: &Path, arrays: Vec<(String, Array)>, inputs: &[Input]) -> Result<Vec<Array>> {
    let names: Vec<_> = arrays.iter().map(|(name, _)| name.clone()).collect();
    let mut arrays: Vec<_> = arrays.into_iter().map(|(name, array)| (name, Some(array))).collect();
    let mut take = |input: &Input| {
        let found = arrays.iter_mut().find(|(name, _)| *name == input.name);
        found.and_then(|(_, array)| array.take()).ok_or_else(|| missing(path, &names, input))
    };
    inputs.iter().map(&mut take).collect()
}

fn missing(path: &Path, names: &[String], input: &Input) -> Diagnostic {
    let error = bad(format!("'{}' has no array for input '{}'", path.display(), input.name));
    let list = names.join(", ");
    match closest(&input.name, names.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("Is it '{near}'? Arrays go by the inputs' names; there is {list}")),
        None if names.is_empty() => error.hint("The file has no arrays"),
        None => error.hint(format!("Arrays go by the inputs' names; there is {list}")),
    }
}

/// The elements of an array that is one sample of an input: of its shape, or of that without a leading 1.
pub(super) fn sample(path: &Path, array: Array, input: &Input) -> Result<Vec<u8>> {
    let fits = same(&array.shape, &input.shape) || batch_less(input).is_some_and(|shape| same(&array.shape, shape));
    if !fits {
        let without = batch_less(input).map(|shape| format!(" or {}", text::shape(shape))).unwrap_or_default();
        let hint = format!("Its shape must be {}{without}", text::shape(&input.shape));
        return Err(wrong_shape(path, &array, input).hint(hint));
    }
    elements(path, array, input)
}

/// How many samples of an input the array holds, and their elements.
pub(super) fn samples(path: &Path, array: Array, input: &Input) -> Result<(usize, Vec<u8>)> {
    let found = array
        .shape
        .split_first()
        .filter(|(_, rest)| same(rest, &input.shape) || batch_less(input).is_some_and(|shape| same(rest, shape)));
    let Some(count) = found.and_then(|(&count, _)| usize::try_from(count).ok()) else {
        let listed = |shape: &[usize]| {
            let sizes: Vec<_> = std::iter::once("N".to_owned()).chain(shape.iter().map(usize::to_string)).collect();
            format!("[{}]", sizes.join(","))
        };
        let without = batch_less(input).map(|shape| format!(" or {}", listed(shape))).unwrap_or_default();
        let hint = format!("Its shape must be {}{without} for N samples", listed(&input.shape));
        return Err(wrong_shape(path, &array, input).hint(hint));
    };
    Ok((count, elements(path, array, input)?))
}

fn elements(path: &Path, array: Array, input: &Input) -> Result<Vec<u8>> {
    if input.dtype == DType::String {
        return Err(bad(format!(
            "'{}': input '{}' is of texts, of which no data set is made",
            path.display(),
            input.name
        )));
    }
    let tensor = array.into_tensor(input.dtype).map_err(|found| {
        let Input { name, dtype, .. } = input;
        let hint = npy::conversion(&found, *dtype);
        bad(format!("'{}': the array for input '{name}' is {found}, the model takes {dtype}", path.display()))
            .hint(hint)
    })?;
    Ok(tensor.bytes().to_vec())
}

fn wrong_shape(path: &Path, array: &Array, input: &Input) -> Diagnostic {
    let (name, found, wanted) = (&input.name, text::shape(&array.shape), text::shape(&input.shape));
    bad(format!("'{}': the array for input '{name}' has shape {found}, the model takes {wanted}", path.display()))
}

/// The input's shape without a leading 1, if it has one.
fn batch_less(input: &Input) -> Option<&[usize]> {
    input.shape.split_first().filter(|(first, _)| **first == 1).map(|(_, rest)| rest)
}

fn same(found: &[i64], wanted: &[usize]) -> bool {
    found.len() == wanted.len() && found.iter().zip(wanted).all(|(&a, &b)| usize::try_from(a) == Ok(b))
}
