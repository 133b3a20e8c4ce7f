//! Overview of a file with variants: what each consists of, and what it costs.

use byoc_core::artifact::{Artifact, ArtifactFile, Fate, LedgerOfVariants, VariantBytes};
use byoc_core::diagnostic::Result;
use serde::Serialize;

use super::{Overview, Table, size};

/// The numbers, as `--json` gives them. All bytes of the variants, those that are shared and the frame add up to the file.
#[derive(Debug, Serialize)]
pub(crate) struct VariantsOverview {
    /// The variants, the most wanted first.
    variants: Vec<VariantOverview>,
    /// Distinct constants that some variant has, each once, as the model has them.
    weights: u64,
    /// Bytes of constants that several variants read.
    shared_constants: u64,
    /// Bytes of code that several variants run.
    shared_code: u64,
    /// Header, list of variants and padding.
    frame: u64,
    /// The file.
    file_bytes: u64,
    /// Distinct constants that are stored in several forms, and what that takes beyond one of each.
    in_several_forms: Several,
}

#[derive(Debug, Serialize)]
struct Several {
    constants: usize,
    bytes: u64,
}

/// A variant with what the file would be smaller by without it.
#[derive(Debug, Serialize)]
struct VariantOverview {
    variant: String,
    own_constants: u64,
    own_code: u64,
    graph: u64,
    #[serde(flatten)]
    overview: Overview,
}

impl VariantsOverview {
    /// Of a file with all of its variants.
    pub(crate) fn of(file: &ArtifactFile, all: &[Artifact]) -> Result<VariantsOverview> {
        let LedgerOfVariants { constants, variants, shared_constants, shared_code, frame } =
            LedgerOfVariants::of(file, all)?;
        let used = constants.iter().filter(|constant| {
            constant
                .forms
                .iter()
                .any(|form| matches!(form.fate, Fate::Stored | Fate::Packed | Fate::Viewed | Fate::Embedded))
        });
        // The numbers come from an untrusted file.
        let weights = used.fold(0u64, |sum, constant| sum.saturating_add(constant.bytes));
        let several: Vec<u64> =
            constants.iter().map(|constant| constant.beyond_one()).filter(|&more| more > 0).collect();
        let variant = |(VariantBytes { variant, constants, code, graph }, artifact)| {
            let overview = Overview::of(artifact)?;
            Ok(VariantOverview { variant, own_constants: constants, own_code: code, graph, overview })
        };
        Ok(VariantsOverview {
            variants: variants.into_iter().zip(all).map(variant).collect::<Result<_>>()?,
            weights,
            shared_constants,
            shared_code,
            frame,
            file_bytes: file.size(),
            in_several_forms: Several { constants: several.len(), bytes: several.iter().sum() },
        })
    }

    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for port in self.variants.iter().take(1).flat_map(|first| first.overview.ports()) {
            text += &format!("{port}\n");
        }
        let headings = ["variant", "backends", ">regions", ">own constants", ">own code", ">graph"];
        let mut table = Table::new(&headings);
        for variant in &self.variants {
            let (mut names, mut regions) = (Vec::new(), 0);
            for (name, _, own) in variant.overview.counts() {
                names.push(name);
                regions += own;
            }
            table.row([
                variant.variant.clone(),
                names.join(","),
                regions.to_string(),
                size(variant.own_constants),
                size(variant.own_code),
                size(variant.graph),
            ]);
        }
        let mut shared = format!("shared: {} of constants", size(self.shared_constants));
        if self.shared_code > 0 {
            shared += &format!(", {} of code", size(self.shared_code));
        }
        let forms = match self.in_several_forms {
            Several { constants: 0, .. } => String::new(),
            Several { constants, bytes } => {
                let constants = super::count(constants, "constant");
                format!("{constants} in several forms, {} more than in one\n", size(bytes))
            }
        };
        let ratio = match self.weights {
            0 => String::new(),
            weights => format!(" ({:.3}x)", self.file_bytes as f64 / weights as f64),
        };
        let file = format!("weights {}, file {}{ratio}", size(self.weights), size(self.file_bytes));
        format!("{text}{}{shared}; header and padding {}\n{forms}{file}\n", table.text(), size(self.frame))
    }
}
