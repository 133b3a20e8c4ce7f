//! Recurrent layers: the activation functions by name, and the size of the hidden state.

use byoc_plugin_api::Attribute;

use crate::ir::{Node, TensorType};
use crate::ops::recurrent::activations;

/// Writes out what a layer has by default. A node that is not valid stays as it is.
pub(super) fn complete(node: &mut Node, inputs: &[Option<&TensorType>]) {
    if let Ok(names) = activations(node) {
        node.attributes.insert("activations".into(), Attribute::Strings(names));
    }
    let size = inputs.get(2).copied().flatten().and_then(|weights| weights.shape.last()?.fixed());
    if let Some(size) = size.and_then(|size| i64::try_from(size).ok()) {
        node.attributes.insert("hidden_size".into(), Attribute::Int(size));
    }
}
