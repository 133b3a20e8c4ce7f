//! Cache of earlier choices, in the user's cache folder: the same code on the same device with the same software is not
//! tried twice. A file is a line of JSON, the code after it, and a BLAKE3 digest of the key and both; a damaged file is
//! ignored. Errors of the folder cost time and are not reported.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::measure::Outcome;

/// The environment variable that names the folder of caches; empty for none.
const VARIABLE: &str = "BYOC_CACHE_DIR";

/// Bytes that are kept.
const MOST: u64 = 128 << 20;

/// A folder of choices, or none.
pub(super) struct Cache {
    dir: Option<PathBuf>,
    most: u64,
}

impl Cache {
    /// The cache of this process: `tune` in the folder that [`VARIABLE`] names, or `byoc/tune` in `XDG_CACHE_HOME` or in
    /// `~/.cache`.
    pub(super) fn of_process() -> Cache {
        Cache::new(&|name| std::env::var_os(name))
    }

    fn new(variable: &dyn Fn(&str) -> Option<OsString>) -> Cache {
        let dir = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let dir = match variable(VARIABLE) {
            Some(named) if named.is_empty() => None,
            Some(named) => Some(Path::new(&named).join("tune")),
            None => {
                let caches = dir("XDG_CACHE_HOME").or_else(|| dir("HOME").map(|home| home.join(".cache")));
                caches.map(|caches| caches.join("byoc/tune"))
            }
        };
        Cache { dir, most: MOST }
    }

    /// What was chosen under that key.
    pub(super) fn find(&self, key: &str) -> Option<Outcome> {
        let path = self.path(key)?;
        let outcome = decode(key, &std::fs::read(&path).ok()?)?;
        // What is used last is dropped last.
        let _ = std::fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(outcome)
    }

    /// Keeps what was chosen.
    pub(super) fn keep(&self, key: &str, outcome: &Outcome) {
        let written = self.path(key).zip(encode(key, outcome)).and_then(|(path, bytes)| write(&path, &bytes));
        if let (Some(()), Some(dir)) = (written, &self.dir) {
            drop_oldest(dir, self.most);
        }
    }

    /// Every file of it.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let entries = self.dir.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(key))
    }
}

fn digest(key: &str, content: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(key.as_bytes()).update(content).finalize()
}

fn encode(key: &str, outcome: &Outcome) -> Option<Vec<u8>> {
    let mut bytes = serde_json::to_vec(outcome).ok()?;
    bytes.push(b'\n');
    if let Some(code) = &outcome.code {
        bytes.push(b'+');
        bytes.extend_from_slice(code);
    }
    let digest = digest(key, &bytes);
    bytes.extend_from_slice(digest.as_bytes());
    Some(bytes)
}

/// `None` for a damaged file.
fn decode(key: &str, bytes: &[u8]) -> Option<Outcome> {
    let (content, found) = bytes.split_last_chunk::<{ blake3::OUT_LEN }>()?;
    if digest(key, content).as_bytes() != found {
        return None;
    }
    let end = content.iter().position(|&byte| byte == b'\n')?;
    let outcome: Outcome = serde_json::from_slice(&content[..end]).ok()?;
    let code = content[end + 1..].split_first().map(|(_, code)| code.to_vec().into());
    Some(Outcome { code, ..outcome })
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> Option<()> {
    let dir = path.parent()?;
    std::fs::create_dir_all(dir).ok()?;
    let mut file = tempfile::Builder::new().prefix("new-").tempfile_in(dir).ok()?;
    file.write_all(bytes).ok()?;
    file.persist(path).ok().map(drop)
}

/// Removes the files that were not used for longest, until what is left fits.
fn drop_oldest(dir: &Path, most: u64) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
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
    use super::super::measure::LeftOut;
    use super::*;

    fn outcome(code: Option<&'static [u8]>) -> Outcome {
        Outcome {
            own: "a".into(),
            candidate: "b".into(),
            candidates: 3,
            before: 2e-6,
            after: 1e-6,
            left_out: vec![LeftOut { candidate: "c".into(), reason: "it is wrong".into() }],
            code: code.map(bytes::Bytes::from_static),
        }
    }

    #[test]
    fn what_is_kept_is_found_unless_it_is_damaged() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let cache = Cache { dir: Some(dir.path().join("not/yet")), most: MOST };
        for (key, code) in [("own", None), ("empty", Some(&b""[..])), ("other", Some(b"two\nlines\n"))] {
            assert_eq!(cache.find(key), None);
            cache.keep(key, &outcome(code));
            assert_eq!(cache.find(key), Some(outcome(code)));
        }
        let path = dir.path().join("not/yet/other");
        let whole = std::fs::read(&path).expect("it is kept");
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).expect("the file is ours");
            assert_eq!(cache.find("other"), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).expect("the file is ours");
            assert_eq!(cache.find("other"), None, "cut at {at}");
        }
        std::fs::write(dir.path().join("not/yet/elsewhere"), &whole).expect("the folder is ours");
        assert_eq!(cache.find("elsewhere"), None, "it is bound to its key");
    }

    #[test]
    fn the_one_not_used_for_longest_goes() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let size = encode("a", &outcome(None)).expect("JSON").len() as u64;
        let cache = Cache { dir: Some(dir.path().into()), most: 2 * size };
        for (age, key) in [(300, "a"), (200, "b")] {
            cache.keep(key, &outcome(None));
            let file = std::fs::File::options().append(true).open(dir.path().join(key)).expect("it is kept");
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).expect("the file is ours");
        }
        assert!(cache.find("a").is_some(), "used now");
        cache.keep("c", &outcome(None));
        assert_eq!(["a", "b", "c"].map(|key| cache.find(key).is_some()), [true, false, true]);
    }

    #[test]
    fn where_it_is() {
        let dir = |set: &[(&str, &str)]| {
            let cache = Cache::new(&|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()));
            cache.dir.map(|dir| dir.display().to_string()).unwrap_or_default()
        };
        let (home, xdg) = (("HOME", "/home/u"), ("XDG_CACHE_HOME", "/caches"));
        assert_eq!(dir(&[home]), "/home/u/.cache/byoc/tune");
        assert_eq!(dir(&[home, xdg]), "/caches/byoc/tune");
        assert_eq!(dir(&[home, xdg, (VARIABLE, "/own")]), "/own/tune");
        assert_eq!(dir(&[home, xdg, (VARIABLE, "")]), "");
        assert_eq!(dir(&[]), "");
        let none = Cache { dir: None, most: MOST };
        none.keep("a", &outcome(None));
        assert_eq!(none.find("a"), None);
    }
}
