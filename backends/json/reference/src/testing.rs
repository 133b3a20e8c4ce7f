//! Helpers for tests of the kernels: a node in one line, tensors in one line, results as numbers.

use byoc_plugin_api::{Attribute, Error, Node};
use ndarray::{ArrayD, IxDyn};

use super::array::{Array, Item};

/// A tensor of these elements.
pub(crate) fn tensor<T: Item>(shape: &[usize], values: &[T]) -> Option<Array<'static>> {
    Some(T::wrap(ArrayD::from_shape_vec(IxDyn(shape), values.to_vec()).expect("as many elements as the shape says")))
}

/// A tensor that counts up from 1.
pub(crate) fn counting(shape: &[usize]) -> Option<Array<'static>> {
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32 + 1.0).collect();
    tensor(shape, &values)
}

/// A vector of indices.
pub(crate) fn ints(values: &[i64]) -> Option<Array<'static>> {
    tensor(&[values.len()], values)
}

/// A list attribute.
pub(crate) fn list(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// A text attribute.
pub(crate) fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

/// A node with `outputs` outputs.
pub(crate) fn node(op: &str, outputs: usize, attributes: &[(&str, Attribute)]) -> Node {
    Node {
        name: "node".into(),
        op: op.into(),
        inputs: Vec::new(),
        outputs: vec![Some(0); outputs],
        attributes: attributes.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect(),
        ..Node::default()
    }
}

/// The outputs of one node.
pub(crate) fn all(
    op: &str,
    attributes: &[(&str, Attribute)],
    inputs: Vec<Option<Array<'static>>>,
) -> Result<Vec<Array<'static>>, Error> {
    super::compute(&node(op, 1, attributes), inputs, &[])
}

/// Shape and elements of the first output.
pub(crate) fn first(
    op: &str,
    attributes: &[(&str, Attribute)],
    inputs: Vec<Option<Array<'static>>>,
) -> (Vec<usize>, Vec<f64>) {
    let outputs = all(op, attributes, inputs).expect("the node is valid");
    (outputs[0].shape().to_vec(), outputs[0].to_f64().iter().copied().collect())
}
