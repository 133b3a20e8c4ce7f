//! CUDA C++ to cubins by NVIDIA's compiler, on a machine without a GPU: what comes out, what it says of itself, and what is
//! said of sources that do not compile. Nothing is run.

mod sources;

use std::fs;
use std::process::{Command, ExitCode};

use byoc_nvidia::compile::{Arch, Cache, CubinInfo, KernelInfo, Needs, Request, Toolchain};
use byoc_nvidia::locate::{CudaSearchPath, SearchEntry};
use byoc_plugin_api::Error;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places};

/// Set in processes that these tests start: MiB that the process may take, and those that the request asks for.
const MEMORY: &str = "NVRTC_TEST_MEMORY";

const MIB: u64 = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_plain_kernel", || a_plain_kernel(&toolchain()?)),
        trial("facts_are_those_of_ptxas", || facts_are_those_of_ptxas(&toolchain()?)),
        trial("half_precision", || half_precision(&toolchain()?)),
        trial("cutlass", || cutlass(&toolchain()?)),
        trial("the_cache_is_used", || the_cache_is_used(&toolchain()?)),
        trial("sources_with_errors", || sources_with_errors(&toolchain()?)),
        trial("the_current_folder_is_not_searched", || the_current_folder_is_not_searched(&toolchain()?)),
        trial("architectures", || architectures(&toolchain()?)),
        trial("too_little_memory", too_little_memory),
    ]
}

/// What a process does that these tests start.
pub(crate) fn child() -> Option<ExitCode> {
    std::env::var(MEMORY).ok().map(|memory| with_little_memory(&memory))
}

/// The compiler of the packages, wherever else one may be.
fn toolchain() -> Needed<Toolchain> {
    let places = CudaSearchPath::only(vec![SearchEntry::Wheels(data::nvidia()?)]);
    Ok(Toolchain::find(&places).expect("the packages have it"))
}

fn none() -> Cache {
    Cache::new(&|_| None)
}

fn arch(text: &str) -> Arch {
    text.parse().expect("it is one")
}

/// A request without headers and options, for `sm_80`.
fn request<'a>(name: &'a str, source: &'a str) -> Request<'a> {
    Request { name, source, arch: arch("sm_80"), options: &[], needs: Needs::default(), memory: 0 }
}

fn told(result: Result<impl Sized, Error>) -> String {
    let told = |error: Error| format!("{} ({})", error.message, error.hint.unwrap_or_default());
    result.map_or_else(told, |_| "compiled".into())
}

fn a_plain_kernel(toolchain: &Toolchain) -> Needed<()> {
    for text in ["sm_80", "sm_90a"] {
        let request = Request { arch: arch(text), ..request("plain", sources::PLAIN) };
        let cubin = toolchain.compile(&request, &none()).expect("it compiles");
        assert_eq!(cubin.log, "");
        let info = CubinInfo::of(&cubin.bytes).expect("it is a cubin");
        let kernel = info.kernel_named("k_plain").expect("it has the kernel");
        assert_eq!((kernel.local, kernel.shared, kernel.arguments), (0, 0, 12), "{text}");
        assert!(kernel.registers > 0, "{text}");
        assert_eq!(info.words("k_launch_info"), Some(vec![7, -8, 9]), "{text}");
        assert_eq!(info.words("k_none"), None);
        assert_eq!(toolchain.compile(&request, &none()), Ok(cubin), "the same bytes");
    }
    Ok(())
}

/// What ptxas says when it is asked: the same as what is read from the cubin.
fn facts_are_those_of_ptxas(toolchain: &Toolchain) -> Needed<()> {
    for text in ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"] {
        let options = ["--ptxas-options=-v"];
        let request = Request { arch: arch(text), options: &options, ..request("busy", sources::BUSY) };
        let cubin = toolchain.compile(&request, &none()).expect("it compiles");
        let kernel = |name| CubinInfo::of(&cubin.bytes).ok()?.kernel_named(name);
        let busy = kernel("k_busy").expect("it has the kernel");
        let number = |unit: &str| -> u64 {
            let before = cubin.log.split(unit).next().filter(|before| before.len() < cubin.log.len());
            let word = before.and_then(|before| before.split_whitespace().last());
            word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no{unit} in {}", cubin.log))
        };
        assert_eq!(u64::from(busy.registers), number(" registers"), "{text}");
        assert_eq!(u64::from(busy.local), number(" bytes cumulative stack size"), "{text}");
        assert_eq!(busy.shared, number(" bytes smem"), "{text}");
        assert_eq!((busy.local, busy.shared), (256, 40), "{text}");
        assert_eq!(kernel("called"), None, "a function that is not a kernel");
    }
    Ok(())
}

fn half_precision(toolchain: &Toolchain) -> Needed<()> {
    let needs = Needs { half: true, ..Needs::default() };
    let said = told(toolchain.compile(&request("half", sources::HALF), &none()));
    assert!(said.starts_with("compiling half for sm_80: could not open source file \"cuda_fp16.h\""), "{said}");
    let cubin = toolchain.compile(&Request { needs, ..request("half", sources::HALF) }, &none()).expect("it compiles");
    let kernel =
        CubinInfo::of(&cubin.bytes).ok().and_then(|info| info.kernel_named("k_half")).expect("it has the kernel");
    assert_eq!((kernel.local, kernel.shared, kernel.arguments), (0, 0, 8));
    Ok(())
}

fn cutlass(toolchain: &Toolchain) -> Needed<()> {
    let needs = Needs { cutlass: true, ..Needs::default() };
    let request = Request { needs, memory: 400 * MIB, ..request("gemm", sources::CUTLASS) };
    let cubin = toolchain.compile(&request, &none()).expect("it compiles");
    let info = CubinInfo::of(&cubin.bytes).expect("it is a cubin");
    let KernelInfo { local, arguments, .. } = info.kernel_named("k_gemm").expect("it has the kernel");
    // Four pointers and three sizes; and nothing was spilled.
    assert_eq!((local, arguments), (0, 4 * 8 + 3 * 4));
    let [threads, shared, tile @ ..] = &info.words("k_launch_info").expect("it has the info")[..] else {
        panic!("no info")
    };
    // Four warps, and four stages of both tiles in half precision.
    assert_eq!((*threads, *shared, tile), (128, 4 * (128 + 128) * 32 * 2, [128, 128, 32].as_slice()));
    Ok(())
}

fn the_cache_is_used(toolchain: &Toolchain) -> Needed<()> {
    let scratch = places::temporary();
    let cache = Cache::at(scratch.path(), MIB);
    let files = || places::list(scratch.path());
    let first = toolchain.compile(&request("plain", sources::PLAIN), &cache).expect("it compiles");
    assert_eq!(files().len(), 1);
    assert_eq!(toolchain.compile(&request("plain", sources::PLAIN), &cache), Ok(first.clone()));
    assert_eq!(files().len(), 1);
    // All that changes the result is part of the key.
    let (options, needs) = (["-DOTHER"], Needs { half: true, ..Needs::default() });
    let others = [
        Request { options: &options, ..request("plain", sources::PLAIN) },
        Request { needs, ..request("plain", sources::PLAIN) },
        Request { arch: arch("sm_90a"), ..request("plain", sources::PLAIN) },
        request("plain", sources::BUSY),
    ];
    for (count, other) in others.iter().enumerate() {
        toolchain.compile(other, &cache).expect("it compiles");
        assert_eq!(files().len(), count + 2, "{other:?}");
    }
    Ok(())
}

fn sources_with_errors(toolchain: &Toolchain) -> Needed<()> {
    let scratch = places::temporary();
    let cache = Cache::at(scratch.path(), MIB);
    let source = "extern \"C\" __global__ void k(float *p) {\n    float a = 1\n    p[0] = a;\n}\n";
    let error = toolchain.compile(&request("k<wrong>", source), &cache).expect_err("it has an error");
    assert_eq!(error.message, "compiling k<wrong> for sm_80: expected a \";\" (line 3: p[0] = a;)");
    let kept = places::list(&scratch.path().join("failed"));
    let [code, log] = &kept[..] else { panic!("{kept:?}") };
    let path = scratch.path().join("failed").join(code);
    assert!(code.ends_with("-k_wrong_.cu") && log.ends_with("-k_wrong_.log"), "{kept:?}");
    let hint = format!("The source is in {}, and all that NVRTC said beside it", path.display());
    assert_eq!(error.hint, Some(hint));
    assert_eq!(fs::read_to_string(&path).expect("it is kept"), source);
    assert!(fs::read_to_string(path.with_extension("log")).expect("it is kept").contains("k_wrong_.cu(3): error"));

    let options = ["--bogus"];
    let said = told(toolchain.compile(&Request { options: &options, ..request("k", sources::PLAIN) }, &none()));
    assert_eq!(said, "compiling k for sm_80: unrecognized option --bogus found ()");
    let said = told(toolchain.compile(&request("k", "int\0x;"), &none()));
    assert_eq!(said, "compiling k for sm_80: it holds a NUL character ()");
    let much = "extern \"C\" __global__ void k(float *p) { __shared__ float a[99999]; a[threadIdx.x] = p[0]; \
                __syncthreads(); p[1] = a[3]; }";
    let said = told(toolchain.compile(&request("k", much), &none()));
    let cause = "Entry function 'k' uses too much shared data (0x61a7c bytes, 0xc000 max)";
    assert_eq!(said, format!("compiling k for sm_80: {cause} ()"));
    Ok(())
}

/// Cargo runs tests in the folder of their package, where `Cargo.toml` lies.
fn the_current_folder_is_not_searched(toolchain: &Toolchain) -> Needed<()> {
    assert!(fs::exists("Cargo.toml").expect("it can be looked for"));
    let said = told(toolchain.compile(&request("k", "#include \"Cargo.toml\"\n"), &none()));
    let cause = "cannot open source file \"Cargo.toml\" (line 1: #include \"Cargo.toml\")";
    assert_eq!(said, format!("compiling k for sm_80: {cause} ()"));
    Ok(())
}

fn architectures(toolchain: &Toolchain) -> Needed<()> {
    assert_eq!(toolchain.check_arch(arch("sm_90a")), Ok(()));
    let known = "sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121";
    let expected = format!("{} does not compile for sm_70 (It compiles for {known})", toolchain.title());
    assert_eq!(told(toolchain.check_arch(arch("sm_70"))), expected);
    let request = Request { arch: arch("sm_70"), ..request("plain", sources::PLAIN) };
    assert_eq!(told(toolchain.compile(&request, &none())), expected);
    Ok(())
}

fn too_little_memory() -> Needed<()> {
    data::nvidia()?;
    let said = |memory: &str| {
        let mut command = Command::new(std::env::current_exe().expect("the running program has a path"));
        let output = command.env(MEMORY, memory).output().expect("the running program can be started again");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let raise = "(Raise --plugin-memory)";
    assert_eq!(said("120 0"), format!("compiling gemm for sm_80 took more than 120 MiB of memory {raise}"));
    let refused = said("200 400");
    let start = "compiling gemm for sm_80 takes about 400 MiB of memory, and this process may take ";
    let rest = refused.strip_prefix(start).unwrap_or_else(|| panic!("{refused}"));
    let left: u64 = rest.strip_suffix(&format!(" MiB more {raise}")).and_then(|left| left.parse().ok()).expect(rest);
    assert!(left < 200, "{refused}");
    Ok(())
}

/// Compiles the source of CUTLASS with a limit, and prints what became of it.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn with_little_memory(memory: &str) -> ExitCode {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let (most, asked) = memory.split_once(' ').expect("the parent says both");
    let bytes = |mib: &str| mib.parse::<u64>().expect("the parent says numbers") * MIB;
    let toolchain = toolchain().expect("the parent has made it");
    let most = Some(bytes(most));
    setrlimit(Resource::Data, Rlimit { current: most, maximum: most }).expect("it may be lowered");
    let needs = Needs { cutlass: true, ..Needs::default() };
    let request = Request { needs, memory: bytes(asked), ..request("gemm", sources::CUTLASS) };
    println!("{}", told(toolchain.compile(&request, &none())));
    ExitCode::SUCCESS
}
