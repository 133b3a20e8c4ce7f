//! Constants that are in files beside the artifact: finds the files, and checks that the bytes are those of the
//! compile. A changed file would be a wrong result, so every byte that is used is compared with its digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use byoc_plugin_api::DType;
use bytes::Bytes;

use super::ledger::{Fate, LedgerRow};
use super::manifest::{ConstantFile, External, Manifest};
use crate::buffer::Buffer;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::map::map_file;
use crate::memory::Shortage;

/// One constant of another file.
struct Piece<'a> {
    /// Index of the constant.
    index: usize,
    dtype: DType,
    bytes: Bytes,
    external: &'a External,
}

/// The bytes of every constant of `manifest` that is in another file, by index: aligned to their element type, and
/// compared with the digests. `artifact` is the path of the artifact itself; its ledger has names for an error.
pub(super) fn attach<'a>(
    manifest: &'a Manifest,
    artifact: &Path,
    constants_from: Option<&Path>,
    ledger: &dyn Fn() -> &'a [LedgerRow],
) -> Result<BTreeMap<usize, Bytes>> {
    let mut files = Vec::new();
    for file in &manifest.files {
        let path = locate(file, artifact, constants_from);
        let bytes = open(file, &path, artifact)?;
        files.push((path, bytes));
    }
    let mut pieces = Vec::new();
    for (index, stored) in manifest.constants.iter().enumerate() {
        let Some(external) = &stored.external else { continue };
        // The file has the length that the manifest was checked against, so the range is one of it.
        let (start, length) = (external.offset as usize, stored.bytes().unwrap_or(0) as usize);
        let bytes = files[external.file].1.slice(start..start + length);
        pieces.push(Piece { index, dtype: stored.dtype, bytes, external });
    }
    let checked = in_parallel(&pieces, |piece| {
        let bytes = aligned(&piece.bytes, piece.dtype)?;
        Ok((blake3::hash(&bytes).to_hex().as_str() == piece.external.digest).then_some(bytes))
    });
    let mut attached = BTreeMap::new();
    for (piece, bytes) in pieces.iter().zip(checked) {
        let (path, name) = (&files[piece.external.file].0, || name(manifest, ledger(), piece.index));
        let short = |shortage: Shortage| {
            let copy = format!("the copy of `{}` of '{}'", name(), path.display());
            shortage.diagnostic(Code::Io, copy)
        };
        let differs = || another(path, artifact, &format!("`{}` differs", name()));
        let bytes = bytes.map_err(short)?.ok_or_else(differs)?;
        attached.insert(piece.index, bytes);
    }
    Ok(attached)
}

/// BLAKE3 of each, in hex.
#[cfg(feature = "compiler")]
pub(crate) fn digests(pieces: &[Bytes]) -> Vec<String> {
    in_parallel(pieces, |bytes| blake3::hash(bytes).to_hex().to_string())
}

/// Where the file should be. The user's folder may hold them under their names or their recorded paths.
pub(super) fn locate(file: &ConstantFile, artifact: &Path, constants_from: Option<&Path>) -> PathBuf {
    let path = Path::new(&file.path);
    let Some(dir) = constants_from else {
        return artifact.parent().unwrap_or(Path::new("")).join(path);
    };
    let by_name = dir.join(path.file_name().unwrap_or_default());
    let by_path = dir.join(path);
    if !by_name.exists() && by_path.exists() { by_path } else { by_name }
}

fn open(file: &ConstantFile, path: &Path, artifact: &Path) -> Result<Bytes> {
    let bytes = map_file(path).map_err(|error| {
        let message = format!("'{}' takes constants from '{}': {}", artifact.display(), file.path, error.message);
        Diagnostic::new(Code::ConstantSource, message)
            .hint("Put the file back, or name its folder with --constants-from DIR")
    })?;
    if bytes.len() as u64 != file.bytes {
        return Err(another(path, artifact, &format!("it has {} bytes, not {}", bytes.len(), file.bytes)));
    }
    Ok(bytes)
}

fn another(path: &Path, artifact: &Path, cause: &str) -> Diagnostic {
    let (path, artifact) = (path.display(), artifact.display());
    let message = format!("'{path}' is not the file that '{artifact}' was compiled from: {cause}");
    Diagnostic::new(Code::ConstantSource, message)
        .hint("Put that file back, name its folder with --constants-from DIR, or compile the model again")
}

/// What the model calls the constant, or else its section.
fn name<'a>(manifest: &'a Manifest, ledger: &'a [LedgerRow], index: usize) -> &'a str {
    let mut rows = ledger.iter().filter(|row| row.stored == Some(index) && row.fate != Fate::Viewed);
    let name = rows.next().and_then(|row| row.names.first());
    name.map_or(&manifest.constants[index].section, String::as_str)
}

/// Backends are promised bytes that are aligned to their element type, and a model file has them anywhere.
fn aligned(bytes: &Bytes, dtype: DType) -> std::result::Result<Bytes, Shortage> {
    if bytes.as_ptr().addr().is_multiple_of(dtype.unpacked_bytes()) {
        return Ok(bytes.clone());
    }
    Ok(Bytes::from_owner(Buffer::copy_of(bytes)?).slice(..bytes.len()))
}

/// `work` on each item, on all cores. The results are in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // To count the cores is to read files.
    if items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len());
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_only_to_be_aligned() {
        let all = Bytes::from_owner(Buffer::copy_of(&[7; 100]).expect("little"));
        let aligned = |bytes: &Bytes, dtype| aligned(bytes, dtype).expect("little");
        let even = all.slice(8..72);
        assert_eq!(aligned(&even, DType::F32).as_ptr(), even.as_ptr());
        let odd = all.slice(9..73);
        let copy = aligned(&odd, DType::F32);
        assert_ne!(copy.as_ptr(), odd.as_ptr());
        assert_eq!((copy.as_ptr().addr() % 64, copy), (0, odd.clone()));
        assert_eq!(aligned(&odd, DType::U8).as_ptr(), odd.as_ptr());
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(in_parallel(&[0u8; 0], |_| ()), []);
    }
}
