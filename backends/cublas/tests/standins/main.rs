//! The backend on stand-ins for CUDA's libraries (`backends/nvidia/standins`): end-to-end runs of regions with their calls,
//! the code as text, and refusals. Cases that open libraries run in child processes.
//!
//! What only a GPU can show is not shown here: that cublasLt has algorithms for what is taken, its last bits, its speed.

mod case;
mod device;
mod products;
mod refusals;
mod runtime;
mod texts;

use std::process::ExitCode;

use byoc_plugin_api::testing::{self, RegionBuilder, Tensor};
use byoc_plugin_api::{Backend, Options};
use libtest_mimic::{Arguments, Trial};
use {byoc_cublas as _, byoc_json_backend as _};

fn main() -> ExitCode {
    if let Some(action) = std::env::var_os(byoc_nvidia_standins::ACTION) {
        let said = match &*action.to_string_lossy() {
            "products" => products::act(),
            action => runtime::act(action),
        };
        match said {
            Ok(lines) => lines.iter().for_each(|line| byoc_nvidia_standins::say(line)),
            Err(error) => {
                let (node, hint) = (error.node.unwrap_or_default(), error.hint.unwrap_or_default());
                byoc_nvidia_standins::say(&format!("{}|{node}|{hint}", error.message));
            }
        }
        return ExitCode::SUCCESS;
    }
    let cases = texts::CASES.iter().chain(refusals::CASES).chain(products::CASES).chain(runtime::CASES);
    let trials = cases.map(|(name, case)| {
        Trial::test(*name, || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The backend, as the crate registers it.
fn backend() -> &'static dyn Backend {
    testing::backend("cublas")
}

/// Its options, of both kinds, with these set.
fn options(settings: &[(&str, &str)]) -> Options {
    testing::options(backend(), settings)
}

/// The result of a region in `f64`.
fn exact(net: &RegionBuilder, inputs: &[Tensor], symbols: &[(&str, usize)]) -> Vec<f64> {
    net.exact(testing::backend("json"), &[("kernels", "reference")], inputs, symbols).remove(0)
}
