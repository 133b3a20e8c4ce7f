//! Stage 6: who owns which constant. Claims are recorded region by region, settled so that every stored constant stands
//! once, and audited against the code, so that a copy which a backend does not own up to is found.

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

pub(crate) use form_conflicts::mark_shared;
pub(crate) use settle::settle;
pub use settle::{SettleOptions, Settled};
pub(crate) use storage::Storage;
