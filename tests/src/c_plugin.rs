//! Plugins in C and C++ that tests make of changed sources.

use std::path::Path;
use std::process::Command;

use crate::places;
use crate::program::outcome;

/// The source of the plugin `cmatmul`.
pub fn matmul() -> String {
    let path = places::checkout().join("tests/plugins/c/matmul.c");
    String::from_utf8(places::read(&path)).expect("the source is text")
}

/// Compiles a source to `plugin.so` in `folder`, without optimisation or any opinion on it.
pub fn build(folder: &Path, source: &str, cpp: bool) {
    let path = places::write(folder, "plugin.c", source);
    let mut command = Command::new(if cpp { "c++" } else { "cc" });
    command.args(if cpp { &["-x", "c++"][..] } else { &["-std=c99"] }).args(["-w", "-fPIC", "-shared", "-I"]);
    command.arg(places::checkout().join("plugin-api/include")).arg(&path).arg("-o").arg(folder.join("plugin.so"));
    outcome(&mut command).success();
    std::fs::remove_file(path).expect("the file is ours");
}
