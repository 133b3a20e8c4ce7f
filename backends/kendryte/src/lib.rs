//! The Kendryte K210 backend: so far the kmodel v3 file (read, written, checked) and a simulator of it. Patterns,
//! quantisation and code generation are to come; until then no backend is registered.

pub mod kmodel;
pub mod runtime;
pub mod simulator;
#[cfg(test)]
mod tests;
