//! Options that a backend declares and that the user sets with `--backend-opt backend.key=value`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What values an option takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OptionKind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Any text.
    Text,
    /// One of these words.
    Choice(Vec<String>),
}

/// An option of a backend, as `byoc plugin info` prints it. Made by a function for each kind; later versions may have more
/// fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The key, without the backend's name.
    pub name: String,
    /// What values it takes.
    pub kind: OptionKind,
    /// The value where the user gives none.
    pub default: String,
    /// What it does, in one line.
    pub help: String,
}

/// The options of one backend, each with a value: the user's, or the default. Core has checked them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Every declared option at its default, then the user's settings. An unknown key or a value of the wrong kind is
    /// an error that says what there is.
    pub fn resolve<'a>(
        specs: &[OptionSpec],
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Options, Error> {
        let mut values: BTreeMap<_, _> = specs.iter().map(|spec| (spec.name.clone(), spec.default.clone())).collect();
        for (key, value) in settings {
            let Some(spec) = specs.iter().find(|spec| spec.name == key) else {
                return Err(unknown(specs, key));
            };
            spec.check(value)?;
            values.insert(key.to_owned(), value.to_owned());
        }
        Ok(Options(values))
    }

    /// These, and others beside them.
    pub fn and(mut self, others: &Options) -> Options {
        self.0.extend(others.0.clone());
        self
    }

    /// Those of these specifications.
    pub fn only(&self, specs: &[OptionSpec]) -> Options {
        let own = self.0.iter().filter(|(name, _)| specs.iter().any(|spec| spec.name == **name));
        Options(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The value of an option as text; empty if there is no such option.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The value of a boolean option; false if there is no such option.
    pub fn bool(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The value of a whole-number option; 0 if there is no such option.
    pub fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The value of a number option; 0 if there is no such option.
    pub fn float(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }
}

impl OptionSpec {
    /// An option that is `true` or `false`.
    pub fn bool(name: impl Into<String>, default: bool, help: impl Into<String>) -> OptionSpec {
        OptionSpec::new(name, OptionKind::Bool, default, help)
    }

    /// An option that is a whole number.
    pub fn int(name: impl Into<String>, default: i64, help: impl Into<String>) -> OptionSpec {
        OptionSpec::new(name, OptionKind::Int, default, help)
    }

    /// An option that is a number.
    pub fn float(name: impl Into<String>, default: f64, help: impl Into<String>) -> OptionSpec {
        OptionSpec::new(name, OptionKind::Float, default, help)
    }

    /// An option that is any text.
    pub fn text(name: impl Into<String>, default: impl Into<String>, help: impl Into<String>) -> OptionSpec {
        OptionSpec::new(name, OptionKind::Text, default.into(), help)
    }

    /// An option that is one of these words; the first one is the default.
    pub fn choice(name: impl Into<String>, words: &[&str], help: impl Into<String>) -> OptionSpec {
        let kind = OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect());
        OptionSpec::new(name, kind, words.first().copied().unwrap_or_default(), help)
    }

    fn new(name: impl Into<String>, kind: OptionKind, default: impl ToString, help: impl Into<String>) -> OptionSpec {
        OptionSpec { name: name.into(), kind, default: default.to_string(), help: help.into() }
    }

    /// Whether the value is one of those that the option takes.
    fn check(&self, value: &str) -> Result<(), Error> {
        let (fits, takes) = match &self.kind {
            OptionKind::Bool => (matches!(value, "true" | "false"), "true or false".to_owned()),
            OptionKind::Int => (value.parse::<i64>().is_ok(), "a whole number".to_owned()),
            OptionKind::Float => (value.parse::<f64>().is_ok(), "a number".to_owned()),
            OptionKind::Text => (true, String::new()),
            OptionKind::Choice(words) => (words.iter().any(|word| word == value), one_of(words)),
        };
        if fits {
            return Ok(());
        }
        Err(Error::new(format!("option '{}' takes {takes}, not '{value}'", self.name)))
    }
}

fn unknown(specs: &[OptionSpec], key: &str) -> Error {
    let error = Error::new(format!("there is no option '{key}'"));
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    match closest(key, names.iter().copied()) {
        Some(near) => error.hint(format!("Did you mean '{near}'?")),
        None if names.is_empty() => error.hint("It has no options"),
        None => error.hint(format!("It has {}", names.join(", "))),
    }
}

/// `a, b or c`.
fn one_of(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// The name nearest to `word`, if one is near enough to be what was meant: a slip for every three letters, or one in a word of
/// two, where two letters that changed places are one slip. A single letter is as near to any other.
pub fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = names.into_iter().map(|name| (strsim::osa_distance(word, name), name)).min()?;
    let slips = match word.chars().count() {
        0 | 1 => 0,
        letters => (letters / 3).max(1),
    };
    (best.0 <= slips).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_settings_and_mistakes() {
        let specs = [OptionSpec::text("arch", "sm_80", "Target"), OptionSpec::int("tiles", 4, "Tiles")];
        let options = Options::resolve(&specs, [("tiles", "8")]).expect("valid");
        assert_eq!((options.text("arch"), options.int("tiles")), ("sm_80", 8));
        let unknown = Options::resolve(&specs, [("tilse", "8")]).expect_err("unknown");
        assert_eq!(unknown.message, "there is no option 'tilse'");
        assert_eq!(unknown.hint.as_deref(), Some("Did you mean 'tiles'?"));
        assert_eq!(closest("cpu", ["gpu", "json"]), Some("gpu"));
        assert_eq!(closest("x", ["y", "json"]), None, "any name of a letter is one slip away");
        assert_eq!(closest("kendrite", ["cublas", "kendryte"]), Some("kendryte"));
        let wrong = Options::resolve(&specs, [("tiles", "many")]).expect_err("kind");
        assert_eq!(wrong.message, "option 'tiles' takes a whole number, not 'many'");
    }
}
