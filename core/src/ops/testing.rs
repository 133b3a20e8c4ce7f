//! Runs the tables of tests of the operator families.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, DType, Dim};

use super::{Infer, Scalar, find};
use crate::diagnostic::Diagnostic;
use crate::dim;
use crate::ir::{Node, TensorType, ValueId};

/// A type in a message's form: `f32[2,batch]`.
pub(crate) fn ty(text: &str) -> TensorType {
    let (name, sizes) = text.trim_end_matches(']').split_once('[').unwrap_or_else(|| panic!("no type: {text}"));
    let dtype = DType::all().find(|dtype| dtype.name() == name).unwrap_or_else(|| panic!("no type: {text}"));
    let size = |size: &str| size.parse().map_or_else(|_| dim::symbol(size), Dim::Fixed);
    TensorType { dtype, shape: sizes.split(',').filter(|size| !size.is_empty()).map(size).collect() }
}

/// An attribute: `axis=1`, `pads=[1,2]`, `value=i64:<hex>`, or a text.
fn attribute(text: &str) -> (String, Attribute) {
    let (name, value) = text.split_once('=').unwrap_or_else(|| panic!("no attribute: {text}"));
    let number = |value: &str| value.parse().unwrap_or_else(|_| panic!("no number: {text}"));
    let attribute = if let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Attribute::Ints(list.split(',').filter(|value| !value.is_empty()).map(number).collect())
    } else if let Some((dtype, hex)) = value.split_once(':') {
        Attribute::Tensor { dtype: ty(&format!("{dtype}[]")).dtype, shape: vec![1], hex: hex.into() }
    } else {
        value.parse().map_or_else(|_| Attribute::String(value.into()), Attribute::Int)
    };
    (name.to_owned(), attribute)
}

/// Attributes, separated by spaces.
pub(crate) fn attributes(text: &str) -> BTreeMap<String, Attribute> {
    text.split_whitespace().map(attribute).collect()
}

/// Runs one operator. An input is `f32[2,3]`, `-` for none, or with elements `i64[2]=3,batch` (names must not hold commas).
pub(super) fn run(
    op: &str,
    attributes: &str,
    inputs: &str,
    outputs: usize,
) -> Result<(Vec<TensorType>, Option<Vec<Scalar>>), Diagnostic> {
    let (mut types, mut elements) = (Vec::new(), Vec::new());
    for input in inputs.split_whitespace() {
        let (text, values) = input.split_once('=').map_or((input, None), |(text, values)| (text, Some(values)));
        types.push((text != "-").then(|| ty(text)));
        let value = |value: &str| match value.parse::<f32>() {
            Ok(float) if float.fract() != 0.0 => Scalar::Float(float.into()),
            _ => match value.parse::<i64>() {
                Ok(number) => Scalar::from(number),
                Err(_) => Scalar::Int(value.parse().unwrap_or_else(|error| panic!("{value}: {error}"))),
            },
        };
        elements.push(values.map(|values| values.split(',').filter(|v| !v.is_empty()).map(value).collect()));
    }
    let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
    let node = Node {
        name: "n".into(),
        op: op.into(),
        domain: domain.into(),
        inputs: types.iter().map(|ty| ty.as_ref().map(|_| ValueId(0))).collect(),
        outputs: vec![Some(ValueId(0)); outputs],
        attributes: self::attributes(attributes),
        ..Node::default()
    };
    let mut infer = Infer::new(&node, types, elements);
    infer.apply(find(domain, op).unwrap_or_else(|| panic!("no operator {op}")))?;
    Ok((infer.outputs.into_iter().flatten().collect(), infer.output_elements.swap_remove(0)))
}

/// One row: operator, attributes, inputs (all in one text), then the output types (and elements after `=`), or the error's code and text.
pub(super) type Case = (&'static str, &'static str, &'static str, &'static str);

/// Runs each row. A row whose expectation starts with `[B` is an error's.
pub(super) fn check(cases: &[Case]) {
    for (op, attributes, inputs, expected) in cases {
        let wanted = expected.split(" = ").next().unwrap_or_default();
        let outputs = if expected.starts_with("[B") { 1 } else { wanted.matches('[').count() };
        let found = match run(op, attributes, inputs, outputs) {
            Err(error) => format!("[{}] {}", error.code.id(), error.message),
            Ok((types, elements)) => {
                let types = types.iter().map(TensorType::to_string).collect::<Vec<_>>().join(" ");
                match (elements, expected.contains(" = ")) {
                    (Some(values), true) => format!("{types} = {}", show(&values)),
                    (None, true) => format!("{types} = unknown"),
                    (_, false) => types,
                }
            }
        };
        assert_eq!(&found, expected, "{op} {attributes} {inputs}");
    }
}

fn show(values: &[Scalar]) -> String {
    let text = |value: &Scalar| match value {
        Scalar::Int(expr) => expr.to_string(),
        Scalar::Float(value) => value.to_string(),
    };
    values.iter().map(text).collect::<Vec<_>>().join(",")
}
