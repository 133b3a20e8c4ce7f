//! Calls NVRTC.

use std::ffi::{CStr, CString, c_char, c_int};

use byoc_plugin_api::Error;
use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};

use super::Cubin;
use crate::locate::{Found, one_line};

/// Why there is no cubin.
#[derive(Debug)]
pub(super) struct Failure {
    /// NVRTC's name of the error, such as `NVRTC_ERROR_COMPILATION`.
    pub(super) status: String,
    /// NVRTC's log.
    pub(super) log: String,
}

impl Failure {
    fn new(error: NvrtcError) -> Failure {
        Failure { status: format!("{:?}", error.0), log: String::new() }
    }

    /// Whether an allocation failed, which NVRTC may report in its log like an error in the source.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.status == "NVRTC_ERROR_OUT_OF_MEMORY" || self.log.contains("catastrophic error: out of memory")
    }
}

/// The architectures that NVRTC compiles for, as numbers.
pub(super) fn supported(found: &Found) -> Result<Vec<u32>, Error> {
    let failed = |error: NvrtcError| one_line(format!("{found} does not report its architectures: {:?}", error.0));
    let mut count: c_int = 0;
    // SAFETY: `found` is what cudarc has open, with this function; it writes one number.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(failed)?;
    let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or_default()];
    // SAFETY: it writes as many numbers as it has just said.
    unsafe { sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr()) }.result().map_err(failed)?;
    Ok(numbers.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
}

/// The folder that NVRTC believes the source to be in, which cannot have files: it searches there for headers in quotes.
/// Without it NVRTC would search the current folder, and with `--no-source-include` not even the including header's own.
const NOWHERE: &str = "/proc/nowhere/";

/// A program, destroyed at the end.
struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created and is not used any more. A failure leaks it, no more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Compiles `source`, which the log will call `name`. [`super::Toolchain`] has opened NVRTC.
pub(super) fn compile(source: &str, name: &str, options: &[String]) -> Result<Cubin, Failure> {
    let holds_nul = |_| Failure { status: "it holds a NUL character".into(), log: String::new() };
    let (source, name) = (CString::new(source), CString::new(format!("{NOWHERE}{name}")));
    let (source, name) = (source.map_err(holds_nul)?, name.map_err(holds_nul)?);
    let options: Vec<CString> =
        options.iter().map(|option| CString::new(option.as_str())).collect::<Result<_, _>>().map_err(holds_nul)?;
    let program = Program(result::create_program(&source, Some(&name)).map_err(Failure::new)?);
    // SAFETY: the program lives.
    let status = unsafe { result::compile_program(program.0, &options) };
    let log = log(&program);
    let fail = |error: NvrtcError| Failure { log: log.clone(), ..Failure::new(error) };
    status.map_err(fail)?;
    let bytes = cubin(&program).map_err(fail)?;
    Ok(Cubin { bytes, log })
}

fn cubin(program: &Program) -> Result<Vec<u8>, NvrtcError> {
    let mut size = 0;
    // SAFETY: the program lives, and one number is written.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result()?;
    let mut bytes = vec![0u8; size];
    // SAFETY: there is room for as many bytes as NVRTC has just said.
    unsafe { sys::nvrtcGetCUBIN(program.0, bytes.as_mut_ptr().cast::<c_char>()) }.result()?;
    // A virtual architecture has no cubin.
    if bytes.is_empty() { Err(NvrtcError(nvrtcResult::NVRTC_ERROR_INTERNAL_ERROR)) } else { Ok(bytes) }
}

fn log(program: &Program) -> String {
    // SAFETY: the program lives.
    let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
    let bytes: Vec<u8> = log.into_iter().map(|char| char.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy).unwrap_or_default();
    text.trim().replace(NOWHERE, "")
}

/// Returns to the system what NVRTC has freed: glibc would keep it, hundreds of MiB for a kernel of CUTLASS.
pub(super) fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
