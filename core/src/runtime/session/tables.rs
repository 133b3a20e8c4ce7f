//! What a session holds beside tensors of numbers: its stages and the sessions of its bodies have it in common.

use std::sync::Arc;

use byoc_plugin_api::{Handle, Texts};

use super::Session;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::runtime::texts::TextTable;

/// The tables that handles are looked up in.
#[derive(Clone, Default)]
pub(super) struct Tables {
    pub(super) texts: Arc<TextTable>,
}

impl Session {
    /// A handle for a text, as an element of an input of strings. It is good until [`Session::take_back_texts`].
    pub fn give_text(&mut self, text: &str) -> Result<Handle> {
        self.tables.texts.give(text).map_err(failed)
    }

    /// Takes back the texts that were given: their handles stand for nothing from now on.
    pub fn take_back_texts(&mut self) {
        self.tables.texts.take_back();
    }

    /// The text that an element of an output of strings stands for, until the next run; an error where that is none.
    pub fn text(&self, handle: Handle) -> Result<Arc<str>> {
        self.tables.texts.get(handle).map_err(failed)
    }
}

fn failed(error: byoc_plugin_api::Error) -> Diagnostic {
    Diagnostic { code: Code::RunFailed, message: error.message, hint: error.hint }
}
