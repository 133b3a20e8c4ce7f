//! The traits that a backend implements.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::constants::{BoundConstants, Claims, ConstantAccess, Constants};
use crate::error::{Error, Refusal};
use crate::options::{OptionSpec, Options};
use crate::pattern::Pattern;
use crate::region::Region;
use crate::tensor::{TensorView, TensorViewMut};

/// What a backend is. Given without touching any hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The name that `--backend` takes: lower-case letters, digits and `-`.
    pub name: String,
    /// The backend's own version.
    pub version: String,
    /// The version of its code format; `load` is given code of this version only.
    pub code_version: u32,
    /// What it is, in one line.
    pub summary: String,
    /// Whether it runs on the host with ordinary memory and takes whatever is left over (`json` does).
    #[serde(default)]
    pub host: bool,
    /// How matches become regions.
    #[serde(default)]
    pub regions: RegionPolicy,
    /// When it looks at the bytes of constants.
    #[serde(default)]
    pub constant_access: ConstantAccess,
    /// The options it takes.
    #[serde(default)]
    pub options: Vec<OptionSpec>,
}

/// How the matches of a backend become regions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPolicy {
    /// Whether neighbouring matches are merged into the largest convex regions; otherwise one region a match.
    #[serde(default)]
    pub merge: bool,
    /// Most tensor inputs of a region, constants not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inputs: Option<usize>,
}

/// What `load` may know of the process it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Most threads that `run` may use, the caller's included; at least 1.
    pub threads: usize,
    /// The options of the backend, as they were when the region was compiled.
    #[serde(default)]
    pub options: Options,
}

/// A code generator and its runtime. All methods are required: there is no silent default for who owns a constant.
///
/// The order of calls is `describe`, `patterns`, then for each candidate `check`, for each region `codegen` and
/// `constant_updater`; in another process, later, `load` and `run`. Calls may come from any thread.
pub trait Backend: Send + Sync {
    /// What the backend is. Must not need the hardware.
    fn describe(&self) -> Description;

    /// The shapes of subgraph that `check` wants to be asked about, the most wanted first.
    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error>;

    /// Whether this candidate is taken. What is accepted here, [`Backend::codegen`] must not refuse.
    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal>;

    /// Writes the code of a region. The same region gives the same bytes.
    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error>;

    /// Says for each constant of the region where its bytes live: exactly one claim each.
    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        code: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error>;

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
    /// Computes the outputs. Inputs and outputs come in the order of [`Region::inputs`] and [`Region::outputs`];
    /// inputs are contiguous, outputs are contiguous, aligned to 64 bytes and of unspecified content. Only one call runs at a
    /// time. A second run with the same shapes should not allocate.
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error>;
}
