//! The file that an artifact is streamed into: it has no name until it is whole, so that a compile that is interrupted or
//! killed leaves nothing behind.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::whole;

/// A file in the folder of the output.
pub(super) enum Output {
    /// One without a name: the system takes it away when the process ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// A temporary file, where unnamed ones cannot be had; removed when dropped.
    Named(tempfile::NamedTempFile),
}

impl Output {
    /// A new, empty file in `folder`, with the permissions of any new file.
    pub(super) fn new(folder: &Path) -> io::Result<Output> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            if let Ok(file) = open(folder, flags, Mode::from_raw_mode(0o666)) {
                return Ok(Output::Unnamed(file.into()));
            }
        }
        whole::temporary(folder).map(Output::Named)
    }

    /// The file to write to.
    pub(super) fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Output::Unnamed(file) => file,
            Output::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives the file its name, in place of whatever had it before.
    pub(super) fn publish(self, folder: &Path, path: &Path) -> io::Result<()> {
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
                let named = whole::named().make_in(folder, |name| link(&file, name))?;
                named.into_temp_path().persist(path).map_err(|error| error.error)
            }
            Output::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, source, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}
