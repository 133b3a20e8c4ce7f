//! The kernels of the backend `cutlass`, compiled by NVIDIA's compiler on a machine without a GPU: that they compile,
//! what they use, which instructions they are, and what is in the code of a region. Nothing is run.

mod region;

use std::process::{Command, ExitCode};

use byoc_cutlass::all_kernels::all_kernels;
use byoc_nvidia::compile::{Arch, CubinInfo};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places, sample};

use crate::cubins::{compile, instructions};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![trial("kinds_on_sm_80", || kinds("sm_80")), trial("kinds_on_sm_90a", || kinds("sm_90a"))];
    let long = [trial("sm_90_has_no_wgmma", sm_90_has_no_wgmma), trial("the_code_of_a_region", the_code_of_a_region)];
    trials.extend(sample::every(2, long));
    trials
}

/// What a process does that these tests start.
pub(crate) fn child() -> Option<ExitCode> {
    std::env::var_os(region::CHILD)?;
    region::checks();
    Some(ExitCode::SUCCESS)
}

fn arch(text: &str) -> Arch {
    text.parse().expect("it is one")
}

/// A sample of the kinds. What a launch is told is what the cubin says; no kernel has an array or a value in memory for which there are no
/// registers; and those for sm_90a multiply and copy by its own instructions.
fn kinds(on: &str) -> Needed<()> {
    for kind in sample::every(4, all_kernels(arch(on)).expect("they can be generated")) {
        let name = &kind.source.name;
        let cubin = compile(&kind.source, arch(on))?;
        let launches = kind.launches(&cubin).unwrap_or_else(|error| panic!("{name} on {on}: {error:?}"));
        let info = CubinInfo::of(&cubin).expect("it is a cubin");
        assert_eq!(info.kernels().len(), launches.len(), "{name} on {on}");
        let most = if on == "sm_80" { 163 << 10 } else { 227 << 10 };
        for launch in &launches {
            let kernel = info.kernel_named(&launch.kernel).expect("it has the kernel");
            assert_eq!((kernel.local, kernel.shared), (0, 0), "{name} on {on}: {kernel:?}");
            assert!(kernel.registers * launch.block[0] <= 65536, "{name} on {on}: {kernel:?}");
            assert!(launch.shared <= most, "{name} on {on}: {launch:?}");
            let code = instructions(&cubin, &launch.kernel)?;
            let by_wgmma = launch.arguments.iter().any(|argument| format!("{argument:?}").starts_with("TensorMap"));
            let has = |word: &str| code.contains(word);
            assert_eq!((has("HGMMA"), has("UTMALDG")), (by_wgmma, by_wgmma), "{name} on {on}: {}", launch.kernel);
            assert_eq!(has("HMMA."), !by_wgmma, "{name} on {on}: {}", launch.kernel);
            assert!(!has(" LDL") && !has(" STL"), "{name} on {on}: {}", launch.kernel);
        }
    }
    Ok(())
}

/// In a process of its own, whose environment says where the compiler is.
fn the_code_of_a_region() -> Needed<()> {
    let (nvidia, scratch) = (data::nvidia()?, places::temporary());
    let packages = nvidia.ancestors().nth(4).expect("packages lie within their environment");
    let mut command = Command::new(std::env::current_exe().expect("the running program has a path"));
    command.env(region::CHILD, "1").env("VIRTUAL_ENV", packages).env("BYOC_CACHE_DIR", scratch.path());
    let output = command.output().expect("the running program can be started again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
/// Without the letter, NVRTC compiles the same source for Hopper without an error, and the code has no `wgmma`.
fn sm_90_has_no_wgmma() -> Needed<()> {
    let kind = all_kernels(arch("sm_90a")).expect("they can be generated").swap_remove(1);
    assert_eq!(kind.source.name, "bf16");
    let cubin = compile(&kind.source, arch("sm_90"))?;
    assert!(!instructions(&cubin, "k0")?.contains("HGMMA"));
    Ok(())
}
