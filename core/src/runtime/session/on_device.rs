//! Runs whose inputs may be in the memory of a device already, and whose outputs stay where they were computed.

use byoc_plugin_api::dlpack::DLDevice;
use byoc_plugin_api::{DType, DomainHandles, TensorView};

use super::Session;
use super::held::Held;
use super::state::State;
use super::work::Run;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::runtime::device::DeviceName;
use crate::runtime::plan::bytes;
use crate::runtime::steps::HOST;

/// A tensor in the memory of a device, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceArray<'a> {
    /// The device, by DLPack's numbers.
    pub device: DLDevice,
    /// Where its first element is there.
    pub address: u64,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: &'a [i64],
}

/// An input of a run.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// In the host's memory.
    Host(TensorView<'a>),
    /// In that of a device.
    Device(DeviceArray<'a>),
}

impl<'a> Input<'a> {
    /// Something that has the type and the shape of the input. Of one on a device it has no elements: all are zeros.
    fn view(&self, strides: &'a [i64]) -> TensorView<'a> {
        static ZERO: u128 = 0;
        match self {
            Input::Host(view) => *view,
            // SAFETY: all strides are 0, so that the one element, of 16 bytes at most, is all that is ever read; there are no
            // strides of 0 in a type of less than 8 bits, for `Session::run_on_devices` has refused it.
            Input::Device(array) => unsafe {
                TensorView::from_raw(std::ptr::from_ref(&ZERO).cast(), array.dtype, array.shape, strides)
            },
        }
    }
}

impl Session {
    /// As [`Session::run`], with inputs that may be in the memory of a device that this session uses, and outputs that stay on the
    /// device that computed them: [`Session::device_output`] tells where, and [`Session::fetch`] copies them to the host. An input
    /// that only regions on its device read is copied within the device, and not at all where it is at the address that the session
    /// reads it from ([`Session::device_input`]); others go over the host.
    ///
    /// An output of the last run may be an input; where the inputs have other shapes than in that run, it goes over the host. In an entry
    /// with sizes that are known only at run time all does.
    ///
    /// # Safety
    /// Each input on a device is of as many bytes as its type and shape say, in memory of that device which the domain of this session
    /// reaches, and all work that writes to it is done. Nobody writes to it until this returns.
    pub unsafe fn run_on_devices(&mut self, inputs: &[Input<'_>]) -> Result<()> {
        let rank = |input: &Input<'_>| match input {
            Input::Host(_) => 0,
            Input::Device(array) => array.shape.len(),
        };
        let strides: Vec<Vec<i64>> = inputs.iter().map(|input| vec![0; rank(input)]).collect();
        self.check_count(inputs.len())?;
        self.check_device_inputs(inputs)?;
        let mut views: Vec<_> = inputs.iter().zip(&strides).map(|(input, strides)| input.view(strides)).collect();
        self.check_inputs(&views)?;
        let fits = self.state.as_ref().is_some_and(|state| state.fits(&views));
        let (mut arrived, mut held) = (vec![None; inputs.len()], Vec::new());
        for (index, input) in inputs.iter().enumerate() {
            let Input::Device(array) = input else { continue };
            match self.is_direct(index, array, fits) {
                true => arrived[index] = Some(array.address),
                // SAFETY: as for this function.
                false => held.push((index, array.dtype, unsafe { self.bring(index, array)? })),
            }
        }
        for (index, dtype, held) in &held {
            views[*index] = held.view(*dtype);
        }
        if self.later.is_some() {
            return self.run(&views);
        }
        self.tables.begin_run();
        self.check_lists(&views)?;
        self.forget_last_run();
        self.in_turn(0, &mut |session| {
            session.ready(&views)?;
            session.work_on(&views, &arrived, Run::Kept)
        })
    }

    /// Where an output of the last run is on the device that computed it; `None` where the host has it: it was computed there, or a
    /// region there has read it. Errors when there was no run.
    pub fn device_output(&self, index: usize) -> Result<Option<DeviceArray<'_>>> {
        if self.later.is_some() {
            return self.output_here(index).map(|_| None);
        }
        let port = self.output_port(index)?;
        let state = self.finished()?;
        let crossing = self.steps.outputs.iter().find(|crossing| crossing.value == port.value);
        Ok(crossing.map(|crossing| self.device_array(state, port.value, crossing.from)))
    }

    /// Where a device reads an input from in runs with inputs of the shapes of the last run. `None` where none does, and before the
    /// first run. What is given at that address to [`Session::run_on_devices`] is not copied, unless the host reads it too.
    pub fn device_input(&self, index: usize) -> Option<DeviceArray<'_>> {
        if self.later.is_some() {
            return None;
        }
        let (state, value) = (self.state.as_ref()?, self.entry.inputs.get(index)?.value);
        let memory = (1..=self.devices.len()).find(|&memory| state.is_on(value, memory))?;
        Some(self.device_array(state, value, memory))
    }

    fn device_array<'a>(&'a self, state: &'a State, value: usize, memory: usize) -> DeviceArray<'a> {
        DeviceArray {
            device: self.devices[memory - 1].handles().device,
            address: state.on_device(value, memory),
            dtype: self.entry.values[value].dtype,
            shape: &state.plan.shapes[value],
        }
    }

    /// The devices that the entry uses, with what programs need for calls of the device's own API. The handles are good as long as the
    /// session.
    pub fn device_handles(&self) -> Vec<(DeviceName, DomainHandles)> {
        self.devices.iter().map(|device| (device.name().clone(), device.handles())).collect()
    }

    /// Errors where an input is on a device that the session does not use, or cannot be on one.
    fn check_device_inputs(&self, inputs: &[Input<'_>]) -> Result<()> {
        for (port, input) in self.entry.inputs.iter().zip(inputs) {
            let Input::Device(array) = input else { continue };
            let bad = |what: String| Err(Diagnostic::new(Code::BadInput, format!("input '{}' {what}", port.name)));
            let value = &self.entry.values[port.value];
            if array.dtype == DType::String || array.dtype.shares_bytes() || value.list.is_some() {
                return bad(format!("cannot be on a device: its type is {}", array.dtype));
            }
            if let Some(size) = array.shape.iter().find(|size| **size < 0) {
                return bad(format!("has a dimension of size {size}"));
            }
            if self.memory_of(array).is_none() {
                let DLDevice { device_type, device_id } = array.device;
                let names: Vec<_> = self.devices.iter().map(|device| device.name().to_string()).collect();
                let uses = if names.is_empty() { "no device".to_owned() } else { names.join(", ") };
                let device = format!("device {device_id} of DLPack's type {device_type}");
                let error = Diagnostic::new(
                    Code::BadInput,
                    format!("input '{}' is on {device}, the session uses {uses}", port.name),
                );
                return Err(error.hint("Copy it to the host first"));
            }
        }
        Ok(())
    }

    /// The memory of the session's device that an array is in. Several devices may have the same numbers, for those without one of DLPack's
    /// share one: then it is that whose values it is among.
    fn memory_of(&self, array: &DeviceArray<'_>) -> Option<usize> {
        let is_there = |memory: &usize| self.devices[memory - 1].handles().device == array.device;
        let mut there = (1..=self.devices.len()).filter(is_there);
        match (there.clone().count(), &self.state) {
            (1, _) => there.next(),
            (_, Some(state)) => there.find(|&memory| state.owns(memory, array.address, 1)),
            (_, None) => None,
        }
    }

    /// Whether an input can go to its place within its device: nobody reads it elsewhere, and it is not in memory that the run gives
    /// back or writes to before the input is copied.
    fn is_direct(&self, index: usize, array: &DeviceArray<'_>, fits: bool) -> bool {
        let (value, Some(memory)) = (self.entry.inputs[index].value, self.memory_of(array)) else {
            return false;
        };
        let mut calls = self.entry.calls.iter().zip(&self.memories);
        let read_by_host = calls.any(|(call, &of)| of == HOST && call.inputs.contains(&value));
        let is_output = self.entry.outputs.iter().any(|port| port.value == value);
        let mut crossings = self.steps.inputs.iter().filter(|crossing| crossing.value == value);
        if self.later.is_some() || read_by_host || is_output || crossings.any(|crossing| crossing.to != memory) {
            return false;
        }
        let Some(state) = self.state.as_ref() else { return true };
        if !state.owns(memory, array.address, bytes(array.shape, array.dtype).unwrap_or(usize::MAX)) {
            return true;
        }
        let at = |value: usize| state.is_on(value, memory) && state.on_device(value, memory) == array.address;
        let size = state.bytes(&self.entry, value);
        let mut outputs = self.steps.outputs.iter().filter(|crossing| crossing.from == memory);
        fits && (at(value)
            || outputs.any(|crossing| at(crossing.value) && state.bytes(&self.entry, crossing.value) >= size))
    }

    /// Copies an input from its device to the host.
    ///
    /// # Safety
    /// As for [`Session::run_on_devices`].
    unsafe fn bring(&mut self, index: usize, array: &DeviceArray<'_>) -> Result<Held> {
        let name = self.entry.inputs[index].name.clone();
        let failed = |error: byoc_plugin_api::Error| Diagnostic::new(Code::RunFailed, error.message);
        let mut held = Held::default();
        held.reshape(&name, array.dtype, array.shape).map_err(failed)?;
        let (to, length) = (held.view_mut(array.dtype).as_mut_ptr(), bytes(array.shape, array.dtype)?);
        let (Some(memory), true) = (self.memory_of(array), length > 0) else { return Ok(held) };
        self.in_turn(0, &mut |session| {
            let device = &session.devices[memory - 1];
            let mut domain = device.domain();
            // SAFETY: the caller says what is at the address; the block was made for the input, and is there until it was waited for.
            let copied = unsafe { domain.download(to, array.address, length) };
            let waited = domain.synchronize();
            drop(domain);
            copied.and(waited).map_err(|error| device.failed(&format!("copy '{name}'"), error))
        })?;
        Ok(held)
    }
}
