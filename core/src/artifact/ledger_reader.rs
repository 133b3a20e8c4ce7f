//! Reads the ledger of an artifact when it is first asked for: no run needs it, and it is most of what a file says of itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::check;
use super::file::Layout;
use super::graph::MOST_BYTES;
use super::ledger::{LedgerRow, LedgerSection, NodeSummary};
use super::manifest::Manifest;

/// A ledger that was read.
pub(super) type ReadLedger = LedgerSection<Vec<LedgerRow>, Vec<Vec<NodeSummary>>>;

/// The ledger in a file, which is read when somebody asks for it.
#[derive(Debug, Default)]
pub(super) struct LedgerReader {
    section: OnceLock<ReadLedger>,
    /// How many bytes of JSON were read, of this ledger and of those that are kept beside it.
    read: Arc<AtomicU64>,
}

impl LedgerReader {
    /// That of another variant, to be kept beside this one.
    pub(super) fn beside(&self) -> LedgerReader {
        LedgerReader { section: OnceLock::new(), read: self.read.clone() }
    }

    /// What is in that section, compared with its digest and with the graph that it is of. The error says what is wrong.
    pub(super) fn get(&self, layout: &Layout, section: &str, manifest: &Manifest) -> Result<&ReadLedger, String> {
        if let Some(ledger) = self.section.get() {
            return Ok(ledger);
        }
        let (ledger, bytes): (ReadLedger, u64) = layout.json(section)?;
        if self.read.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_BYTES {
            return Err(format!("its ledgers hold more than {MOST_BYTES} bytes"));
        }
        check::ledger(manifest, &ledger.constants, &ledger.nodes)?;
        Ok(self.section.get_or_init(|| ledger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{Artifact, LEDGER};

    /// Variants that are opened together have many ledgers, and a damaged file could make each of them large.
    #[test]
    fn ledgers_that_are_kept_together_are_limited_together() {
        let artifact = crate::artifact::tests::written(64);
        let Artifact { layout, manifest, ledger, .. } = &artifact;
        let (other, rows) = (ledger.beside(), artifact.ledger().expect("it fits"));
        let of_other = || other.get(layout, LEDGER, manifest).map(|ledger| ledger.constants.as_slice());
        assert_eq!(of_other(), Ok(rows));
        let (read, third) = (ledger.read.load(Ordering::Relaxed), ledger.beside());
        assert!(read > 200 && read % 2 == 0, "{read} bytes of two equal ledgers");
        ledger.read.store(MOST_BYTES - read / 2 + 1, Ordering::Relaxed);
        let expected = "its ledgers hold more than 268435456 bytes";
        assert_eq!(third.get(layout, LEDGER, manifest).err().as_deref(), Some(expected));
        // What was read stays.
        assert_eq!(of_other(), Ok(rows));
    }
}
