//! The run tower: opens an artifact's entry, binds every region to its backend, and runs it.

mod bind;
mod open;
mod plan;
mod session;

pub use open::{Opened, open_file, open_region};
pub use session::{LoadOptions, PortInfo, RegionTime, Session};
