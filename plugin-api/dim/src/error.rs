//! Why an expression of sizes cannot be computed.

/// The kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimErrorKind {
    /// The result is not a size: negative, too large, or divided by zero.
    Invalid,
    /// A symbol has no value, or a text is not an expression.
    Unknown,
    /// An actual size contradicts what is known.
    Contradiction,
}

/// Why an expression cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DimError {
    /// The kind of reason.
    pub kind: DimErrorKind,
    /// One line.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
}

impl DimError {
    pub(super) fn new(kind: DimErrorKind, message: impl Into<String>) -> Self {
        DimError { kind, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
