//! Runs a region on a device, by the launcher of all backends that generate kernels.

use byoc_nvidia::launch;
pub(crate) use byoc_nvidia::launch::open_domain;
use byoc_plugin_api::{DeviceConstants, DeviceExecutable, DomainHandles, Environment, Error};

use crate::NAME;

pub(crate) fn load_on(
    code: &[u8],
    constants: &DeviceConstants<'_>,
    environment: &Environment,
    domain: &DomainHandles,
) -> Result<Box<dyn DeviceExecutable>, Error> {
    launch::load_on(NAME, code, constants, environment, domain)
}
