//! The trait that a backend implements, and what it says of itself.

use std::collections::BTreeSet;
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::constants::{Claims, ConstantAccess};
use crate::dtype::DType;
use crate::error::{Error, Refusal};
use crate::job::{Generated, Job};
use crate::operator::{Operator, OutputType};
use crate::options::{OptionSpec, Options};
use crate::pattern::Pattern;
use crate::precision::Precision;
use crate::region::{Region, Value};
use crate::runtime::Runtime;

/// What a backend is. Given without touching any hardware. Later versions may have more fields, each with a default, so
/// end a literal with `..Description::default()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The name that `--backend` takes: lower-case letters, digits and `-`.
    pub name: String,
    /// The backend's own version.
    pub version: String,
    /// The version of its code format; `load` is given code of this version and of those of [`Description::reads`] only.
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
    /// Whether code generation needs to know which values the tensors of a region take ([`Region::observed`]): core
    /// runs the model over the user's data set then, and without one the compile fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibration: bool,
    /// Files that other programs read or write and that are code of this backend: [`Backend::open`] reads them, and
    /// its runtime takes them as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileFormat>,
    /// The kind of memory in which its regions run, if it is not the host's: `cuda` for the domains `cuda:0`, `cuda:1`.
    /// [`Backend::runtime`] is [`Runtime::Device`] then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Options that are about a machine, such as where a library is. They are not kept in the artifact: the user gives
    /// them when a model is compiled and when it is run, and a backend is given them beside the others
    /// ([`Environment::options`](crate::Environment::options)), so names are not those of [`Description::options`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_options: Vec<OptionSpec>,
    /// Whether the code of its regions is one of several that compute the same: [`Backend::candidates`] gives the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub candidates: bool,
    /// Operators that models may use where this backend is in the list, beside those that the compiler knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Operator>,
    /// Whether its regions may have outputs of sizes that only their computation tells, as `NonZero` has: such a region is run
    /// by [`Executable::run_sized`](crate::Executable::run_sized). It has one match, so nothing in it reads such an output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run_time_sizes: bool,
    /// Element types that its regions may have beside [`DType::frozen`]: it is never asked about a node that reads or writes
    /// another one. Names that a reader does not know are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known_types")]
    pub types: Vec<DType>,
    /// Earlier versions of its code format that `load` reads as well as [`Description::code_version`], by what is in the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<u32>,
    /// How near to exact its results are, where it computes with fewer bits than a model has: of the rows that fit a node,
    /// the first one counts. `byoc plugin test` and `byoc verify` compare with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precision: Vec<Precision>,
}

impl Description {
    /// Whether `load` takes code of that version.
    pub fn reads_code(&self, version: u32) -> bool {
        self.code_version == version || self.reads.contains(&version)
    }

    /// Those versions as a text: `version 3`, or `versions 1, 2 and 3`.
    pub fn code_versions(&self) -> String {
        let all: BTreeSet<u32> = self.reads.iter().copied().chain([self.code_version]).collect();
        let all: Vec<_> = all.iter().map(u32::to_string).collect();
        match all.as_slice() {
            [front @ .., last] if !front.is_empty() => format!("versions {} and {last}", front.join(", ")),
            _ => format!("version {}", self.code_version),
        }
    }

    /// Whether regions of the backend may have elements of that type.
    pub fn knows(&self, dtype: DType) -> bool {
        !dtype.is_asked_for() || self.types.contains(&dtype)
    }
}

/// A plugin may name types that are younger than its host.
pub(crate) fn known_types<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<DType>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    Ok(names.iter().filter_map(|name| DType::from_name(name)).collect())
}

/// A format of files that is code of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFormat {
    /// The end of a file's name, without the dot.
    pub extension: String,
    /// What it is, in one line.
    pub summary: String,
}

/// How the matches of a backend become regions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPolicy {
    /// Whether neighbouring matches, of which one reads what the other gives, are merged into the largest convex regions;
    /// otherwise one region a match.
    #[serde(default)]
    pub merge: bool,
    /// Most tensor inputs of a region, constants not counted. Matches with more are given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inputs: Option<usize>,
    /// Operators that a region may start with: every node that reads an input of the region is one of them. Empty for
    /// any. Matches that no merge brings into such a region are given back. A `QuantizeLinear` or a `DequantizeLinear` that
    /// reads an input is passed over: what reads its result in the region, and nothing else may, counts in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts_with: Vec<String>,
    /// Whether [`Backend::check`] is asked about a merged region as well, before its parts become one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_merged: bool,
    /// Whether a region gets further inputs, which nothing in it reads, where the shapes of its inputs do not tell all sizes in
    /// it: where only `h*w` crosses its border, and `h` is in it. For backends that evaluate symbolic sizes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub size_inputs: bool,
    /// Whether matches are merged also where neither reads what the other gives, into as few regions as there can be. A region
    /// waits for all of its inputs, so what has nothing to do with another part waits for what that one reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side_by_side: bool,
    /// Most nodes of a region that is merged of several matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<usize>,
    /// Most outputs of a region. Matches with more are given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_outputs: Option<usize>,
    /// Most bytes that the values take together which the nodes of a region that is merged of several matches give, where
    /// their sizes are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// What is in a file, or in the code of a region, of a backend that has [`Description::files`]. End a literal with
/// `..CodeFile::default()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeFile {
    /// The format with its version, such as `kmodel v3`.
    pub format: String,
    /// How many of the bytes are the file; what follows is for the backend's runtime alone.
    pub file_bytes: u64,
    /// What a run takes, in order. Shapes are fixed.
    pub inputs: Vec<Value>,
    /// What `run` gives, in order. Shapes are fixed.
    pub outputs: Vec<Value>,
    /// What a reader may want to know: layers, sizes, memory.
    #[serde(default)]
    pub tables: Vec<Table>,
}

/// A table for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// What stands above it.
    pub title: String,
    /// A title for each column. One that starts with `>` stands over numbers.
    pub columns: Vec<String>,
    /// As many cells in each row as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// Something that a backend uses on this machine when it compiles or runs: a library, headers, a compiler, a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// What its makers call it.
    pub name: String,
    /// Its version and where it is; `None` where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Where it is missing: the one line that installs it, or says how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What cannot be done without it, such as `compiling`.
    #[serde(default)]
    pub needed_for: String,
}

/// One code for a region among several that compute the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What tells it from the others, such as the tile of a kernel. Reports show it.
    pub name: String,
    /// What the backend's runtime loads, with the constants as the region has claimed them.
    pub code: Vec<u8>,
}

/// A code generator and its runtime. All methods are required but those of optional abilities, which are the last ones:
/// there is no silent default for who owns a constant.
///
/// The order of calls is `describe`, `patterns`, then for each candidate `check`, for each region `codegen` and
/// `constant_updater`; in another process, later, [`Backend::runtime`] loads and runs. Calls may come from any thread.
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

    /// Reads a file of one of [`Description::files`], or code of a region. The bytes may come from anybody: damage is
    /// an error, and a version that is not known names what reads it. Backends without such files are not asked.
    fn open(&self, _file: &[u8]) -> Result<CodeFile, Error> {
        Err(Error::new("this backend opens no files"))
    }

    /// What the backend uses on this machine beside itself, found or missing; it looks without failing where something
    /// is not there. The options are those of compiling and those of [`Description::run_options`].
    fn tools(&self, _options: &Options) -> Result<Vec<Tool>, Error> {
        Ok(Vec::new())
    }

    /// The type of each output of a node of one of [`Description::operators`] that has no rules for them: `candidate` is
    /// that node alone, with the types of its inputs and the elements of small constants, and without values for its
    /// outputs. It is asked before [`Backend::check`], also about nodes that `check` refuses then. Sizes may be
    /// expressions over those of the inputs. An error is one of the model: it says what does not fit.
    fn infer(&self, _candidate: &Region, _options: &Options) -> Result<Vec<OutputType>, Error> {
        Err(Error::new("this backend gives no types"))
    }

    /// Other code for a region, given its code alone: the same constants, inputs, outputs and results, and other ways
    /// to compute them. The first one is `code`, under the name of what was chosen for it. Empty where there is nothing
    /// to choose. The options are those that the region was compiled with, and those of [`Description::run_options`].
    /// Backends whose description does not have [`Description::candidates`] are not asked.
    fn candidates(&self, _code: &[u8], _options: &Options) -> Result<Vec<Candidate>, Error> {
        Ok(Vec::new())
    }
}
