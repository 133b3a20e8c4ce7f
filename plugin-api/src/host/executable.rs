//! A loaded region that lives in a plugin.

use std::ffi::c_void;

use super::answer::{collect, failure};
use crate::abi::{self, TensorList};
use crate::dlpack::DLTensor;
use crate::error::Error;
use crate::runtime::Executable;
use crate::table::PluginTable;
use crate::tensor::{TensorView, TensorViewMut};

pub(super) struct PluginExecutable {
    table: PluginTable,
    handle: *mut c_void,
    inputs: Vec<DLTensor>,
    outputs: Vec<DLTensor>,
}

// SAFETY: the contract makes executables `Send`; the handle is opaque, and the tensor lists hold only addresses that
// are refilled at each run.
unsafe impl Send for PluginExecutable {}

impl PluginExecutable {
    /// The executable behind a handle that `load` of the same plugin gave.
    pub(super) fn new(table: PluginTable, handle: *mut c_void) -> Self {
        PluginExecutable { table, handle, inputs: Vec::new(), outputs: Vec::new() }
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
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }
}

impl Drop for PluginExecutable {
    fn drop(&mut self) {
        (self.table.free)(self.handle);
    }
}
