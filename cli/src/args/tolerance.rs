//! The language of `--atol` and `--rtol`: a number for all outputs, or `NAME=X` for one of them.

use super::number;

/// A tolerance, and the output that it is for where it is not for all.
pub(crate) type OfOutput = (Option<String>, f64);

/// Parses one. The last equals sign separates, for names of tensors may hold any character.
pub(crate) fn parse(text: &str) -> Result<OfOutput, String> {
    match text.rsplit_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((Some(name.into()), number::tolerance(value)?)),
        Some(_) => Err("expected X, or OUTPUT=X for one output".into()),
        None => Ok((None, number::tolerance(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_an_output() {
        assert_eq!(parse("1e-3"), Ok((None, 1e-3)));
        assert_eq!(parse("y=0"), Ok((Some("y".into()), 0.0)));
        assert_eq!(parse("a=b=0.5"), Ok((Some("a=b".into()), 0.5)));
        assert_eq!(parse("=1"), Err("expected X, or OUTPUT=X for one output".into()));
        assert_eq!(parse("y=x"), Err("expected a number".into()));
        assert_eq!(parse("-1"), Err("expected a number of at least 0".into()));
    }
}
