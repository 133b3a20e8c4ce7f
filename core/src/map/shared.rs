//! Memory that this process and another one map, for the tensors of a region that runs there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use memmap2::{MmapOptions, MmapRaw};

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::memory;

/// The memory. Either side may write at any time, so it is only copied from and to, or lent by address.
pub(crate) struct SharedMemory {
    map: MmapRaw,
    file: File,
}

impl SharedMemory {
    /// New memory of at least a byte.
    pub(crate) fn new(length: usize) -> Result<SharedMemory> {
        memory::check(length).map_err(|short| short.diagnostic(Code::RunFailed, "a region in a worker"))?;
        let failed = |error: std::io::Error| Diagnostic::io(Path::new("the memory of a worker"), "make", &error);
        let file = anonymous(length.max(1) as u64).map_err(failed)?;
        SharedMemory::of(file).map_err(failed)
    }

    /// The memory that another process has at that path.
    pub(crate) fn open(path: &Path) -> Result<SharedMemory> {
        let opened = File::options().read(true).write(true).open(path).and_then(SharedMemory::of);
        opened.map_err(|error| Diagnostic::io(path, "map", &error))
    }

    fn of(file: File) -> std::io::Result<SharedMemory> {
        Ok(SharedMemory { map: MmapOptions::new().map_raw(&file)?, file })
    }

    /// A path by which another process of the same user can open it, as long as this one has it.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.file)
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// The address of so many bytes from `offset` on; `None` where they are not all there.
    pub(crate) fn address(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let end = offset.checked_add(length)?;
        (end <= self.map.len()).then(|| self.map.as_mut_ptr().wrapping_add(offset))
    }

    /// Copies bytes there. Nothing is copied where they do not fit.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        let to = self.address(offset, bytes.len())?;
        // SAFETY: so many bytes are mapped there, and no reference to them exists in this process.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some(())
    }

    /// Copies bytes from there. Nothing is copied where they are not all there.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        let from = self.address(offset, into.len())?;
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Some(())
    }
}

/// A path by which another process of the same user can open the file, as long as this one has it open.
pub(crate) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// A file without a name, in memory, of a length that nobody can change: a shortened one would end whoever reads it.
#[cfg(target_os = "linux")]
fn anonymous(length: u64) -> std::io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = File::from(memfd_create("byoc", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(length)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// A file without a name.
#[cfg(not(target_os = "linux"))]
fn anonymous(length: u64) -> std::io::Result<File> {
    let file = tempfile::tempfile()?;
    file.set_len(length)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same() {
        let own = SharedMemory::new(8).expect("memory");
        let other = SharedMemory::open(&own.path()).expect("the same memory");
        assert_eq!((own.len(), other.len()), (8, 8));
        own.write(2, &[5, 6]).expect("it fits");
        let mut found = [1; 4];
        other.read(1, &mut found).expect("it is there");
        assert_eq!(found, [0, 5, 6, 0]);
        assert!(own.write(7, &[1, 2]).is_none() && other.read(usize::MAX, &mut found).is_none());
        assert!(other.address(8, 0).is_some() && other.address(9, 0).is_none());
        // Nobody can pull it away from under the other side.
        assert!(!cfg!(target_os = "linux") || other.file.set_len(1).is_err());
        assert!(SharedMemory::new(usize::MAX).is_err());
    }
}
