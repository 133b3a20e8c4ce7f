//! What the runs of an entry hold beside tensors of numbers. Its stages and the sessions of its bodies share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byoc_plugin_api::{DType, Error, Handle, TensorView, Texts};

use super::Session;
use super::filling::failed;
use super::held::Held;
use crate::diagnostic::Result;
use crate::runtime::handles::Handles;
use crate::runtime::texts::TextTable;

/// The tables that handles are looked up in.
#[derive(Clone, Default)]
pub(super) struct Tables {
    lists: Arc<Mutex<Handles<List>>>,
    pub(super) texts: Arc<TextTable>,
}

/// A sequence or an optional of a run.
#[derive(Clone)]
pub(super) enum List {
    /// An optional that holds nothing.
    Nothing,
    /// An optional that holds a tensor.
    Tensor(Arc<Kept>),
    /// A sequence, also one that an optional holds.
    Sequence(Arc<Vec<Arc<Kept>>>),
}

/// A tensor of lists, in memory of its own: whatever lists have it, it is there once.
pub(super) struct Kept {
    dtype: DType,
    held: Held,
}

impl Tables {
    /// The lists, which one thread uses at a time.
    pub(super) fn lists(&self) -> MutexGuard<'_, Handles<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins: what the one before has made is gone.
    pub(super) fn begin_run(&self) {
        self.lists().forget_made();
        self.texts.begin_run();
    }
}

impl Kept {
    /// A copy of a tensor.
    pub(super) fn copy_of(tensor: &TensorView<'_>) -> std::result::Result<Arc<Kept>, Error> {
        let mut held = Held::default();
        held.take("a tensor of a sequence", tensor)?;
        Ok(Arc::new(Kept { dtype: tensor.dtype(), held }))
    }

    /// A tensor that `fill` writes the bytes of.
    pub(super) fn filled(
        dtype: DType,
        shape: &[i64],
        fill: impl FnOnce(&mut [u8]),
    ) -> std::result::Result<Arc<Kept>, Error> {
        let mut held = Held::default();
        held.reshape("a tensor of a sequence", dtype, shape)?;
        fill(held.view_mut(dtype).as_mut_bytes().unwrap_or_default());
        Ok(Arc::new(Kept { dtype, held }))
    }

    pub(super) fn view(&self) -> TensorView<'_> {
        self.held.view(self.dtype)
    }
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
