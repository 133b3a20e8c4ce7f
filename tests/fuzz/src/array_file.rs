//! Archives of arrays, taken apart and put together again: the sums that a zip file keeps of its members hide them from
//! changes of single bytes.

use std::io::{Cursor, Read, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::{Raw, Rng};

/// Most bytes of a member that are looked at.
const MOST: u64 = 1 << 20;

type Members = Vec<(String, Vec<u8>)>;

/// The members of an archive.
fn read(file: &[u8]) -> Option<Members> {
    let mut archive = ZipArchive::new(Cursor::new(file)).ok()?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let member = archive.by_index(index).ok()?;
        let name = member.name().to_owned();
        let mut bytes = Vec::new();
        member.take(MOST).read_to_end(&mut bytes).ok()?;
        members.push((name, bytes));
    }
    Some(members)
}

/// An archive of these members.
pub(crate) fn write(members: &[(String, Vec<u8>)], method: CompressionMethod) -> Option<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(name, SimpleFileOptions::default().compression_method(method)).ok()?;
        archive.write_all(bytes).ok()?;
    }
    Some(archive.finish().ok()?.into_inner())
}

/// An archive with one of its members changed.
pub(crate) fn bytes(input: &[u8], other: Option<&[u8]>, rng: &mut Rng, raw: Raw<'_>) -> Option<Vec<u8>> {
    let mut members = read(input).filter(|members| !members.is_empty())?;
    let at = rng.usize(..members.len());
    match (rng.u8(..8), other.and_then(read)) {
        (0, _) => drop(members.remove(at)),
        (1, _) => members.push(members[at].clone()),
        (2, _) => members[at].0.push('/'),
        (3 | 4, Some(other)) => members.extend(other),
        _ => raw(&mut members[at].1),
    }
    write(&members, if rng.bool() { CompressionMethod::Stored } else { CompressionMethod::Deflated })
}
