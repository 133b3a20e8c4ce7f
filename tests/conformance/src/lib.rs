//! A conformance kit for byoc plugins: it needs nothing but the plugin's binary. `byoc plugin test` is this crate behind
//! a command line; a vendor's own tests can use it as a library.
//!
//! Models are made from the plugin's own patterns, go through the real compiler, and the regions that come out of it are
//! compiled, loaded and run by hand, so that every address, layout and byte around them is under control. Results are
//! compared with a backend that has reference kernels.

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
mod models;
pub mod onnx;
mod plugin;
mod recipes;
mod region;
mod report;
mod results;
mod samples;
mod stream;
mod supervise;
pub mod tensor;
mod usage;
mod vendor;

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
    pub share: Share,
}

/// Every so many-th of the models, so that several processes can share the work. What is no model's is done with the first
/// share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which of the shares it is, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl Share {
    /// All models.
    pub const ALL: Share = Share { index: 0, count: 1 };
}

/// Runs every case in this process: a crash of the plugin is a crash of the caller. Errors are of the settings, not of
/// the plugin.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report { plugin: settings.plugin.display().to_string(), ..Report::default() };
    cases::run(settings, 0, &mut |event| match event {
        stream::Event::End(case) => report.cases.push(settings.vendor.settle(case)),
        stream::Event::Refused => report.refused = true,
        _ => {}
    })?;
    Ok(report)
}
