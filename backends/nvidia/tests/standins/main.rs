//! Unmodified cudarc against stand-ins for NVIDIA's libraries (`backends/nvidia/standins`), each case in a process of its
//! own: which libraries a process uses is settled once, when it first opens them.
//!
//! It shows that libraries are found, checked and refused as documented, that contexts, memory, streams and graphs are
//! used in balance, that domains do what they promise, that the calls describe the right products, and that programs of
//! kernels are launched as they say, with the right numbers. What only a GPU can show is not shown here.

mod attached_domain;
mod child;
mod compile;
mod domain;
mod driver;
mod launch;
mod locate;
mod products;
mod recordings;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if let Some(action) = std::env::var_os(byoc_nvidia_standins::ACTION) {
        child::act(&action.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    let cases = locate::CASES
        .iter()
        .chain(driver::CASES)
        .chain(domain::CASES)
        .chain(recordings::CASES)
        .chain(attached_domain::CASES)
        .chain(compile::CASES)
        .chain(launch::CASES)
        .chain(products::CASES);
    let trials = cases.map(|(name, case)| {
        Trial::test(*name, || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
