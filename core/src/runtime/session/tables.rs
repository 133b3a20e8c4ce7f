//! What the runs of an entry hold that is no tensor. Its stages and the sessions of its bodies share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byoc_plugin_api::{DType, Error, TensorView};

use super::held::Held;
use crate::runtime::handles::Handles;

/// The things that values are handles of.
#[derive(Clone, Default)]
pub(super) struct Tables {
    pub(super) lists: Arc<Mutex<Handles<List>>>,
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

    /// A run begins.
    pub(super) fn forget_made(&self) {
        self.lists().forget_made();
    }
}

impl Kept {
    /// A copy of a tensor.
    pub(super) fn copy_of(tensor: &TensorView<'_>) -> Result<Arc<Kept>, Error> {
        let mut held = Held::default();
        held.take("a tensor of a sequence", tensor)?;
        Ok(Arc::new(Kept { dtype: tensor.dtype(), held }))
    }

    /// A tensor that `fill` writes the bytes of.
    pub(super) fn filled(dtype: DType, shape: &[i64], fill: impl FnOnce(&mut [u8])) -> Result<Arc<Kept>, Error> {
        let mut held = Held::default();
        held.reshape("a tensor of a sequence", dtype, shape)?;
        fill(held.view_mut(dtype).as_mut_bytes().unwrap_or_default());
        Ok(Arc::new(Kept { dtype, held }))
    }

    pub(super) fn view(&self) -> TensorView<'_> {
        self.held.view(self.dtype)
    }
}
