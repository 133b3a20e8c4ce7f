//! The `graph` section of a file with variants: their names. Each variant has a graph section of its own, which is all that
//! an artifact of it alone has.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::manifest::ConstantFile;
use super::{FORMAT, GRAPH};

/// What the `graph` section of a file with variants has, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VariantList {
    /// The format's version.
    pub(super) format: u32,
    /// What wrote the file.
    pub(super) producer: String,
    /// The variants, the most wanted first.
    pub(super) variants: Vec<Listed>,
    /// The other files that hold constants of any of them, by their paths: whoever writes over one takes them from that variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<ConstantFile>,
}

/// A variant of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// Its name, unique in the file.
    pub(super) name: String,
}

impl VariantList {
    /// The list of these names, in the newest format.
    pub(super) fn of(
        names: impl Iterator<Item = String>,
        files: impl Iterator<Item = ConstantFile>,
        producer: String,
    ) -> VariantList {
        let mut files: Vec<ConstantFile> = files.collect();
        files.sort_by(|one, other| (&one.path, one.bytes).cmp(&(&other.path, other.bytes)));
        files.dedup();
        VariantList { format: FORMAT, producer, variants: names.map(|name| Listed { name }).collect(), files }
    }

    /// What is wrong with the list, if anything is.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.variants.is_empty() {
            return Err("it lists no variant".into());
        }
        if self.variants.len() > MOST_VARIANTS {
            return Err(format!("it lists {} variants, and at most {MOST_VARIANTS} are taken", self.variants.len()));
        }
        let mut names = HashSet::new();
        for Listed { name } in &self.variants {
            check_variant_name(name)?;
            if !names.insert(name) {
                return Err(format!("it has two variants '{name}'"));
            }
        }
        Ok(())
    }
}

/// Most variants of a file.
pub(super) const MOST_VARIANTS: usize = 64;

/// The longest name of a variant.
const LONGEST_NAME: usize = 64;

/// Errors where a text cannot be the name of a variant: letters, digits, `_`, `-` and `.`, and neither a dot nor a dash first. It
/// stands in names of sections, in front of a colon on the command line, and in names of files.
pub fn check_variant_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let first = name.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_');
    match first && name.len() <= LONGEST_NAME && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "'{name}' is not the name of a variant: at most {LONGEST_NAME} letters, digits, '_', '-' and '.', and neither '-' nor '.' first"
        )),
    }
}

/// The graph section of a variant.
pub(super) fn graph_section(variant: &str) -> String {
    format!("{GRAPH}/{variant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["gpu", "sm_90a", "int8-avx2", "v1.2", "A", &"x".repeat(64)] {
            assert_eq!(check_variant_name(name), Ok(()));
        }
        for name in ["", "-x", ".x", "a b", "a/b", "a:b", "a=b", "ä", &"x".repeat(65)] {
            let message = format!(
                "'{name}' is not the name of a variant: at most 64 letters, digits, '_', '-' and '.', and neither '-' nor '.' first"
            );
            assert_eq!(check_variant_name(name), Err(message));
        }
    }
}
