//! A region that a plugin runs in a memory domain.

use std::ffi::c_void;

use super::answer::{answer, collect, failure};
use super::lists::checked_steps;
use crate::abi::{self, Slice, TensorList};
use crate::dlpack::{DLDevice, DLTensor};
use crate::domain::{DeviceConstants, DeviceExecutable, DevicePlan, DeviceTensor, DomainHandles};
use crate::domain_tables::{DeviceConstantList, DeviceConstantView, DeviceTable};
use crate::error::Error;
use crate::export;
use crate::runtime::StepTime;
use crate::steps_table::StepsTable;
use crate::tensor::contiguous_strides;

pub(super) struct PluginDeviceExecutable {
    table: DeviceTable,
    /// Where the plugin tells the steps of its runs.
    steps: Option<StepsTable>,
    handle: *mut c_void,
    device: DLDevice,
}

// SAFETY: the contract makes executables `Send`; the handle is opaque.
unsafe impl Send for PluginDeviceExecutable {}

impl PluginDeviceExecutable {
    pub(super) fn load(
        table: DeviceTable,
        steps: Option<StepsTable>,
        backend: usize,
        code: &[u8],
        constants: &DeviceConstants<'_>,
        environment: &[u8],
        domain: &DomainHandles,
    ) -> Result<PluginDeviceExecutable, Error> {
        let views: Vec<_> = constants
            .iter()
            .map(|entry| DeviceConstantView { constant: entry.bound.wire(), address: entry.address })
            .collect();
        let list = DeviceConstantList { data: views.as_ptr(), len: views.len() };
        let mut handle = std::ptr::null_mut();
        let (status, _, error) = collect(|_, error| {
            (table.load)(backend, Slice::new(code), list, Slice::new(environment), domain, &mut handle, error)
        });
        match (status, handle.is_null()) {
            (abi::OK, false) => Ok(PluginDeviceExecutable { table, steps, handle, device: domain.device }),
            (abi::OK, true) => Err(Error::new("the plugin loaded the region and gave no handle")),
            (status, _) => Err(failure(status, &error)),
        }
    }

    /// A region of a backend that is linked into this program.
    pub(super) fn linked(executable: Box<dyn DeviceExecutable + '_>, domain: &DomainHandles) -> PluginDeviceExecutable {
        let handle = export::device::handle_of(executable);
        let (table, steps) = (*export::device::TABLE, Some(*export::device::STEPS_TABLE));
        PluginDeviceExecutable { table, steps, handle, device: domain.device }
    }

    /// The tensors as they cross the border, with the memory of their strides.
    fn wire(&self, tensors: &[DeviceTensor<'_>]) -> (Vec<DLTensor>, Vec<Vec<i64>>) {
        let strides: Vec<_> = tensors.iter().map(|tensor| contiguous_strides(tensor.shape)).collect();
        let wire = |(tensor, strides): (&DeviceTensor<'_>, &Vec<i64>)| DLTensor {
            data: tensor.address as *mut c_void,
            device: self.device,
            ndim: tensor.shape.len() as i32,
            dtype: tensor.dtype.to_dlpack(),
            shape: tensor.shape.as_ptr(),
            strides: strides.as_ptr(),
            byte_offset: 0,
        };
        (tensors.iter().zip(&strides).map(wire).collect(), strides)
    }
}

fn list(tensors: &[DLTensor]) -> TensorList {
    TensorList { data: tensors.as_ptr(), len: tensors.len() }
}

impl DeviceExecutable for PluginDeviceExecutable {
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        let ((inputs, _input_strides), (outputs, _output_strides)) = (self.wire(inputs), self.wire(outputs));
        answer(|out, error| (self.table.plan)(self.handle, list(&inputs), list(&outputs), out, error))
    }

    fn prepare(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        let ((inputs, _input_strides), (outputs, _output_strides)) = (self.wire(inputs), self.wire(outputs));
        let (status, _, error) =
            collect(|_, error| (self.table.prepare)(self.handle, list(&inputs), list(&outputs), scratch, error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }

    fn run(&mut self) -> Result<(), Error> {
        let (status, _, error) = collect(|_, error| (self.table.run)(self.handle, error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        let Some(table) = self.steps else { return Ok(()) };
        let (status, _, error) = collect(|_, error| (table.time)(self.handle, u32::from(on), error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let Some(table) = self.steps else { return Ok(Vec::new()) };
        checked_steps(answer(|out, error| (table.read)(self.handle, out, error))?)
    }
}

impl Drop for PluginDeviceExecutable {
    fn drop(&mut self) {
        (self.table.free)(self.handle);
    }
}
