//! Errors and refusals: what a backend says when it cannot, or will not.

use std::any::Any;

use byoc_dim::DimError;
use serde::{Deserialize, Serialize};

/// Why a backend failed. Crosses the border as JSON; core adds the plugin's and the region's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// One line: the thing, the cause. No full stop.
    pub message: String,
    /// The node that the error is about, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What the user can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether the backend's process ended, in place of an answer. Set by a host only: it does not cross the border.
    #[serde(skip)]
    pub crashed: bool,
    /// Whether the backend panicked, in place of an answer. Set where a panic is caught.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub panicked: bool,
}

impl Error {
    /// An error with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        Error { message: message.into(), node: None, hint: None, crashed: false, panicked: false }
    }

    /// Names the node that the error is about.
    pub fn at(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Adds what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a caught panic says. Its payload is never dropped: that may panic again.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    std::mem::forget(payload);
    text.unwrap_or_else(|| "no message".into())
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::new(error.to_string())
    }
}

impl From<DimError> for Error {
    fn from(error: DimError) -> Self {
        Error { hint: error.hint, ..Error::new(error.message) }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::new(error.to_string())
    }
}

/// The kind of reason for which `check` does not take a candidate. Printed by `byoc explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalCode {
    /// An element type the backend has no code for.
    Type,
    /// A rank or a shape it cannot handle, or one it must know and does not.
    Shape,
    /// An attribute value it has no code for.
    Attribute,
    /// An input that must be a constant and is none.
    ConstantNeeded,
    /// A number above (or below) what the hardware takes; see [`Refusal::limit`].
    Limit,
    /// `check` itself failed, for example by a panic. This is not an answer: the compile ends with an error.
    Failed,
    /// The backend's process ended while it checked. Set by a host only.
    #[serde(skip)]
    Crashed,
    /// `check` panicked. Set by a host only.
    #[serde(skip)]
    Panicked,
    /// Something else; also what an unknown code of a newer plugin reads as.
    #[serde(other)]
    Other,
}

/// A backend's "no" to one candidate, with the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of reason.
    pub code: RefusalCode,
    /// One line: what was found and what would be taken.
    pub message: String,
    /// For [`RefusalCode::Limit`]: the value found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// For [`RefusalCode::Limit`]: the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

impl Refusal {
    /// A refusal without numbers.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), value: None, limit: None }
    }

    /// A limit of the hardware that `value` does not keep.
    pub fn limit(message: impl Into<String>, value: f64, limit: f64) -> Self {
        Refusal { code: RefusalCode::Limit, message: message.into(), value: Some(value), limit: Some(limit) }
    }
}

impl std::fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RefusalCode::Type => "type",
            RefusalCode::Shape => "shape",
            RefusalCode::Attribute => "attribute",
            RefusalCode::ConstantNeeded => "constant_needed",
            RefusalCode::Limit => "limit",
            RefusalCode::Failed => "failed",
            RefusalCode::Crashed => "crashed",
            RefusalCode::Panicked => "panicked",
            RefusalCode::Other => "other",
        })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match (self.value, self.limit) {
            (Some(value), Some(limit)) => write!(f, " ({value} against a limit of {limit})"),
            _ => Ok(()),
        }
    }
}
