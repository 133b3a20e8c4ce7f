//! The operators core knows, as facts about them: versions, arity, types and shapes. No kernels. [`OPS`] is the one
//! list; each family has one file.

use byoc_plugin_api::{DType, Dim};

use crate::diagnostic::Result;
use crate::ir::{Node, TensorType};

/// What core knows of one operator in its canonical (newest) form.
pub struct OpDef {
    /// The ONNX name.
    pub name: &'static str,
    /// Fewest and most inputs; `usize::MAX` for variadic.
    pub inputs: (usize, usize),
    /// Most outputs.
    pub outputs: usize,
    /// Sets type and shape of each output.
    pub infer: fn(&mut Infer<'_>) -> Result<()>,
}

/// What an inference rule sees and sets. Input and output positions are ONNX's.
pub struct Infer<'a> {
    /// The node, in canonical form.
    pub node: &'a Node,
    /// Type of each input, `None` where it is absent.
    pub inputs: Vec<Option<TensorType>>,
    /// The elements of an integer input of rank 0 or 1, where they are known: numbers or symbolic expressions.
    pub elements: Vec<Option<Vec<Dim>>>,
    /// Result: type of each output.
    pub outputs: Vec<Option<TensorType>>,
    /// Result: elements of an integer output of rank 0 or 1, where they are known (Shape, Gather of one, Concat ...).
    pub output_elements: Vec<Option<Vec<Dim>>>,
}

/// A type that a rule set: shorthand.
pub fn tensor(dtype: DType, shape: Vec<Dim>) -> TensorType {
    TensorType { dtype, shape }
}
