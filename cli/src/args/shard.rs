//! `byoc plugin test --shard 1/4`: a part of the work.

use byoc_conformance::Shard;

/// Parses the Ith of N parts, both of which count from 1.
pub(crate) fn parse(text: &str) -> Result<Shard, String> {
    let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match numbers {
        Some((index @ 1usize.., count)) if index <= count => Ok(Shard { index: index - 1, count }),
        _ => Err("expected I/N with I from 1 to N, such as 1/4".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_from_1() {
        assert_eq!(parse("1/1"), Ok(Shard::ALL));
        assert_eq!(parse("4/4"), Ok(Shard { index: 3, count: 4 }));
        for text in ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/4/2", " 1/4"] {
            assert_eq!(parse(text), Err("expected I/N with I from 1 to N, such as 1/4".into()), "{text}");
        }
    }
}
