//! Tests of the crate.

mod build;
mod damage;
mod format;
mod fuzz;
mod layers;
mod plain;
mod quantize;
mod region;
mod runtime;
mod vectors;
