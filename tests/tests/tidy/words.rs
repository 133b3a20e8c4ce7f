//! Words that are not used here, each with the field's term in place of it: in names of files, code, comments, messages and
//! pages. `docs/glossary.md` has the terms.

use byoc_tests::sources::{EVERYWHERE, Source, files};

/// Names of files and folders, without their ends.
const FILES: &[(&str, &str)] = &[
    ("bed", "fixture"),
    ("crew", "thread_pool"),
    ("crowded", "form_conflicts"),
    ("facts", "introspect, cubin_info, early_types"),
    ("ferry", "simdev_guest"),
    ("form", "match_product"),
    ("homes", "storage"),
    ("isle", "simdev"),
    ("kinds", "all_kernels"),
    ("known", "supported_ops"),
    ("lend", "constant_views"),
    ("owners", "claim_variants"),
    ("scaler", "file_format"),
    ("solo", "single_region"),
    ("spot", "tile_order"),
    ("watcher", "calibrated"),
    ("whole", "atomic_file, library_call, end_to_end"),
    ("wholes", "standalone"),
    ("words", "emit"),
];

/// Names in code. Those that are words of English are looked for in modules, functions and paths only: as variables they
/// are plain enough.
const NAMES: &[(&str, &str)] = &[
    ("Crew", "ThreadPool"),
    ("Facts", "CubinInfo"),
    ("Home", "StoredConstant"),
    ("Lent", "Borrowed"),
    ("LentConstant", "BorrowedConstant"),
    ("Sailor", "SimdevGuest"),
    ("Solo", "SingleRegion"),
    ("Turns", "QueueLock"),
    ("Whole", "LibraryCall, Full"),
    ("crew", "thread_pool"),
    ("facts", "introspect"),
    ("folder_of", "dir_of"),
    ("is_whole", "is_identity, is_dense"),
    ("solo", "single_region"),
    ("whole", "atomic_file, require_consumed"),
];

/// Phrases of comments, messages and pages.
const PHRASES: &[(&str, &str)] = &[
    ("Is told", "called with, callback"),
    ("Judged.", "Validated."),
    ("Whoever uses nothing", "optional; may return an empty list"),
    ("are as many bytes", "the same length"),
    ("as a whole or not at all", "atomically"),
    ("ferry", "simdev_guest"),
    ("isle", "simdev"),
    ("reef", "the option's meaning"),
    ("scaler", "file_format"),
    ("stands once", "is stored once"),
    ("stands exactly once", "is stored exactly once"),
    ("watcher", "calibrated"),
];

/// What may follow "is no" in a message: it is no longer ..., no more than ...
const AFTER_NO: &[&str] = &["longer", "more", "reason", "larger", "faster"];

/// Every use of a word that has a better one.
pub(crate) fn offences() -> Vec<String> {
    let folders = [EVERYWHERE, &["docs"]].concat();
    let mut found = Vec::new();
    for file in files(&folders, &[".rs", ".c", ".h", ".cu", ".cuh", ".md", ".ir"]) {
        if !file.path.ends_with("/tidy/words.rs") {
            in_path(&file.path, &mut found);
            in_text(&file, &mut found);
        }
    }
    found
}

fn in_path(path: &str, found: &mut Vec<String>) {
    let stems = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
    for stem in stems {
        let banned = FILES.iter().find(|(name, _)| *name == stem);
        found.extend(banned.map(|(name, term)| format!("{path}: a file named '{name}': {term}")));
    }
}

fn in_text(file: &Source, found: &mut Vec<String>) {
    let all_prose = file.path.ends_with(".md") || file.path.ends_with(".ir");
    let pieces = if all_prose { vec![(Kind::Comment, 1, file.text.as_str())] } else { pieces(&file.text) };
    for (kind, line, text) in pieces {
        let mut offence = |at: usize, said: &str, term: &str| {
            let line = line + text[..at].matches('\n').count();
            found.push(format!("{}:{line}: '{said}': {term}", file.path));
        };
        if kind == Kind::Code {
            for (name, term) in NAMES {
                words(text, name).filter(|&at| is_banned(text, at, name)).for_each(|at| offence(at, name, term));
            }
            continue;
        }
        for (phrase, term) in PHRASES {
            words(text, phrase).for_each(|at| offence(at, phrase, term));
        }
        if kind == Kind::Text {
            let no = words(text, "is no").chain(words(text, "are no"));
            no.filter(|&at| is_denial(text, at)).for_each(|at| offence(at, "is no", "is not a"));
        }
    }
}

/// Where a word or phrase is in the text, not as a part of another word.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !text[..at].ends_with(part) && (word.ends_with('.') || !text[at + word.len()..].starts_with(part))
    })
}

/// Whether the name at that place is that of an item, or one that is no English word.
fn is_banned(text: &str, at: usize, name: &str) -> bool {
    let is_item = ["mod", "fn"].iter().any(|keyword| text[..at].trim_end().ends_with(keyword));
    let is_english = name.chars().all(|char| char.is_ascii_lowercase());
    !is_english || text[at + name.len()..].starts_with("::") || is_item
}

/// Whether "is no" denies what something is, as in "it is no size".
fn is_denial(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end().rsplit(' ').next().unwrap_or_default();
    let after = text[at..].split_whitespace().nth(2).unwrap_or_default();
    !matches!(before.trim_start_matches('"'), "there" | "There")
        && after.starts_with(char::is_alphabetic)
        && !AFTER_NO.iter().any(|word| after.starts_with(word))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// The code, comments and texts of a Rust or C file, each with its first line.
fn pieces(text: &str) -> Vec<(Kind, usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut at, mut line) = (0, 0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let special = if rest.starts_with("//") {
            Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())))
        } else if rest.starts_with("/*") {
            Some((Kind::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2)))
        } else if rest.starts_with('"') || rest.starts_with("r\"") || rest.starts_with("r#") {
            text_length(rest).map(|length| (Kind::Text, length))
        } else {
            None
        };
        let Some((kind, length)) = special else {
            at += char_length(rest);
            continue;
        };
        found.push((Kind::Code, line, &text[start..at]));
        line += text[start..at].matches('\n').count();
        found.push((kind, line, &rest[..length]));
        line += rest[..length].matches('\n').count();
        at += length;
        start = at;
    }
    found.push((Kind::Code, line, &text[start..]));
    found
}

/// Bytes of the text in quotes at the start; `None` where there is only a raw identifier.
fn text_length(rest: &str) -> Option<usize> {
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let open = hashes + 2;
        let close = format!("\"{}", "#".repeat(hashes));
        return raw[hashes..]
            .starts_with('"')
            .then(|| rest[open..].find(&close).map(|end| open + end + close.len()))?;
    }
    let mut escaped = false;
    let end = rest[1..].find(|char| {
        let ends = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    });
    end.map(|end| end + 2)
}

/// Bytes of the character at the start, or of the character literal.
fn char_length(rest: &str) -> usize {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let Some(literal) = rest.strip_prefix('\'') else { return first };
    let inner = if literal.starts_with('\\') { 2 } else { literal.chars().next().map_or(1, char::len_utf8) };
    let closed = literal.get(inner..).is_some_and(|rest| rest.starts_with('\''));
    if closed { inner + 2 } else { first }
}

#[test]
fn words_are_found_where_they_count() {
    let found = |text: &str| {
        let (mut found, text) = (Vec::new(), text.to_owned());
        in_text(&Source { path: "a.rs".into(), text }, &mut found);
        found
    };
    let none: [&str; 0] = [];
    assert_eq!(found("fn f() {\n    let whole = '\"';\n    // A whole number.\n}"), none);
    assert_eq!(found("fn f() { error(\"there is no size, it is no longer one\") }"), none);
    assert_eq!(found("mod a;\nmod whole;"), ["a.rs:2: 'whole': atomic_file, require_consumed"]);
    assert_eq!(found("type A =\n    Solo<'a>;"), ["a.rs:2: 'Solo': SingleRegion"]);
    assert_eq!(
        found("// Judged.\n\"it is no\\\n size\""),
        ["a.rs:1: 'Judged.': Validated.", "a.rs:2: 'is no': is not a"]
    );
}
