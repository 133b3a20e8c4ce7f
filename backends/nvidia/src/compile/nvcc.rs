//! Runs nvcc, NVIDIA's command-line compiler. It needs a C++ compiler of the host and takes longer than NVRTC for a small
//! source; its cubins of CUTLASS's kernels are a tenth as large.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use byoc_plugin_api::Error;

use super::nvrtc::Failure;
use super::{Arch, Cubin};
use crate::locate::{CudaSearchPath, SearchEntry, VARIABLE, Version, one_line};

/// The program, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nvcc {
    pub(super) path: PathBuf,
    pub(super) version: Version,
    /// Its output for `--version`, which has the patch level.
    pub(super) told: String,
    /// The architectures that it compiles for.
    pub(super) numbers: Vec<u32>,
}

/// What was found, by search path: nvcc runs once per process for its version, not for every region.
static KNOWN: Mutex<Vec<(CudaSearchPath, Nvcc)>> = Mutex::new(Vec::new());

impl fmt::Display for Nvcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nvcc {} ({})", self.version, self.path.display())
    }
}

impl Nvcc {
    /// Looks where CUDA's libraries may be, and in `PATH`.
    pub(super) fn find(search_path: &CudaSearchPath) -> Result<Nvcc, Error> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(at, _)| at == search_path) {
            return Ok(found.clone());
        }
        let mut found = search(search_path)?;
        found.numbers = found.supported()?;
        known.push((search_path.clone(), found.clone()));
        Ok(found)
    }

    /// The architectures that it compiles for, as numbers.
    fn supported(&self) -> Result<Vec<u32>, Error> {
        let listed = run(Command::new(&self.path).arg("--list-gpu-arch"))
            .map_err(|failure| one_line(format!("{self} does not report its architectures: {}", failure.status)))?;
        let number = |line: &str| line.trim().strip_prefix("compute_")?.parse().ok();
        Ok(listed.lines().filter_map(number).collect())
    }

    /// Compiles `source`, which the log will call `name`, in a folder of its own.
    pub(super) fn compile(&self, source: &str, name: &str, arch: Arch, options: &[String]) -> Result<Cubin, Failure> {
        let failed = |cause: std::io::Error| Failure { status: cause.to_string(), log: String::new() };
        let folder = tempfile::tempdir().map_err(failed)?;
        std::fs::write(folder.path().join(name), source).map_err(failed)?;
        let number = arch.to_string();
        let number = number.trim_start_matches("sm_");
        let mut command = Command::new(&self.path);
        command.current_dir(folder.path()).arg("-cubin").args(["--expt-relaxed-constexpr", "-o", "out.cubin"]);
        command.arg("-gencode").arg(format!("arch=compute_{number},code=sm_{number}"));
        let log = run(command.args(options).arg(name))?;
        let bytes = std::fs::read(folder.path().join("out.cubin")).map_err(failed)?;
        Ok(Cubin { bytes, log: log.trim().to_owned() })
    }
}

/// Looks for it, and asks for its version.
fn search(search_path: &CudaSearchPath) -> Result<Nvcc, Error> {
    let candidates: Vec<_> = search_path.all().iter().flat_map(candidates).collect();
    let Some(path) = candidates.iter().find(|path| path.is_file()) else {
        let looked: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        let error = one_line(format!("there is no nvcc: neither {}", looked.join(" nor ")));
        let packages =
            "nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.*";
        return Err(error.hint(format!("Try `pip install {packages}`, name its folder in {VARIABLE}, or use NVRTC")));
    };
    let told = run(Command::new(path).arg("--version"))
        .map_err(|failure| one_line(format!("{} does not report its version: {}", path.display(), failure.status)))?;
    let version =
        version(&told).ok_or_else(|| one_line(format!("{} does not report its version: {told}", path.display())))?;
    Ok(Nvcc { path: path.clone(), version, told, numbers: Vec::new() })
}

/// The files that may be nvcc, for a place of libraries.
fn candidates(place: &SearchEntry) -> Vec<PathBuf> {
    let folders = match place {
        SearchEntry::Folder(folder) => {
            let home = folder.parent().filter(|_| ["lib", "lib64"].iter().any(|name| folder.ends_with(name)));
            home.map_or_else(|| vec![folder.clone(), folder.join("bin")], |home| vec![home.join("bin")])
        }
        SearchEntry::Loader => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .filter(|folder| folder.is_absolute())
            .collect(),
        // Packages for CUDA 12 have parts of nvcc, and not the program.
        SearchEntry::Wheels(packages) => vec![packages.join("cu13/bin")],
    };
    folders.into_iter().map(|folder| folder.join("nvcc")).collect()
}

/// `... release 13.0, V13.0.88`.
fn version(told: &str) -> Option<Version> {
    let (_, rest) = told.split_once("release ")?;
    let (major, minor) = rest.split(',').next()?.trim().split_once('.')?;
    Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// What a command prints, both streams.
fn run(command: &mut Command) -> Result<String, Failure> {
    // It reads more options from these.
    let command =
        ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"].iter().fold(command, |command, name| command.env_remove(name));
    let program = Path::new(command.get_program()).file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let output = command.output();
    let output = output.map_err(|cause| Failure { status: format!("{program}: {cause}"), log: String::new() })?;
    let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() {
        Ok(log)
    } else {
        Err(Failure { status: format!("{program}: {}", output.status), log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let told = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild x\n";
        assert_eq!(version(told), Some(Version { major: 13, minor: 0 }));
        assert_eq!(version("release thirteen"), None);
    }

    #[test]
    fn without_one_it_is_said_where_it_was_looked_for() {
        let search_path =
            CudaSearchPath::only(vec![SearchEntry::Folder("/none/lib64".into()), SearchEntry::Folder("/other".into())]);
        let error = Nvcc::find(&search_path).expect_err("there is none");
        assert_eq!(error.message, "there is no nvcc: neither /none/bin/nvcc nor /other/nvcc nor /other/bin/nvcc");
        let hint = "Try `pip install nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* \
                    nvidia-cuda-runtime==13.0.*`, name its folder in BYOC_CUDA_PATH, or use NVRTC";
        assert_eq!(error.hint.as_deref(), Some(hint));
    }
}
