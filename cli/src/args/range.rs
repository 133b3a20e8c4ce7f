//! The language of `--fill-range`: two numbers for all inputs, or `NAME=LOW,HIGH` for one of them.

use byoc_tools::fill::Range;

/// A range, and the input that it is for where it is not for all.
pub(crate) type OfInput = (Option<String>, Range);

const EXPECTED: &str = "expected LOW,HIGH, such as -1,1, or INPUT=LOW,HIGH for one input";

/// Parses one. The last equals sign separates, for names of tensors may hold any character.
pub(crate) fn parse(text: &str) -> Result<OfInput, String> {
    let (name, range) = match text.rsplit_once('=') {
        Some((name, range)) if !name.is_empty() => (Some(name.to_owned()), range),
        Some(_) => return Err(EXPECTED.into()),
        None => (None, text),
    };
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let bounds = range.split_once(',').and_then(|(low, high)| Some((number(low)?, number(high)?)));
    match bounds {
        Some((low, high)) if low <= high => Ok((name, Range { low, high })),
        Some(_) => Err("expected the smaller number first".into()),
        None => Err(EXPECTED.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_with_and_without_an_input() {
        assert_eq!(parse("-1,1"), Ok((None, Range { low: -1.0, high: 1.0 })));
        assert_eq!(parse("a=b=0, 30521"), Ok((Some("a=b".into()), Range { low: 0.0, high: 30521.0 })));
        for text in ["1", "=0,1", "x=", "0,inf", "0,1,2", "a,b"] {
            assert_eq!(parse(text), Err(EXPECTED.into()), "{text}");
        }
        assert_eq!(parse("1,0"), Err("expected the smaller number first".into()));
    }
}
