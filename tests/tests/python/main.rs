//! The Python module, as it is built for the tests beside the files of the package: `core/bindings/python/tests`.

use std::path::Path;
use std::process::{Command, ExitCode};

use byoc_tests::program::{self, isolate};
use byoc_tests::trial::{self, Needed, Trial, trial};
use byoc_tests::{data, places};

fn main() -> ExitCode {
    trial::run(&[("module", trials)])
}

fn trials() -> Vec<Trial> {
    vec![trial("tests_in_python_pass", tests_in_python_pass)]
}

/// The package of the module, complete, in a folder.
fn install(folder: &Path) {
    let sources = places::checkout().join("core/bindings/python/python/byoc");
    let package = folder.join("byoc");
    std::fs::create_dir(&package).expect("the folder is ours");
    for name in places::list(&sources).iter().filter(|name| !name.starts_with("__pycache__")) {
        places::copy_into(&package, &sources.join(name), name);
    }
    places::copy_into(&package, &places::plugin("python"), "_native.abi3.so");
}

fn tests_in_python_pass() -> Needed<()> {
    let python = data::python()?;
    let folder = places::temporary();
    install(folder.path());
    let mut command = Command::new(python);
    isolate(&mut command)
        .args(["-W", "error::ResourceWarning", "-m", "unittest", "test_module"])
        .current_dir(places::checkout().join("core/bindings/python/tests"))
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("BYOC_PROGRAM", program::path())
        .env("BYOC_PLUGIN", places::plugin("template"));
    let output = command.output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
