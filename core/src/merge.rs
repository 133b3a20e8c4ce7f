//! Variants of one model go into one file, and out of it: artifacts that were compiled apart are joined, and a file is cut down to
//! some of its variants. Nothing is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use byoc_plugin_api::{DType, Dim};

use crate::artifact::manifest::{Entry, Manifest, Port, ValueType};
use crate::artifact::{Artifact, ArtifactFile, Contents, Joined, LedgerRow, Progress, sizes_agree};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::overwrite::{self, Input};
use crate::ownership;

/// A file that is merged.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of its variant, for an artifact without variants; another name for the only variant of a file.
    pub name: Option<String>,
    /// The file.
    pub path: PathBuf,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Report {
    /// The variants of the file, the most wanted first.
    pub variants: Vec<String>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the files that it was made of.
    pub source_bytes: u64,
    /// What code holds of other variants' constants, where that was allowed.
    pub warnings: Vec<Diagnostic>,
}

/// Writes the variants of several files of the same model into one, those of the first file most wanted. Equal constants and equal
/// code are in it once. Every byte that is read is compared with its digest.
///
/// Errors where the files are not of the same model: the error names the entry, the input or the constant that differs. Errors
/// where code of one has a constant of another that it does not claim, unless `allow_duplicates`. `output` may be none of the files.
pub fn merge(sources: &[Source], output: &Path, allow_duplicates: bool, progress: Progress<'_>) -> Result<Report> {
    let inputs: Vec<Input> = sources.iter().map(|source| Input::new("an artifact", &source.path)).collect();
    overwrite::check(&[output], &inputs)?;
    let (mut parts, mut source_bytes) = (Vec::new(), 0);
    for source in sources {
        let file = ArtifactFile::open(&source.path)?;
        file.verify_digests()?;
        source_bytes += file.size();
        for (name, artifact) in named(source, &file)? {
            artifact.check_output(output)?;
            parts.push((name, artifact));
        }
    }
    let variants: Vec<String> = parts.iter().map(|(name, _)| name.clone()).collect();
    let contents =
        parts.into_iter().map(|(name, artifact)| Ok((name, artifact.contents()?))).collect::<Result<Vec<_>>>()?;
    let (joined, warnings) = join(contents, allow_duplicates)?;
    overwrite::check(&[output], &inputs)?;
    let file_bytes = joined.write(output, progress)?;
    Ok(Report { variants, file_bytes, source_bytes, warnings })
}

/// Writes a file with these variants of `file` alone, the first one most wanted. What is read is compared with its digests.
pub fn extract(file: &Path, names: &[String], output: &Path, progress: Progress<'_>) -> Result<Report> {
    let inputs = [Input::new("the artifact", file)];
    overwrite::check(&[output], &inputs)?;
    let file = ArtifactFile::open(file)?;
    let mut parts = Vec::new();
    for name in names {
        let artifact = file.variant(name)?;
        artifact.check_output(output)?;
        artifact.verify_own_digests()?;
        parts.push((name.clone(), artifact.contents()?));
    }
    let joined = Joined::of(parts)?;
    overwrite::check(&[output], &inputs)?;
    let file_bytes = joined.write(output, progress)?;
    Ok(Report { variants: names.to_vec(), file_bytes, source_bytes: file.size(), warnings: Vec::new() })
}

/// Joins variants, if they are of one model, and none has in its code what another has stored; with `allow_duplicates` that is a warning.
pub(crate) fn join(contents: Vec<(String, Contents)>, allow_duplicates: bool) -> Result<(Joined, Vec<Diagnostic>)> {
    check_same_model(&contents)?;
    let duplicates = ownership::audit_across(&contents);
    match duplicates.first() {
        Some(first) if !allow_duplicates => Err(first.clone()),
        _ => Ok((Joined::of(contents)?, duplicates)),
    }
}

/// The variants of a file, under the names that they are to have.
fn named(source: &Source, file: &ArtifactFile) -> Result<Vec<(String, Artifact)>> {
    let all = file.all()?;
    let path = source.path.display();
    match (&source.name, file.variants()) {
        (Some(name), [] | [_]) => Ok(all.into_iter().map(|artifact| (name.clone(), artifact)).collect()),
        (Some(_), several) => {
            let message = format!("'{path}' has {} variants, which cannot all have one name", several.len());
            Err(Diagnostic::new(Code::Usage, message).hint("Leave out the name in front of it"))
        }
        (None, []) => {
            let message = format!("'{path}' was compiled without --variant, so that its variant has no name");
            Err(Diagnostic::new(Code::Usage, message).hint(format!("Put one in front of it: NAME={path}")))
        }
        (None, names) => Ok(names.iter().cloned().zip(all).collect()),
    }
}

/// Errors where variants are not of one model: where a caller sees that they differ, or where one name has other bytes.
fn check_same_model(variants: &[(String, Contents)]) -> Result<()> {
    let mut constants = Constants::default();
    for (index, (name, contents)) in variants.iter().enumerate() {
        for (before, other) in &variants[..index] {
            check_same_entries((before, &other.manifest), (name, &contents.manifest))?;
        }
        constants.add(name, &contents.ledger)?;
    }
    Ok(())
}

/// Errors where two variants differ in their entries, inputs or outputs.
fn check_same_entries((first, graph): (&str, &Manifest), (name, other): (&str, &Manifest)) -> Result<()> {
    let differ = |what: String| {
        let message = format!("variants '{first}' and '{name}' are not of the same model: {what}");
        Err(Diagnostic::new(Code::BadInput, message).hint("Compile both from one model, with the same shapes"))
    };
    let names = |manifest: &Manifest| manifest.callable().map(|entry| entry.name.clone()).collect::<Vec<_>>();
    let (own, theirs) = (names(graph), names(other));
    if own.iter().collect::<BTreeSet<_>>() != theirs.iter().collect::<BTreeSet<_>>() {
        return differ(format!("their entries are {} and {}", own.join(", "), theirs.join(", ")));
    }
    for entry in graph.callable() {
        let same = other.callable().find(|it| it.name == entry.name);
        if let Some(cause) = same.and_then(|same| difference(entry, same)) {
            return differ(format!("entry {}: {cause}", entry.name));
        }
    }
    Ok(())
}

/// In what a caller sees two entries differ, if they do.
fn difference(one: &Entry, other: &Entry) -> Option<String> {
    let ports = [("input", &one.inputs, &other.inputs), ("output", &one.outputs, &other.outputs)];
    for (kind, ours, theirs) in ports {
        let names = |ports: &[Port]| ports.iter().map(|port| format!("'{}'", port.name)).collect::<Vec<_>>().join(", ");
        if names(ours) != names(theirs) {
            return Some(format!("its {kind}s are {} and {}", names(ours), names(theirs)));
        }
        for (port, same) in ours.iter().zip(theirs) {
            let (ty, other) = (&one.values[port.value], &other.values[same.value]);
            let fits = if kind == "input" { ty == other } else { agree(ty, other) };
            if !fits {
                return Some(format!("{kind} '{}' is {} and {}", port.name, text(ty), text(other)));
            }
        }
    }
    None
}

/// Whether types are equal, as far as both know their sizes: what is only known at run time has no name of its own.
fn agree(one: &ValueType, other: &ValueType) -> bool {
    one.dtype == other.dtype && one.list == other.list && sizes_agree(&one.shape, &other.shape)
}

fn text(ty: &ValueType) -> String {
    let sizes: Vec<_> = ty.shape.iter().map(Dim::to_string).collect();
    format!("{}[{}]", ty.dtype, sizes.join(","))
}

/// Type and digest of a constant.
type Content<'a> = (DType, &'a str);

/// The constants of the variants so far, by name, with the variant that was the first to have them. Entries of several models may have
/// constants of one name.
#[derive(Default)]
struct Constants<'a>(BTreeMap<&'a str, (&'a str, BTreeSet<Content<'a>>)>);

impl<'a> Constants<'a> {
    /// Adds those of a variant. Errors where it has other bytes under a name, or no name in common with those before.
    fn add(&mut self, variant: &'a str, ledger: &'a [LedgerRow]) -> Result<()> {
        let own = by_name(ledger);
        let common = own.keys().filter(|name| self.0.contains_key(*name)).count();
        if let (0, false, Some((first, _))) = (common, own.is_empty(), self.0.values().next()) {
            let message = format!(
                "variants '{first}' and '{variant}' are not of the same model: they have no constant in common"
            );
            return Err(Diagnostic::new(Code::BadInput, message).hint("Compile both from one model"));
        }
        for (name, contents) in own {
            let (first, known) = self.0.entry(name).or_insert_with(|| (variant, contents.clone()));
            if !known.is_subset(&contents) && !contents.is_subset(known) {
                let message = format!("constant `{name}` has other elements in variant '{variant}' than in '{first}'");
                return Err(Diagnostic::new(Code::BadInput, message)
                    .hint("Compile both from one model, or swap the weights of one"));
            }
            known.extend(contents);
        }
        Ok(())
    }
}

fn by_name(ledger: &[LedgerRow]) -> BTreeMap<&str, BTreeSet<Content<'_>>> {
    let mut names: BTreeMap<&str, BTreeSet<Content<'_>>> = BTreeMap::new();
    for row in ledger {
        for name in &row.names {
            names.entry(name).or_default().insert((row.dtype, &row.digest));
        }
    }
    names
}
