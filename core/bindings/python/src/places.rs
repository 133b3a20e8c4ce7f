//! Where plugins are looked for, and how they are kept apart while they compile.

use std::path::PathBuf;
use std::time::Duration;

use byoc_core::diagnostic::Result;
use byoc_core::plugin::{Isolation, Registry, SearchPath};
use byoc_tools::request;
use pyo3::prelude::*;

use crate::error::raised;

/// The argument that makes the program `byoc` a worker.
const WORKER: &str = "__worker";

/// Seconds that a plugin may be silent.
const PATIENCE: Duration = Duration::from_secs(300);

/// The embedded backend for the host.
#[pyfunction]
pub(crate) fn default_backend(py: Python<'_>) -> PyResult<String> {
    request::default_backend(&byoc_plugin_api::registered()).map_err(|error| raised(py, error))
}

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
}

impl Places {
    /// Where plugins are looked for.
    pub(crate) fn search(&self) -> SearchPath {
        SearchPath::standard(self.plugins.clone(), self.plugin_dirs.clone())
    }

    /// Every backend that can be found, for compiling.
    pub(crate) fn for_compiling(&self, wanted: &[String]) -> Result<Registry> {
        let isolation = self.program.clone().map(|program| Isolation {
            program,
            arguments: vec![WORKER.into()],
            time: PATIENCE,
            memory: 0,
            output: 0,
        });
        let search = self.search();
        let mut registry = Registry::discover(&search, &byoc_plugin_api::registered(), isolation.as_ref())?;
        registry.add_from_beside(&search, wanted, isolation.as_ref());
        Ok(registry)
    }

    /// The backends of these names, in this process: for what is to be run.
    pub(crate) fn for_running(&self, names: &[String]) -> Result<Registry> {
        Registry::discover_wanted(&self.search(), &byoc_plugin_api::registered(), names, None)
    }
}
