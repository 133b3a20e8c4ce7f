//! Files that are there as a whole or not at all: written under a name of their own, then given the one they are for.

use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::diagnostic::{Diagnostic, Result};
use crate::map::folder_of;

/// Writes a file in place of whatever was there. It has the permissions of any new file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: io::Error| Diagnostic::io(path, "write", &error);
    let mut file = temporary(folder_of(path)).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error)).map(drop)
}

/// A new, empty file in `folder` with the permissions of any new file; gone when dropped.
pub fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = named();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// What temporary files are called.
pub(crate) fn named() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".byoc-").suffix(".tmp");
    builder
}
