//! The traits that a backend implements.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::constants::{Claims, ConstantAccess};
use crate::error::{Error, Refusal};
use crate::job::{Generated, Job};
use crate::options::{OptionSpec, Options};
use crate::pattern::Pattern;
use crate::region::Region;
use crate::runtime::Runtime;

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
    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error>;

    /// Says for each constant of the region where its bytes live: exactly one claim each. It is not asked about a
    /// region without constants. `code` and `learnt` are what [`Backend::codegen`] made of the same job.
    fn constant_updater(&self, job: &Job<'_>, code: &[u8], learnt: &[u8], claims: &mut Claims<'_>)
    -> Result<(), Error>;

    /// What runs the code: in the host's memory, or in that of a device.
    fn runtime(&self) -> Runtime<'_>;
}
