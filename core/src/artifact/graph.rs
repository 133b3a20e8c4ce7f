//! The bytes of the sections that are JSON: manifest, ledger and list of variants, compressed by zlib (RFC 1950). Uncompressed
//! they would be larger than anything else but the weights of a small model.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// More JSON than all graphs of any sane file have: what a damaged file can make us allocate.
pub(super) const MOST_BYTES: u64 = 256 << 20;

/// The section of a manifest, a ledger, or a list of variants.
pub(super) fn encode(contents: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(contents).map_err(|error| error.to_string())?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json).and_then(|()| encoder.finish()).map_err(|error| error.to_string())
}

/// The manifest, the ledger, or the list of variants, of a section, and how many bytes of JSON it is.
pub(super) fn decode<T: DeserializeOwned>(section: &[u8]) -> Result<(T, u64), String> {
    // Room for what most are, so that it need not grow; 1 MiB at most, for a damaged file may have a long section.
    let mut json = Vec::with_capacity(section.len().saturating_mul(10).min(1 << 20));
    let read = ZlibDecoder::new(section).take(MOST_BYTES).read_to_end(&mut json).map_err(|error| error.to_string())?;
    if read as u64 == MOST_BYTES {
        return Err(format!("it holds more than {MOST_BYTES} bytes"));
    }
    Ok((serde_json::from_slice(&json).map_err(|error| error.to_string())?, read as u64))
}
