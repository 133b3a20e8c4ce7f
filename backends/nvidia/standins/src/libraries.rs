//! Builds the stand-ins as ordinary shared libraries.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// A folder with the stand-ins of the driver and of cublasLt, built once.
static BOTH: LazyLock<PathBuf> = LazyLock::new(|| {
    kept("both", &|folder| {
        build(folder, "libcuda", "libcuda.so.1", &[]);
        build(folder, "libcublasLt", "libcublasLt.so.13", &[]);
    })
});

/// The same, and the compiler.
static ALL: LazyLock<PathBuf> = LazyLock::new(|| {
    kept("all", &|folder| {
        for file in ["libcuda.so.1", "libcublasLt.so.13"] {
            copy(&both().join(file), &folder.join(file));
        }
        build(folder, "libnvrtc", "libnvrtc.so.13", &[]);
    })
});

/// The same, and headers.
static CUTLASS: LazyLock<PathBuf> = LazyLock::new(|| {
    kept("cutlass", &|folder| {
        for file in ["libcuda.so.1", "libcublasLt.so.13", "libnvrtc.so.13"] {
            copy(&all().join(file), &folder.join(file));
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("cutlass");
        for file in OWN_HEADERS {
            copy(&own.join(file), &folder.join("include").join(file));
        }
        let written = |file: &str, text: &str| {
            let path = folder.join("include").join(file);
            std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder is ours");
            std::fs::write(path, text).expect("the folder is ours");
        };
        OTHER_HEADERS.iter().for_each(|file| written(file, "#include \"cutlass/cutlass.h\"\n"));
        EMPTY_HEADERS.iter().for_each(|file| written(file, ""));
    })
});

/// The headers in place of CUTLASS's.
const OWN_HEADERS: [&str; 4] = [
    "cutlass/cutlass.h",
    "cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h",
    "cutlass/epilogue/threadblock/default_epilogue_with_broadcast.h",
    "cutlass/gemm/threadblock/default_mma.h",
];

/// Headers that sources include, for what `cutlass.h` has here.
const OTHER_HEADERS: [&str; 7] = [
    "cutlass/arch/memory.h",
    "cutlass/array.h",
    "cutlass/epilogue/threadblock/default_epilogue_simt.h",
    "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h",
    "cutlass/layout/matrix.h",
    "cutlass/numeric_conversion.h",
    "cutlass/numeric_types.h",
];

/// Headers that have to be there, as CUTLASS includes them.
const EMPTY_HEADERS: [&str; 4] = ["crt/mma.h", "cuda/std/cstddef", "cuda_fp16.h", "cutlass/version.h"];

/// A folder in that of the build, filled by `fill` where it is not there yet. Its name changes with the sources.
fn kept(name: &str, fill: &dyn Fn(&Path)) -> PathBuf {
    let program = std::env::current_exe().expect("the running program has a path");
    let root = program.ancestors().nth(2).expect("cargo puts tests into a folder of their own");
    let folder = root.join(format!("standins-{name}-{:016x}", digest()));
    if !folder.is_dir() {
        let scratch = tempfile::tempdir_in(root).expect("the build folder can be written");
        fill(scratch.path());
        // Another process may have been faster; what it has built is the same.
        let _ = std::fs::rename(scratch.keep(), &folder);
    }
    assert!(folder.is_dir(), "there is no {}", folder.display());
    folder
}

/// Of all sources.
fn digest() -> u64 {
    let mut hasher = DefaultHasher::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for source in ["libcuda", "libcublasLt", "libnvrtc", "cpu"] {
        let entries = std::fs::read_dir(here.join(source)).expect("the stand-in is in the checkout").flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files.iter().for_each(|file| (file, std::fs::read(file).unwrap_or_default()).hash(&mut hasher));
    }
    OWN_HEADERS
        .iter()
        .for_each(|file| std::fs::read(here.join("cutlass").join(file)).unwrap_or_default().hash(&mut hasher));
    hasher.finish()
}

/// A new folder that goes away with the returned value.
pub fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// The folder with both stand-ins as they are.
pub fn both() -> &'static Path {
    &BOTH
}

/// The folder with the stand-ins of the driver, of cublasLt and of NVRTC: what one compiles another runs, on the host.
/// A cache of cubins must not outlive the test: a later build of the compiler may make something else.
pub fn all() -> &'static Path {
    &ALL
}

/// The folder with all of them, and with loops in place of those of CUTLASS's templates that sources for `sm_80` name: what
/// is compiled for a device of compute capability 8.0 (`STANDIN_CAPABILITY=80`) runs on the host.
pub fn with_cutlass() -> &'static Path {
    &CUTLASS
}

/// Builds a stand-in as `folder/file`, with that SONAME and with functions left out.
pub fn build(folder: &Path, source: &str, file: &str, left_out: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = here.join(source);
    let entries = std::fs::read_dir(&sources).expect("the stand-in is in the checkout").flatten();
    let files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("c".as_ref())).collect();
    let mut flags: Vec<_> = left_out.iter().map(|function| format!("-D{function}=left_out_{function}")).collect();
    flags.push(format!("-DSTANDIN_CPU=\"{}\"", here.join("cpu").display()));
    compile(&files, &folder.join(file), &flags)
}

/// Compiles C to a shared library, whose SONAME is its file's name.
pub fn compile(sources: &[PathBuf], library: &Path, flags: &[String]) -> PathBuf {
    let folder = library.parent().expect("a file lies in a folder");
    std::fs::create_dir_all(folder).expect("the folder is ours");
    let soname = library.file_name().expect("a file has a name").to_string_lossy();
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(flags);
    command.arg(format!("-Wl,-soname,{soname}")).arg("-o").arg(library).args(sources).args(["-pthread", "-ldl", "-lm"]);
    let output = command.output().expect("Rust links with it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library.to_owned()
}

/// Copies a built stand-in, to another folder or another name.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().expect("a file lies in a folder")).expect("the folder is ours");
    std::fs::copy(from, to).expect("the file is there");
}

/// A folder whose files keep the loader from finding libraries of the machine that the tests run on: an empty file is
/// found first, and does not open.
pub fn shield(folder: &Path) -> PathBuf {
    let shield = folder.join("shield");
    std::fs::create_dir_all(&shield).expect("the folder is ours");
    for library in ["libcuda", "libcublasLt", "libnvrtc"] {
        for end in ["", ".1", ".12", ".13"] {
            std::fs::write(shield.join(format!("{library}.so{end}")), "").expect("the folder is ours");
        }
    }
    shield
}
