//! Patterns as RE2 writes them (<https://github.com/google/re2/wiki/Syntax>), in the form that the crate `regex` has: there, classes of
//! Perl are those of Unicode, and a class may have others within it.

use byoc_plugin_api::Error;
use regex::Regex;

/// The pattern, to be matched with all of a text.
pub(super) fn full_match(pattern: &str) -> Result<Regex, Error> {
    Regex::new(&format!("\\A(?:{})\\z", translated(pattern))).map_err(|error| {
        let cause = error.to_string();
        let last = cause.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Error::new(format!("the pattern '{pattern}' is not one of RE2: {last}"))
    })
}

fn translated(pattern: &str) -> String {
    let mut all = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = rest.next() {
        match (character, rest.peek().copied()) {
            ('\\', Some(escaped)) => {
                rest.next();
                match perl_class(escaped) {
                    Some(class) => all += class,
                    None if escaped == 'b' && !in_class => all += "(?-u:\\b)",
                    None => all.extend(['\\', escaped]),
                }
            }
            ('[', Some(next)) if in_class && next != ':' => all += "\\[",
            ('&' | '~', _) if in_class => all.extend(['\\', character]),
            ('[', _) if !in_class => {
                in_class = true;
                all.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    all.push('^');
                }
                // The first one ends no class.
                if rest.next_if_eq(&']').is_some() {
                    all += "\\]";
                }
            }
            ('[', Some(':')) => {
                all.push('[');
                // A named class up to its end.
                for within in rest.by_ref() {
                    all.push(within);
                    if within == ']' {
                        break;
                    }
                }
            }
            (']', _) if in_class => {
                in_class = false;
                all.push(']');
            }
            _ => all.push(character),
        }
    }
    all
}

/// The class of ASCII that an escaped letter stands for.
fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_re2() {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("a|ab", &["a", "ab"], &["b", "abc", "a\n"]),
            (r"\d+", &["12"], &["", "1a", "\u{661}"]),
            (r"[\w.]+@\w+", &["a.b@c"], &["\u{e4}@c"]),
            (r"[^\s]", &["a", "\u{a0}"], &[" "]),
            (r"[[a]", &["[", "a"], &["b", "]"]),
            (r"[]&&a]+", &["]&a"], &["b"]),
            ("[[:alpha:]]*", &["ab"], &["a1"]),
            (r"(?i)b\b.c", &["B-c"], &["bac"]),
            (".", &["\u{e4}"], &["\n", "ab"]),
        ];
        for (pattern, matching, others) in cases {
            let regex = full_match(pattern).expect(pattern);
            assert!(matching.iter().all(|text| regex.is_match(text)), "{pattern}");
            assert!(!others.iter().any(|text| regex.is_match(text)), "{pattern}");
        }
        let error = full_match("(a").expect_err("not closed").message;
        assert_eq!(error, "the pattern '(a' is not one of RE2: unclosed group");
    }
}
