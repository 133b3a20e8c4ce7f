//! Compiles CUDA C++ to a cubin, without a GPU: by NVRTC in this process, or by nvcc if the user asks for it.
//!
//! A [`Toolchain`] is the compiler and where to search for headers; a [`Request`] is one source for one architecture.
//! Results are kept in a [`Cache`], and [`CubinInfo`] reads from a cubin what a launch needs.
//! `docs/decisions/0013-nvrtc.md` says why NVRTC runs in this process.

mod arch;
mod cache;
mod cubin_info;
mod diagnostics;
mod headers;
mod memory;
mod nvcc;
mod nvrtc;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use byoc_plugin_api::Error;

use crate::locate::{self, CudaSearchPath, Found, one_line};
pub use arch::{Arch, arches};
pub use cache::{Cache, VARIABLE as CACHE_VARIABLE};
pub use cubin_info::{CubinInfo, KernelInfo};
use headers::Headers;
pub use headers::{HeaderSet, Needs};
use nvcc::Nvcc;

/// A compiler, found, and where to look for headers.
#[derive(Clone, Debug)]
pub struct Toolchain {
    compiler: Compiler,
    numbers: Vec<u32>,
    search_path: CudaSearchPath,
}

/// The compiler.
#[derive(Clone, Debug)]
enum Compiler {
    /// The library, opened.
    Nvrtc(Found),
    /// The program.
    Nvcc(Nvcc),
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compiler::Nvrtc(found) => found.fmt(f),
            Compiler::Nvcc(nvcc) => nvcc.fmt(f),
        }
    }
}

/// One source to be compiled for one architecture. It is CUDA C++17 with `NDEBUG` defined, without which ptxas may
/// serialise `wgmma`. The current folder is not searched for headers.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its name for messages, such as the symbol of its kernel.
    pub name: &'a str,
    /// The source. Only headers of `needs` are found.
    pub source: &'a str,
    /// The target architecture.
    pub arch: Arch,
    /// Options of NVRTC beyond those that every source gets, such as `-DTILE=128` or `--fmad=false`.
    pub options: &'a [&'a str],
    /// The headers that it includes.
    pub needs: Needs,
    /// Bytes of memory that the compilation needs, as measured for its kind; 0 if that is little. If they are not available,
    /// the answer is an error instead of a process that is killed.
    pub memory: u64,
}

/// A compiled source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The machine code: an ELF file. The same request gives the same bytes.
    pub bytes: Vec<u8>,
    /// What NVRTC said, as a rule nothing.
    pub log: String,
}

/// Locked while NVRTC compiles. Its front end, which takes most of the time, is serial anyway, while the memory of
/// concurrent compilations would add up.
static COMPILING: Mutex<()> = Mutex::new(());

impl Toolchain {
    /// Opens NVRTC. Headers are looked for when a request needs them.
    ///
    /// # Errors
    ///
    /// Those of [`locate::nvrtc`].
    pub fn find(search_path: &CudaSearchPath) -> Result<Toolchain, Error> {
        let nvrtc = locate::nvrtc(search_path)?;
        let numbers = nvrtc::supported(&nvrtc)?;
        Ok(Toolchain { compiler: Compiler::Nvrtc(nvrtc), numbers, search_path: search_path.clone() })
    }

    /// Finds nvcc in place of NVRTC: where libraries are looked for, beside them, and in `PATH`.
    ///
    /// # Errors
    ///
    /// When there is none, or it does not report its version.
    pub fn find_nvcc(search_path: &CudaSearchPath) -> Result<Toolchain, Error> {
        let nvcc = Nvcc::find(search_path)?;
        let numbers = nvcc.numbers.clone();
        Ok(Toolchain { compiler: Compiler::Nvcc(nvcc), numbers, search_path: search_path.clone() })
    }

    /// The compiler with its version and its file, for messages.
    pub fn title(&self) -> String {
        self.compiler.to_string()
    }

    /// The needed sets of headers, found or not. Without a compiler only the search path is used.
    pub fn headers_of(toolchain: Option<&Toolchain>, search_path: &CudaSearchPath, needs: Needs) -> Vec<HeaderSet> {
        headers::sets(needs, search_path, toolchain.map(Toolchain::for_headers))
    }

    fn headers(&self, needs: Needs) -> Result<Headers, Error> {
        Headers::find(needs, &self.search_path, self.for_headers())
    }

    fn for_headers(&self) -> headers::Compiler<'_> {
        let (path, major) = match &self.compiler {
            Compiler::Nvrtc(found) => (&found.path, found.version.major),
            Compiler::Nvcc(nvcc) => (&nvcc.path, nvcc.version.major),
        };
        headers::Compiler { path, major }
    }

    /// Checks that the compiler knows an architecture.
    ///
    /// # Errors
    ///
    /// When it does not, with those that it compiles for.
    pub fn check_arch(&self, arch: Arch) -> Result<(), Error> {
        if self.numbers.contains(&arch.number()) {
            return Ok(());
        }
        let known: Vec<_> = self.numbers.iter().map(|number| format!("sm_{number}")).collect();
        let error = one_line(format!("{} does not compile for {arch}", self.compiler));
        Err(error.hint(format!("It compiles for {}", known.join(", "))))
    }

    /// Compiles a source, or takes the result from the cache.
    ///
    /// # Errors
    ///
    /// When NVRTC does not know the architecture or the options, when headers or memory are missing, and when the
    /// source has errors: the first of them, and the file in which source and log are kept.
    pub fn compile(&self, request: &Request<'_>, cache: &Cache) -> Result<Cubin, Error> {
        self.check_arch(request.arch)?;
        let headers = self.headers(request.needs)?;
        let options = self.options(request);
        let key = self.key(request, &options, &headers);
        cache.get(&key, || self.run(request, options, &headers, &|log| cache.keep_failed(&key, request, log)))
    }

    /// The options for every source, but for the paths of headers.
    fn options(&self, request: &Request<'_>) -> Vec<String> {
        let mut options = vec!["-std=c++17".to_owned(), "-DNDEBUG".into()];
        if let Compiler::Nvrtc(_) = self.compiler {
            options.insert(0, format!("--gpu-architecture={}", request.arch));
            if request.needs.cutlass {
                // CUTLASS has constexpr functions that do not say that they are for the device, and variables that are not used.
                options.extend(["-default-device", "-diag-suppress=177"].map(String::from));
            }
        }
        options.extend(request.options.iter().map(|option| (*option).to_owned()));
        options
    }

    /// A digest of everything that the result depends on. NVRTC's file size stands in for the patch level that it lacks.
    fn key(&self, request: &Request<'_>, options: &[String], headers: &Headers) -> String {
        let compiler = match &self.compiler {
            Compiler::Nvrtc(found) => {
                format!("{} {}", found.version, std::fs::metadata(&found.path).map_or(0, |data| data.len()))
            }
            Compiler::Nvcc(nvcc) => format!("nvcc {} for {}", nvcc.told, request.arch),
        };
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        part(b"byoc cubin 1");
        part(compiler.as_bytes());
        part(&(options.len() as u64).to_le_bytes());
        options.iter().for_each(|option| part(option.as_bytes()));
        headers.digests().for_each(&mut part);
        part(request.name.as_bytes());
        part(request.source.as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    fn run(
        &self,
        request: &Request<'_>,
        mut options: Vec<String>,
        headers: &Headers,
        keep: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Cubin, Error> {
        let what = format!("compiling {} for {}", request.name, request.arch);
        options.extend(headers.folders().map(|folder| format!("-I{}", folder.display())));
        let compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        memory::check(&what, request.memory)?;
        let name = file_name(request.name);
        let outcome = match &self.compiler {
            Compiler::Nvrtc(_) => nvrtc::compile(request.source, &name, &options),
            Compiler::Nvcc(nvcc) => nvcc.compile(request.source, &name, request.arch, &options),
        };
        nvrtc::give_memory_back();
        drop(compiling);
        match outcome {
            Ok(cubin) => Ok(cubin),
            Err(failure) if failure.is_out_of_memory() => Err(memory::ran_out(&what)),
            Err(failure) => Err(diagnostics::error(&what, request.source, &failure, keep(&failure.log))),
        }
    }
}

/// A source's file, without a folder: what NVRTC calls it in its log.
pub(crate) fn file_name(name: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() || "_-.".contains(char) { char } else { '_' };
    format!("{}.cu", name.chars().map(plain).collect::<String>())
}
