//! What runs the code of a backend: in the host's memory, or in that of a device.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::constants::BoundConstants;
use crate::domain::{DeviceConstants, DeviceExecutable, Domain, DomainHandles, OPENS_NO_DOMAIN};
use crate::error::Error;
use crate::options::Options;
use crate::tensor::{TensorView, TensorViewMut};
use crate::texts::Texts;

/// What `load` may know of the process it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Most threads that `run` may use, the caller's included; at least 1.
    pub threads: usize,
    /// The options of the backend, as they were when the region was compiled, and those of this run.
    #[serde(default)]
    pub options: Options,
}

/// Where the regions of a backend run.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Runtime<'a> {
    /// In the host's memory. [`crate::Description::domain`] is `None`.
    Host(&'a dyn HostRuntime),
    /// In the memory of a device, of the kind that [`crate::Description::domain`] names.
    Device(&'a dyn DeviceRuntime),
}

impl<'a> Runtime<'a> {
    /// The runtime for the host's memory; an error where there is none.
    pub fn host(self) -> Result<&'a dyn HostRuntime, Error> {
        match self {
            Runtime::Host(host) => Ok(host),
            Runtime::Device(_) => Err(Error::new("this backend runs in a memory domain, not in host memory")),
        }
    }

    /// The runtime for a device's memory; an error where there is none.
    pub fn device(self) -> Result<&'a dyn DeviceRuntime, Error> {
        match self {
            Runtime::Device(device) => Ok(device),
            Runtime::Host(_) => Err(Error::new("this backend runs in host memory only")),
        }
    }
}

/// Runs regions in the host's memory.
pub trait HostRuntime {
    /// Makes a region ready to run. Code and constants stay valid and unchanged as long as the executable, so they
    /// need no copy.
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error>;
}

/// Runs regions in the memory of a device.
pub trait DeviceRuntime {
    /// Makes a region ready to run in a domain, which outlives it. Code and constants stay valid and unchanged as long
    /// as the executable, on the host and on the device.
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error>;

    /// Opens the device of that ordinal; the options are those of [`crate::Description::run_options`]. A backend that only
    /// joins domains that others open leaves this out.
    fn open_domain(&self, _ordinal: u32, _options: &Options) -> Result<Box<dyn Domain>, Error> {
        Err(Error::new(OPENS_NO_DOMAIN))
    }
}

/// A loaded region.
pub trait Executable: Send {
    /// Computes the outputs. Inputs and outputs come in the order of [`crate::Region::inputs`] and
    /// [`crate::Region::outputs`]; inputs are contiguous, outputs are contiguous, aligned to 64 bytes and of unspecified
    /// content. Only one call runs at a time. A second run with the same shapes should not allocate.
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error>;

    /// The same, where the inputs do not tell the size of every output: only for backends that say
    /// [`run_time_sizes`](crate::Description::run_time_sizes). Memory is asked for once for each output, also for those whose
    /// size is known.
    fn run_sized(&mut self, _inputs: &[TensorView<'_>], _outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        Err(Error::new(NOT_SIZED))
    }

    /// Takes the table of texts of the regions that have [`DType::String`](crate::DType::String) among the types of their values:
    /// once, before the first run. It is good as long as the executable.
    fn lend(&mut self, _texts: Arc<dyn Texts>) -> Result<(), Error> {
        Err(Error::new(NO_TEXTS))
    }

    /// Takes the time of each step of the runs that follow, for [`Executable::steps`], or no longer does. Until this is called no time
    /// is taken, which should cost nothing. A backend that does not tell its steps leaves both out.
    fn time_steps(&mut self, _on: bool) -> Result<(), Error> {
        Ok(())
    }

    /// What the last run consisted of, in the order in which it ran, where times were taken.
    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        Ok(Vec::new())
    }
}

/// A part of a run of a region, such as a call of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// What the backend calls it, such as the name of a kernel.
    pub kernel: String,
    /// The names of the nodes of the region that it computes, as far as they are known.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// When it began, in seconds from the beginning of the run.
    #[serde(default)]
    pub start: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Nodes that it computes by their positions in [`Region::nodes`](crate::Region::nodes), for code that has no names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indices: Vec<usize>,
    /// Multiplications and additions (or other operations that bound the speed of its kind) that it does, as its formula has them;
    /// 0: not told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operations: u64,
    /// Bytes that it reads and writes, each once; 0: not told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Gives the memory of outputs whose sizes are known only when they are computed.
pub trait SizedOutputs {
    /// Memory for the output of that index with this shape: contiguous, aligned to 64 bytes and of unspecified content. What
    /// was given before stays where it is. An error where the output cannot have that shape, or there is no memory for it.
    fn allocate(&mut self, output: usize, shape: &[i64]) -> Result<TensorViewMut<'_>, Error>;
}

pub(crate) const NO_TEXTS: &str = "this backend takes no strings";
pub(crate) const NOT_SIZED: &str = "this backend does not tell the sizes of outputs";
