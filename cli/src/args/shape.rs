//! The language of `--shape`: `in:1x3x224x224` or `in:[1,3,224,224]`; `in:[]` is a single number. An equals sign will do as
//! well. The last of both separates, for names of tensors may hold them.

/// Parses one `--shape`.
pub(crate) fn parse(text: &str) -> Result<(String, Vec<usize>), String> {
    let expected = || "expected INPUT:1x3x224x224 or INPUT:[1,3,224,224]".to_owned();
    let (name, shape) = text.rsplit_once([':', '=']).filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
    let (sizes, separator) = match shape.strip_prefix('[') {
        Some(rest) => (rest.strip_suffix(']').ok_or_else(expected)?.trim(), ','),
        None => (shape, 'x'),
    };
    if sizes.is_empty() && separator == ',' {
        return Ok((name.into(), Vec::new()));
    }
    let size = |part: &str| {
        let part = part.trim();
        part.parse().map_err(|_| format!("'{part}' is not a size; {}", expected()))
    };
    Ok((name.into(), sizes.split(separator).map(size).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn both_forms_and_scalars() {
        let cases: [(&str, &str, &[usize]); 8] = [
            ("in:1x3x224x224", "in", &[1, 3, 224, 224]),
            ("in:[1,3,224,224]", "in", &[1, 3, 224, 224]),
            ("in:[ 1, 3 ]", "in", &[1, 3]),
            ("in:7", "in", &[7]),
            ("in=1x3", "in", &[1, 3]),
            ("a=b=[1,3]", "a=b", &[1, 3]),
            ("in:[]", "in", &[]),
            ("scope/in:0:0x4", "scope/in:0", &[0, 4]),
        ];
        for (text, name, shape) in cases {
            assert_eq!(parse(text), Ok((name.to_owned(), shape.to_vec())), "{text}");
        }
    }

    #[test]
    fn mistakes_say_what_is_expected() {
        let expected = "expected INPUT:1x3x224x224 or INPUT:[1,3,224,224]";
        for text in ["in", ":1x2", "in:[1,2"] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
        for (text, part) in
            [("in:", ""), ("in:1x-3", "-3"), ("in:1xbatch", "batch"), ("in:[1,]", ""), ("in:1,2", "1,2")]
        {
            assert_eq!(parse(text), Err(format!("'{part}' is not a size; {expected}")), "{text}");
        }
    }
}
