//! A loaded region that lives in a plugin.

use std::ffi::c_void;
use std::sync::Arc;

use super::answer::{answer, collect, failure};
use super::lists::checked_steps;
use super::texts::LentTexts;
use crate::abi::{self, TensorList};
use crate::dlpack::DLTensor;
use crate::error::Error;
use crate::runtime::{Executable, NO_TEXTS, NOT_SIZED, SizedOutputs, StepTime};
use crate::sized_table::{OutputAllocator, SizedTable};
use crate::steps_table::StepsTable;
use crate::strings_table::StringsTable;
use crate::table::PluginTable;
use crate::tensor::{TensorView, TensorViewMut};
use crate::texts::Texts;

/// The tables of what few backends can do, where the plugin has them.
#[derive(Clone, Copy)]
pub(super) struct Abilities {
    pub(super) sized: Option<SizedTable>,
    pub(super) strings: Option<StringsTable>,
    pub(super) steps: Option<StepsTable>,
}

pub(super) struct PluginExecutable {
    table: PluginTable,
    abilities: Abilities,
    /// What the plugin was lent. It stays in its place until the executable is freed.
    texts: Option<Arc<LentTexts>>,
    handle: *mut c_void,
    inputs: Vec<DLTensor>,
    outputs: Vec<DLTensor>,
}

// SAFETY: the contract makes executables `Send`; the handle is opaque, and the tensor lists hold only addresses that
// are refilled at each run.
unsafe impl Send for PluginExecutable {}

impl PluginExecutable {
    /// The executable behind a handle that `load` of the same plugin gave.
    pub(super) fn new(table: PluginTable, abilities: Abilities, handle: *mut c_void) -> Self {
        PluginExecutable { table, abilities, texts: None, handle, inputs: Vec::new(), outputs: Vec::new() }
    }

    /// What a run that has ended like that gives, unless the table of texts knows better why it failed.
    fn ended(&self, status: i32, error: &[u8]) -> Result<(), Error> {
        let refused = self.texts.as_ref().and_then(|texts| texts.release());
        match (status, refused) {
            (abi::OK, None) => Ok(()),
            (_, Some(refused)) => Err(refused),
            (status, None) => Err(failure(status, error)),
        }
    }
}

impl Executable for PluginExecutable {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.inputs.clear();
        self.inputs.extend(inputs.iter().map(TensorView::to_dlpack));
        self.outputs.clear();
        self.outputs.extend(outputs.iter().map(|view| view.to_dlpack()));
        let tensors = |list: &[DLTensor]| TensorList { data: list.as_ptr(), len: list.len() };
        let (inputs, outputs) = (tensors(&self.inputs), tensors(&self.outputs));
        let (status, _, error) = collect(|_, error| (self.table.run)(self.handle, inputs, outputs, error));
        self.ended(status, &error)
    }

    fn run_sized(&mut self, inputs: &[TensorView<'_>], outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        let Some(table) = self.abilities.sized else { return Err(Error::new(NOT_SIZED)) };
        self.inputs.clear();
        self.inputs.extend(inputs.iter().map(TensorView::to_dlpack));
        let inputs = TensorList { data: self.inputs.as_ptr(), len: self.inputs.len() };
        let mut given = Given { outputs, failed: None };
        let allocator = OutputAllocator { context: std::ptr::from_mut(&mut given).cast(), allocate };
        let (status, _, error) = collect(|_, error| (table.run_sized)(self.handle, inputs, allocator, error));
        let failed = given.failed;
        let ended = self.ended(status, &error);
        // Whatever the plugin made of it.
        failed.map_or(ended, Err)
    }

    fn lend(&mut self, texts: Arc<dyn Texts>) -> Result<(), Error> {
        let Some(table) = self.abilities.strings else { return Err(Error::new(NO_TEXTS)) };
        let lent = self.texts.insert(Arc::new(LentTexts::new(texts))).table();
        let (status, _, error) = collect(|_, error| (table.lend)(self.handle, lent, error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        let Some(table) = self.abilities.steps else { return Ok(()) };
        let (status, _, error) = collect(|_, error| (table.time)(self.handle, u32::from(on), error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let Some(table) = self.abilities.steps else { return Ok(Vec::new()) };
        checked_steps(answer(|out, error| (table.read)(self.handle, out, error))?)
    }
}

/// More dimensions than any tensor has.
const MOST_DIMENSIONS: usize = 4096;

/// The outputs of the run that is under way.
struct Given<'a> {
    outputs: &'a mut dyn SizedOutputs,
    failed: Option<Error>,
}

extern "C" fn allocate(
    context: *mut c_void,
    output: usize,
    shape: *const i64,
    ndim: usize,
    tensor: *mut DLTensor,
) -> i32 {
    // SAFETY: `context` is what `run_sized` keeps for the call that is running.
    let given = unsafe { &mut *context.cast::<Given<'_>>() };
    if ndim > MOST_DIMENSIONS || tensor.is_null() || (ndim > 0 && shape.is_null()) {
        let error = format!("the plugin asks for output {output} without a shape or a place for the answer");
        given.failed.get_or_insert(Error::new(error));
        return abi::FAILED;
    }
    let shape = match ndim {
        0 => &[],
        // SAFETY: not null, and the plugin lends that many sizes for this call.
        _ => unsafe { std::slice::from_raw_parts(shape, ndim) },
    };
    match given.outputs.allocate(output, shape) {
        Ok(memory) => {
            // SAFETY: the plugin gives a valid place for the tensor.
            unsafe { *tensor = memory.to_dlpack() };
            abi::OK
        }
        Err(error) => {
            given.failed.get_or_insert(error);
            abi::FAILED
        }
    }
}

impl Drop for PluginExecutable {
    fn drop(&mut self) {
        (self.table.free)(self.handle);
    }
}
