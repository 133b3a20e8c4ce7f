//! The toolchain with the stand-in for NVRTC, whose output is enough like a cubin.

use byoc_nvidia::compile::{Cache, CubinInfo, Needs, Request, Toolchain};
use byoc_nvidia_standins::{FOLDER, all, tried};
use byoc_plugin_api::Error;

use crate::child::{self, refused};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[("compile::sources_for_the_host", sources_for_the_host)];

const TEXT: &str = "extern \"C\" __device__ int info[2] = {SIZE, __CUDA_ARCH__};\n\
                    extern \"C\" __global__ void __launch_bounds__(32)\nk_none(int* out0) {\n    out0[0] = info[0];\n}\n";

/// Does what a case's process was started for.
pub(crate) fn act() -> Result<Vec<String>, Error> {
    let toolchain = Toolchain::find(&child::search_path())?;
    let none = Cache::new(&|_| None);
    let compile = |source, arch: &str, options: &[&str]| {
        let arch = arch.parse()?;
        let request = Request { name: "none", source, arch, options, needs: Needs::default(), memory: 0 };
        toolchain.compile(&request, &none)
    };
    let cubin = compile(TEXT, "sm_90a", &["-DSIZE=7"])?;
    let words = |bytes: &[u8]| Ok::<_, Error>(format!("{:?}", CubinInfo::of(bytes)?.words("info")));
    let same = compile(TEXT, "sm_90a", &["-DSIZE=7"])? == cubin;
    let other = compile(TEXT, "sm_80", &["-DSIZE=7"])?;
    Ok(vec![
        words(&cubin.bytes)?,
        words(&other.bytes)?,
        format!("the same bytes: {same}, for another architecture: {}", other == cubin),
        refused(compile(TEXT, "sm_80", &[])),
        refused(compile("#include <none.h>\n", "sm_80", &[])),
        refused(compile(TEXT, "sm_70", &[])),
    ])
}

fn sources_for_the_host() {
    let folder = all().to_str().expect("a plain path");
    let (output, log) = tried("compile", &[(FOLDER, folder)]);
    let expected = [
        "Some([7, 900])",
        "Some([7, 800])",
        "the same bytes: true, for another architecture: false",
        "compiling none for sm_80: 'SIZE' was not declared in this scope \
         (line 1: extern \"C\" __device__ int info[2] = {SIZE, __CUDA_ARCH__};) ()",
        "compiling none for sm_80: none.h: No such file or directory (line 1: #include <none.h>) ()",
        &format!(
            "libnvrtc 13.0 ({folder}/libnvrtc.so.13) does not compile for sm_70 \
             (It compiles for sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120)"
        ),
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    let compiled = ["sm_90a", "sm_90a", "sm_80", "sm_80", "sm_80"].map(|arch| format!("compile none.cu for {arch}"));
    assert_eq!(log.lines().collect::<Vec<_>>(), compiled);
}
