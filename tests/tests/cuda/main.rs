//! The backends for NVIDIA's GPUs on a machine without one: kernels are compiled by NVIDIA's compiler, and run on stand-ins
//! for its libraries.

#[macro_use]
extern crate byoc_tests_macros;

mod cubins;
mod cublas;
mod end_to_end;
mod errors;
mod fused_kernels;
mod nvrtc;
mod operator_kernels;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    // A test does a part in a process of its own, which is this program with something in its environment.
    if let Some(code) = nvrtc::child() {
        return code;
    }
    trial::run(&[
        ("cublas", cublas::trials),
        ("end_to_end", end_to_end::trials),
        ("fused_kernels", fused_kernels::trials),
        ("nvrtc", nvrtc::trials),
        ("operator_kernels", operator_kernels::trials),
    ])
}
