//! The artifact: one file in the safetensors layout that holds the graph, the code of every region and every stored
//! constant once. Only the modules in here know byte offsets of the file; `docs/artifact-format.md` describes it.

mod aligned;
mod check;
#[cfg(feature = "compiler")]
mod code;
mod external;
mod file;
mod graph;
mod header;
mod joined;
mod ledger;
mod ledger_of_variants;
mod ledger_reader;
pub mod manifest;
mod read;
#[cfg(test)]
mod tests;
mod totals;
mod variants;
mod write;

#[cfg(feature = "compiler")]
pub(crate) use check::sizes_agree;
#[cfg(feature = "compiler")]
pub(crate) use code::code_sections;
#[cfg(feature = "compiler")]
pub(crate) use external::digests;
pub use file::ArtifactFile;
pub use joined::Joined;
pub use ledger::{Fate, Ledger, LedgerRow, NodeSummary};
pub use ledger_of_variants::{Form, JointConstant, LedgerOfVariants, VariantBytes};
pub use manifest::Manifest;
pub use read::{Artifact, SectionInfo};
pub use totals::Totals;
pub use variants::check_variant_name;
pub use write::{Contents, Progress, Section};

/// The newest version of the format that this build reads: that of a file with variants.
pub const FORMAT: u32 = 2;

/// The version of a file without variants, and of the graph of each variant.
pub const PLAIN_FORMAT: u32 = 1;

/// What writes files in this build.
pub const PRODUCER: &str = concat!("byoc ", env!("CARGO_PKG_VERSION"));

/// Largest alignment that a section can have: mapped files are aligned to a page and no further.
pub const MAX_ALIGNMENT: u64 = 4096;

/// The section that holds the [`Manifest`] as compressed JSON; in a file with variants their names, and each has a graph of its own.
const GRAPH: &str = "graph";

/// The section that holds the rows of the [`Ledger`] in the same form; in a file with variants each has a ledger of its own.
const LEDGER: &str = "ledger";

/// What the names of sections that only fill gaps start with.
const PAD: &str = "__pad__/";

/// What the names of sections of code start with.
const CODE: &str = "code/";

/// What the names of constants' sections start with.
const CONSTANT: &str = "const/";

/// The metadata key of the format's version.
const FORMAT_KEY: &str = "byoc_format";

/// The metadata key of [`Manifest::producer`].
const PRODUCER_KEY: &str = "producer";

/// What the metadata key of a section's digest starts with; the section's name follows. Short, for a small model has a hundred of them.
const DIGEST: &str = "b3:";

/// The digest of a section as the header has it.
pub fn digest_of(bytes: &[u8]) -> String {
    digest_text(blake3::hash(bytes).as_bytes())
}

/// In base64 (RFC 4648, section 4) without padding: of a small model's header a third is digests, and hex would be half as long again.
fn digest_text(digest: &[u8; blake3::OUT_LEN]) -> String {
    data_encoding::BASE64_NOPAD.encode(digest)
}

/// The inverse; `None` for what is not the text of a digest.
#[cfg(feature = "compiler")]
fn digest_bytes(text: &str) -> Option<[u8; blake3::OUT_LEN]> {
    data_encoding::BASE64_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The section of a region's code.
pub fn code_section(symbol: &str) -> String {
    format!("{CODE}{symbol}")
}

/// The section of the stored constant of that index.
pub fn constant_section(index: usize) -> String {
    format!("{CONSTANT}{index}")
}
