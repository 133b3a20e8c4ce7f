//! The workspace's own source files, as the tidy tests look at them.

use std::path::Path;

use crate::places;

/// A file of the workspace.
pub struct Source {
    /// The path from the root of the checkout, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// The lines of the program itself, with their numbers: no blank lines, no comments, no tests.
    pub fn code(&self) -> Vec<(usize, &str)> {
        if self.is_test() {
            return Vec::new();
        }
        let mut lines = self.text.lines().enumerate();
        let mut code = Vec::new();
        while let Some((number, line)) = lines.next() {
            if line == "#[cfg(test)]" {
                skip_item(&mut lines);
            } else if !line.trim().is_empty() && !line.trim_start().starts_with("//") {
                code.push((number + 1, line));
            }
        }
        code
    }

    /// Whether the file is compiled for unit tests only.
    pub fn is_test(&self) -> bool {
        let within = self.path.split_once("/src/").map_or("", |(_, within)| within);
        within.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "testing.rs"))
    }
}

/// Goes past one item that starts at the beginning of a line: further attributes, then up to `;` or a closing brace.
fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) {
    for (_, line) in lines {
        if line == "}" || (!line.starts_with([' ', '#', '/']) && line.ends_with(';')) {
            return;
        }
    }
}

/// Copies of what was ours when the ABI was frozen: the rules of today are not theirs, and they must not be edited.
const FROZEN: &str = "frozen";

/// Every Rust file under the given folders of the checkout, by path.
pub fn sources(folders: &[&str]) -> Vec<Source> {
    files(folders, &[".rs"])
}

/// Every text file under the given folders of the checkout whose name ends so, by path.
pub fn files(folders: &[&str], ends: &[&str]) -> Vec<Source> {
    let root = places::checkout();
    let mut found = Vec::new();
    for folder in folders {
        collect(&root.join(folder), &root, ends, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no sources in {folders:?}");
    found
}

/// The folders that hold all of the workspace's sources.
pub const EVERYWHERE: &[&str] = &["plugin-api", "core", "backends", "cli", "tests"];

fn collect(folder: &Path, root: &Path, ends: &[&str], found: &mut Vec<Source>) {
    for name in places::list(folder) {
        let path = folder.join(&name);
        if path.is_dir() && name != "target" && name != FROZEN {
            collect(&path, root, ends, found);
        } else if ends.iter().any(|end| name.ends_with(end)) {
            let relative = path.strip_prefix(root).expect("below the root").to_string_lossy().replace('\\', "/");
            let text = String::from_utf8(places::read(&path)).expect("sources are text");
            found.push(Source { path: relative, text });
        }
    }
}

/// The texts in a line of code: what stands between quotes. Good enough for the lines of this workspace, which have no
/// quotes within quotes but escaped ones.
pub fn texts(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once('"')?;
        let mut end = 0;
        while let Some(at) = after[end..].find('"') {
            end += at;
            if !after[..end].ends_with('\\') {
                break;
            }
            end += 1;
        }
        let text = &after[..end];
        rest = after.get(end + 1..).unwrap_or("");
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_is_neither_comment_nor_test() {
        let text = "//! Head.\n\nuse a;\n#[cfg(test)]\nmod tests;\nfn f() {\n    // no\n    g();\n}\n\n#[cfg(test)]\nmod more {\n    fn h() {}\n}\nfn i() {}\n";
        let source = Source { path: "core/src/a.rs".into(), text: text.into() };
        let lines: Vec<_> = source.code().into_iter().map(|(number, _)| number).collect();
        assert_eq!(lines, [3, 6, 8, 9, 15]);
        assert!(Source { path: "core/src/a/tests/b.rs".into(), text: text.into() }.code().is_empty());
        assert!(!Source { path: "tests/tests/a/b.rs".into(), text: text.into() }.code().is_empty());
    }

    #[test]
    fn texts_of_a_line() {
        assert_eq!(texts(r#"f("a \"b\"", "c") + 'x'"#).collect::<Vec<_>>(), [r#"a \"b\""#, "c"]);
        assert_eq!(texts("no text").count(), 0);
    }
}
