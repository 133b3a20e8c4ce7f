//! Expected texts in files, most of them under `tests/golden`. `UPDATE_GOLDEN=1` writes them anew.

use crate::places;

/// Compares `text` with the file `tests/golden/<name>`.
pub fn golden(name: &str, text: &str) {
    golden_file(&format!("tests/golden/{name}"), text);
}

/// Compares `text` with a file of the checkout.
pub fn golden_file(path: &str, text: &str) {
    let path = places::checkout().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected == text {
        return;
    }
    let line = expected.lines().zip(text.lines()).take_while(|(expected, found)| expected == found).count();
    panic!(
        "{} differs at line {}; if the new text is right, run again with UPDATE_GOLDEN=1\nexpected: {}\nfound:    {}",
        path.display(),
        line + 1,
        expected.lines().nth(line).unwrap_or("(end)"),
        text.lines().nth(line).unwrap_or("(end)"),
    );
}
