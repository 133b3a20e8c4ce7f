//! No output of a verb overwrites a file that it reads, or one of another kind. What the command line and the environment name
//! is compared before any work is done; what is found later, such as external data of a model, where it is found.

use std::path::{Path, PathBuf};

use byoc_core::diagnostic::Result;
use byoc_core::overwrite::{self, Input};
use byoc_core::plugin::allow_lists;
use byoc_tools::dataset;
use byoc_tools::inputs::Source;
use byoc_tools::place;
pub(crate) use byoc_tools::place::Written;

use crate::args::{Execution, ModelArg, Plugins};
use crate::compile_request;

/// What a verb writes, and what it reads.
pub(crate) struct Guard {
    outputs: Vec<(Written, PathBuf)>,
    inputs: Vec<Input>,
}

impl Guard {
    /// For these outputs.
    pub(crate) fn of(written: Written, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Guard {
        Guard { outputs: Vec::new(), inputs: Vec::new() }.writes(written, paths)
    }

    /// Adds outputs.
    pub(crate) fn writes(mut self, written: Written, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Guard {
        self.outputs.extend(paths.into_iter().map(|path| (written, path.into())));
        self
    }

    /// Errors where an output is a file that is read, another output, or a file that is there and of another kind; and where its
    /// folder is not there.
    pub(crate) fn check(&self) -> Result<()> {
        let paths: Vec<_> = self.outputs.iter().map(|(_, path)| path).collect();
        overwrite::check(&paths, &self.inputs)?;
        self.outputs.iter().try_for_each(|(written, path)| place::check(*written, path))
    }

    /// Adds a file that is read.
    pub(crate) fn reads(self, role: &'static str, path: &Path) -> Guard {
        self.reads_all([Input::new(role, path)])
    }

    /// Adds files that are read.
    pub(crate) fn reads_all(mut self, inputs: impl IntoIterator<Item = Input>) -> Guard {
        self.inputs.extend(inputs);
        self
    }

    /// Adds models.
    pub(crate) fn models(self, models: &[ModelArg]) -> Guard {
        self.reads_all(models.iter().map(|model| Input::new("a model", &model.path)))
    }

    /// Adds plugins, those in folders as well, and the lists of those that are allowed.
    pub(crate) fn plugins(self, places: &Plugins) -> Guard {
        let files = compile_request::search(places).every_file().into_iter();
        let guard = self.reads_all(files.map(|path| Input::new("a plugin", path)));
        guard.reads_all(allow_lists().into_iter().map(|path| Input::new("a list of allowed plugins", path)))
    }

    /// Adds what is run, and what it is run on.
    pub(crate) fn execution(self, execution: &Execution) -> Guard {
        let Execution { file, inputs, plugins, .. } = execution;
        let files = inputs.input.iter().flat_map(Source::files);
        let inputs = files.map(|path| Input::new("an input", path));
        self.reads("the file to run", file).reads_all(inputs).plugins(plugins)
    }

    /// Adds a data set: the file, or those in the folder.
    pub(crate) fn dataset(self, path: Option<&Path>) -> Guard {
        let files = path.into_iter().flat_map(dataset::files);
        self.reads_all(files.map(|path| Input::new("a data set", path)))
    }
}
