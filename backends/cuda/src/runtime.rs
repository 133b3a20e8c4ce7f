//! Runs a region on a device, by the launcher of all backends that generate kernels.

use byoc_nvidia::launch;
use byoc_plugin_api::{DeviceConstants, DeviceExecutable, Domain, DomainHandles, Environment, Error, Options};

/// Opens a device with its own stream.
pub(crate) fn open_domain(ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
    launch::open_domain(ordinal, options)
}

pub(crate) fn load_on<'a>(
    code: &'a [u8],
    constants: &DeviceConstants<'a>,
    environment: &Environment,
    domain: &DomainHandles,
) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
    launch::load_on("cuda", code, constants, environment, domain)
}
