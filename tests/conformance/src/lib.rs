//! A conformance kit for byoc plugins: it needs nothing but the plugin's binary. `byoc plugin test` is this crate behind
//! a command line; a vendor's own tests can use it as a library.
//!
//! Models are made from the plugin's own patterns, go through the real compiler, and the regions that come out of it are
//! compiled, loaded and run by hand, so that every address, layout and byte around them is under control. Results are
//! compared with a backend that has reference kernels.

mod artifact;
mod bench;
mod cases;
mod claims;
mod damage;
mod data;
mod device;
mod files;
mod front;
mod judge;
mod memory;
mod minimise;
mod models;
pub mod onnx;
mod plugin;
mod recipes;
mod region;
mod report;
mod results;
mod samples;
mod saved;
mod stream;
mod supervise;
pub mod tensor;
mod usage;
mod vendor;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use byoc_core::diagnostic::Result;
use byoc_core::plugin::Selected;

pub use self::report::{Case, Report, Tag};
pub use self::supervise::{child, supervise};
pub use self::vendor::Vendor;

/// What to test.
#[derive(Clone)]
pub struct Settings {
    /// The plugin file.
    pub plugin: PathBuf,
    /// The backends to test; all of the plugin where none is named.
    pub backends: Vec<String>,
    /// Options of the backends, as (`backend.key`, value).
    pub options: Vec<(String, String)>,
    /// Most bytes of memory that the child process may take; 0 for what the machine has.
    pub memory: u64,
    /// The host backend whose results are right.
    pub reference: Selected,
    /// The vendor's own cases and expectations.
    pub vendor: Vendor,
    /// The models that are tested.
    pub shard: Shard,
    /// Which cases are run, and what is done about those that fail.
    pub choice: Choice,
}

/// Which cases are run, and what is done about those that fail.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only cases whose names match it; `*` stands for any characters.
    pub only: Option<String>,
    /// Whether the plugin is spoken to as by the host of ABI 1.0.
    pub first_host: bool,
    /// Whether the first failure is the last case.
    pub fail_fast: bool,
    /// Folder to which the models of failing cases are written.
    pub save_failing: Option<PathBuf>,
}

/// Every so many-th of the models, so that several processes can share the work. What is no model's is done with the first
/// shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which of the shards it is, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl Shard {
    /// All models.
    pub const ALL: Shard = Shard { index: 0, count: 1 };
}

/// As `byoc plugin test --shard` takes it: `1/4` is the first of four.
impl Display for Shard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

/// Runs every case in this process: a crash of the plugin is a crash of the caller. Errors are of the settings, not of
/// the plugin.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report { plugin: settings.plugin.display().to_string(), ..Report::default() };
    cases::run(settings, 0, &mut |event| match event {
        stream::Event::End(case) => report.cases.push(settings.vendor.settle(case)),
        stream::Event::Refused => report.refused = true,
        stream::Event::Skip { backend, name } => report.skipped.push((backend, name)),
        _ => {}
    })?;
    Ok(if report.refused { report } else { concluded(settings, report) })
}

/// The report with what only all cases together tell: backends that take nothing, and expectations about cases that there
/// are none of.
fn concluded(settings: &Settings, mut report: Report) -> Report {
    let Choice { only, fail_fast, .. } = &settings.choice;
    if let (Some(only), true) = (only, report.cases.is_empty()) {
        report.cases.push(Case::of("", "--only", Tag::Fail, format!("no case is called '{only}'")));
    }
    if only.is_some() || (*fail_fast && report.failures().count() > 0) || settings.shard != Shard::ALL {
        return report;
    }
    let backends: BTreeSet<String> = report.cases.iter().map(|case| case.backend.clone()).collect();
    for backend in backends.iter().filter(|name| !name.is_empty()) {
        let is_taken = |case: &&Case| {
            let computes = case.name.ends_with(": check") || case.name.ends_with(": results");
            case.result == Tag::Pass && (computes || settings.vendor.has(&case.name))
        };
        let mut own = report.cases.iter().filter(|case| case.backend == *backend);
        if own.clone().any(|case| case.name == "patterns" && case.result == Tag::Pass)
            && !own.any(|case| is_taken(&case))
        {
            let reason = "it takes none of the models: cases of your own can show what it takes (--case)".to_owned();
            report.cases.push(Case::of(backend, "takes something", Tag::Fail, reason));
        }
    }
    let unmet = if settings.backends.is_empty() { settings.vendor.unmet(&report) } else { Vec::new() };
    for expectation in unmet {
        let reason = format!("no case is called '{expectation}'");
        report.cases.push(Case::of("", "expectations", Tag::Fail, reason));
    }
    report
}
