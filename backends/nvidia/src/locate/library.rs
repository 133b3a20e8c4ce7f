//! The libraries: their files, their versions, and which of their functions backends call.

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library as Handle;

/// A library of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `libcuda`: part of NVIDIA's driver.
    Driver,
    /// `libcublasLt`: matrix products.
    CublasLt,
    /// `libnvrtc`: the compiler from CUDA C++ to code for a device.
    Nvrtc,
}

/// A version of CUDA or of one of its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Files of another major version have another SONAME.
    pub major: u32,
    /// Within a major version, new ones only add.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The oldest version of each: the functions and the attributes that backends use are there in 12.0.
const OLDEST: Version = Version { major: 12, minor: 0 };

/// The newest major version of the libraries whose structures and numbers the bindings know. A driver may be newer: it
/// goes on serving programs made for an older one.
pub(super) const NEWEST: u32 = 13;

impl Library {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Library::Driver => "libcuda",
            Library::CublasLt => "libcublasLt",
            Library::Nvrtc => "libnvrtc",
        }
    }

    /// The names of its file, the preferred one first, each with the major version that it has; 0 for all.
    pub(super) fn files(self) -> &'static [(&'static str, u32)] {
        match self {
            Library::Driver => &[("libcuda.so.1", 0)],
            Library::CublasLt => &[("libcublasLt.so.13", 13), ("libcublasLt.so.12", 12)],
            Library::Nvrtc => &[("libnvrtc.so.13", 13), ("libnvrtc.so.12", 12)],
        }
    }

    /// Its folder within `nvidia/` of a Python environment with packages for CUDA 12. No package holds the driver.
    pub(super) fn component(self) -> Option<&'static str> {
        match self {
            Library::Driver => None,
            Library::CublasLt => Some("cublas"),
            Library::Nvrtc => Some("cuda_nvrtc"),
        }
    }

    /// Files beside it that it opens itself, by bare names that the loader may not find.
    pub(super) fn companions(self, folder: &Path) -> Vec<PathBuf> {
        if self != Library::Nvrtc {
            return Vec::new();
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let builtins = |name: &str| name.starts_with("libnvrtc-builtins.so.") && !name.contains(".alt.");
        let mut files: Vec<_> =
            entries.filter(|entry| builtins(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// The package of Python's that has it, for a driver of that major version. Those for CUDA 12 say so in their names.
    pub(super) fn package(self, driver: u32) -> Option<&'static str> {
        match (self, driver < NEWEST) {
            (Library::Driver, _) => None,
            (Library::CublasLt, false) => Some("nvidia-cublas==13.0.*"),
            (Library::CublasLt, true) => Some("nvidia-cublas-cu12"),
            (Library::Nvrtc, false) => Some("nvidia-cuda-nvrtc==13.0.*"),
            (Library::Nvrtc, true) => Some("nvidia-cuda-nvrtc-cu12"),
        }
    }

    /// A hint how to install it, for a driver of that major version.
    pub(super) fn hint(self, driver: u32) -> String {
        match self.package(driver) {
            Some(package) => format!("Try `pip install {package}`, or name its folder in BYOC_CUDA_PATH"),
            None => "Install NVIDIA's driver 525 or newer, or name the folder of libcuda.so.1 in BYOC_CUDA_PATH".into(),
        }
    }

    /// Whether the bindings fit a library of that version.
    pub(super) fn accepts(self, version: Version) -> bool {
        version >= OLDEST && (self == Library::Driver || version.major <= NEWEST)
    }

    /// The supported versions, for messages.
    pub(super) fn range(self) -> String {
        match self {
            Library::Driver => format!("{OLDEST} or newer"),
            _ => format!("{OLDEST} to {NEWEST}.x"),
        }
    }

    /// The library as `cudarc` opens it, which it does once in a process; `None` if it finds none.
    pub(super) fn bound(self) -> Option<&'static Handle> {
        // SAFETY: opening runs initialisers; the one that is found by its SONAME is open already (`open_for_all`), and
        // one before it has been found by the loader, as any program's CUDA is. `culib` panics only where
        // `is_culib_present` says no.
        unsafe {
            match self {
                Library::Driver => cudarc::driver::sys::is_culib_present().then(|| cudarc::driver::sys::culib()),
                Library::CublasLt => cudarc::cublaslt::sys::is_culib_present().then(|| cudarc::cublaslt::sys::culib()),
                Library::Nvrtc => cudarc::nvrtc::sys::is_culib_present().then(|| cudarc::nvrtc::sys::culib()),
            }
        }
    }

    /// The function that returns its version.
    pub(super) fn version_function(self) -> &'static str {
        match self {
            Library::Driver => "cuDriverGetVersion",
            Library::CublasLt => "cublasLtGetVersion",
            Library::Nvrtc => "nvrtcVersion",
        }
    }

    /// Its version; `None` if the call fails.
    pub(super) fn version(self, handle: &Handle) -> Option<Version> {
        let name = self.version_function().as_bytes();
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the three signatures are those of NVIDIA's headers (cuda.h, cublasLt.h, nvrtc.h). All three may be
        // called before anything else, and write through the given pointers only. Statuses are read as plain numbers,
        // so that one without a name in the bindings does no harm.
        let told = unsafe {
            match self {
                Library::Driver => {
                    handle.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(name).ok()?(&raw mut major) == 0
                }
                Library::CublasLt => {
                    major = handle.get::<unsafe extern "C" fn() -> usize>(name).ok()?().try_into().ok()?;
                    true
                }
                Library::Nvrtc => {
                    let tell = handle.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(name).ok()?;
                    tell(&raw mut major, &raw mut minor) == 0
                }
            }
        };
        let (major, minor) = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
        let version = match self {
            // 1000 x major + 10 x minor
            Library::Driver => Version { major: major / 1000, minor: major % 1000 / 10 },
            // 10000 x major + 100 x minor + patch
            Library::CublasLt => Version { major: major / 10_000, minor: major % 10_000 / 100 },
            Library::Nvrtc => Version { major, minor },
        };
        told.then_some(version)
    }

    /// Every function that backends call; where a function has two names, both, with "or" between. One that is missing
    /// would be a panic in the middle of a run.
    pub fn functions(self) -> &'static [&'static str] {
        match self {
            Library::Driver => DRIVER,
            Library::CublasLt => CUBLASLT,
            Library::Nvrtc => NVRTC,
        }
    }
}

/// Separates the names of a function that has two.
pub(super) const OR: &str = " or ";

/// The name since CUDA 12.8, and that of older drivers.
pub(super) const ELAPSED_TIME: &str = "cuEventElapsedTime_v2 or cuEventElapsedTime";

const DRIVER: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    ELAPSED_TIME,
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
];

const CUBLASLT: &[&str] = &[
    "cublasLtCreate",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
];

const NVRTC: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetErrorString",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];
