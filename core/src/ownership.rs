//! Stage 6: who owns which constant. Claims are recorded region by region, settled so that every stored constant has
//! one home, and audited against the code, so that a copy which a backend does not own up to is found.

mod assemble;
mod audit;
mod external;
mod homes;
mod ledger;
mod search;
mod settle;
#[cfg(test)]
mod tests;
mod totals;

pub use ledger::Ledger;
pub use settle::{BackendIdentity, SettleOptions, Settled, settle};
pub use totals::Totals;
