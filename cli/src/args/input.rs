//! The language of `--input`: a file that tells by itself which inputs it is for, `name=FILE` or `name=@FILE` for one of them, and
//! `-` in the place of a file for standard input.

use std::path::Path;

use byoc_tools::inputs::{Place, Source};

/// Parses one `--input`. The last `=@` separates, for names of tensors may hold any character; without one, the first equals
/// sign, unless there is a file of the whole name.
pub(crate) fn parse(text: &str) -> Result<Source, String> {
    parse_beside(text, |path| Path::new(path).exists())
}

fn parse_beside(text: &str, exists: impl Fn(&str) -> bool) -> Result<Source, String> {
    let pair = match text.rsplit_once("=@") {
        Some(pair) => Some(pair),
        None if exists(text) => None,
        None => text.split_once('='),
    };
    let (name, place) = match pair {
        Some((name, place)) => (Some(name), place),
        None => (None, text),
    };
    if place.is_empty() || name == Some("") {
        return Err("expected FILE, or NAME=FILE for one input; - is standard input".into());
    }
    let place = if place == "-" { Place::Stdin } else { Place::Path(place.into()) };
    Ok(Source { name: name.map(str::to_owned), place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_and_without_a_name() {
        let parse = |text: &str| parse_beside(text, |path| path == "dir=1/in.npz");
        let named = |name: &str, place: &str| Ok(Source { name: Some(name.into()), place: Place::Path(place.into()) });
        assert_eq!(parse("a/in.npz"), Ok(Source::file("a/in.npz")));
        assert_eq!(parse("dir=1/in.npz"), Ok(Source::file("dir=1/in.npz")));
        assert_eq!(parse("x=@in.npy"), named("x", "in.npy"));
        assert_eq!(parse("a=@b=@in.npy"), named("a=@b", "in.npy"));
        assert_eq!(parse("x=in.npy"), named("x", "in.npy"));
        assert_eq!(parse("x=dir=1/in.npz"), named("x", "dir=1/in.npz"));
        assert_eq!(parse("-"), Ok(Source { name: None, place: Place::Stdin }));
        assert_eq!(parse("x=-"), Ok(Source { name: Some("x".into()), place: Place::Stdin }));
        for text in ["=@in.npy", "x=@", "=in.npy", "x=", ""] {
            let expected = "expected FILE, or NAME=FILE for one input; - is standard input";
            assert_eq!(parse(text), Err(expected.into()), "{text}");
        }
    }
}
