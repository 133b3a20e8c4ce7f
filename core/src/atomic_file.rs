//! Atomic file writes: an unnamed temporary file is written and synced, then linked or renamed to its path, so that an
//! interrupted or killed process leaves nothing behind.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::{Builder, NamedTempFile};

use crate::diagnostic::{Code, Diagnostic, Result, dir_of};
use crate::map;

/// Writes or replaces a file atomically, with the permissions of any new file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// Writes or replaces a file atomically: `fill` writes a temporary file beside it, which is synced to disk and then
/// renamed. On an error nothing is left behind, and an existing file is unchanged.
pub fn write_with<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // Renaming over a device such as /dev/null would take the device away.
        return Err(Diagnostic::new(Code::Io, format!("cannot write '{}': it is not a regular file", path.display())));
    }
    save(path, fill)
        .map_err(without_path)
        .map_err(|error| Disk::Output.hint(&error, Diagnostic::io(path, "write", &error)))
}

fn save<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let dir = dir_of(path);
    let mut output = Output::new(dir)?;
    let filled = fill(output.file())?;
    output.file().sync_all()?;
    output.publish(dir, path)?;
    // The rename is durable once its directory is synced. Some file systems cannot do that; the bytes are safe by now.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(filled)
}

/// A directory for unnamed files, and the remedy when its disk is full.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The folder.
    pub dir: PathBuf,
    /// Who chose the disk.
    pub disk: Disk,
}

/// Why a file is on its disk.
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
        Scratch { dir: dir_of(output).to_owned(), disk: Disk::Output }
    }

    /// The system's folder for temporary files.
    pub fn temporary() -> Scratch {
        Scratch { dir: std::env::temp_dir(), disk: Disk::Temporary }
    }

    /// A new, empty file without a name.
    pub fn file(&self) -> Result<File> {
        tempfile::tempfile_in(&self.dir).map_err(without_path).map_err(|error| {
            let doing = match self.disk {
                Disk::Output => "write into the folder",
                Disk::Temporary => "create a temporary file in",
            };
            self.disk.hint(&error, Diagnostic::io(&self.dir, doing, &error))
        })
    }

    /// The bytes that `fill` writes, mapped from an unnamed file, which is freed with the last of them.
    pub fn mapped<T>(&self, fill: impl FnOnce(&mut File) -> io::Result<T>) -> Result<Bytes> {
        let mut file = self.file()?;
        fill(&mut file)
            .map_err(|error| self.disk.hint(&error, Diagnostic::io(&self.dir, "write a temporary file in", &error)))?;
        map::map_open(file, &self.dir)
    }
}

impl Disk {
    /// Adds the remedy where `cause` is a full disk or a file-size limit.
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
    /// An unnamed file, which the system frees when the process ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// A named temporary file, where unnamed ones are not supported; removed when dropped.
    Named(NamedTempFile),
}

impl Output {
    /// A new, empty file in `folder`, with the permissions of any new file.
    fn new(dir: &Path) -> io::Result<Output> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            if let Ok(file) = open(dir, flags, Mode::from_raw_mode(0o666)) {
                return Ok(Output::Unnamed(file.into()));
            }
        }
        let mut builder = named();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder.tempfile_in(dir).map(Output::Named)
    }

    /// The file to write to.
    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Output::Unnamed(file) => file,
            Output::Named(file) => file.as_file_mut(),
        }
    }

    /// Links the file to its path, and replaces an existing file.
    fn publish(self, dir: &Path, path: &Path) -> io::Result<()> {
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
                // A link cannot replace a file, a rename can: so it is linked under a temporary name first. Only a process
                // that is killed between these two calls leaves that name, with the complete file.
                let named = named().make_in(dir, |name| link(&file, name))?;
                named.into_temp_path().persist(path).map_err(|error| error.error)
            }
            Output::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

/// The error without the name of an unfinished file, which tells nobody anything.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path \"") {
        Some((cause, _)) => io::Error::new(error.kind(), cause),
        None => error,
    }
}

/// Names of unfinished files.
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
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("out");
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
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
        write(&path, b"whole").expect("written");
        // Another cause has no hint about room.
        let error = write_with(&path, half(io::ErrorKind::PermissionDenied)).expect_err("denied");
        assert_eq!((error.hint, std::fs::read(&path).expect("read")), (None, b"whole".to_vec()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn errors_do_not_name_unfinished_files() {
        let dir = tempfile::tempdir().expect("folder");
        // It is not there any more, so the unfinished file cannot be made.
        let gone = dir.path().join("gone");
        let error = write(&gone.join("out"), b"x").expect_err("no folder").to_string();
        assert!(error.starts_with(&format!("[B601] cannot write '{}': ", gone.join("out").display())), "{error}");
        assert!(!error.contains(".byoc-") && !error.contains("at path"), "{error}");
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let error = write(Path::new("/dev/null"), b"x").expect_err("a device");
        assert_eq!(error.to_string(), "[B601] cannot write '/dev/null': it is not a regular file");
    }

    #[test]
    fn scratch_files_have_no_name_and_a_hint_of_their_own() {
        let dir = tempfile::tempdir().expect("folder");
        let scratch = Scratch { dir: dir.path().to_owned(), disk: Disk::Temporary };
        let bytes = scratch.mapped(|file| file.write_all(b"bytes")).expect("mapped");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
        assert_eq!(bytes, "bytes");
        let error = scratch.mapped(|_| -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) }).expect_err("full");
        let cause = io::Error::from(io::ErrorKind::StorageFull);
        let place = dir.path().display();
        assert_eq!(error.message, format!("cannot write a temporary file in '{place}': {cause}"));
        assert_eq!(error.hint.as_deref(), Some("Make room on that disk, or name a folder on another one in TMPDIR"));
    }
}
