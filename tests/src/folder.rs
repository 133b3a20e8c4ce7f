//! A folder of a test's own, in which commands run.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::onnx::Model;
use crate::places;
use crate::program::{Outcome, byoc, outcome};

/// A folder in which a command runs; paths in messages are then as short as the arguments.
pub struct Folder(TempDir);

impl Folder {
    /// An empty folder.
    pub fn empty() -> Folder {
        Folder(places::temporary())
    }

    /// An empty folder in another one.
    pub fn within(folder: &Path) -> Folder {
        Folder(tempfile::tempdir_in(folder).expect("the folder is ours"))
    }

    /// A folder with `model.onnx` and what it compiles to, `model.byoc`.
    pub fn compiled(model: Model) -> Folder {
        let folder = Folder::empty();
        folder.write("model.onnx", model.finish());
        folder.byoc(&["compile", "model.onnx", "-o", "model.byoc"]).success();
        folder
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        places::write(self.path(), name, bytes)
    }

    /// Runs the program in it.
    pub fn byoc(&self, arguments: &[&str]) -> Outcome {
        outcome(byoc(arguments).current_dir(self.path()))
    }

    /// What the program prints, run in the folder; it must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let outcome = self.byoc(arguments);
        outcome.success();
        outcome.stdout
    }
}

/// A folder in which commands are given a plugin of the tests.
pub struct WithPlugin {
    /// The folder.
    pub folder: Folder,
    plugin: String,
}

impl WithPlugin {
    /// An empty folder, and the plugin of that name.
    pub fn empty(plugin: &str) -> WithPlugin {
        let plugin = places::plugin(plugin).to_str().expect("a plain path").to_owned();
        WithPlugin { folder: Folder::empty(), plugin }
    }

    /// Runs the program in the folder with the plugin.
    pub fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.folder.byoc(&[arguments, &["--plugin", self.plugin.as_str()]].concat())
    }
}
