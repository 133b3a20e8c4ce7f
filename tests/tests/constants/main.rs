//! Where the bytes of constants are: each is stored once, folded or not, in the artifact or in the model's own files, and can be
//! swapped.

#[macro_use]
extern crate byoc_tests_macros;

mod each_once;
mod external;
mod folding;
mod swap;
mod variants;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[("each_once", each_once::trials)])
}
