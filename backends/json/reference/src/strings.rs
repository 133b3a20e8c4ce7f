//! Operators on texts: `RegexFullMatch`, `StringConcat`, `StringNormalizer`, `StringSplit`; and what makes texts of a constant.

use std::collections::HashSet;

use byoc_plugin_api::{Error, Node, texts_of_block};

use super::array::{Array, Item, elements, shaped};
use super::binary::zip;
use super::call::{Call, Outputs};
use super::{BYTE, Kernel, STRING, kernel, re2};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("RegexFullMatch", full_match, &[STRING]),
    kernel("StringConcat", concat, &[STRING, STRING]),
    kernel("StringNormalizer", normalize, &[STRING, STRING]),
    kernel("StringSplit", split, &[STRING]),
    kernel("byoc.DecodeStrings", decode, &[BYTE]),
];

/// Why no region may have a node, where that is found out before it runs.
pub fn refusal(node: &Node) -> Option<String> {
    let pattern = || re2::full_match(node.string("pattern", "")).err().map(|error| error.message);
    (node.op == "RegexFullMatch" && node.domain.is_empty()).then(pattern).flatten()
}

/// `DecodeStrings`: the texts that a block of bytes holds.
fn decode(call: &Call<'_, '_>) -> Outputs {
    let block = u8::of(call.input(0)?).ok_or_else(|| Error::new("texts are made of bytes"))?;
    let block = elements(&block);
    let texts = texts_of_block(&block)?;
    let size = |&size: &i64| usize::try_from(size).ok();
    let shape = call.node.ints("shape").unwrap_or_default().iter().map(size).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or_else(|| Error::new("a shape of texts has a negative size"))?;
    if call.count(&shape)? != texts.len() {
        return Err(Error::new(format!("{} texts for a tensor of shape {shape:?}", texts.len())));
    }
    Ok(vec![call.strings(&shape, &texts)?])
}

/// `RegexFullMatch`: whether all of each text matches.
fn full_match(call: &Call<'_, '_>) -> Outputs {
    let regex = re2::full_match(call.node.string("pattern", ""))?;
    let found = call.texts(0)?.iter().map(|text| regex.is_match(text)).collect();
    Ok(vec![Item::wrap(shaped(call.input(0)?.shape(), found)?)])
}

/// `StringConcat`: two texts as one.
fn concat(call: &Call<'_, '_>) -> Outputs {
    // Places, since texts are not copied while they are broadcast.
    let places = |input: usize| shaped(call.input(input)?.shape(), (0..call.input(input)?.len()).collect::<Vec<_>>());
    let pairs = zip(&places(0)?.view(), &places(1)?.view(), |a: usize, b: usize| (a, b))?;
    let (a, b) = (call.texts(0)?, call.texts(1)?);
    call.count(pairs.shape())?;
    let texts: Vec<String> = pairs.iter().map(|&(x, y)| [&*a[x], &*b[y]].concat()).collect();
    Ok(vec![call.strings(pairs.shape(), &texts)?])
}

/// `StringNormalizer`: without stop words, in lower or in upper case; one empty text where none is left.
fn normalize(call: &Call<'_, '_>) -> Outputs {
    let changed = |text: &str, action: &str| match action {
        "LOWER" => text.to_lowercase(),
        "UPPER" => text.to_uppercase(),
        _ => text.to_owned(),
    };
    let compared = if call.node.int("is_case_sensitive", 0) != 0 { "NONE" } else { "LOWER" };
    let stops = if call.optional(1).is_some() { call.texts(1)? } else { Vec::new() };
    let stops: HashSet<String> = stops.iter().map(|text| changed(text, compared)).collect();
    let action = call.node.string("case_change_action", "NONE");
    let texts = call.texts(0)?;
    let kept = texts.iter().filter(|text| !stops.contains(&changed(text, compared)));
    let mut kept: Vec<String> = kept.map(|text| changed(text, action)).collect();
    if kept.is_empty() {
        kept.push(String::new());
    }
    let shape = match call.input(0)?.shape() {
        [_] => vec![kept.len()],
        [1, _] => vec![1, kept.len()],
        other => return Err(Error::new(format!("StringNormalizer takes one row of texts, not the shape {other:?}"))),
    };
    call.count(&shape)?;
    Ok(vec![call.strings(&shape, &kept)?])
}

/// `StringSplit`: the parts of each text, filled up with empty ones, and how many there are.
fn split(call: &Call<'_, '_>) -> Outputs {
    let (texts, delimiter) = (call.texts(0)?, call.node.string("delimiter", ""));
    let most = call.node.attributes.contains_key("maxsplit").then(|| call.node.int("maxsplit", 0));
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let parts: Vec<Vec<&str>> = texts.iter().map(|text| parts(text, delimiter, most)).collect();
    let width = parts.iter().map(Vec::len).max().unwrap_or(0);
    let shape = call.input(0)?.shape();
    let wide = [shape, &[width]].concat();
    let mut filled = Vec::with_capacity(call.count(&wide)?);
    for parts in &parts {
        filled.extend(parts.iter().copied().chain(std::iter::repeat("")).take(width));
    }
    let counts: Vec<i64> = parts.iter().map(|parts| parts.len() as i64).collect();
    let counts: Array<'static> = Item::wrap(shaped(shape, counts)?);
    Ok(vec![call.strings(&wide, &filled)?, counts])
}

/// The parts of a text between delimiters, of which at most so many are looked at; without one, those between runs of white space.
fn parts<'t>(text: &'t str, delimiter: &str, most: usize) -> Vec<&'t str> {
    if !delimiter.is_empty() {
        return text.splitn(most.saturating_add(1), delimiter).collect();
    }
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let end = if found.len() < most { rest.find(char::is_whitespace) } else { None };
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(part);
        rest = behind.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_as_in_python() {
        assert_eq!(parts(" a  b c ", "", usize::MAX), ["a", "b", "c"]);
        assert_eq!(parts("a b  c", "", 1), ["a", "b  c"]);
        assert_eq!(parts("", "", 1), [""; 0]);
        assert_eq!(parts("a,,b", ",", usize::MAX), ["a", "", "b"]);
        assert_eq!(parts("a,b,c", ",", 1), ["a", "b,c"]);
        assert_eq!((parts("", ",", 3), parts("ab", ",", 0)), (vec![""], vec!["ab"]));
    }

    #[test]
    fn patterns_are_looked_at_before_a_region_is_taken() {
        let node =
            |pattern: &str| crate::testing::node("RegexFullMatch", 1, &[("pattern", crate::testing::text(pattern))]);
        assert_eq!(refusal(&node("a+")), None);
        assert_eq!(refusal(&node("a**b(")).as_deref(), Some("the pattern 'a**b(' is not one of RE2: unclosed group"));
    }
}
