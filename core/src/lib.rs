//! placeholder
pub mod constants;
pub mod diagnostic;
pub mod ir;
pub mod ops;
