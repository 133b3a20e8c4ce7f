//! A test file: comments, `test <stage>`, settings, then the graph, `---`, and the expected text.

use byoc_core::ir::{self, Model};

use super::contents;

/// A test file, taken apart.
pub(crate) struct Case {
    /// The file up to and with the line `---`.
    pub(crate) head: String,
    /// What stands behind `test`.
    pub(crate) stage: String,
    /// The other lines before the graph: a keyword and what follows.
    settings: Vec<(String, String)>,
    /// The graph.
    pub(crate) model: Model,
}

impl Case {
    /// Reads the text of a file. A file that has no `---` yet is one whose expected text is empty.
    pub(crate) fn parse(text: &str) -> Result<Case, String> {
        let head = text.split_once("\n---\n").map_or(text.trim_end(), |(head, _)| head);
        let start = head.find("\nentry ").ok_or("there is no graph: a line 'entry <name>'")?;
        let mut settings: Vec<(String, String)> = Vec::new();
        for line in head[..start].lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';')) {
            let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
            settings.push((keyword.to_owned(), rest.trim().to_owned()));
        }
        let model = ir::read(&head[start..], &contents::bytes)?;
        let stage = settings.iter().find(|(keyword, _)| keyword == "test").ok_or("there is no line 'test <stage>'")?;
        let stage = stage.1.clone();
        settings.retain(|(keyword, _)| keyword != "test");
        Ok(Case { head: format!("{head}\n---\n"), stage, settings, model })
    }

    /// What stands behind each line of that keyword.
    pub(crate) fn all(&self, keyword: &str) -> impl Iterator<Item = &str> {
        self.settings.iter().filter(move |(found, _)| found == keyword).map(|(_, rest)| rest.as_str())
    }

    /// Whether there is a line of that keyword alone.
    pub(crate) fn has(&self, keyword: &str) -> bool {
        self.all(keyword).next().is_some()
    }

    /// An error for a keyword that is not one of these.
    pub(crate) fn only(&self, keywords: &[&str]) -> Result<(), String> {
        match self.settings.iter().find(|(keyword, _)| !keywords.contains(&keyword.as_str())) {
            Some((keyword, _)) => Err(format!("'{keyword}' is not a setting of 'test {}'", self.stage)),
            None => Ok(()),
        }
    }
}
