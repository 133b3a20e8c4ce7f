//! What users do and get wrong, through the program itself.

#[macro_use]
extern crate byoc_tests_macros;

mod bad_input;
mod bench;
mod file_kinds;
mod first_steps;
mod full_disk;
mod inputs;
mod mistakes;
mod out_of_memory;
mod overwriting;
mod pictures;
mod profile;
mod report;
mod sequences;
mod terminal;
mod texts;
mod told;
mod verify;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[("report", report::trials)])
}
