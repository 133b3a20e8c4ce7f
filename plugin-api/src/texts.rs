//! Texts as values: an element of a tensor of [`DType::String`](crate::DType::String) is a handle, and what it stands for is in a
//! table that the host lends.

use std::sync::Arc;

use crate::dtype::Handle;
use crate::error::Error;

/// The table of texts, which a host lends to an executable ([`Executable::lend`](crate::Executable::lend)). A handle may come from
/// anywhere; handle 0 is the empty text in every table, so that zeroed memory is a tensor of empty texts.
pub trait Texts: Send + Sync {
    /// The text that a handle stands for; an error where that is none.
    fn get(&self, handle: Handle) -> Result<Arc<str>, Error>;

    /// A handle for a text, good until the run ends, and after it for what the run gives. An error where there is no memory for
    /// the text.
    fn add(&self, text: &str) -> Result<Handle, Error>;
}
