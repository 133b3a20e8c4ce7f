//! The Python module, as it is built for the tests beside the files of the package: `core/bindings/python/tests`.

mod examples;
mod module;

use std::path::Path;
use std::process::{Command, ExitCode};

use byoc_tests::program::isolate;
use byoc_tests::trial::{self, Needed};
use byoc_tests::{data, places};

fn main() -> ExitCode {
    trial::run(&[("module", module::trials), ("examples", examples::trials)])
}

/// The package of the module, complete, in a folder.
fn install(folder: &Path) {
    let sources = places::checkout().join("core/bindings/python/python/byoc");
    let package = folder.join("byoc");
    std::fs::create_dir(&package).expect("the folder is ours");
    for name in places::list(&sources).iter().filter(|name| sources.join(name).is_file()) {
        places::copy_into(&package, &sources.join(name), name);
    }
    places::copy_into(&package, &places::plugin("python"), "_native.abi3.so");
}

/// An interpreter that finds the module in that folder.
fn python(folder: &Path) -> Needed<Command> {
    Ok(with_module(&data::python()?, folder))
}

/// The interpreter, with the module installed into a folder where it finds it.
fn with_module(interpreter: &Path, folder: &Path) -> Command {
    install(folder);
    let mut command = Command::new(interpreter);
    isolate(&mut command).env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
