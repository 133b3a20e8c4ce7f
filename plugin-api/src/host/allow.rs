//! `BYOC_PLUGIN_ALLOW`: the digests of the only plugin files that may be opened. Asked right before a file is opened, in
//! every process that opens one, about the bytes that were read from it.

use std::path::{Path, PathBuf};

use super::LoadError;

/// The variable: BLAKE3 digests in hex, separated by `:` or `,`; `@FILE` stands for the first word of each line of a file.
const VARIABLE: &str = "BYOC_PLUGIN_ALLOW";

/// Digits of a digest.
const DIGITS: usize = 64;

/// Errors when the list is there and a plugin file of these bytes is not on it. A list that cannot be read allows nothing.
pub(super) fn check(bytes: &[u8]) -> Result<(), LoadError> {
    let Some(list) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let digest = blake3::hash(bytes).to_hex();
    match allows(&list.to_string_lossy(), &digest) {
        Ok(true) => Ok(()),
        Ok(false) => Err(LoadError::NotAllowed(format!("its digest {digest} is not in {VARIABLE}"))),
        Err(problem) => Err(LoadError::NotAllowed(format!("{VARIABLE} cannot be used: {problem}"))),
    }
}

/// The files that the list is read from.
pub fn allow_lists() -> Vec<PathBuf> {
    let list = std::env::var_os(VARIABLE).unwrap_or_default();
    entries(&list.to_string_lossy()).filter_map(|entry| entry.strip_prefix('@').map(PathBuf::from)).collect()
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',']).map(str::trim).filter(|entry| !entry.is_empty())
}

fn allows(list: &str, digest: &str) -> Result<bool, String> {
    let mut found = false;
    for entry in entries(list) {
        found |= match entry.strip_prefix('@') {
            Some(file) => file_allows(Path::new(file), digest)?,
            None => is_digest(entry)? && entry.eq_ignore_ascii_case(digest),
        };
    }
    Ok(found)
}

/// Lines as `b3sum` writes them, blank lines, and comments after `#`.
fn file_allows(file: &Path, digest: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("'{}': {error}", file.display()))?;
    let mut found = false;
    for line in text.lines().filter_map(|line| line.split('#').next()) {
        if let Some(word) = line.split_whitespace().next() {
            found |= is_digest(word)? && word.eq_ignore_ascii_case(digest);
        }
    }
    Ok(found)
}

fn is_digest(word: &str) -> Result<bool, String> {
    if word.len() == DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(true);
    }
    Err(format!("'{word}' is not a BLAKE3 digest of {DIGITS} hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_mistakes_allow_nothing() {
        let (one, two) = ("1a".repeat(32), "2b".repeat(32));
        for list in [one.clone(), format!("{two}:{one}"), format!("{two},{one},"), one.to_uppercase()] {
            assert_eq!(allows(&list, &one), Ok(true), "{list}");
        }
        assert_eq!(allows(&two, &one), Ok(false));
        assert_eq!(allows("", &one), Ok(false));
        assert_eq!(allows(&format!("{one}:abc"), &one), Err("'abc' is not a BLAKE3 digest of 64 hex digits".into()));
        let missing = allows(&format!("{one}:@/nonexistent/list"), &one).expect_err("no file");
        assert!(missing.starts_with("'/nonexistent/list': "), "{missing}");
    }
}
