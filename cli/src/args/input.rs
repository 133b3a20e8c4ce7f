//! The language of `--input`: `in.npz` for all inputs that are in the file, `name=@in.npy` for one.

use byoc_tools::inputs::Source;

/// Parses one `--input`. The last `=@` separates, for names of tensors may hold any character.
pub(crate) fn parse(text: &str) -> Result<Source, String> {
    match text.rsplit_once("=@") {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok(Source::Npy(name.into(), file.into())),
        None if text.ends_with(".npz") => Ok(Source::Npz(text.into())),
        _ => Err("expected IN.npz, or NAME=@IN.npy for one input".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_and_without_a_name() {
        assert_eq!(parse("a/in.npz"), Ok(Source::Npz("a/in.npz".into())));
        assert_eq!(parse("x=@in.npy"), Ok(Source::Npy("x".into(), "in.npy".into())));
        assert_eq!(parse("a=@b=@in.npy"), Ok(Source::Npy("a=@b".into(), "in.npy".into())));
        for text in ["in.npy", "x=in.npy", "=@in.npy", "x=@", ""] {
            assert_eq!(parse(text), Err("expected IN.npz, or NAME=@IN.npy for one input".into()), "{text}");
        }
    }
}
