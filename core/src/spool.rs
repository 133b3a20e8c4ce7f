//! The spool: an unnamed temporary file that holds generated code and packed constants until the artifact is written, so
//! that they are not kept in memory and an interrupted compile leaves nothing behind.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::atomic_file::Scratch;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::map::map_open;

/// Pieces smaller than this are gathered before they are written.
const BUFFER: usize = 64 * 1024;

/// Pieces of up to so many bytes are faster read than mapped.
const SMALL: u64 = 4 * 1024;

/// A piece of the spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SpoolRange {
    /// The first byte.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) len: u64,
}

/// An unnamed, append-only file.
#[derive(Debug)]
pub(crate) struct Spool {
    /// Open as long as something of it is mapped.
    file: Arc<File>,
    /// Where the file is.
    scratch: Scratch,
    length: u64,
    /// The newest mapping. Older ones live as long as the slices that were taken from them.
    map: Mutex<Bytes>,
}

impl Spool {
    /// An empty spool.
    pub(crate) fn new(scratch: &Scratch) -> Result<Spool> {
        Ok(Spool { file: scratch.file()?.into(), scratch: scratch.clone(), length: 0, map: Mutex::default() })
    }

    /// Appends `bytes`. `what` says what they are, such as `the code of region 'byoc_main_json_0'`.
    pub(crate) fn append(&mut self, what: &str, bytes: &[u8]) -> Result<SpoolRange> {
        let mut writer = self.writer(what);
        // A failure is kept by the writer, and `finish` reports it with all that is known.
        let _ = writer.write_all(bytes);
        writer.finish()
    }

    /// A writer for one piece, which becomes part of the spool when it is finished. Until then the spool is as it was.
    pub(crate) fn writer(&mut self, what: impl Into<String>) -> SpoolWriter<'_> {
        SpoolWriter { piece: Piece::new(what), spool: self }
    }

    /// The bytes of a finished piece, mapped; they stay valid when the spool grows or goes.
    pub(crate) fn bytes(&self, range: SpoolRange) -> Result<Bytes> {
        if range.len == 0 {
            return Ok(Bytes::new());
        }
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if range.end()? > map.len() as u64 {
            *map = map_open(self.file.clone(), &self.scratch.dir)?;
        }
        let (start, end) = (range.offset as usize, range.end()? as usize);
        if end > map.len() {
            return Err(self.error("read", "a piece", "the file is shorter than what was written"));
        }
        Ok(map.slice(start..end))
    }

    /// The bytes of a finished piece, for a short while: a small one is in memory, for to map it takes longer than to read
    /// it.
    pub(crate) fn briefly(&self, range: SpoolRange) -> Result<Bytes> {
        if range.len <= SMALL { self.read(range) } else { self.bytes(range) }
    }

    fn read(&self, range: SpoolRange) -> Result<Bytes> {
        let mut bytes = Vec::with_capacity(range.len as usize);
        let mut file = &*self.file;
        let read = file.seek(SeekFrom::Start(range.offset)).and_then(|_| file.take(range.len).read_to_end(&mut bytes));
        match read {
            Ok(length) if length as u64 == range.len => Ok(Bytes::from(bytes)),
            Ok(_) => Err(self.error("read", "a piece", "the file is shorter than what was written")),
            Err(error) => Err(self.error("read", "a piece", error)),
        }
    }

    fn error(&self, doing: &str, what: &str, cause: impl std::fmt::Display) -> Diagnostic {
        let place = self.scratch.dir.display();
        Diagnostic::new(Code::Io, format!("cannot {doing} {what} in a temporary file in '{place}': {cause}"))
    }
}

impl SpoolRange {
    /// The byte after the last one.
    fn end(self) -> Result<u64> {
        self.offset
            .checked_add(self.len)
            .ok_or_else(|| Diagnostic::new(Code::Io, "a piece of the temporary file ends beyond what can be counted"))
    }
}

/// A piece under way. Of several that are begun, only one may be finished: they would be in the same place.
#[derive(Debug)]
pub(crate) struct Piece {
    what: String,
    written: u64,
    buffer: Vec<u8>,
    failure: Option<io::Error>,
}

impl Piece {
    /// An empty piece.
    pub(crate) fn new(what: impl Into<String>) -> Piece {
        Piece { what: what.into(), written: 0, buffer: Vec::new(), failure: None }
    }

    /// Number of bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds bytes. The first failure is kept, and comes out of [`Piece::finish`] as well.
    pub(crate) fn push(&mut self, spool: &mut Spool, bytes: &[u8]) -> io::Result<()> {
        if self.failure.is_none() {
            self.failure = self.try_push(spool, bytes).err();
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(io::Error::new(failure.kind(), failure.to_string())),
        }
    }

    /// Ends the piece.
    pub(crate) fn finish(mut self, spool: &mut Spool) -> Result<SpoolRange> {
        if self.failure.is_none() {
            self.failure = self.drain(spool).err();
        }
        if let Some(failure) = self.failure {
            let error = spool.error("keep", &self.what, &failure);
            return Err(spool.scratch.disk.hint(&failure, error));
        }
        let range = SpoolRange { offset: spool.length, len: self.written };
        spool.length += self.written;
        Ok(range)
    }

    fn try_push(&mut self, spool: &mut Spool, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.drain(spool)?;
        }
        if bytes.len() >= BUFFER {
            return self.put(spool, bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn drain(&mut self, spool: &mut Spool) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.put(spool, &buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn put(&mut self, spool: &mut Spool, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            let mut file = &*spool.file;
            file.seek(SeekFrom::Start(spool.length + self.written))?;
            file.write_all(bytes)?;
            self.written += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Writes one piece of a [`Spool`]. The first failure is kept and returned by [`SpoolWriter::finish`], even if the code in
/// between ignored it; so check `finish` before a backend's own error.
#[derive(Debug)]
pub(crate) struct SpoolWriter<'a> {
    spool: &'a mut Spool,
    piece: Piece,
}

impl SpoolWriter<'_> {
    /// Ends the piece.
    pub(crate) fn finish(self) -> Result<SpoolRange> {
        self.piece.finish(self.spool)
    }
}

impl Write for SpoolWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.push(self.spool, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::map::{map_file, origin};

    #[test]
    fn pieces_are_read_back_while_the_spool_grows() {
        let mut spool = Spool::new(&Scratch::temporary()).expect("spool");
        let large = vec![7u8; BUFFER + 1];
        let pieces: [&[u8]; 5] = [b"first", b"", &large, b"x", &large[..BUFFER]];
        let kept: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let range = spool.append("a piece", piece).expect("append");
                (range, spool.bytes(range).expect("bytes"))
            })
            .collect();
        for ((range, bytes), piece) in kept.iter().zip(pieces) {
            assert_eq!(bytes, piece);
            assert_eq!(spool.bytes(*range).expect("again"), piece);
            assert_eq!(spool.read(*range).expect("read"), piece);
            assert_eq!(spool.briefly(*range).expect("briefly"), piece);
        }
        drop(spool);
        assert_eq!(kept[0].1, "first");
    }

    /// What opens a file next gets the lowest number that is free: that of a file that was closed.
    #[test]
    fn another_process_can_map_what_a_spool_has_left_behind() {
        let mut spool = Spool::new(&Scratch::temporary()).expect("spool");
        let range = spool.append("a piece", &vec![7u8; BUFFER]).expect("append");
        let bytes = spool.bytes(range).expect("bytes");
        drop(spool);
        let others: Vec<_> = (0..8).map(|_| tempfile::tempfile().expect("file")).collect();
        let found = origin(bytes.as_ptr()).expect("they are mapped");
        assert_eq!((found.offset, map_file(&found.path).expect("it can be opened")), (0, bytes));
        drop(others);
    }

    #[test]
    fn small_writes_and_unfinished_pieces() {
        let mut spool = Spool::new(&Scratch::temporary()).expect("spool");
        let mut writer = spool.writer("lost");
        writer.write_all(&vec![1; 2 * BUFFER]).expect("write");
        drop(writer);
        let mut writer = spool.writer("kept");
        for i in 0..BUFFER as u32 {
            writer.write_all(&i.to_le_bytes()).expect("write");
        }
        assert_eq!(writer.piece.len(), 4 * BUFFER as u64);
        let range = writer.finish().expect("finish");
        assert_eq!(range, SpoolRange { offset: 0, len: 4 * BUFFER as u64 });
        let expected: Vec<u8> = (0..BUFFER as u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(spool.bytes(range).expect("bytes"), expected);
    }

    #[test]
    fn ranges_of_another_spool_are_errors() {
        let spool = Spool::new(&Scratch::temporary()).expect("spool");
        for range in [SpoolRange { offset: 0, len: 1 }, SpoolRange { offset: u64::MAX, len: 1 }] {
            spool.bytes(range).expect_err("not there");
        }
    }

    #[test]
    fn errors_name_the_folder_and_the_piece() {
        let error = Spool::new(&Scratch::beside(Path::new("/no/such/output"))).expect_err("no folder");
        assert!(error.message.starts_with("cannot write into the folder '/no/such': No such file"), "{error}");
        let mut spool = Spool::new(&Scratch::temporary()).expect("spool");
        // A file that was opened for reading only fails as a full disk does: in `write`.
        let dir = tempfile::NamedTempFile::new().expect("file");
        spool.file = File::open(dir.path()).expect("open").into();
        spool.scratch.dir = "/out".into();
        let error = spool.append("the code of region 'r'", b"x").expect_err("not writable");
        assert_eq!(
            error.to_string(),
            "[B601] cannot keep the code of region 'r' in a temporary file in '/out': Bad file descriptor (os error 9)"
        );
        assert_eq!(spool.length, 0);
    }
}
