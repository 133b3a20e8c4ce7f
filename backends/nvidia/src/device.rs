//! Lists the devices of the driver, and describes failures of theirs.

use std::fmt;

use byoc_plugin_api::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{CUdevice_attribute_enum as Attribute, cudaError_enum as Code};

use crate::locate::Driver;

/// Properties of a device, read without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number, as in `cuda:0`.
    pub ordinal: u32,
    /// What NVIDIA calls it.
    pub name: String,
    /// Its compute capability, such as (9, 0).
    pub capability: (u32, u32),
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Bytes of memory that it has, free or not.
    pub memory: u64,
    /// Bytes of shared memory that a block may have.
    pub shared: u32,
}

impl Device {
    /// Its name and compute capability, for messages.
    pub fn title(&self) -> String {
        let (major, minor) = self.capability;
        format!("{}, compute capability {major}.{minor}", self.name)
    }

    /// The error of a call for this device. `what` is the operation, such as "make a stream"; where the cause is
    /// earlier work that failed, the message says so instead.
    pub fn failed(&self, what: &str, cause: DriverError) -> Error {
        let (ordinal, text) = (self.ordinal, explain(cause));
        if FAULTS.contains(&cause.0) {
            let message = format!("earlier work on cuda:{ordinal} failed: {text}");
            return Error::new(message).hint("CUDA accepts no more work from this process: start it again");
        }
        let error = Error::new(format!("cuda:{ordinal} cannot {what}: {text}"));
        if cause.0 == Code::CUDA_ERROR_OUT_OF_MEMORY {
            return error.hint("Use a smaller batch, or another device");
        }
        error
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} {}", self.ordinal, self.title())
    }
}

/// Sticky errors: every later call returns them. Of each, CUDA's manual says that the process has to be started again.
const FAULTS: &[Code] = &[
    Code::CUDA_ERROR_ECC_UNCORRECTABLE,
    Code::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    Code::CUDA_ERROR_CONTAINED,
    Code::CUDA_ERROR_ILLEGAL_ADDRESS,
    Code::CUDA_ERROR_LAUNCH_TIMEOUT,
    Code::CUDA_ERROR_ASSERT,
    Code::CUDA_ERROR_HARDWARE_STACK_ERROR,
    Code::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    Code::CUDA_ERROR_MISALIGNED_ADDRESS,
    Code::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    Code::CUDA_ERROR_INVALID_PC,
    Code::CUDA_ERROR_LAUNCH_FAILED,
    Code::CUDA_ERROR_TENSOR_MEMORY_LEAK,
    Code::CUDA_ERROR_EXTERNAL_DEVICE,
];

/// All devices; at least one.
///
/// # Errors
///
/// When the driver does not start, or finds no device.
pub fn all(driver: &Driver) -> Result<Vec<Device>, Error> {
    (0..count(driver)?).map(|ordinal| describe(driver, ordinal)).collect()
}

/// The device of that number.
///
/// # Errors
///
/// Those of [`all`] for that device, and when there are not as many.
pub fn one(driver: &Driver, ordinal: u32) -> Result<Device, Error> {
    let count = count(driver)?;
    if ordinal < count {
        return describe(driver, ordinal);
    }
    let names: Vec<_> = (0..count).map(|ordinal| format!("cuda:{ordinal}")).collect();
    let missing = Error::new(format!("{} finds no device cuda:{ordinal}", name(driver)));
    Err(missing.hint(format!("It finds {}", names.join(", "))))
}

/// How many there are; at least one.
fn count(driver: &Driver) -> Result<u32, Error> {
    result::init().map_err(|cause| failed(driver, "cannot be initialised", cause))?;
    let count = result::device::get_count().map_err(|cause| failed(driver, "cannot count its devices", cause))?;
    if count < 1 {
        return Err(Error::new(format!("{} finds no device", name(driver))).hint(HINT));
    }
    Ok(count.unsigned_abs())
}

/// The name and the text of a driver's error, in one line.
pub fn explain(cause: DriverError) -> String {
    let text = |part: Result<&std::ffi::CStr, DriverError>| part.map(|text| text.to_string_lossy().into_owned()).ok();
    match (text(cause.error_name()), text(cause.error_string())) {
        (Some(name), Some(text)) => format!("{name}: {text}").replace(char::is_control, " "),
        _ => format!("{:?}", cause.0),
    }
}

/// The most likely reasons why no device is found.
const HINT: &str = "Check whether `nvidia-smi` lists it, and whether CUDA_VISIBLE_DEVICES leaves it out";

fn name(driver: &Driver) -> String {
    format!("the driver for CUDA {} ({})", driver.version, driver.path.display())
}

fn failed(driver: &Driver, what: &str, cause: DriverError) -> Error {
    Error::new(format!("{} {what}: {}", name(driver), explain(cause))).hint(HINT)
}

fn describe(driver: &Driver, ordinal: u32) -> Result<Device, Error> {
    ask(ordinal).map_err(|cause| failed(driver, &format!("cannot read cuda:{ordinal}"), cause))
}

fn ask(ordinal: u32) -> Result<Device, DriverError> {
    let device = result::device::get(ordinal.cast_signed())?;
    // SAFETY: `device` was given by `get` just now.
    let read = |attribute| unsafe { result::device::get_attribute(device, attribute) }.map(i32::unsigned_abs);
    Ok(Device {
        ordinal,
        name: result::device::get_name(device)?,
        capability: (
            read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // SAFETY: as above.
        memory: unsafe { result::device::total_mem(device) }? as u64,
        shared: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}
