//! The sources that the backend `cuda` writes for typical regions, compiled by NVIDIA's compiler for both architectures: no
//! kernel has values in local memory. What they compute is shown by the backend's own tests. Nothing is run.

use std::fs;

use byoc_nvidia::build::PRELUDE;
use byoc_nvidia::compile::{Arch, Cache, CubinInfo, Needs, Request, Toolchain};
use byoc_nvidia::locate::{CudaSearchPath, SearchEntry};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("kernels_keep_everything_in_registers", kernels_keep_everything_in_registers)]
}

fn kernels_keep_everything_in_registers() -> Needed<()> {
    let toolchain = Toolchain::find(&CudaSearchPath::only(vec![SearchEntry::Wheels(data::nvidia()?)]))
        .expect("the packages have it");
    let backend = places::checkout().join("backends/cuda/src");
    let helpers = fs::read_to_string(backend.join("helpers.cuh")).expect("it is a file");
    let sources = places::list(&backend.join("tests/sources"));
    assert_eq!(sources.len(), 12);
    let mut spilled = Vec::new();
    for name in sources {
        let kernels = fs::read_to_string(backend.join("tests/sources").join(&name)).expect("it is a file");
        let source = format!("{PRELUDE}\n{helpers}\n{kernels}");
        for arch in ["sm_80", "sm_90a"].map(|arch| arch.parse::<Arch>().expect("it is one")) {
            let request =
                Request { name: &name, source: &source, arch, options: &[], needs: Needs::default(), memory: 0 };
            let cubin = toolchain.compile(&request, &Cache::new(&|_| None)).expect("it compiles");
            assert_eq!(cubin.log, "", "{name} for {arch}");
            let info = CubinInfo::of(&cubin.bytes).expect("it is a cubin");
            // CUDA's functions of angles have some, for arguments beyond 10^5.
            let angles = ["// Sin.", "// Cos."];
            let plain = kernels.split("\n\n").filter(|kernel| !angles.iter().any(|start| kernel.starts_with(start)));
            let symbols: Vec<_> = plain.filter_map(symbol).collect();
            assert!(!symbols.is_empty(), "{name}");
            for symbol in symbols {
                let kernel = info.kernel_named(symbol).expect("it has the kernel");
                // Of a kernel with two bodies, for indices of 32 and of 64 bits, the compiler keeps a few values there
                // rather than take more than 32 registers.
                let two_bodies = kernels.contains(&format!("{symbol}_parts::body<int>"));
                if kernel.local > if two_bodies { 16 } else { 0 } {
                    spilled.push(format!("{symbol} of {name} for {arch}: {}", kernel.local));
                }
            }
        }
    }
    assert!(spilled.is_empty(), "{spilled:#?}");
    Ok(())
}

/// The name behind the comment and `void __launch_bounds__(128) k0(...`.
fn symbol(text: &str) -> Option<&str> {
    text.split_once("__launch_bounds__(")?.1.split_once(") ")?.1.split_once('(').map(|(symbol, _)| symbol)
}
