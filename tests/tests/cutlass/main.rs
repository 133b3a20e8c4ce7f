//! The kernels of the backend `cutlass`, compiled by NVIDIA's compiler on a machine without a GPU. Not with those of `cuda`:
//! a program links one plugin at most.

mod convolutions;
#[path = "../cuda/cubins.rs"]
mod cubins;
mod kernels;
mod placement;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    // Tests do a part in a process of its own, which is this program with something in its environment.
    if let Some(code) = kernels::child().or_else(convolutions::child) {
        return code;
    }
    trial::run(&[
        ("convolutions", convolutions::trials),
        ("kernels", kernels::trials),
        ("placement", placement::trials),
    ])
}
