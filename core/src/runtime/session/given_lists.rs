//! Sequences and optionals at the borders of an entry: what a caller gives, and what it gets.

use std::sync::Arc;

use byoc_plugin_api::{Dim, TensorView};

use super::Session;
use super::filling::{failed, one};
use super::tables::{Kept, List};
use crate::artifact::manifest::{ListType, Port};
use crate::diagnostic::{Code, Diagnostic, Result};

/// The tensors of a sequence or an optional.
#[derive(Clone)]
pub enum ListView<'a> {
    /// An optional that holds nothing.
    Nothing,
    /// An optional that holds a tensor.
    Tensor(TensorView<'a>),
    /// A sequence, also one that an optional holds.
    Sequence(Vec<TensorView<'a>>),
}

/// A sequence or an optional that a run has made. It stays, whatever the session does.
pub struct MadeList(List);

impl MadeList {
    /// Its tensors.
    pub fn view(&self) -> ListView<'_> {
        match &self.0 {
            List::Nothing => ListView::Nothing,
            List::Tensor(tensor) => ListView::Tensor(tensor.view()),
            List::Sequence(tensors) => ListView::Sequence(tensors.iter().map(|tensor| tensor.view()).collect()),
        }
    }
}

impl Session {
    /// Copies a sequence or an optional, for inputs that are of that kind: such an input is the handle that this gives, a tensor of one
    /// `u64` without dimensions. It is good until [`Session::forget_lists`].
    pub fn give_list(&mut self, list: &ListView<'_>) -> Result<u64> {
        let copy = |tensor: &TensorView<'_>| Kept::copy_of(tensor).map_err(failed);
        let list = match list {
            ListView::Nothing => List::Nothing,
            ListView::Tensor(tensor) => List::Tensor(copy(tensor)?),
            ListView::Sequence(tensors) => List::Sequence(Arc::new(tensors.iter().map(copy).collect::<Result<_>>()?)),
        };
        Ok(self.tables.lists().give(list))
    }

    /// Ends the life of all handles that [`Session::give_list`] has given.
    pub fn forget_lists(&mut self) {
        self.tables.lists().forget_given();
    }

    /// What an output of the last run holds that is a sequence or an optional.
    pub fn output_list(&self, index: usize) -> Result<MadeList> {
        let handle = one::<u64>(&self.output(index)?, "handle")?;
        let found = self.tables.lists().get(handle).cloned();
        let none = || Diagnostic::new(Code::RunFailed, format!("output {index} stands for no sequence"));
        found.map(MadeList).ok_or_else(none)
    }

    /// Errors where an input is not the handle of a list such as the entry takes.
    pub(super) fn check_lists(&self, inputs: &[TensorView<'_>]) -> Result<()> {
        for (port, input) in self.entry.inputs.iter().zip(inputs) {
            let Some(ty) = &self.entry.values[port.value].list else { continue };
            let found = match one::<u64>(input, "handle") {
                Ok(handle) => self.tables.lists().get(handle).cloned(),
                Err(_) => None,
            };
            let Some(list) = found else {
                let message = format!("input '{}' is {ty}, and what is given is not a handle of one", port.name);
                return Err(Diagnostic::new(Code::BadInput, message).hint("Give the list to the session first"));
            };
            check(port, ty, &MadeList(list).view())?;
        }
        Ok(())
    }
}

fn check(port: &Port, ty: &ListType, list: &ListView<'_>) -> Result<()> {
    let bad = |what: String| {
        Err(Diagnostic::new(Code::BadInput, format!("input '{}' {what}, the entry takes {ty}", port.name)))
    };
    let tensors = match list {
        ListView::Nothing if ty.optional => return Ok(()),
        ListView::Nothing => return bad("holds nothing".into()),
        ListView::Tensor(_) if ty.sequence => return bad("is a tensor".into()),
        ListView::Sequence(_) if !ty.sequence => return bad("is a sequence".into()),
        ListView::Tensor(tensor) => std::slice::from_ref(tensor),
        ListView::Sequence(tensors) => tensors,
    };
    let size = |(declared, given): (&Option<Dim>, &i64)| {
        declared.as_ref().and_then(Dim::fixed).is_none_or(|size| size as i64 == *given)
    };
    let shaped = |given: &[i64]| {
        let sizes = ty.shape.as_ref();
        sizes.is_none_or(|sizes| sizes.len() == given.len() && sizes.iter().zip(given).all(size))
    };
    match tensors.iter().find(|tensor| tensor.dtype() != ty.dtype || !shaped(tensor.shape())) {
        Some(other) => {
            let shape: Vec<_> = other.shape().iter().map(i64::to_string).collect();
            bad(format!("holds a tensor of {}[{}]", other.dtype(), shape.join(",")))
        }
        None => Ok(()),
    }
}
