//! Writes a new file in large pieces that begin at multiples of their size. A system keeps a file in memory in such pieces as it was
//! written or read in: a process that maps 437 MB written by 256 KiB at any place faults for 44 ms, by 2 MiB so aligned for 4 ms
//! (`docs/decisions/0041-pages-of-a-first-run.md`).

use std::io::{self, Write};

/// Bytes of a piece: a huge page, the largest that systems map at once.
const PIECE: usize = 2 << 20;

/// Gathers what is written to `out` from its beginning on.
pub(super) struct AlignedWriter<W> {
    out: W,
    piece: Vec<u8>,
}

impl<W: Write> AlignedWriter<W> {
    /// A writer to what is empty.
    pub(super) fn new(out: W) -> Self {
        AlignedWriter { out, piece: Vec::new() }
    }

    /// Writes what is gathered and gives back where it was written to.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.piece)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for AlignedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE {
            self.out.write_all(&self.piece)?;
            self.piece.clear();
        }
        let taken = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Does nothing: a piece is written when it is whole, or at the [end](AlignedWriter::finish).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each write ended, and all bytes.
    #[derive(Default)]
    struct Writes(Vec<usize>, Vec<u8>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(bytes);
            self.0.push(self.1.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_end_at_multiples_of_their_size() {
        let bytes: Vec<u8> = (0..2 * PIECE + 5).map(|at| (at % 251) as u8).collect();
        for cut in [1000, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let mut writer = AlignedWriter::new(Writes::default());
            bytes.chunks(cut).for_each(|part| writer.write_all(part).expect("memory takes all"));
            let Writes(ends, written) = writer.finish().expect("memory takes all");
            assert!(written == bytes);
            assert_eq!(ends, [PIECE, 2 * PIECE, 2 * PIECE + 5]);
        }
    }

    #[test]
    fn nothing_is_written_of_nothing() {
        assert_eq!(AlignedWriter::new(Writes::default()).finish().expect("memory takes all").1, b"");
    }
}
