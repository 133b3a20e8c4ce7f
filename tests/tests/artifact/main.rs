//! Artifacts as files: what is damaged, cut short or changed in them is found, and what is code in them is shown.

#[macro_use]
extern crate byoc_tests_macros;

mod code_files;
mod damaged;
mod mutated;
mod shared_code;
mod truncated;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[("mutated", mutated::trials)])
}
