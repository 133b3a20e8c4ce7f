//! Names that are unique.

use std::collections::HashMap;

/// The names given so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each name, and the number to try next where it is wanted again.
    used: HashMap<String, usize>,
}

impl Names {
    /// Takes `wanted`, or `wanted_2`, `wanted_3` ... where it is taken.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        if self.take(wanted) {
            return wanted.to_owned();
        }
        loop {
            let next = self.used.get_mut(wanted).map_or(2, |next| {
                *next += 1;
                *next
            });
            let name = format!("{wanted}_{next}");
            if self.take(&name) {
                return name;
            }
        }
    }

    /// Takes exactly `name`; false if it is taken.
    pub(super) fn take(&mut self, name: &str) -> bool {
        if self.used.contains_key(name) {
            return false;
        }
        self.used.insert(name.to_owned(), 1);
        true
    }
}

/// `text` as a name that needs no quotes, in dimensions and on the command line: letters, digits and underscores, no digit first.
pub(super) fn identifier(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_get_a_number() {
        let mut names = Names::default();
        let given: Vec<_> = ["a", "a_2", "a", "a", "b"].iter().map(|name| names.unique(name)).collect();
        assert_eq!(given, ["a", "a_2", "a_3", "a_4", "b"]);
        assert!(!names.take("b"));
    }

    #[test]
    fn identifiers_are_plain() {
        for (text, expected) in [("batch", "batch"), ("2*seq len", "_2_seq_len"), ("input.1", "input_1"), ("", "_")] {
            assert_eq!(identifier(text), expected);
        }
    }
}
