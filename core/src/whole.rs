//! Files that are there as a whole or not at all. They have no name until every byte is on disk, so that whoever is
//! interrupted or killed leaves nothing behind; then they take the place of whatever was there.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::{Builder, NamedTempFile};

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::map::{self, folder_of};

/// Writes a file in place of whatever was there. It has the permissions of any new file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// Writes a file in place of whatever was there: what `fill` puts into a new file beside it, which is flushed to disk and
/// takes the name then. Where anything fails, no file is left, and one that was there before is as it was.
pub fn write_with<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // Renaming over a device such as /dev/null would take the device away.
        return Err(Diagnostic::new(Code::Io, format!("cannot write '{}': it is no regular file", path.display())));
    }
    save(path, fill).map_err(|error| Disk::Output.hint(&error, Diagnostic::io(path, "write", &error)))
}

fn save<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let folder = folder_of(path);
    let mut output = Output::new(folder)?;
    let filled = fill(output.file())?;
    output.file().sync_all()?;
    output.publish(folder, path)?;
    // The new name is on disk only once its folder is. Some file systems cannot do that; the bytes are safe by now.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(filled)
}

/// A folder for files without a name, and what to do when its disk is full.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The folder.
    pub folder: PathBuf,
    /// Whose choice it is.
    pub disk: Disk,
}

/// Why a file is on the disk that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The user named an output there.
    Output,
    /// It is where the system has temporary files.
    Temporary,
}

impl Scratch {
    /// The folder of an output, so that a full disk shows early and nowhere else.
    pub fn beside(output: &Path) -> Scratch {
        Scratch { folder: folder_of(output).to_owned(), disk: Disk::Output }
    }

    /// The system's folder for temporary files.
    pub fn temporary() -> Scratch {
        Scratch { folder: std::env::temp_dir(), disk: Disk::Temporary }
    }

    /// A new, empty file without a name.
    pub fn file(&self) -> Result<File> {
        tempfile::tempfile_in(&self.folder)
            .map_err(|error| self.disk.hint(&error, Diagnostic::io(&self.folder, "create a temporary file in", &error)))
    }

    /// The bytes that `fill` writes, mapped from a file without a name, which goes with the last of them.
    pub fn mapped<T>(&self, fill: impl FnOnce(&mut File) -> io::Result<T>) -> Result<Bytes> {
        let mut file = self.file()?;
        fill(&mut file).map_err(|error| {
            self.disk.hint(&error, Diagnostic::io(&self.folder, "write a temporary file in", &error))
        })?;
        map::map_open(file, &self.folder)
    }
}

impl Disk {
    /// Adds what to do, where `cause` is that the disk is full or a file has become too large.
    pub fn hint(self, cause: &io::Error, error: Diagnostic) -> Diagnostic {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match (cause.kind(), self) {
            (StorageFull | QuotaExceeded | FileTooLarge, Disk::Output) => {
                error.hint("Make room on that disk, or write the output to another one")
            }
            (StorageFull | QuotaExceeded | FileTooLarge, Disk::Temporary) => {
                error.hint("Make room on that disk, or name a folder on another one in TMPDIR")
            }
            _ => error,
        }
    }
}

/// A file that is being written.
enum Output {
    /// One without a name: the system takes it away when the process ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// A temporary file, where unnamed ones cannot be had; removed when dropped.
    Named(NamedTempFile),
}

impl Output {
    /// A new, empty file in `folder`, with the permissions of any new file.
    fn new(folder: &Path) -> io::Result<Output> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            if let Ok(file) = open(folder, flags, Mode::from_raw_mode(0o666)) {
                return Ok(Output::Unnamed(file.into()));
            }
        }
        let mut builder = named();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder.tempfile_in(folder).map(Output::Named)
    }

    /// The file to write to.
    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Output::Unnamed(file) => file,
            Output::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives the file its name, in place of whatever had it before.
    fn publish(self, folder: &Path, path: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Output::Unnamed(file) => {
                if let Err(error) = link(&file, path) {
                    if error.kind() != io::ErrorKind::AlreadyExists {
                        return Err(error);
                    }
                } else {
                    return Ok(());
                }
                // A link cannot replace a file, a rename can: so a name of its own first. Only a process that is killed
                // between these two calls leaves that name, and the whole file under it.
                let named = named().make_in(folder, |name| link(&file, name))?;
                named.into_temp_path().persist(path).map_err(|error| error.error)
            }
            Output::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

/// What files are called that are not whole yet, where they need a name.
fn named() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".byoc-").suffix(".tmp");
    builder
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, source, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fails_half_way_is_not_there() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("out");
        let half = |error: io::ErrorKind| {
            move |file: &mut File| -> io::Result<()> {
                file.write_all(b"half")?;
                Err(error.into())
            }
        };
        let error = write_with(&path, half(io::ErrorKind::StorageFull)).expect_err("full");
        let cause = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(
            error.to_string(),
            format!(
                "[B601] cannot write '{}': {cause}. Make room on that disk, or write the output to another one",
                path.display()
            )
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 0);
        write(&path, b"whole").expect("written");
        // Room is not what is missing.
        let error = write_with(&path, half(io::ErrorKind::PermissionDenied)).expect_err("denied");
        assert_eq!((error.hint, std::fs::read(&path).expect("read")), (None, b"whole".to_vec()));
        assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let error = write(Path::new("/dev/null"), b"x").expect_err("a device");
        assert_eq!(error.to_string(), "[B601] cannot write '/dev/null': it is no regular file");
    }

    #[test]
    fn scratch_files_have_no_name_and_a_hint_of_their_own() {
        let folder = tempfile::tempdir().expect("folder");
        let scratch = Scratch { folder: folder.path().to_owned(), disk: Disk::Temporary };
        let bytes = scratch.mapped(|file| file.write_all(b"bytes")).expect("mapped");
        assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 0);
        assert_eq!(bytes, "bytes");
        let error = scratch.mapped(|_| -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) }).expect_err("full");
        let cause = io::Error::from(io::ErrorKind::StorageFull);
        let place = folder.path().display();
        assert_eq!(error.message, format!("cannot write a temporary file in '{place}': {cause}"));
        assert_eq!(error.hint.as_deref(), Some("Make room on that disk, or name a folder on another one in TMPDIR"));
    }
}
