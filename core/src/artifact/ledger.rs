//! The ledger of an artifact: readers, owner and fate of every constant of the model. It is part of the file, so `compile`
//! and `inspect` show the same.

use super::Manifest;
use super::manifest::LedgerRow;
use super::totals::Totals;

/// Readers, owner and fate of every constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The rows, in the order in which the model has the constants.
    pub rows: Vec<LedgerRow>,
    /// The sums.
    pub totals: Totals,
}

impl Ledger {
    /// The ledger of an artifact.
    pub fn of(manifest: &Manifest) -> Ledger {
        Ledger { rows: manifest.ledger.clone(), totals: Totals::of(manifest) }
    }
}
