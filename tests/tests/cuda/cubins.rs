//! Generated kernels as machine code of NVIDIA's compiler, which may be anywhere, and what is in it.

use std::process::Command;

use byoc_nvidia::build::Source;
use byoc_nvidia::compile::{Arch, Cache, Request, Toolchain};
use byoc_nvidia::locate::{CudaSearchPath, SearchEntry};
use byoc_tests::trial::Needed;
use byoc_tests::{data, places};

/// The cubin. Nothing was said of the source.
pub(crate) fn compile(source: &Source, arch: Arch) -> Needed<Vec<u8>> {
    let places = CudaSearchPath::only(vec![SearchEntry::Wheels(data::nvidia()?)]);
    let toolchain = Toolchain::find(&places).expect("the packages have it");
    let Source { name, text, needs, memory } = source;
    let request = Request { name, source: text, arch, options: &[], needs: *needs, memory: *memory };
    let cubin = toolchain.compile(&request, &Cache::new(&|_| None)).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(cubin.log, "", "{name} on {arch}");
    Ok(cubin.bytes)
}

/// The machine code of a kernel, disassembled.
pub(crate) fn instructions(cubin: &[u8], kernel: &str) -> Needed<String> {
    let scratch = places::temporary();
    let file = scratch.path().join("code.cubin");
    std::fs::write(&file, cubin).expect("the folder is ours");
    let tools = data::nvidia()?.join("cu13/bin");
    let path = std::env::join_paths([tools.clone(), "/usr/bin".into(), "/bin".into()]).expect("no name has a colon");
    let mut command = Command::new(tools.join("cuobjdump"));
    let output = command.env("PATH", path).args(["-sass", "-fun", kernel]).arg(&file).output();
    let output = output.expect("the packages have it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
