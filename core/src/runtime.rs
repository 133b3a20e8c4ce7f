//! The run tower: opens an artifact's entry, binds every region to its backend, and runs it.

mod bind;
mod plan;
mod session;

pub use session::{LoadOptions, PortInfo, RegionTime, Session};
