//! A region on its whole way: check, codegen, claims, and its calls on the stand-in of a device.

use std::path::Path;

use byoc_nvidia_standins::FOLDER;
use byoc_plugin_api::{
    BoundConstant, Claim, ClaimSink, Claims, ConstantId, Constants, DType, DeviceConstant, DeviceConstants,
    DeviceExecutable, DeviceTensor, Domain, Environment, Error, Options, Region,
};

use crate::array::Array;
use crate::net::{Net, encode};
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
    inputs: Vec<(u64, Vec<i64>)>,
    output: (u64, Vec<i64>),
}

/// Collects claims.
#[derive(Default)]
struct Claimed(Vec<(ConstantId, Claim)>);

impl ClaimSink for Claimed {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.0.push((id, claim.clone()));
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<(), Error> {
        Err(Error::new("nothing is packed"))
    }
}

/// The claims of a region.
pub(crate) fn claims(region: &Region, options: &Options) -> Result<Vec<(ConstantId, Claim)>, Error> {
    let mut claimed = Claimed::default();
    let constants = Constants::new(vec![]);
    backend().constant_updater(region, &constants, &[], options, &mut Claims::new(&mut claimed))?;
    Ok(claimed.0)
}

/// The code of a region.
pub(crate) fn code(region: &Region, options: &Options) -> Result<Vec<u8>, Error> {
    let mut code = Vec::new();
    backend().codegen(region, &Constants::new(vec![]), options, &mut code)?;
    Ok(code)
}

impl Device {
    pub(crate) fn open(settings: &[(&str, &str)]) -> Result<Device, Error> {
        let folder = std::env::var_os(FOLDER).unwrap_or_default();
        let folder = Path::new(&folder).to_string_lossy().into_owned();
        let options = options(&[&[("library-path", folder.as_str())], settings].concat());
        Ok(Device { domain: backend().open_domain(0, &options)?, options })
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
    pub(crate) fn load<'a>(&mut self, net: &'a Net, code: &'a [u8]) -> Result<Ready<'a>, Error> {
        let claimed = claims(&net.region, &self.options)?;
        let mut entries = Vec::new();
        let mut constants = Vec::new();
        for ((constant, stored), (id, claim)) in net.region.constants.iter().zip(&net.stored).zip(&claimed) {
            assert_eq!(constant.id, *id);
            if *claim == Claim::Host {
                let base = self.holding(&stored.bytes)?;
                let address = base + (stored.offset * stored.dtype.size()) as u64;
                let bound = BoundConstant { id: *id, layout: None, view: stored.view() };
                entries.push(DeviceConstant { bound, address });
                constants.push(base);
            }
        }
        let environment = Environment { threads: 1, options: self.options.clone() };
        let handles = self.domain.handles();
        let executable = backend().load_on(code, &DeviceConstants::new(entries), &environment, &handles)?;
        Ok(Ready { executable, constants })
    }

    pub(crate) fn unload(&mut self, ready: Ready<'_>) {
        drop(ready.executable);
        ready.constants.into_iter().for_each(|address| self.release(address));
    }

    /// Sends inputs, and makes room for a result of that shape.
    pub(crate) fn tensors(&mut self, net: &Net, inputs: &[Array], output: &[usize]) -> Result<Tensors, Error> {
        let shape = |sizes: &[usize]| sizes.iter().map(|&size| size as i64).collect::<Vec<_>>();
        let mut sent = Vec::new();
        for input in inputs {
            let bytes: Vec<u8> = input.data.iter().flat_map(|value| encode(net.dtype, *value)).collect();
            sent.push((self.holding(&bytes)?, shape(&input.shape)));
        }
        let bytes = output.iter().product::<usize>() * net.dtype.size();
        let output = (self.domain.allocate(bytes.max(1) as u64)?, shape(output));
        Ok(Tensors { inputs: sent, output })
    }

    /// The bytes of the result; the memory of all tensors is given back.
    pub(crate) fn result(&mut self, net: &Net, tensors: Tensors) -> Result<Vec<u8>, Error> {
        let (address, shape) = &tensors.output;
        let mut bytes = vec![0; shape.iter().product::<i64>() as usize * net.dtype.size()];
        // SAFETY: the memory has as many bytes, and so has `bytes`, which is left alone until the call below.
        unsafe { self.domain.download(bytes.as_mut_ptr(), *address, bytes.len())? };
        self.domain.synchronize()?;
        self.release(*address);
        tensors.inputs.iter().for_each(|(address, _)| self.release(*address));
        Ok(bytes)
    }
}

impl Tensors {
    /// Plans and prepares a region for these tensors; gives the scratch memory.
    pub(crate) fn prepare(&self, net: &Net, device: &mut Device, ready: &mut Ready<'_>) -> Result<u64, Error> {
        fn lend(tensors: &[(u64, Vec<i64>)], dtype: DType, known: bool) -> Vec<DeviceTensor<'_>> {
            let at = |address: u64| if known { address } else { 0 };
            tensors.iter().map(|(address, shape)| DeviceTensor { address: at(*address), dtype, shape }).collect()
        }
        let (inputs, output, dtype) = (&self.inputs, std::slice::from_ref(&self.output), net.dtype);
        let plan = ready.executable.plan(&lend(inputs, dtype, false), &lend(output, dtype, false))?;
        let scratch = if plan.scratch > 0 { device.domain.allocate(plan.scratch)? } else { 0 };
        ready.executable.prepare(&lend(inputs, dtype, true), &lend(output, dtype, true), scratch)?;
        Ok(scratch)
    }
}
