//! Sequences and optionals whose contents the model fixes.

use crate::ir::ValueId;

/// What a name stands for that is no tensor.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::onnx) enum List {
    /// A sequence of these.
    Of(Vec<ValueId>),
    /// The slices of a tensor along an axis, with that axis (of size 1) or without.
    Slices { of: ValueId, axis: i64, keeps_axis: bool },
    /// An optional without an element.
    Nothing,
}

impl List {
    /// The values that it is made of.
    pub(in crate::onnx) fn values(&self) -> &[ValueId] {
        match self {
            List::Of(elements) => elements,
            List::Slices { of, .. } => std::slice::from_ref(of),
            List::Nothing => &[],
        }
    }

    /// The same of other values, as many.
    pub(in crate::onnx) fn with(&self, values: Vec<ValueId>) -> List {
        match (self, values.as_slice()) {
            (&List::Slices { axis, keeps_axis, .. }, &[of]) => List::Slices { of, axis, keeps_axis },
            (List::Of(_), _) => List::Of(values),
            _ => self.clone(),
        }
    }
}
