//! Where plugins are looked for.

use std::path::PathBuf;

use byoc::Plugins;
use pyo3::prelude::*;

/// Where plugins are, as keyword arguments give it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Places {
    /// Files.
    plugins: Vec<PathBuf>,
    /// Folders.
    plugin_dirs: Vec<PathBuf>,
    /// The program `byoc`, which runs plugins in processes of their own while they compile; `None` to run them in this one.
    program: Option<PathBuf>,
    /// Whether their regions run there, too.
    isolate: bool,
}

impl From<Places> for Plugins {
    fn from(places: Places) -> Plugins {
        let Places { plugins, plugin_dirs, program, isolate } = places;
        Plugins { files: plugins, dirs: plugin_dirs, program, isolate }
    }
}
