//! The sources that the backend `cuda` writes for typical regions, compiled by NVIDIA's compiler, a sample of them and of the
//! architectures: no kernel has values in local memory. What they compute is shown by the backend's own tests. Nothing is run.

use std::fs;

use byoc_nvidia::build::PRELUDE;
use byoc_nvidia::compile::{Arch, Cache, CubinInfo, Needs, Request, Toolchain};
use byoc_nvidia::locate::{CudaSearchPath, SearchEntry};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places, sample};

use crate::cubins;

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
    let arches = ["sm_80", "sm_90a"].map(|arch| arch.parse::<Arch>().expect("it is one"));
    let all = sources.into_iter().flat_map(|name| arches.map(|arch| (name.clone(), arch)));
    for (name, arch) in sample::every(3, all) {
        let kernels = fs::read_to_string(backend.join("tests/sources").join(&name)).expect("it is a file");
        let source = format!("{PRELUDE}\n{helpers}\n{kernels}");
        let request = Request { name: &name, source: &source, arch, options: &[], needs: Needs::default(), memory: 0 };
        let cubin = toolchain.compile(&request, &Cache::new(&|_| None)).expect("it compiles");
        assert_eq!(cubin.log, "", "{name} for {arch}");
        let info = CubinInfo::of(&cubin.bytes).expect("it is a cubin");
        if arch.number() >= 90 {
            waits_first(&cubin.bytes, &info, &name)?;
        }
        // CUDA's functions of angles have some, for arguments beyond 10^5.
        let is_angle = |kernel: &&str| ["Sin.", "Cos."].iter().any(|start| kernel.starts_with(start));
        let each = kernels.split("\n\n// ").map(|kernel| kernel.trim_start_matches("// "));
        let plain = each.filter(|kernel| !is_angle(kernel));
        let symbols: Vec<_> = plain.filter_map(symbol).collect();
        assert!(!symbols.is_empty(), "{name}");
        for symbol in symbols {
            let kernel = info.kernel_named(symbol).expect("it has the kernel");
            // Of a kernel with two bodies, for indices of 32 and of 64 bits, the compiler keeps up to four values there.
            let two_bodies = kernels.contains(&format!("{symbol}_parts::body<int>"));
            if kernel.local > if two_bodies { 16 } else { 0 } {
                spilled.push(format!("{symbol} of {name} for {arch}: {}", kernel.local));
            }
        }
    }
    assert!(spilled.is_empty(), "{spilled:#?}");
    Ok(())
}

/// A kernel touches no memory of others before it has waited for those in front of it.
fn waits_first(cubin: &[u8], info: &CubinInfo<'_>, source: &str) -> Needed<()> {
    for kernel in info.kernels() {
        let code = cubins::instructions(cubin, &kernel.name)?;
        let (before, _) =
            code.split_once("ACQBULK").unwrap_or_else(|| panic!("{} of {source} does not wait", kernel.name));
        for word in ["LDG", "STG", "ATOM", "RED"] {
            assert!(!before.contains(word), "{} of {source}: {word} before the wait", kernel.name);
        }
    }
    Ok(())
}

/// The name behind the comment and `void __launch_bounds__(128) k0(...`.
fn symbol(text: &str) -> Option<&str> {
    text.split_once("__launch_bounds__(")?.1.split_once(") ")?.1.split_once('(').map(|(symbol, _)| symbol)
}
