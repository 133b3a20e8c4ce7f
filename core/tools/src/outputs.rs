//! The outputs of a run: summaries, and copies for files and comparisons.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};
use byoc_core::runtime::{ListView, PortInfo, Session};
use byoc_plugin_api::{DType, Error, Handle, TensorView};
use serde::Serialize;

use crate::inputs::test_data;
use crate::npy::{self, Array};
use crate::tensor::{Number, Tensor};
use crate::{file, lists, npz, text};

/// How many elements of an output are kept, and how many of them are shown to people.
const KEPT: usize = 5;
const SHOWN: usize = 3;

/// The summary of one output.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// The output.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// The smallest of the elements that are numbers; none where there is no such element.
    pub min: Option<f64>,
    /// The largest of them.
    pub max: Option<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// Elements that are not numbers or infinite.
    pub non_finite: usize,
    /// The first elements, in JSON.
    pub first: Vec<serde_json::Value>,
    /// Fewer of them, as text.
    #[serde(skip)]
    pub first_text: String,
    /// The largest elements, as many as were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<Top>,
}

/// One of the largest elements.
#[derive(Debug, Serialize)]
pub struct Top {
    /// The index in each dimension.
    pub position: Vec<usize>,
    /// The element.
    pub value: f64,
    /// The label of its class, where there are labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Copies of the outputs of the last run, by name. Those of a sequence `y` are called `y.0`, `y.1` and so on; what an optional holds
/// has its name, and one that holds nothing is left out.
pub fn collect(session: &Session) -> Result<Vec<(String, Tensor)>> {
    let mut copies = Vec::new();
    for (index, port) in session.outputs().into_iter().enumerate() {
        if port.list.is_none() {
            copies.push(copy(session, port.name, &session.output(index)?)?);
            continue;
        }
        let list = session.output_list(index)?;
        match list.view() {
            ListView::Nothing => {}
            ListView::Tensor(tensor) => copies.push(copy(session, port.name, &tensor)?),
            ListView::Sequence(tensors) => {
                for (index, tensor) in tensors.iter().enumerate() {
                    copies.push(copy(session, lists::element_name(&port.name, index), tensor)?);
                }
            }
        }
    }
    Ok(copies)
}

fn copy(session: &Session, name: String, view: &TensorView<'_>) -> Result<(String, Tensor)> {
    if view.dtype() == DType::String {
        return Ok((name, texts(session, view)?));
    }
    let title = || format!("the copy of output '{name}' {}{}", view.dtype(), text::shape(view.shape()));
    let tensor = Tensor::copy(view).map_err(|shortage| shortage.diagnostic(Code::RunFailed, title()))?;
    Ok((name, tensor))
}

/// What the handles of an output stand for.
fn texts(session: &Session, view: &TensorView<'_>) -> Result<Tensor> {
    let bad = |error: Error| Diagnostic::new(Code::RunFailed, error.message);
    let handles = view.to_vec::<Handle>().map_err(bad)?;
    let texts = handles.into_iter().map(|handle| session.text(handle)).collect::<Result<Vec<_>>>()?;
    let tensor = Tensor::of_texts(view.shape().to_vec(), &texts);
    tensor.ok_or_else(|| Diagnostic::new(Code::RunFailed, "the texts of an output have more than 4 GiB"))
}

/// The expected outputs of a file, by name, in the types that the outputs have: of an `.npz` file, or of an `.npy` file or a
/// tensor of ONNX, which are for the only output or, the latter, for that of its name.
pub fn read_expected(path: &Path, ports: &[PortInfo]) -> Result<Vec<(String, Tensor)>> {
    file::open(path)?;
    match FileKind::of_file(path)? {
        FileKind::Npy => {
            let name = only(path, ports)?;
            Ok(vec![of_array(path, ports, name, npy::open(path)?)?])
        }
        FileKind::Tensor => {
            let (own, tensor) = test_data::read(path)?;
            let name = if lists::place(ports, &own).is_some() { own } else { only(path, ports)? };
            Ok(vec![(name, tensor)])
        }
        kind @ (FileKind::Image | FileKind::Sequence) => Err(mistaken_for(path, kind, Wanted::Npz)),
        _ => npz::read(path)?.into_iter().map(|(name, array)| of_array(path, ports, name, array)).collect(),
    }
}

/// The name of the only output, which a file without names is for.
fn only(path: &Path, ports: &[PortInfo]) -> Result<String> {
    let [port] = ports else {
        let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("'{}' does not say which of the outputs it is: {}", path.display(), names.join(", "));
        return Err(Diagnostic::new(Code::BadInput, message).hint("Write an .npz file with the names of the outputs"));
    };
    Ok(port.name.clone())
}

fn of_array(path: &Path, ports: &[PortInfo], name: String, array: Array) -> Result<(String, Tensor)> {
    // An array of another name is reported when the names are compared; its type does not matter then.
    let port = lists::place(ports, &name).and_then(|(index, _)| ports.get(index));
    let dtype = port.map(|port| port.list.as_ref().map_or(port.dtype, |list| list.dtype));
    let tensor = array.into_tensor_like(dtype).map_err(|found| {
        let message = format!("output '{name}' is {found} in '{}'", path.display());
        let hint = npy::conversion(&found, dtype.unwrap_or(DType::F32));
        Diagnostic::new(Code::BadInput, message).hint(hint)
    })?;
    Ok((name, tensor))
}

/// The summaries of the outputs of the last run that hold no tensor: empty sequences, and optionals without an element.
pub fn empty(session: &Session) -> Result<Vec<Summary>> {
    let mut summaries = Vec::new();
    for (index, port) in session.outputs().into_iter().enumerate() {
        let Some(list) = port.list else { continue };
        let empty = match session.output_list(index)?.view() {
            ListView::Nothing => true,
            ListView::Tensor(_) => false,
            ListView::Sequence(tensors) => tensors.is_empty(),
        };
        if empty {
            summaries.push(Summary { name: port.name, dtype: list.to_string(), shape: vec![0], ..Summary::default() });
        }
    }
    Ok(summaries)
}

impl Summary {
    /// Looks at every element; `top` is how many of the largest are wanted.
    pub fn of(name: &str, tensor: &Tensor, top: usize) -> Summary {
        let (mut count, mut sum) = (0usize, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        tensor.each_value(|value| {
            if value.is_finite() {
                count += 1;
                sum += value;
                (min, max) = (min.min(value), max.max(value));
            }
        });
        let of_numbers = |value: f64| (count > 0).then_some(value);
        let (texts, first): (Vec<_>, Vec<_>) = tensor.first(KEPT).into_iter().unzip();
        let more = if tensor.elements() > SHOWN { " ..." } else { "" };
        Summary {
            name: name.to_owned(),
            dtype: tensor.dtype().to_string(),
            shape: tensor.shape().to_vec(),
            min: of_numbers(min),
            max: of_numbers(max),
            mean: of_numbers(sum / count as f64),
            non_finite: tensor.numbers().len() - count,
            first,
            first_text: format!("{}{more}", texts[..texts.len().min(SHOWN)].join(" ")),
            top: largest(tensor, top),
        }
    }
}

/// The `count` largest elements, the largest first; of equal ones the first first.
fn largest(tensor: &Tensor, count: usize) -> Vec<Top> {
    if count == 0 {
        return Vec::new();
    }
    // Never many more than are wanted: there may be more elements than memory for a list of them.
    let mut found: Vec<(usize, f64)> = Vec::new();
    let keep_largest = |found: &mut Vec<(usize, f64)>| {
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(count);
    };
    for (index, value) in tensor.numbers().map(Number::value).enumerate().filter(|(_, value)| !value.is_nan()) {
        found.push((index, value));
        if found.len() / 2 > count {
            keep_largest(&mut found);
        }
    }
    keep_largest(&mut found);
    found.into_iter().map(|(index, value)| Top { position: tensor.position(index), value, label: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_leaves_out_what_is_no_number() {
        let values = [1f32, f32::NAN, 3.0, f32::INFINITY, -1.0, 2.0];
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::new(DType::F32, vec![2, 3], bytes).expect("a tensor");
        let summary = Summary::of("y", &tensor, 2);
        assert_eq!(
            (summary.min, summary.max, summary.mean, summary.non_finite),
            (Some(-1.0), Some(3.0), Some(1.25), 2)
        );
        assert_eq!(summary.first_text, "1 NaN 3 ...");
        let top: Vec<_> = summary.top.iter().map(|top| top.position.clone()).collect();
        assert_eq!(top, [[1, 0], [0, 2]]);
    }

    #[test]
    fn an_empty_output_has_no_numbers() {
        let tensor = Tensor::new(DType::I64, vec![0], vec![]).expect("a tensor");
        let summary = Summary::of("y", &tensor, 3);
        assert_eq!((summary.min, summary.mean, summary.first_text.as_str()), (None, None, ""));
    }
}
