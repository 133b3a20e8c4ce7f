//! Files as bytes: mapped, or read where a mapping is not wanted. The only place that maps a file.

mod cut;
mod shared;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::diagnostic::{Code, Diagnostic, Result};

pub use self::cut::on_cut_files;
pub(crate) use self::shared::{SharedMemory, path_of};

/// The bytes of a regular file, mapped: they take no memory of their own, and slices of them move no byte. The file must
/// not be shortened while the bytes are in use; where that cannot be promised (network file systems, files that are
/// still being written), use [`read_file`].
pub(crate) fn map_file(path: &Path) -> Result<Bytes> {
    map_open(open_regular(path)?, path)
}

/// As [`map_file`], of a file that is open already, and stays open as long as the bytes are there; `path` is for messages.
pub(crate) fn map_open(file: impl Into<Arc<File>>, path: &Path) -> Result<Bytes> {
    let file = file.into();
    let length = file.metadata().map_err(|error| Diagnostic::io(path, "read", &error))?.len();
    if length == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: The mapping is private and read-only, and this process never writes to a file that it has mapped: output
    // goes to a new file that is renamed into place. What remains is another process that changes the file meanwhile.
    // Changed bytes are harmless, for all that is read is checked as untrusted and no `&str` or enum is made over the
    // mapping; a shortened file ends the process, by SIGBUS or as `on_cut_files` has it.
    let map = unsafe { memmap2::Mmap::map(&*file) }.map_err(|error| Diagnostic::io(path, "map", &error))?;
    Ok(Bytes::from_owner(Mapped::new(map, path, file)))
}

/// The place of the byte at `address` in a file that this process has mapped.
pub(crate) fn origin(address: *const u8) -> Option<Origin> {
    let mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let (&start, (length, path)) = mappings.range(..=address as usize).next_back()?;
    let offset = address as usize - start;
    (offset < *length).then(|| Origin { path: path.clone(), offset, length: *length })
}

/// The addresses of every file that this process has mapped.
pub fn mapped_files() -> Vec<std::ops::Range<usize>> {
    let mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
    mappings.iter().map(|(&start, (length, _))| start..start + length).collect()
}

/// A place in a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// A path by which any process of the same user can open this very file, as long as the mapping is there.
    pub(crate) path: PathBuf,
    /// Bytes from the start of the file.
    pub(crate) offset: usize,
    /// Bytes of the file that are mapped.
    pub(crate) length: usize,
}

/// Every mapping of this process: first address, length, path. A fact about its address space, so there is one.
static MAPPINGS: Mutex<BTreeMap<usize, (usize, PathBuf)>> = Mutex::new(BTreeMap::new());

/// A mapping that is listed for as long as it is there.
struct Mapped {
    map: memmap2::Mmap,
    /// Kept open so that its descriptor is a path: that of a descriptor that somebody else closes would be a path to whatever
    /// is opened next.
    _file: Arc<File>,
}

impl Mapped {
    fn new(map: memmap2::Mmap, path: &Path, file: Arc<File>) -> Mapped {
        use std::os::unix::ffi::OsStrExt;
        // A descriptor number is not a name for messages.
        let is_number = path.starts_with("/dev/fd") || path.starts_with("/proc");
        let name = if is_number { std::fs::read_link(path).ok() } else { None };
        let name = name.unwrap_or_else(|| path.to_owned());
        let path = path_of(&file);
        let mut mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
        cut::add(map.as_ptr() as usize, map.len(), name.as_os_str().as_bytes());
        mappings.insert(map.as_ptr() as usize, (map.len(), path));
        Mapped { map, _file: file }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let mut mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
        cut::remove(self.map.as_ptr() as usize);
        mappings.remove(&(self.map.as_ptr() as usize));
    }
}

/// The bytes of a file, read into memory. Takes pipes as well.
#[cfg(feature = "compiler")]
pub(crate) fn read_file(path: &Path) -> Result<Bytes> {
    std::fs::read(path).map(Bytes::from).map_err(|error| Diagnostic::io(path, "read", &error))
}

/// The real path of the file's folder, and the name of the file in it. The name may be a link: it is what people know
/// the file by, and what a new file would take.
#[cfg(feature = "compiler")]
pub(crate) fn real_place(path: &Path) -> Result<std::path::PathBuf> {
    let dir = crate::diagnostic::dir_of(path);
    let dir = dir.canonicalize().map_err(|error| Diagnostic::io(dir, "find", &error))?;
    let name = path.file_name();
    name.map(|name| dir.join(name))
        .ok_or_else(|| Diagnostic::new(Code::Io, format!("'{}' is not a file name", path.display())))
}

/// The remedy for pipes.
const NOT_MAPPED: &str = "A model is read from a pipe with compile --no-mmap; copy anything else into a file";

/// Opens `path` if it is a regular file. A pipe is refused before it is opened, for that could wait for ever.
fn open_regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| Diagnostic::io(path, "open", &error))?;
    if !metadata.is_file() {
        let error = Diagnostic::new(Code::Io, format!("cannot map '{}': it is not a regular file", path.display()));
        return Err(error.hint(if metadata.is_dir() { "It is a folder: name a file in it" } else { NOT_MAPPED }));
    }
    File::open(path).map_err(|error| Diagnostic::io(path, "open", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_and_read_bytes_are_the_same() {
        let dir = tempfile::tempdir().expect("folder");
        for content in [&b""[..], b"some bytes"] {
            let path = dir.path().join("file");
            std::fs::write(&path, content).expect("write");
            assert_eq!(map_file(&path).expect("map"), content);
            assert_eq!(read_file(&path).expect("read"), content);
            let map = map_file(&path).expect("map");
            if let Some(last) = map.last() {
                let found = origin(std::ptr::from_ref(last)).expect("a mapped byte");
                assert_eq!((found.offset, found.length), (content.len() - 1, content.len()));
                assert_eq!(std::fs::read(found.path).expect("open"), content);
            }
            assert_eq!(origin(content.as_ptr()), None);
        }
    }

    #[test]
    fn folders_and_missing_files_are_errors() {
        let dir = tempfile::tempdir().expect("folder");
        let place = dir.path().display().to_string();
        let error = map_file(dir.path()).expect_err("a folder");
        assert_eq!(error.message, format!("cannot map '{place}': it is not a regular file"));
        let error = map_file(&dir.path().join("none")).expect_err("missing");
        assert_eq!(error.message, format!("cannot open '{place}/none': No such file or directory (os error 2)"));
    }
}
