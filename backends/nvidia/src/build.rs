//! Compiles the sources of a backend that generates CUDA C++, by the options that these backends have in common.

use std::path::{Path, PathBuf};

use byoc_plugin_api::{Error, OptionSpec, Options};

use crate::compile::{Arch, Cache, Cubin, Needs, Request, Toolchain, arches, file_name};
use crate::locate::CudaSearchPath;
use crate::program::Launch;

/// The oldest architecture that kernels are written for: it has `mma.sync` of 16 bits and of TF32, bf16 and `cp.async`.
/// CUTLASS's templates compile for older ones as well, to kernels that only trap.
const OLDEST: u32 = 80;

/// The option that lists the target architectures.
pub const ARCH: &str = "arch";
/// The option that names a folder for the generated sources.
pub const KEEP_SOURCES: &str = "keep-sources";
/// The option that names the compiler.
pub const COMPILER: &str = "compiler";
/// The option that says where CUDA's libraries are.
pub const LIBRARY_PATH: &str = "library-path";

/// The options that affect the generated code.
pub fn options() -> Vec<OptionSpec> {
    vec![
        OptionSpec::text(ARCH, "sm_80,sm_90a", "Architectures to make code for, such as sm_80 or sm_90a"),
        OptionSpec::choice(COMPILER, &["nvrtc", "nvcc"], "What compiles the generated CUDA C++"),
    ]
}

/// The options that describe the machine.
pub fn run_options() -> Vec<OptionSpec> {
    vec![
        OptionSpec::text(LIBRARY_PATH, "", "Folder with CUDA's libraries and headers, searched first"),
        OptionSpec::text(KEEP_SOURCES, "", "Folder to write the generated CUDA C++ to when a model is compiled"),
    ]
}

/// The beginning of every generated source: 16-bit types with their conversions, and warp shuffles.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// A kernel as CUDA C++, and its launch. The launch names cubin 0: the caller sets the index.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedKernel {
    /// One `extern "C" __global__` function with its helpers. It needs [`PRELUDE`] before it.
    pub text: String,
    /// How it is launched.
    pub launch: Launch,
}

/// Where to search for CUDA's libraries and headers: the user's folder, then the environment.
pub fn search_path(options: &Options) -> CudaSearchPath {
    CudaSearchPath::of_process(Some(Path::new(options.text(LIBRARY_PATH))))
}

/// A generated source, for any architecture.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name: letters, digits and `_`. Equal for regions that compute the same.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The headers that it includes.
    pub needs: Needs,
    /// Bytes of memory that its compilation needs, as measured for its kind; 0 if that is little.
    pub memory: u64,
}

/// A compiler with the options of a backend.
pub struct Build {
    toolchain: Toolchain,
    cache: Cache,
    arches: Vec<Arch>,
    keep: Option<PathBuf>,
}

impl Build {
    /// Finds the compiler.
    ///
    /// # Errors
    ///
    /// When there is none, and when it or the kernels do not support an architecture.
    pub fn new(options: &Options) -> Result<Build, Error> {
        let arches = arches(options.text(ARCH))?;
        if let Some(old) = arches.iter().find(|arch| arch.number() < OLDEST) {
            let error = Error::new(format!("kernels are not written for {old}"));
            return Err(
                error.hint(format!("They are for sm_{OLDEST} and newer: leave {old} out of the option '{ARCH}'"))
            );
        }
        let search_path = search_path(options);
        let toolchain = match options.text(COMPILER) {
            "nvcc" => Toolchain::find_nvcc(&search_path)?,
            _ => Toolchain::find(&search_path)?,
        };
        arches.iter().try_for_each(|&arch| toolchain.check_arch(arch))?;
        let keep = Some(options.text(KEEP_SOURCES)).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        Ok(Build { toolchain, cache: Cache::of_process(), arches, keep })
    }

    /// The target architectures.
    pub fn arches(&self) -> &[Arch] {
        &self.arches
    }

    /// Compiles a source for one of the architectures.
    ///
    /// # Errors
    ///
    /// Those of [`Toolchain::compile`], and when the source cannot be written to the user's folder.
    pub fn cubin(&self, source: &Source, arch: Arch) -> Result<Cubin, Error> {
        if let Some(folder) = &self.keep {
            keep(folder, source, arch)?;
        }
        let Source { name, text, needs, memory } = source;
        let request = Request { name, source: text, arch, options: &[], needs: *needs, memory: *memory };
        self.toolchain.compile(&request, &self.cache)
    }
}

/// Writes a source to the user's folder. The file name has a digest, as sources of one name differ.
fn keep(folder: &Path, source: &Source, arch: Arch) -> Result<(), Error> {
    let digest = blake3::hash(source.text.as_bytes()).to_hex();
    let file = folder.join(file_name(&format!("{}-{}.{arch}", source.name, &digest[..8])));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, &source.text));
    written.map_err(|cause| Error::new(format!("the source '{}' cannot be written: {cause}", file.display())))
}
