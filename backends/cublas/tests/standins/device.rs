//! Compiles and runs a region: check, codegen, claims, and its calls on a stand-in of a device.

use std::path::Path;

use byoc_nvidia_standins::FOLDER;
use byoc_plugin_api::testing::{RegionBuilder, Tensor, decode};
use byoc_plugin_api::{
    BoundConstant, Claim, DType, DeviceConstant, DeviceConstants, DeviceExecutable, DeviceTensor, Domain, Environment,
    Error, Options,
};

use crate::{backend, options};

/// The stand-in of a device, with the libraries of the process's folder.
pub(crate) struct Device {
    pub(crate) domain: Box<dyn Domain>,
    options: Options,
}

/// A region that is loaded, and its constants on the device.
pub(crate) struct Ready<'a> {
    pub(crate) executable: Box<dyn DeviceExecutable + 'a>,
    constants: Vec<u64>,
}

/// Where inputs and result of a region are on the device.
pub(crate) struct Tensors {
    dtype: DType,
    inputs: Vec<(u64, Vec<i64>)>,
    output: (u64, Vec<i64>),
}

impl Device {
    pub(crate) fn open(settings: &[(&str, &str)]) -> Result<Device, Error> {
        let folder = std::env::var_os(FOLDER).unwrap_or_default();
        let folder = Path::new(&folder).to_string_lossy().into_owned();
        let options = options(&[&[("library-path", folder.as_str())], settings].concat());
        Ok(Device { domain: backend().runtime().device()?.open_domain(0, &options)?, options })
    }

    /// Memory that holds these bytes.
    pub(crate) fn holding(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        let address = self.domain.allocate(bytes.len().max(1) as u64)?;
        // SAFETY: the memory has as many bytes; they stay until the call below returns.
        unsafe { self.domain.upload(address, bytes.as_ptr(), bytes.len())? };
        self.domain.synchronize()?;
        Ok(address)
    }

    pub(crate) fn release(&mut self, address: u64) {
        // SAFETY: each address is of this domain and released once, after its last use.
        unsafe { self.domain.release(address) };
    }

    /// Loads a region of this code, and sends it the constants that it claims as the host's.
    pub(crate) fn load<'a>(&mut self, net: &'a RegionBuilder, code: &'a [u8]) -> Result<Ready<'a>, Error> {
        let claimed = net.claims(backend(), &self.options)?;
        let (mut entries, mut constants) = (Vec::new(), Vec::new());
        for ((id, claim, _), tensor) in claimed.0.iter().zip(&net.constants) {
            if *claim == Claim::Host {
                let base = self.holding(tensor.memory())?;
                let bound = BoundConstant { id: *id, layout: None, view: tensor.view() };
                entries.push(DeviceConstant { bound, address: base + tensor.offset() as u64 });
                constants.push(base);
            }
        }
        let environment = Environment { threads: 1, options: self.options.clone() };
        let handles = self.domain.handles();
        let executable =
            backend().runtime().device()?.load(code, &DeviceConstants::new(entries), &environment, &handles)?;
        Ok(Ready { executable, constants })
    }

    pub(crate) fn unload(&mut self, ready: Ready<'_>) {
        drop(ready.executable);
        ready.constants.into_iter().for_each(|address| self.release(address));
    }

    /// Sends inputs, and makes room for the result with these sizes of symbols.
    pub(crate) fn tensors(
        &mut self,
        net: &RegionBuilder,
        inputs: &[Tensor],
        symbols: &[(&str, usize)],
    ) -> Result<Tensors, Error> {
        let mut sent = Vec::new();
        for input in inputs {
            sent.push((self.holding(input.memory())?, input.shape().to_vec()));
        }
        let (output, sizes) = (net.region.outputs[0], net.sizes_for(net.region.outputs[0], symbols));
        let dtype = net.region.values[output].dtype;
        let address = self.domain.allocate((sizes.iter().product::<usize>() * dtype.unpacked_bytes()).max(1) as u64)?;
        let shape = sizes.into_iter().map(|size| size as i64).collect();
        Ok(Tensors { dtype, inputs: sent, output: (address, shape) })
    }

    /// The result; the memory of all tensors is given back.
    pub(crate) fn result(&mut self, tensors: Tensors) -> Result<Vec<f64>, Error> {
        let (address, shape) = &tensors.output;
        let mut bytes = vec![0; shape.iter().product::<i64>() as usize * tensors.dtype.unpacked_bytes()];
        // SAFETY: the memory has as many bytes, and so has `bytes`, which is left alone until the call below.
        unsafe { self.domain.download(bytes.as_mut_ptr(), *address, bytes.len())? };
        self.domain.synchronize()?;
        self.release(*address);
        tensors.inputs.iter().for_each(|(address, _)| self.release(*address));
        Ok(decode(tensors.dtype, &bytes))
    }
}

impl Tensors {
    /// Plans and prepares a region for these tensors; gives the scratch memory.
    pub(crate) fn prepare(&self, device: &mut Device, ready: &mut Ready<'_>) -> Result<u64, Error> {
        fn lend(tensors: &[(u64, Vec<i64>)], dtype: DType, known: bool) -> Vec<DeviceTensor<'_>> {
            let at = |address: u64| if known { address } else { 0 };
            tensors.iter().map(|(address, shape)| DeviceTensor { address: at(*address), dtype, shape }).collect()
        }
        let (inputs, output, dtype) = (&self.inputs, std::slice::from_ref(&self.output), self.dtype);
        let plan = ready.executable.plan(&lend(inputs, dtype, false), &lend(output, dtype, false))?;
        let scratch = if plan.scratch > 0 { device.domain.allocate(plan.scratch)? } else { 0 };
        ready.executable.prepare(&lend(inputs, dtype, true), &lend(output, dtype, true), scratch)?;
        Ok(scratch)
    }
}
