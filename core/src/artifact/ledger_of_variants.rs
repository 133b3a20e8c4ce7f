//! The ledger of a file with variants: which forms of a constant it stores, for which of them, and what each variant costs.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use byoc_plugin_api::DType;

use super::ledger::{Fate, LedgerRow, ledger_section};
use super::variants::graph_section;
use super::{Artifact, ArtifactFile};
use crate::diagnostic::Result;

/// The ledgers of all variants as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerOfVariants {
    /// The constants, in the order in which the variants have them, those of the first one first.
    pub constants: Vec<JointConstant>,
    /// The variants, the most wanted first.
    pub variants: Vec<VariantBytes>,
    /// Bytes of sections of constants that several variants read.
    pub shared_constants: u64,
    /// Bytes of code that several variants run.
    pub shared_code: u64,
    /// The rest of the file: its header, the list of variants and padding. All numbers together are the bytes of the file.
    pub frame: u64,
}

/// A constant of the model, and what the variants have of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointConstant {
    /// The names under which the models have it.
    pub names: Vec<String>,
    /// Element type of the original.
    pub dtype: DType,
    /// Shape of the original.
    pub shape: Vec<usize>,
    /// Bytes of the original.
    pub bytes: u64,
    /// Its forms.
    pub forms: Vec<Form>,
}

/// A form in which variants have a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What became of the constant in these variants.
    pub fate: Fate,
    /// The section that holds the form; none where no section does, or another file.
    pub section: Option<String>,
    /// The layout of a packed form.
    pub layout: Option<String>,
    /// Bytes of the section.
    pub bytes: u64,
    /// The variants.
    pub variants: Vec<String>,
}

/// What a variant costs: the file would be so much smaller without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantBytes {
    /// Its name.
    pub variant: String,
    /// Bytes of constants that no other variant reads.
    pub constants: u64,
    /// Bytes of code that no other variant runs.
    pub code: u64,
    /// Bytes of its graph and of its ledger.
    pub graph: u64,
}

impl JointConstant {
    /// What its stored forms take beyond one of them: beyond the original, where it is among them.
    pub fn beyond_one(&self) -> u64 {
        let stored: BTreeMap<&str, (bool, u64)> = self
            .forms
            .iter()
            .filter_map(|form| Some((form.section.as_deref()?, (form.fate == Fate::Stored, form.bytes))))
            .collect();
        let one = stored.values().find(|(original, _)| *original).or(stored.values().next());
        stored.values().map(|(_, bytes)| bytes).sum::<u64>() - one.map_or(0, |(_, bytes)| *bytes)
    }
}

impl LedgerOfVariants {
    /// The ledger of a file, given with all of its variants ([`ArtifactFile::all`]).
    ///
    /// Errors as [`Artifact::ledger`] does.
    pub fn of(file: &ArtifactFile, all: &[Artifact]) -> Result<LedgerOfVariants> {
        let mut ledger = LedgerOfVariants { constants: constants(all)?, ..LedgerOfVariants::default() };
        let sizes: HashMap<&str, u64> = file.sections().map(|section| (section.name, section.bytes)).collect();
        let size = |section: &str| sizes.get(section).copied().unwrap_or(0);
        let mut own = vec![[0u64; 2]; all.len()];
        let mut shared = [0u64; 2];
        for ((constant, section), users) in users(all) {
            let sums = match users.as_slice() {
                [only] => &mut own[*only],
                _ => &mut shared,
            };
            sums[usize::from(constant)] += size(section);
        }
        [ledger.shared_code, ledger.shared_constants] = shared;
        let variant = |(artifact, [code, constants]): (&Artifact, [u64; 2])| {
            let name = artifact.variant().unwrap_or_default().to_owned();
            let graph = size(&graph_section(&name)) + size(&ledger_section(Some(&name)));
            VariantBytes { variant: name, constants, code, graph }
        };
        ledger.variants = all.iter().zip(own).map(variant).collect();
        let known: u64 = ledger.variants.iter().map(|variant| variant.constants + variant.code + variant.graph).sum();
        ledger.frame = file.size().saturating_sub(known + ledger.shared_constants + ledger.shared_code);
        Ok(ledger)
    }
}

/// Which variants use each section, in their order, by whether it is one of a constant, and its name.
fn users(all: &[Artifact]) -> BTreeMap<(bool, &str), Vec<usize>> {
    let mut users: BTreeMap<(bool, &str), Vec<usize>> = BTreeMap::new();
    for (index, artifact) in all.iter().enumerate() {
        let stored = artifact.manifest().constants.iter().map(|stored| (true, stored.section.as_str()));
        let code = artifact.manifest().regions.iter().map(|region| (false, region.code.as_str()));
        for section in stored.chain(code) {
            let users = users.entry(section).or_default();
            if users.last() != Some(&index) {
                users.push(index);
            }
        }
    }
    users
}

/// The constants of all variants: those with the same type and bytes are one.
fn constants(all: &[Artifact]) -> Result<Vec<JointConstant>> {
    let mut constants: Vec<JointConstant> = Vec::new();
    let mut known: HashMap<(DType, &str), usize> = HashMap::new();
    let mut named: HashSet<(usize, &str)> = HashSet::new();
    let mut formed: HashMap<(usize, Fate, Option<&str>), usize> = HashMap::new();
    for artifact in all {
        for row in artifact.ledger()? {
            let index = *known.entry((row.dtype, row.digest.as_str())).or_insert_with(|| {
                constants.push(JointConstant {
                    names: Vec::new(),
                    dtype: row.dtype,
                    shape: row.shape.clone(),
                    bytes: row.bytes,
                    forms: Vec::new(),
                });
                constants.len() - 1
            });
            let constant = &mut constants[index];
            let new = row.names.iter().filter(|name| named.insert((index, name.as_str())));
            constant.names.extend(new.cloned());
            let form = form_of(artifact, row);
            match formed.entry((index, row.fate, section_of(artifact, row))) {
                Entry::Vacant(place) => {
                    place.insert(constant.forms.len());
                    constant.forms.push(form);
                }
                Entry::Occupied(place) => {
                    let known = &mut constant.forms[*place.get()];
                    let new = form.variants.into_iter().filter(|name| known.variants.last() != Some(name));
                    let new: Vec<_> = new.collect();
                    known.variants.extend(new);
                }
            }
        }
    }
    Ok(constants)
}

/// The section of the form that a row is about.
fn section_of<'a>(artifact: &'a Artifact, row: &LedgerRow) -> Option<&'a str> {
    let stored = artifact.manifest().constants.get(row.stored?)?;
    stored.external.is_none().then_some(stored.section.as_str())
}

/// The form that a row of a variant's ledger is about.
fn form_of(artifact: &Artifact, row: &LedgerRow) -> Form {
    let stored = row.stored.and_then(|stored| artifact.manifest().constants.get(stored));
    let section = section_of(artifact, row);
    Form {
        fate: row.fate,
        section: section.map(str::to_owned),
        layout: stored.and_then(|stored| stored.layout.clone()),
        bytes: section.and(stored).and_then(|stored| stored.bytes()).unwrap_or(0),
        variants: artifact.variant().map(str::to_owned).into_iter().collect(),
    }
}
