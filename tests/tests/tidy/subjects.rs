//! The test binaries: `docs/testing.md` says where a test is, and none is left out without a word.

use byoc_tests::places;
use byoc_tests::sources::sources;

/// The folders of `tests/tests`, each with its `main.rs`.
fn subjects() -> Vec<(String, String)> {
    let root = places::checkout().join("tests/tests");
    let text = |name: &str| String::from_utf8(places::read(&root.join(name).join("main.rs"))).expect("text");
    places::list(&root).into_iter().map(|name| (name.clone(), text(&name))).collect()
}

#[test]
fn the_guide_has_every_subject_and_module() {
    let guide = String::from_utf8(places::read(&places::checkout().join("docs/testing.md"))).expect("text");
    let mut missing = Vec::new();
    for (subject, main) in subjects() {
        let row = guide.lines().find(|line| line.starts_with(&format!("| `{subject}` |"))).unwrap_or_default();
        let modules = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        missing
            .extend(modules.filter(|name| !row.contains(&format!("`{name}`"))).map(|name| format!("{subject}/{name}")));
    }
    super::none(&missing);
}

/// Without its harness rustc drops the functions that its own `#[test]` stands on.
#[test]
fn no_test_is_dropped() {
    let mut dropped = Vec::new();
    for (subject, main) in subjects() {
        if main.contains("trial::run(") && !main.contains("extern crate byoc_tests_macros;") {
            let all = sources(&[&format!("tests/tests/{subject}")]).into_iter();
            dropped.extend(all.filter(|source| source.text.contains("#[test]")).map(|source| source.path));
        }
    }
    super::none(&dropped);
}
