//! Decides whether a constant of the artifact is kept, replaced, or cannot be swapped, and why.

use std::collections::HashMap;
use std::fmt::Display;

use super::new_model::{Content, Named, NewModel};
use crate::artifact::{Artifact, Fate, LedgerRow};

/// The decision about a constant.
pub(super) enum Verdict {
    /// It is as it was.
    Same,
    /// It has other elements now.
    Other(Content),
}

/// A constant that cannot be swapped.
pub(super) struct Refusal {
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) hint: String,
}

/// The inputs of the decision.
pub(super) struct Judge<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) new: &'a NewModel,
    /// For each name of the ledger how many constants have it: several where several models were compiled.
    pub(super) owners: &'a HashMap<&'a str, usize>,
}

/// A constant of the ledger under one of its names, in the new model.
struct Found<'a> {
    name: &'a str,
    named: &'a Named,
    /// None where one element stood for all, and does no longer.
    content: Option<Content>,
}

impl Judge<'_> {
    /// The verdict on the constant that has these rows of the ledger.
    ///
    /// A name that the new model has for what a node makes is a result of folding: it is as it was, for all that it was
    /// computed from is, or is refused itself.
    pub(super) fn constant(&self, rows: &[&LedgerRow]) -> Result<Verdict, Refusal> {
        let row = rows[0];
        let found = self.find(row)?;
        let is_old = |found: &&Found<'_>| found.content.as_ref().is_some_and(|content| content.digest == row.digest);
        let ambiguous = row.names.iter().any(|name| self.owners[name.as_str()] > 1);
        if found.iter().all(|found| is_old(&found)) || ambiguous && found.iter().any(|found| is_old(&found)) {
            return Ok(Verdict::Same);
        }
        let changed: Vec<_> = found.iter().filter(|found| !is_old(found)).collect();
        let name = changed[0].name;
        let again = |reason: String| Err(self.recompile(name, reason));
        if let Some(reason) = self.bound_to_old(rows, &changed) {
            return again(reason);
        }
        if ambiguous {
            return again("several constants of the artifact have that name".into());
        }
        let Some(content) = &changed[0].content else {
            let artifact = self.file();
            return again(format!(
                "all its elements are equal in {artifact}, which holds one of them; in {} they differ",
                self.new.label
            ));
        };
        let differs = |found: &&Found<'_>| found.content.as_ref().is_none_or(|other| other.digest != content.digest);
        if let Some(other) = found.iter().find(differs) {
            let new = &self.new.label;
            return again(match other.name {
                other if other == name => format!("it is one constant in {} and several in {new}", self.file()),
                other => format!(
                    "it and `{other}` were equal when the model was compiled and share one constant; in {new} they differ"
                ),
            });
        }
        if let Some(computed) = row.names.iter().find(|name| self.new.named(name).is_empty()) {
            return again(format!("it shares one constant with `{computed}`, which is computed"));
        }
        Ok(Verdict::Other(content.clone()))
    }

    /// Constants of the new model that the ledger does not know.
    pub(super) fn unknown(&self) -> impl Iterator<Item = Refusal> {
        let names = self.new.names().into_iter().filter(|name| !self.owners.contains_key(name));
        names.map(|name| self.other_model(name, format!("{} has no constant of that name", self.file())))
    }

    /// The constant under each of its names.
    fn find<'a>(&'a self, row: &'a LedgerRow) -> Result<Vec<Found<'a>>, Refusal> {
        let one_element = row.dtype.element_bytes().is_some_and(|size| row.bytes == size as u64);
        let mut found = Vec::new();
        for (index, name) in row.names.iter().enumerate() {
            let named = self.new.named(name);
            if named.is_empty() && !self.new.computes(name) && row.fate != Fate::Dropped {
                return Err(self.other_model(name, format!("{} has no constant of that name", self.new.label)));
            }
            let transposed = row.transposed.contains(name);
            for named in named {
                let elements = named.constant.view.bytes(row.dtype) as u64;
                let fits = one_element || elements == row.bytes;
                // The constant has the shape that it has under the first of its names.
                let own_shape = index > 0 || one_element || named.constant.view.shape == row.shape;
                if named.dtype != row.dtype || !fits || !own_shape {
                    let was = describe(row.dtype, &row.shape);
                    let is = describe(named.dtype, &named.constant.view.shape);
                    let reason = format!("it is {was} in {} and {is} in {}", self.file(), self.new.label);
                    return Err(self.other_model(name, reason));
                }
                let content =
                    if one_element { self.new.splat(named) } else { Some(self.new.elements(named, transposed)) };
                found.push(Found { name, named, content });
            }
        }
        let elements: usize = found.iter().map(|found| found.named.constant.view.elements()).sum();
        let all = row.names.iter().all(|name| !self.new.named(name).is_empty());
        if one_element && all && elements as u64 * row.bytes != row.model_bytes && !row.names.is_empty() {
            let reason = format!("it has another number of elements in {}", self.new.label);
            return Err(self.other_model(&row.names[0], reason));
        }
        Ok(found)
    }

    /// Why nothing but the old bytes will do.
    fn bound_to_old(&self, rows: &[&LedgerRow], changed: &[&Found<'_>]) -> Option<String> {
        if let Some(row) = rows.iter().find(|row| matches!(row.fate, Fate::Packed | Fate::Viewed)) {
            let stored = row.stored.and_then(|stored| self.artifact.manifest().constants.get(stored));
            let layout = stored.and_then(|stored| stored.layout.as_ref());
            let layout = layout.map(|layout| format!(" as '{layout}'")).unwrap_or_default();
            return Some(match &row.owner {
                Some(owner) if row.fate == Fate::Packed => format!("it is packed by '{owner}'{layout}"),
                _ => format!("it is packed for {}{layout}", row.readers.join(", ")),
            });
        }
        let row = rows[0];
        let into = row.compiled_in.join(", ");
        let read = changed.iter().any(|found| found.named.read);
        match row.fate {
            Fate::Embedded => Some(format!("it is embedded in the code of {}", row.readers.join(", "))),
            Fate::Stored if !into.is_empty() => Some(format!("it also went into {into}")),
            Fate::Folded | Fate::Dropped if !into.is_empty() => Some(format!("it went into {into}")),
            Fate::Dropped if read => Some("it was used while the model was compiled".into()),
            _ => None,
        }
    }

    fn file(&self) -> String {
        format!("'{}'", self.artifact.path().display())
    }

    fn recompile(&self, name: &str, reason: String) -> Refusal {
        Refusal {
            name: name.to_owned(),
            reason,
            hint: format!("Make a new artifact of {} with byoc compile", self.new.label),
        }
    }

    fn other_model(&self, name: &str, reason: String) -> Refusal {
        Refusal { name: name.to_owned(), reason, hint: format!("Was {} compiled from another model?", self.file()) }
    }
}

fn describe(dtype: impl Display, shape: &[usize]) -> String {
    let sizes: Vec<_> = shape.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", sizes.join(","))
}
