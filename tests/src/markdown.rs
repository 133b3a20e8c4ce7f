//! The fenced blocks of a page, for tests that compile or run what documentation shows.

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands behind the opening fence, such as `sh`.
    pub info: String,
    /// The second-level heading that it stands under, without the `##`.
    pub section: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The lines between the fences, each with its end.
    pub text: String,
}

/// Every fenced block of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut section = String::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, Some(info)) => {
                let (info, section) = (info.to_owned(), section.clone());
                open = Some(Block { info, section, line: number + 1, text: String::new() });
            }
            (None, None) => section = line.strip_prefix("## ").map_or(section, str::to_owned),
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_know_where_they_stand() {
        let page = "# T\n```sh\na\n## no heading\n```\n## S\n\n```json X\n```\n";
        let block = |info: &str, section: &str, line, text: &str| Block {
            info: info.into(),
            section: section.into(),
            line,
            text: text.into(),
        };
        assert_eq!(blocks(page), [block("sh", "", 2, "a\n## no heading\n"), block("json X", "S", 8, "")]);
    }
}
