//! Where things are: the checkout, the build folder, plugin files, folders for a test's own files.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests folder is in the checkout").to_owned()
}

/// The folder of the running test's executable, `target/<profile>/deps`. Cargo puts dynamic libraries that a package
/// depends on there as well.
pub fn dependencies() -> PathBuf {
    let program = std::env::current_exe().expect("the running program has a path");
    program.parent().expect("a program lies in a folder").to_owned()
}

/// The folder of the build's programs, `target/<profile>`.
pub fn profile() -> PathBuf {
    dependencies().parent().expect("deps lies in the profile's folder").to_owned()
}

/// Cargo's build folder, `target`. Test data and the Python environment are kept there.
pub fn target() -> PathBuf {
    profile().parent().expect("the profile's folder lies in the build folder").to_owned()
}

/// The plugin file that holds the backend `name`.
pub fn plugin(name: &str) -> PathBuf {
    let path = dependencies().join(format!("{DLL_PREFIX}byoc_{name}{DLL_SUFFIX}"));
    assert!(path.is_file(), "there is no {}; is the plugin among the dev-dependencies of byoc-tests?", path.display());
    path
}

/// A new folder that goes away with the returned value.
pub fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A new folder in memory where the system has one: for many small files that need no disk.
pub fn temporary_in_memory() -> TempDir {
    let shared = Path::new("/dev/shm");
    tempfile::tempdir_in(shared).unwrap_or_else(|_| temporary())
}

/// Copies `file` into `folder` under `name`.
pub fn copy_into(folder: &Path, file: &Path, name: &str) -> PathBuf {
    let target = folder.join(name);
    std::fs::copy(file, &target).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    target
}

/// The whole of a file.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a file into `folder` and returns its path.
pub fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

/// The names of the files in a folder, sorted.
pub fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
