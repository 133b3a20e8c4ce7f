//! Finds CUDA's libraries, opens them, and checks that they are what the bindings expect.
//!
//! `cudarc` opens libraries by bare names, such as `libcublasLt.so` and then `libcublasLt.so.13`, and panics when none
//! opens, or later when a function is missing. So the library is opened here first, by its path and for the whole
//! process: from then on the loader resolves its SONAME to it, also for `cudarc`. The library that `cudarc` got is checked:
//! its path, its version and every function that backends call. All failures are errors of one line.

mod library;
mod search_path;

use std::error::Error as _;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use byoc_plugin_api::Error;
use cudarc::driver::sys::{CUevent, CUfunction, CUresult};
use libloading::Library as Handle;
use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};

use library::{ELAPSED_TIME, OR};
pub use library::{Library, Version};
pub use search_path::{CudaSearchPath, SearchEntry, VARIABLE};

/// A library that is open for the rest of the process, as `cudarc` uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which one it is.
    pub library: Library,
    /// Its file, as the loader names it.
    pub path: PathBuf,
    /// Its version. For the driver, the newest CUDA that it can run.
    pub version: Version,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.library.name(), self.version, self.path.display())
    }
}

/// The driver, found: with it, the calls of `cudarc::driver` that backends make do not panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver(Found);

impl Deref for Driver {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.0
    }
}

/// Opens the driver.
///
/// # Errors
///
/// When there is none, when it is too old, or when another library shadows it.
pub fn driver(search_path: &CudaSearchPath) -> Result<Driver, Error> {
    open(Library::Driver, search_path, library::NEWEST).map(Driver)
}

/// Opens cublasLt for use with the driver.
///
/// # Errors
///
/// When there is none, when it is of a version that the bindings or the driver cannot use, or when another library shadows
/// it.
pub fn cublaslt(search_path: &CudaSearchPath, driver: &Driver) -> Result<Found, Error> {
    let found = open(Library::CublasLt, search_path, driver.version.major)?;
    fits(&found, driver)?;
    Ok(found)
}

/// Opens NVRTC, after the builtins that it loads by their bare name. Needs no driver.
///
/// # Errors
///
/// When there is none, when it is of a version that the bindings cannot use, or when another library shadows it.
pub fn nvrtc(search_path: &CudaSearchPath) -> Result<Found, Error> {
    open(Library::Nvrtc, search_path, library::NEWEST)
}

/// Opens any of the libraries, for use with the driver.
///
/// # Errors
///
/// Those of [`cublaslt`] and of [`nvrtc`].
pub fn library(library: Library, search_path: &CudaSearchPath, driver: &Driver) -> Result<Found, Error> {
    match library {
        Library::Driver => Ok(driver.0.clone()),
        Library::CublasLt => cublaslt(search_path, driver),
        Library::Nvrtc => nvrtc(search_path),
    }
}

/// `cuEventElapsedTime`: the milliseconds between two events.
pub(crate) type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;

/// The driver's function of that type. `cudarc` has only the newer name.
pub(crate) fn elapsed_time(driver: &Driver) -> Result<ElapsedTime, Error> {
    let handle = driver.library.bound();
    // SAFETY: both have this signature in cuda.h.
    let find = |name: &str| handle.and_then(|handle| unsafe { handle.get::<ElapsedTime>(name.as_bytes()) }.ok());
    let found = ELAPSED_TIME.split(OR).find_map(find);
    found.map(|function| *function).ok_or_else(|| lacks(driver.library, Some(&driver.path), ELAPSED_TIME))
}

/// `cuFuncGetParamInfo`: the offset and the size of a kernel's parameter.
pub(crate) type ParameterInfo = unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> CUresult;

/// The function of that type, which drivers have since CUDA 12.4.
pub(crate) fn parameter_info(driver: &Driver) -> Option<ParameterInfo> {
    let handle = driver.library.bound()?;
    // SAFETY: it has this signature in cuda.h.
    unsafe { handle.get::<ParameterInfo>(b"cuFuncGetParamInfo") }.ok().map(|function| *function)
}

/// Whether the driver has the function that tells the sizes of a kernel's parameters.
pub fn tells_parameters(driver: &Driver) -> bool {
    parameter_info(driver).is_some()
}

/// A driver runs the libraries of its own major version, and older ones (CUDA's minor version compatibility).
fn fits(found: &Found, driver: &Driver) -> Result<(), Error> {
    if found.version.major <= driver.version.major {
        return Ok(());
    }
    let (path, version) = (driver.path.display(), driver.version);
    let message = format!("{found} is newer than the driver ({path}), which runs CUDA up to {version}");
    let package = found.library.package(version.major).map(|name| format!(", or try `pip install {name}`"));
    Err(one_line(message).hint(format!("Update NVIDIA's driver{}", package.unwrap_or_default())))
}

/// The libraries found so far, by search path. They stay open, so no search is repeated.
static KNOWN: Mutex<Vec<(Library, CudaSearchPath, u32, Found)>> = Mutex::new(Vec::new());

/// Opens the first library on the search path, and checks it; once per search path. A major version up to `newest` is
/// preferred, wherever it is.
fn open(library: Library, search_path: &CudaSearchPath, newest: u32) -> Result<Found, Error> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., found)) =
        known.iter().find(|(of, at, up_to, _)| (*of, at, *up_to) == (library, search_path, newest))
    {
        return Ok(found.clone());
    }
    let found = search(library, search_path, newest)?;
    known.push((library, search_path.clone(), newest, found.clone()));
    Ok(found)
}

/// Searches for a library. A newer one than supported is taken only if there is no other, so that the error can name it.
fn search(library: Library, search_path: &CudaSearchPath, newest: u32) -> Result<Found, Error> {
    let (fitting, newer): (Vec<_>, Vec<_>) = library.files().iter().partition(|(_, major)| *major <= newest);
    let mut broken = Vec::new();
    for (names, place) in [fitting, newer].iter().flat_map(|names| search_path.all().iter().map(move |at| (names, at)))
    {
        for candidate in candidates(names, library, place) {
            match open_for_all(library, &candidate) {
                Ok(handle) => {
                    let opened = path_of(&handle, library);
                    // What it defines may be called for as long as the process runs.
                    std::mem::forget(handle);
                    return check(library, place, opened?, newest);
                }
                Err(cause) if candidate.is_file() => {
                    broken.push(format!("{} does not open: {cause}", candidate.display()))
                }
                Err(_) => {}
            }
        }
    }
    let names: Vec<_> = library.files().iter().map(|(name, _)| *name).collect();
    let names = names.join(" or ");
    let looked: Vec<_> = search_path.all().iter().flat_map(|place| place.texts(library)).collect();
    let mut message = format!("there is no {names} in {}", looked.join(", "));
    broken.iter().for_each(|cause| message = format!("{message}; {cause}"));
    Err(one_line(message).hint(library.hint(newest)))
}

/// The candidates of one entry: files in folders, or bare names for the loader.
fn candidates(names: &[(&str, u32)], library: Library, place: &SearchEntry) -> Vec<PathBuf> {
    let names = names.iter().map(|(name, _)| name);
    match place.folders(library) {
        Some(folders) => folders.iter().flat_map(|folder| names.clone().map(move |name| folder.join(name))).collect(),
        None => names.map(PathBuf::from).collect(),
    }
}

/// Opens a library, and those that it loads by bare names, so that its SONAME resolves to it in the whole process.
fn open_for_all(library: Library, path: &Path) -> Result<Handle, String> {
    let open = |path: &Path| {
        // SAFETY: opening runs the library's initialisers. The user, the loader's configuration or the active Python
        // environment names this file as NVIDIA's, whose initialisers may run at any time.
        let opened = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        opened.map(Handle::from).map_err(|error| match error.source() {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        })
    };
    if let Some(folder) = path.parent().filter(|_| path.is_file()) {
        for companion in library.companions(folder) {
            std::mem::forget(open(&companion)?);
        }
    }
    open(path)
}

/// The file that a library was loaded from.
fn path_of(handle: &Handle, library: Library) -> Result<PathBuf, Error> {
    let name = library.version_function();
    // SAFETY: the function is not called; only its address is looked at.
    let symbol = unsafe { handle.get::<*mut c_void>(name.as_bytes()) };
    let address = *symbol.map_err(|_| lacks(library, None, name))?;
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is a `Dl_info` to be filled in; any address may be asked about.
    let known = unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null();
    if !known {
        return Err(one_line(format!("the loader does not know where it found {}", library.name())));
    }
    // SAFETY: `dladdr` succeeded, so this is the loader's own text, which lives as long as the library: for ever.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Ok(PathBuf::from(path.to_string_lossy().into_owned()))
}

/// Checks the library that `cudarc` gets by itself, which should be `opened`.
fn check(library: Library, place: &SearchEntry, opened: PathBuf, newest: u32) -> Result<Found, Error> {
    let Some(handle) = library.bound() else {
        let message = format!("{} ({}) is open, but not found by its name", library.name(), opened.display());
        return Err(one_line(message).hint("Its file must have the SONAME that NVIDIA gives it"));
    };
    let path = path_of(handle, library)?;
    if !matches!(place, SearchEntry::Loader) && !same_file(&path, &opened) {
        let message = format!("{} comes before {} under another name", path.display(), opened.display());
        let folder = path.parent().unwrap_or(&path).display();
        let hint = format!("Take {folder} out of LD_LIBRARY_PATH, or name that folder in {VARIABLE}");
        return Err(one_line(message).hint(hint));
    }
    let Some(version) = library.version(handle) else {
        let message = format!("{} ({}) does not report its version", library.name(), path.display());
        return Err(one_line(message).hint(stub_hint(&path).unwrap_or_else(|| library.hint(newest))));
    };
    let found = Found { library, path, version };
    if !library.accepts(version) {
        return Err(one_line(format!("{found} is not {}", library.range())).hint(library.hint(newest)));
    }
    // SAFETY: the functions are not called.
    let has = |name: &str| unsafe { handle.get::<*mut c_void>(name.as_bytes()) }.is_ok();
    match library.functions().iter().find(|names| !names.split(OR).any(has)) {
        Some(names) => Err(lacks(library, Some(&found.path), names)),
        None => Ok(found),
    }
}

/// CUDA's toolkit has a folder of stub libraries to link with, all of whose functions fail.
fn stub_hint(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| folder.ends_with("stubs"))?;
    Some(format!("Take {} out of LD_LIBRARY_PATH: it has stubs, which are only to link with", folder.display()))
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

fn lacks(library: Library, path: Option<&Path>, function: &str) -> Error {
    let place = path.map(|path| format!(" ({})", path.display())).unwrap_or_default();
    one_line(format!("{}{place} has no function {function}", library.name())).hint(library.hint(library::NEWEST))
}

/// An error of one line, even if paths have line breaks.
pub(crate) fn one_line(message: String) -> Error {
    Error::new(message.replace(char::is_control, " "))
}
