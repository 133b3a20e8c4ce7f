//! Stage 6: constant ownership. The claims of all regions are settled, so that every constant is stored once, and audited
//! against the code, so that undeclared copies are found.

mod across;
mod assemble;
mod audit;
mod external;
mod form_conflicts;
mod ledger_rows;
mod search;
mod settle;
mod storage;
#[cfg(test)]
mod tests;

pub(crate) use across::audit_across;
pub(crate) use form_conflicts::{Forms, mark_shared};
pub(crate) use settle::settle;
pub use settle::{SettleOptions, Settled};
pub(crate) use storage::Storage;
