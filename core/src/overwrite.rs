//! Guards inputs against being overwritten by outputs. Paths are compared by device and inode, so links and other
//! spellings of a path are recognised.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic, Result, dir_of};

/// A file that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// What it is read as, such as `a model`.
    pub role: &'static str,
}

impl Input {
    /// A file that is read as `role`.
    pub fn new(role: &'static str, path: impl Into<PathBuf>) -> Input {
        Input { path: path.into(), role }
    }
}

/// Errors where one of `outputs` is one of `inputs`, or another output. Files that are found later are checked
/// again before writing.
pub fn check<P: AsRef<Path>>(outputs: &[P], inputs: &[Input]) -> Result<()> {
    for (index, output) in outputs.iter().map(AsRef::as_ref).enumerate() {
        if let Some(input) = identity(output).and_then(|own| inputs.iter().find(|it| identity(&it.path) == Some(own))) {
            let (output, path, role) = (output.display(), input.path.display(), input.role);
            let message = format!("the output '{output}' is the file '{path}', which is read as {role}");
            return Err(Diagnostic::new(Code::Usage, message).hint("Write the output to another file"));
        }
        if let Some(other) = outputs[..index].iter().map(AsRef::as_ref).find(|other| are_one(other, output)) {
            let message = format!("the outputs '{}' and '{}' are one file", other.display(), output.display());
            return Err(Diagnostic::new(Code::Usage, message).hint("Give each its own file"));
        }
    }
    Ok(())
}

/// Whether two outputs are one file, which need not be there yet.
fn are_one(a: &Path, b: &Path) -> bool {
    identity(a).is_some_and(|own| identity(b) == Some(own)) || place(a) == place(b)
}

/// The folder, and the name in it.
fn place(path: &Path) -> (PathBuf, Option<&std::ffi::OsStr>) {
    let dir = dir_of(path);
    let real = dir.canonicalize().or_else(|_| std::path::absolute(dir));
    (real.unwrap_or_else(|_| dir.to_owned()), path.file_name())
}

/// Device and number of the file that the path leads to, if one is there.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The real path of the file, if one is there.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_every_name() {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("model.onnx"), "model").expect("written");
        std::fs::write(at("other"), "other").expect("written");
        std::fs::create_dir(at("sub")).expect("made");
        std::os::unix::fs::symlink("model.onnx", at("link")).expect("linked");
        std::os::unix::fs::symlink(dir.path(), at("sub/up")).expect("linked");
        std::fs::hard_link(at("model.onnx"), at("second")).expect("linked");
        let inputs = [Input::new("data", at("none")), Input::new("a model", at("model.onnx"))];
        for name in ["model.onnx", "./model.onnx", "sub/../model.onnx", "link", "second", "sub/up/model.onnx"] {
            let error = check(&[at("new"), at(name)], &inputs).expect_err(name);
            let (output, input) = (at(name), at("model.onnx"));
            assert_eq!(
                error.to_string(),
                format!(
                    "[B901] the output '{}' is the file '{}', which is read as a model. Write the output to another file",
                    output.display(),
                    input.display()
                )
            );
        }
        // Other files may be replaced, and missing ones are ignored.
        assert_eq!(check(&[at("other"), at("new"), at("none")], &inputs), Ok(()));
    }

    #[test]
    fn two_outputs_are_two_files() {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("sub")).expect("made");
        std::fs::write(at("old"), "").expect("written");
        std::fs::hard_link(at("old"), at("second")).expect("linked");
        for (a, b) in [("a", "a"), ("a", "sub/../a"), ("none/a", "none/./a"), ("old", "second")] {
            let error = check(&[at(a), at(b)], &[]).expect_err("one file");
            let (a, b) = (at(a), at(b));
            let message = format!("the outputs '{}' and '{}' are one file", a.display(), b.display());
            assert_eq!((error.message, error.hint.as_deref()), (message, Some("Give each its own file")));
        }
        assert_eq!(check(&[at("a"), at("b"), at("sub/a"), at("none/a")], &[]), Ok(()));
    }
}
