//! What runs the code of a backend: in the host's memory, or in that of a device.

use serde::{Deserialize, Serialize};

use crate::constants::BoundConstants;
use crate::error::Error;
use crate::options::Options;
use crate::tensor::{TensorView, TensorViewMut};

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
pub enum Runtime<'a> {
    /// In the host's memory.
    Host(&'a dyn HostRuntime),
}

impl<'a> Runtime<'a> {
    /// The runtime for the host's memory.
    pub fn host(self) -> Result<&'a dyn HostRuntime, Error> {
        match self {
            Runtime::Host(host) => Ok(host),
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

/// A loaded region.
pub trait Executable: Send {
    /// Computes the outputs. Inputs and outputs come in the order of [`crate::Region::inputs`] and
    /// [`crate::Region::outputs`]; inputs are contiguous, outputs are contiguous, aligned to 64 bytes and of unspecified
    /// content. Only one call runs at a time. A second run with the same shapes should not allocate.
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error>;
}
