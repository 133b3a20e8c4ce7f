//! Tests of the crate.

mod build;
mod damage;
mod format;
mod fuzz;
mod layers;
mod plain;
mod runtime;
mod vectors;
