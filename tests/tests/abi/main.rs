//! The ABI of plugins: what is frozen, its C header, the Rust interface, and plugins and hosts of different ages.

#[macro_use]
extern crate byoc_tests_macros;

mod header;
mod layout;
mod rust_interface;
mod versions;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[("versions", versions::trials)])
}
