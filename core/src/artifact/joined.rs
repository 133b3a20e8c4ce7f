//! Several variants in one file: what they have in common is stored once. What the file holds depends on the variants only, and
//! not on how they came together.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;

use super::ledger::{LedgerRow, LedgerSection, NodeSummary, ledger_section};
use super::variants::{MOST_VARIANTS, VariantList, check_variant_name, graph_section};
use super::write::{Plan, not_written};
use super::{
    CONSTANT, Contents, FORMAT, GRAPH, Manifest, PRODUCER, Progress, Section, check, code_section, constant_section,
    graph,
};
use crate::atomic_file::{self, Scratch};
use crate::diagnostic::{Code, Diagnostic, Result};

/// The contents of a file with variants.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The variants, the most wanted first.
    variants: Vec<Variant>,
    /// Code and constants of all of them.
    sections: Vec<Section>,
}

/// What a variant has for itself.
#[derive(Clone, Debug)]
struct Variant {
    name: String,
    manifest: Manifest,
    ledger: Vec<LedgerRow>,
    nodes: Vec<Vec<NodeSummary>>,
}

/// BLAKE3 of bytes, and how many they are.
type Content = ([u8; 32], usize);

/// The sections so far, by what they hold.
#[derive(Default)]
struct Sections {
    list: Vec<Section>,
    /// A variant may have the same bytes several times, as constants of other types: the first of each variant are one section,
    /// and so are the second ones.
    constants: HashMap<(Content, usize), usize>,
    /// Code is that of one backend in one version.
    code: HashMap<(Content, String, u32), usize>,
    /// How many names of constants are taken.
    numbers: usize,
}

impl Joined {
    /// Joins variants, the most wanted first. Equal bytes become one section, whatever they were called; sections are numbered in
    /// the order of the variants' names, so that another order of the variants changes nothing but the list of them.
    ///
    /// Errors where two variants have one name, or a name is not one of a variant.
    pub fn of(variants: Vec<(String, Contents)>) -> Result<Joined> {
        if variants.len() > MOST_VARIANTS {
            let message = format!("{} variants are more than the {MOST_VARIANTS} that a file may have", variants.len());
            return Err(Diagnostic::new(Code::Usage, message).hint("Make several files"));
        }
        let mut sections = Sections::default();
        let mut sorted: Vec<(usize, (String, Contents))> = variants.into_iter().enumerate().collect();
        sorted.sort_by(|(_, (one, _)), (_, (other, _))| one.cmp(other));
        let mut joined: Vec<(usize, Variant)> = Vec::new();
        for (place, (name, contents)) in sorted {
            check_variant_name(&name).map_err(|cause| Diagnostic::new(Code::Usage, cause))?;
            if joined.last().is_some_and(|(_, before)| before.name == name) {
                let error = Diagnostic::new(Code::Usage, format!("there are two variants '{name}'"));
                return Err(error.hint("Give each a name of its own"));
            }
            joined.push((place, sections.take(name, contents)));
        }
        joined.sort_by_key(|(place, _)| *place);
        let variants = joined.into_iter().map(|(_, variant)| variant).collect();
        Ok(Joined { variants, sections: sections.list })
    }

    /// Writes the file to `path` atomically, and returns its size.
    pub fn write(&self, path: &Path, progress: Progress<'_>) -> Result<u64> {
        let plan = self.plan().map_err(|cause| not_written(path, &cause))?;
        atomic_file::write_with(path, |file| plan.stream(file, progress))
    }

    /// The bytes of the file, mapped from a file without a name. `name` is what it is called in messages.
    pub fn write_unnamed(&self, name: &Path, scratch: &Scratch, progress: Progress<'_>) -> Result<Bytes> {
        let plan = self.plan().map_err(|cause| not_written(name, &cause))?;
        scratch.mapped(|file| plan.stream(file, progress))
    }

    pub(super) fn plan(&self) -> std::result::Result<Plan, String> {
        let names = self.variants.iter().map(|variant| variant.name.clone());
        let files = self.variants.iter().flat_map(|variant| variant.manifest.files.iter().cloned());
        let list = VariantList::of(names, files, PRODUCER.into());
        list.check()?;
        let mut texts = vec![Section::of_bytes(GRAPH, graph::encode(&list)?.into())];
        let mut sorted: Vec<&Variant> = self.variants.iter().collect();
        sorted.sort_by_key(|variant| &variant.name);
        for Variant { name, manifest, ledger, nodes } in &sorted {
            texts.push(Section::of_bytes(graph_section(name), graph::encode(manifest)?.into()));
            let told = graph::encode(&LedgerSection { constants: ledger, nodes })?;
            texts.push(Section::of_bytes(ledger_section(Some(name)), told.into()));
        }
        let plan = Plan::of(texts.iter().chain(&self.sections), (FORMAT, PRODUCER))?;
        let by_name = plan.header.by_name();
        for Variant { name, manifest, ledger, nodes } in &sorted {
            check::check_variant(manifest, name, &|name| by_name.get(name).copied())?;
            check::ledger(manifest, ledger, nodes)?;
        }
        let graphs: Vec<_> = sorted.iter().map(|variant| (variant.name.as_str(), &variant.manifest)).collect();
        check::all_are_used(&graphs, &plan.header)?;
        Ok(plan)
    }
}

impl Sections {
    /// Takes what a variant consists of, and returns it with a graph that has the names of its sections in the file.
    fn take(&mut self, variant: String, contents: Contents) -> Variant {
        let Contents { mut manifest, ledger, nodes, sections } = contents;
        let mut own: HashMap<String, Section> = HashMap::new();
        own.extend(sections.into_iter().map(|section| (section.name.clone(), section)));
        let mut seen: HashMap<Content, usize> = HashMap::new();
        for stored in &mut manifest.constants {
            // What is in another file has a name that no section has.
            stored.section = match own.remove(&stored.section) {
                Some(section) => {
                    let content = content(&section);
                    let times = seen.entry(content).or_default();
                    *times += 1;
                    self.constant(section, (content, *times))
                }
                None => self.next_constant(),
            };
        }
        let mut renamed: HashMap<String, String> = HashMap::new();
        for region in &mut manifest.regions {
            if let Some(section) = own.remove(&region.code) {
                let name = code_section(&format!("{variant}/{}", region.symbol));
                let name = self.code(section, name, (&region.backend, region.code_version));
                renamed.insert(region.code.clone(), name);
            }
            if let Some(name) = renamed.get(&region.code) {
                region.code.clone_from(name);
            }
        }
        Variant { name: variant, manifest, ledger, nodes }
    }

    fn next_constant(&mut self) -> String {
        self.numbers += 1;
        constant_section(self.numbers - 1)
    }

    fn constant(&mut self, section: Section, key: (Content, usize)) -> String {
        if let Some(&index) = self.constants.get(&key) {
            let known = &mut self.list[index];
            // Alignments are powers of two, so the larger one is a multiple of the other.
            known.alignment = known.alignment.max(section.alignment);
            return known.name.clone();
        }
        debug_assert!(section.name.starts_with(CONSTANT));
        let name = self.next_constant();
        let (digest, _) = key.0;
        self.constants.insert(key, self.list.len());
        self.list.push(Section { name: name.clone(), digest: Some(digest), ..section });
        name
    }

    fn code(&mut self, section: Section, name: String, (backend, version): (&str, u32)) -> String {
        let content = content(&section);
        let key = (content, backend.to_owned(), version);
        if let Some(&index) = self.code.get(&key) {
            return self.list[index].name.clone();
        }
        self.code.insert(key, self.list.len());
        self.list.push(Section { name: name.clone(), digest: Some(content.0), ..section });
        name
    }
}

fn content(section: &Section) -> Content {
    let digest = section.digest.unwrap_or_else(|| *blake3::hash(&section.bytes).as_bytes());
    (digest, section.bytes.len())
}
