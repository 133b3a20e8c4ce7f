//! The language of `--dim`: `batch=4`. The last equals sign separates, for names of dimensions may hold any character.

/// Parses one `--dim`.
pub(crate) fn parse(text: &str) -> Result<(String, usize), String> {
    let expected = || "expected NAME=SIZE, such as batch=4".to_owned();
    let (name, size) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
    let size = size.parse().map_err(|_| format!("'{size}' is not a size; {}", expected()))?;
    Ok((name.into(), size))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn names_and_sizes() {
        assert_eq!(parse("batch=4"), Ok(("batch".into(), 4)));
        assert_eq!(parse("past + 1=0"), Ok(("past + 1".into(), 0)));
        assert_eq!(parse("a=b=2"), Ok(("a=b".into(), 2)));
        let expected = "expected NAME=SIZE, such as batch=4";
        assert_eq!(parse("batch"), Err(expected.into()));
        assert_eq!(parse("=4"), Err(expected.into()));
        assert_eq!(parse("batch=-1"), Err(format!("'-1' is not a size; {expected}")));
    }
}
