//! Where plugins are looked for, and how they are kept apart while they compile.

use std::path::PathBuf;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Isolation, Registry, SearchPath};

/// Where plugins are looked for beside the folders of `BYOC_PLUGIN_PATH`, the user's plugin folder, and `../lib/byoc/plugins` from the
/// program `byoc`, or from the calling program where that is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins {
    /// Files; each must be a plugin.
    pub files: Vec<PathBuf>,
    /// Folders; what is no plugin in them is passed over.
    pub dirs: Vec<PathBuf>,
    /// The program `byoc`, in processes of which plugins compile; else they compile in the process of the caller, and one that
    /// crashes takes it along.
    pub program: Option<PathBuf>,
    /// Whether regions of plugins run in processes of that program, too: a crash, a hang or too much memory is an error of that run,
    /// and the caller goes on. Regions on devices, with texts or with sizes that only a run tells do not.
    pub isolate: bool,
}

impl Plugins {
    /// The places, as core has them.
    pub fn search(&self) -> SearchPath {
        SearchPath::standard(self.files.clone(), self.dirs.clone(), self.program.as_deref())
    }

    /// The backends of these names, in this process: for what is to be run. No plugin is opened that is not needed for them.
    pub fn for_running(&self, names: &[String]) -> Result<Registry> {
        let isolation = if self.isolate { self.isolation()? } else { None };
        Registry::discover_wanted(&self.search(), &byoc_plugin_api::registered(), names, isolation.as_ref())
    }

    /// How plugins are kept apart. Errors where that is to be for runs and there is no program for it.
    fn isolation(&self) -> Result<Option<Isolation>> {
        if self.isolate && self.program.is_none() {
            let error = Diagnostic::new(
                Code::Usage,
                "plugins are to run in processes of the program `byoc`, and none is given",
            );
            return Err(error.hint("Name the program, or let plugins run in this process"));
        }
        let apart = |program| Isolation { runs: self.isolate, ..Isolation::by(program) };
        Ok(self.program.clone().map(apart))
    }

    /// Every backend that can be found, and of those beside the program the ones that are `wanted` by name: for compiling.
    #[cfg(feature = "compiler")]
    pub fn for_compiling(&self, wanted: &[String]) -> Result<Registry> {
        let (isolation, search) = (self.isolation()?, self.search());
        let mut registry = Registry::discover(&search, &byoc_plugin_api::registered(), isolation.as_ref())?;
        registry.add_from_beside(&search, wanted, isolation.as_ref());
        Ok(registry)
    }
}
