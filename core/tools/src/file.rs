//! Data files: only regular files are read, and files are written atomically.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};

/// Opens a regular file. Others are refused: a pipe without a writer would block for ever.
pub fn open(path: &Path) -> Result<File> {
    let failed = |error: io::Error| Diagnostic::io(path, "open", &error);
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let error = Diagnostic::new(Code::Io, format!("cannot read '{}': it is not a regular file", path.display()));
        return Err(error.hint("Copy its contents into a file"));
    }
    File::open(path).map_err(failed)
}

/// The BLAKE3 digest of all bytes of a file, in hex.
pub fn digest(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(open(path)?).map_err(|error| Diagnostic::io(path, "read", &error))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// A file that keeps its first failure to the end and drops what is written after it, for writers that cannot be
/// stopped: a zip archive that is not finished prints to stderr.
pub(crate) struct Patient<W> {
    inner: W,
    position: u64,
    length: u64,
    failure: Option<io::Error>,
}

impl<W: Write + Seek> Patient<W> {
    /// Around an empty file.
    pub(crate) fn new(inner: W) -> Patient<W> {
        Patient { inner, position: 0, length: 0, failure: None }
    }

    /// The first failure, if there was one.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.attempt(W::flush);
        self.failure.map_or(Ok(()), Err)
    }

    fn attempt<T>(&mut self, work: impl FnOnce(&mut W) -> io::Result<T>) {
        if self.failure.is_none() {
            self.failure = work(&mut self.inner).err();
        }
    }
}

impl<W: Write + Seek> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|inner| inner.write_all(bytes));
        self.position += bytes.len() as u64;
        self.length = self.length.max(self.position);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(W::flush);
        Ok(())
    }
}

impl<W: Write + Seek> Seek for Patient<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(target) => Some(target),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        self.attempt(|inner| inner.seek(SeekFrom::Start(target)));
        self.position = target;
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes and no more.
    struct Full(io::Cursor<Vec<u8>>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.get_ref().len() + bytes.len() > self.1 {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => self.0.write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn the_first_failure_comes_at_the_end() {
        for (room, fails) in [(6, false), (5, true), (3, true), (0, true)] {
            let mut file = Patient::new(Full(io::Cursor::default(), room));
            for part in [b"ab", b"cd", b"ef"] {
                file.write_all(part).expect("patient");
            }
            assert_eq!(file.seek(SeekFrom::Current(-5)).expect("patient"), 1);
            assert_eq!(file.seek(SeekFrom::End(-1)).expect("patient"), 5);
            assert_eq!(file.stream_position().expect("patient"), 5);
            assert_eq!(file.finish().map_err(|error| error.kind()).err(), fails.then_some(io::ErrorKind::StorageFull));
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let error = open(Path::new("/dev/null")).expect_err("a device");
        assert_eq!(
            error.to_string(),
            "[B601] cannot read '/dev/null': it is not a regular file. Copy its contents into a file"
        );
        let error = open(Path::new("/no/such")).expect_err("missing");
        assert_eq!(error.to_string(), "[B601] cannot open '/no/such': No such file or directory (os error 2)");
    }
}
