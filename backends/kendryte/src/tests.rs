//! Tests of the crate.

mod build;
mod damage;
mod format;
mod fuzz;
mod later;
mod layers;
mod plain;
mod quantize;
mod region;
mod rounding;
mod runtime;
mod vectors;
