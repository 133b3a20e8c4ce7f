//! The bytes of a program: a line of JSON, then the cubins, each compressed (zlib).
//!
//! Compression is worth it: NVRTC leaves names of more than a megabyte in a cubin of CUTLASS's.

use std::io::{Read, Write};

use byoc_plugin_api::Error;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::Program;

/// The largest size of a cubin. A larger one is damaged, or an attempt to fill the memory.
const MOST: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
struct File {
    program: Program,
    cubins: Vec<Entry>,
}

/// Bytes of a cubin: compressed, and not.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    compressed: u64,
    bytes: u64,
}

/// The compressed cubins of a program that was read.
#[derive(Clone, Debug)]
pub struct Cubins<'a>(Vec<(&'a [u8], u64)>);

impl Program {
    /// Writes the program with its cubins, which launches name by index.
    ///
    /// # Errors
    ///
    /// Those of `code`.
    pub fn write(&self, cubins: &[&[u8]], code: &mut dyn Write) -> Result<(), Error> {
        let mut packed = Vec::with_capacity(cubins.len());
        for cubin in cubins {
            // The best level takes ten times as long, for 1 or 2 % less.
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(cubin)?;
            packed.push(encoder.finish()?);
        }
        let entries = packed.iter().zip(cubins);
        let entry =
            |(packed, cubin): (&Vec<u8>, &&[u8])| Entry { compressed: packed.len() as u64, bytes: cubin.len() as u64 };
        let file = File { program: self.clone(), cubins: entries.map(entry).collect() };
        serde_json::to_writer(&mut *code, &file)?;
        code.write_all(b"\n")?;
        packed.iter().try_for_each(|bytes| code.write_all(bytes))?;
        Ok(())
    }

    /// Reads a program. Cubins are decompressed on demand.
    ///
    /// # Errors
    ///
    /// When the bytes are not what [`Program::write`] writes.
    pub fn read(code: &[u8]) -> Result<(Program, Cubins<'_>), Error> {
        let end = code.iter().position(|&byte| byte == b'\n').ok_or_else(|| damaged("it has no first line"))?;
        let file: File = serde_json::from_slice(&code[..end]).map_err(|cause| damaged(&cause.to_string()))?;
        let mut rest = &code[end + 1..];
        let mut cubins = Vec::with_capacity(file.cubins.len());
        for entry in &file.cubins {
            let length = usize::try_from(entry.compressed).ok().filter(|&length| length <= rest.len());
            let (cubin, behind) =
                rest.split_at(length.ok_or_else(|| damaged("a cubin ends after the end of the file"))?);
            cubins.push((cubin, entry.bytes));
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(damaged("there are bytes after its cubins"));
        }
        file.program.check(cubins.len()).map_err(|cause| damaged(&cause))?;
        Ok((file.program, Cubins(cubins)))
    }
}

impl Cubins<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The compressed bytes of one, which identify it.
    pub fn compressed(&self, index: usize) -> Option<&[u8]> {
        self.0.get(index).map(|(bytes, _)| *bytes)
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// When the index is out of range, or the cubin is damaged.
    pub fn get(&self, index: usize) -> Result<Vec<u8>, Error> {
        let &(packed, bytes) =
            self.0.get(index).ok_or_else(|| damaged("a launch names a cubin that does not exist"))?;
        if bytes > MOST {
            return Err(damaged("a cubin is too large"));
        }
        let mut cubin = Vec::new();
        let read = ZlibDecoder::new(packed).take(bytes + 1).read_to_end(&mut cubin);
        match read {
            Ok(length) if length as u64 == bytes => Ok(cubin),
            _ => Err(damaged("a cubin does not decompress to its size")),
        }
    }
}

fn damaged(cause: &str) -> Error {
    Error::new(format!("damaged code: {cause}"))
}
