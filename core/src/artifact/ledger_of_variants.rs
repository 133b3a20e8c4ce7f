//! The ledger of a file with variants: which forms of a constant it stores, for which of them, and what each variant costs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use byoc_plugin_api::DType;

use super::manifest::{Fate, LedgerRow};
use super::variants::graph_section;
use super::{Artifact, ArtifactFile};

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
    /// Bytes of its graph section.
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
    pub fn of(file: &ArtifactFile, all: &[Artifact]) -> LedgerOfVariants {
        let mut ledger = LedgerOfVariants { constants: constants(all), ..LedgerOfVariants::default() };
        let sizes: HashMap<&str, u64> = file.sections().map(|section| (section.name, section.bytes)).collect();
        let size = |section: &str| sizes.get(section).copied().unwrap_or(0);
        let users = users(all);
        let own = |variant: usize, constants: bool| -> u64 {
            let own =
                users.iter().filter(|((constant, _), users)| *constant == constants && users.iter().eq([&variant]));
            own.map(|((_, section), _)| size(section)).sum()
        };
        let shared = |constants: bool| -> u64 {
            let shared = users.iter().filter(|((constant, _), users)| *constant == constants && users.len() > 1);
            shared.map(|((_, section), _)| size(section)).sum()
        };
        (ledger.shared_constants, ledger.shared_code) = (shared(true), shared(false));
        let variant = |(index, artifact): (usize, &Artifact)| {
            let name = artifact.variant().unwrap_or_default().to_owned();
            let graph = size(&graph_section(&name));
            VariantBytes { variant: name, constants: own(index, true), code: own(index, false), graph }
        };
        ledger.variants = all.iter().enumerate().map(variant).collect();
        let known: u64 = ledger.variants.iter().map(|variant| variant.constants + variant.code + variant.graph).sum();
        ledger.frame = file.size().saturating_sub(known + ledger.shared_constants + ledger.shared_code);
        ledger
    }
}

/// Which variants use each section, by whether it is one of a constant, and its name.
fn users(all: &[Artifact]) -> BTreeMap<(bool, &str), BTreeSet<usize>> {
    let mut users: BTreeMap<(bool, &str), BTreeSet<usize>> = BTreeMap::new();
    for (index, artifact) in all.iter().enumerate() {
        let stored = artifact.manifest().constants.iter().map(|stored| (true, stored.section.as_str()));
        let code = artifact.manifest().regions.iter().map(|region| (false, region.code.as_str()));
        for section in stored.chain(code) {
            users.entry(section).or_default().insert(index);
        }
    }
    users
}

/// The constants of all variants: those with the same type and bytes are one.
fn constants(all: &[Artifact]) -> Vec<JointConstant> {
    let mut constants: Vec<JointConstant> = Vec::new();
    let mut known: HashMap<(DType, &str), usize> = HashMap::new();
    for artifact in all {
        for row in &artifact.manifest().ledger {
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
            for name in &row.names {
                if !constant.names.contains(name) {
                    constant.names.push(name.clone());
                }
            }
            add_form(constant, form_of(artifact, row));
        }
    }
    constants
}

/// The form that a row of a variant's ledger is about.
fn form_of(artifact: &Artifact, row: &LedgerRow) -> Form {
    let stored = row.stored.and_then(|stored| artifact.manifest().constants.get(stored));
    let section = stored.filter(|stored| stored.external.is_none());
    Form {
        fate: row.fate,
        section: section.map(|stored| stored.section.clone()),
        layout: stored.and_then(|stored| stored.layout.clone()),
        bytes: section.and_then(|stored| stored.bytes()).unwrap_or(0),
        variants: artifact.variant().map(str::to_owned).into_iter().collect(),
    }
}

fn add_form(constant: &mut JointConstant, form: Form) {
    let same = |known: &&mut Form| known.fate == form.fate && known.section == form.section;
    match constant.forms.iter_mut().find(same) {
        Some(known) => form.variants.into_iter().for_each(|variant| {
            if !known.variants.contains(&variant) {
                known.variants.push(variant);
            }
        }),
        None => constant.forms.push(form),
    }
}
