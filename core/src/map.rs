//! Files as bytes: mapped, or read where a mapping is not wanted. The only place that maps a file.

use std::fs::File;
use std::path::Path;

use bytes::Bytes;

use crate::diagnostic::{Code, Diagnostic, Result};

/// The bytes of a regular file, mapped: they take no memory of their own, and slices of them move no byte. Nobody may
/// shorten the file while the bytes are in use; where that cannot be promised (network file systems, files that are
/// still being written), use [`read_file`].
pub(crate) fn map_file(path: &Path) -> Result<Bytes> {
    let file = open_regular(path)?;
    let length = file.metadata().map_err(|error| Diagnostic::io(path, "read", &error))?.len();
    if length == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: The mapping is private and read-only, and this process never writes to a file that it has mapped: output
    // goes to a new file that is renamed into place. What remains is another process that changes the file meanwhile.
    // Changed bytes are harmless, for all that is read is checked as untrusted and no `&str` or enum is made over the
    // mapping; a shortened file ends the process with SIGBUS, which the documentation above and `--no-mmap` are for.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| Diagnostic::io(path, "map", &error))?;
    Ok(Bytes::from_owner(map))
}

/// The bytes of a file, read into memory. Takes pipes as well.
#[cfg(feature = "compiler")]
pub(crate) fn read_file(path: &Path) -> Result<Bytes> {
    std::fs::read(path).map(Bytes::from).map_err(|error| Diagnostic::io(path, "read", &error))
}

/// Opens `path` if it is a regular file. A pipe is refused before it is opened, for that could wait for ever.
fn open_regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| Diagnostic::io(path, "open", &error))?;
    if !metadata.is_file() {
        return Err(Diagnostic::new(Code::Io, format!("cannot map '{}': it is no regular file", path.display())));
    }
    File::open(path).map_err(|error| Diagnostic::io(path, "open", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_and_read_bytes_are_the_same() {
        let folder = tempfile::tempdir().expect("folder");
        for content in [&b""[..], b"some bytes"] {
            let path = folder.path().join("file");
            std::fs::write(&path, content).expect("write");
            assert_eq!(map_file(&path).expect("map"), content);
            assert_eq!(read_file(&path).expect("read"), content);
        }
    }

    #[test]
    fn folders_and_missing_files_are_errors() {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().display().to_string();
        let error = map_file(folder.path()).expect_err("a folder");
        assert_eq!(error.message, format!("cannot map '{place}': it is no regular file"));
        let error = map_file(&folder.path().join("none")).expect_err("missing");
        assert_eq!(error.message, format!("cannot open '{place}/none': No such file or directory (os error 2)"));
    }
}
