//! Runs a region on a device, by the launcher of all backends that generate kernels.

use byoc_nvidia::launch;
use byoc_plugin_api::{
    DeviceConstants, DeviceExecutable, DeviceRuntime, Domain, DomainHandles, Environment, Error, Options,
};

use crate::{CutlassBackend, NAME};

impl DeviceRuntime for CutlassBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        launch::load_on(NAME, code, constants, environment, domain)
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        launch::open_domain(ordinal, options)
    }
}
