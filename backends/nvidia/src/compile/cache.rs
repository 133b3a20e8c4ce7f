//! A cache of compiled cubins in a folder of the user's.
//!
//! A file is the cubin, the log, the log's length (8 bytes) and a BLAKE3 digest of its key and all that, so other programs
//! can read it as a cubin. A damaged or misnamed file is compiled again. Files are written atomically. Above a total size
//! the least recently used are removed. A failure of the folder costs time and is not an error.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use byoc_plugin_api::Error;

use super::{Cubin, Request, file_name};

/// The environment variable that names the folder; empty for none.
pub const VARIABLE: &str = "BYOC_CACHE_DIR";

/// Bytes of cubins that are kept, and of sources that did not compile.
const MOST: u64 = 512 << 20;
const MOST_FAILED: u64 = 16 << 20;

/// Bytes after cubin and log: the log's length and the digest.
const FOOTER: usize = 8 + blake3::OUT_LEN;

/// A folder of cubins, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Option<PathBuf>,
    most: u64,
}

impl Cache {
    /// The cache of this process: `cubin` in the folder that [`VARIABLE`] names, or `byoc/cubin` in `XDG_CACHE_HOME` or
    /// in `~/.cache`.
    pub fn of_process() -> Cache {
        Cache::new(&|name| std::env::var_os(name))
    }

    /// The same, with environment variables by `variable`.
    pub fn new(variable: &dyn Fn(&str) -> Option<OsString>) -> Cache {
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = match variable(VARIABLE) {
            Some(named) if named.is_empty() => None,
            Some(named) => Some(Path::new(&named).join("cubin")),
            None => {
                let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
                caches.map(|caches| caches.join("byoc/cubin"))
            }
        };
        Cache { folder, most: MOST }
    }

    /// A cache in that folder, of that many bytes.
    pub fn at(folder: &Path, most: u64) -> Cache {
        Cache { folder: Some(folder.to_owned()), most }
    }

    /// Where it is.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The cubin of `key`, or what `make` returns, which is added.
    pub(super) fn get(&self, key: &str, make: impl FnOnce() -> Result<Cubin, Error>) -> Result<Cubin, Error> {
        let Some(folder) = &self.folder else { return make() };
        let path = folder.join(format!("{key}.cubin"));
        if let Some(kept) = std::fs::read(&path).ok().and_then(|bytes| decode(key, bytes)) {
            // The time of last use, for eviction.
            let touched = std::fs::File::options().append(true).open(&path);
            let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(kept);
        }
        let made = make()?;
        if write(&path, &encode(key, &made)).is_some() {
            drop_oldest(folder, self.most);
        }
        Ok(made)
    }

    /// Keeps a source that did not compile, and its log; returns the path of the source.
    pub(super) fn keep_failed(&self, key: &str, request: &Request<'_>, log: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?.join("failed");
        let path = folder.join(format!("{}-{}", key.get(..16)?, file_name(request.name)));
        write(&path, request.source.as_bytes())?;
        write(&path.with_extension("log"), log.as_bytes())?;
        drop_oldest(&folder, MOST_FAILED);
        Some(path)
    }
}

fn digest(key: &str, content: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(key.as_bytes()).update(content).finalize()
}

fn encode(key: &str, cubin: &Cubin) -> Vec<u8> {
    let length = (cubin.log.len() as u64).to_le_bytes();
    let mut bytes = [cubin.bytes.as_slice(), cubin.log.as_bytes(), &length].concat();
    let digest = digest(key, &bytes);
    bytes.extend(digest.as_bytes());
    bytes
}

/// `None` for a damaged file.
fn decode(key: &str, mut bytes: Vec<u8>) -> Option<Cubin> {
    let body = bytes.len().checked_sub(FOOTER)?;
    let (content, found) = bytes.split_at(body + 8);
    if digest(key, content).as_bytes() != found {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(content[body..].try_into().ok()?)).ok()?;
    let end = body.checked_sub(length)?;
    let log = String::from_utf8(content[end..body].to_vec()).ok()?;
    bytes.truncate(end);
    Some(Cubin { bytes, log })
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> Option<()> {
    let folder = path.parent()?;
    std::fs::create_dir_all(folder).ok()?;
    let mut file = tempfile::Builder::new().prefix("new-").tempfile_in(folder).ok()?;
    file.write_all(bytes).ok()?;
    file.persist(path).ok().map(drop)
}

/// Removes the least recently used files until the rest fits, among them temporary files of processes that were killed.
fn drop_oldest(folder: &Path, most: u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let data = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((data.modified().ok()?, entry.path(), data.len()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, _, size)| size).sum();
    for (_, path, size) in files {
        if total <= most {
            return;
        }
        // Another process may have done so.
        let _ = std::fs::remove_file(path);
        total -= size;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::compile::Needs;

    fn temporary() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    fn cubin(byte: u8) -> Cubin {
        Cubin { bytes: vec![byte; 100], log: "k.cu(1): warning".into() }
    }

    /// Asks for `key`; whether it had to be made.
    #[track_caller]
    fn is_made(cache: &Cache, key: &str, byte: u8) -> bool {
        let made = Cell::new(false);
        let make = || {
            made.set(true);
            Ok(cubin(byte))
        };
        assert_eq!(cache.get(key, make), Ok(cubin(byte)));
        made.get()
    }

    #[test]
    fn made_once_and_again_when_damaged() {
        let folder = temporary();
        let cache = Cache::at(&folder.path().join("not/yet/there"), MOST);
        assert!(is_made(&cache, "a", 1));
        assert!(!is_made(&cache, "a", 1));
        assert!(is_made(&cache, "b", 2));
        let path = folder.path().join("not/yet/there/a.cubin");
        let whole = fs::read(&path).expect("it is kept");
        assert!(whole.starts_with(&[1; 100]));
        for at in [0, 99, 100, 116, whole.len() - FOOTER, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).expect("the file is ours");
            assert!(is_made(&cache, "a", 1), "byte {at}");
            fs::write(&path, &whole[..at]).expect("the file is ours");
            assert!(is_made(&cache, "a", 1), "cut at {at}");
        }
        assert_eq!(fs::read(&path).expect("it is kept"), whole);
        assert_eq!(fs::read_dir(path.parent().expect("it has one")).expect("it is there").count(), 2);
    }

    #[test]
    fn failures_are_not_kept() {
        let folder = temporary();
        let cache = Cache::at(folder.path(), MOST);
        assert_eq!(cache.get("a", || Err(Error::new("no"))), Err(Error::new("no")));
        assert!(is_made(&cache, "a", 1));
        let request = Request {
            name: "k<1>",
            source: "int x",
            arch: "sm_80".parse().expect("it exists"),
            options: &[],
            needs: Needs::default(),
            memory: 0,
        };
        let path = cache.keep_failed(&"0123456789abcdef".repeat(4), &request, "the log").expect("it can be written");
        assert_eq!(path, folder.path().join("failed/0123456789abcdef-k_1_.cu"));
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "int x");
        assert_eq!(fs::read_to_string(path.with_extension("log")).expect("it is there"), "the log");
    }

    #[test]
    fn the_one_not_used_for_longest_goes() {
        let folder = temporary();
        let size = encode("a", &cubin(0)).len() as u64;
        let cache = Cache::at(folder.path(), 3 * size);
        let age = |key: &str, seconds| {
            let file = fs::File::options().append(true).open(folder.path().join(key)).expect("it is kept");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("the file is ours");
        };
        fs::write(folder.path().join("new-left"), "left by a process that was ended").expect("the folder is ours");
        age("new-left", 400);
        for (key, seconds) in [("a", 300), ("b", 200), ("c", 100)] {
            assert!(is_made(&cache, key, 1));
            age(&format!("{key}.cubin"), seconds);
        }
        assert!(!folder.path().join("new-left").exists());
        assert!(!is_made(&cache, "a", 1)); // used now
        assert!(is_made(&cache, "d", 1));
        assert!(!is_made(&cache, "a", 1));
        assert!(!is_made(&cache, "c", 1));
        assert!(is_made(&cache, "b", 1));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = temporary();
        let file = folder.path().join("file");
        fs::write(&file, "no folder").expect("the folder is ours");
        for cache in [Cache::at(&file.join("cubin"), MOST), Cache { folder: None, most: MOST }] {
            assert!(is_made(&cache, "a", 1));
            assert!(is_made(&cache, "a", 2));
        }
    }

    #[test]
    fn where_it_is() {
        let folder = |set: &[(&str, &str)]| {
            let cache = Cache::new(&|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()));
            cache.folder().map(|folder| folder.display().to_string()).unwrap_or_default()
        };
        let (home, xdg) = (("HOME", "/home/u"), ("XDG_CACHE_HOME", "/caches"));
        assert_eq!(folder(&[home]), "/home/u/.cache/byoc/cubin");
        assert_eq!(folder(&[home, xdg]), "/caches/byoc/cubin");
        assert_eq!(folder(&[home, xdg, (VARIABLE, "/own")]), "/own/cubin");
        assert_eq!(folder(&[home, xdg, (VARIABLE, "")]), "");
        // The XDG specification has relative paths ignored.
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "caches")]), "/home/u/.cache/byoc/cubin");
        assert_eq!(folder(&[]), "");
    }
}
