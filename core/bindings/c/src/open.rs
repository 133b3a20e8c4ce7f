//! Opening and closing sessions.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use byoc::{OpenOptions, Plugins, Session};
use byoc_core::artifact::ArtifactFile;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use bytes::Bytes;
use memmap2::MmapMut;

use crate::error::{byoc_status, status};
use crate::port::{Port, write};
use crate::sessions::{self, Open, Output, Running};
use crate::text::{list, null, optional, required};

/// How a session is opened. Set `struct_size` to `sizeof(byoc_options)` and everything else to 0, but for what is wished; later
/// versions add fields at the end.
#[repr(C)]
pub struct byoc_options {
    /// `sizeof(byoc_options)`.
    pub struct_size: usize,
    /// The entry to run, where the file has several; or NULL.
    pub entry: *const c_char,
    /// Most threads to use; 0: one for each core.
    pub threads: usize,
    /// Devices such as `cuda:0`, one of each kind; none for the first of each kind.
    pub devices: *const *const c_char,
    /// How many devices there are.
    pub device_count: usize,
    /// Plugin files.
    pub plugins: *const *const c_char,
    /// How many plugins there are.
    pub plugin_count: usize,
    /// Folders of plugins.
    pub plugin_dirs: *const *const c_char,
    /// How many folders there are.
    pub plugin_dir_count: usize,
    /// Settings of backends' options about the machine that runs the artifact, as `acme.key=value`.
    pub settings: *const *const c_char,
    /// How many settings there are.
    pub setting_count: usize,
    /// The variant to load, of a file that has some; or NULL for the best one that can be loaded here.
    pub variant: *const c_char,
    /// The program `byoc`, in processes of which regions of plugins run, so that a crash is an error of that run; or NULL to run them in this
    /// process. Not for regions on devices, with texts, or with sizes that only a run tells.
    pub isolate_by: *const c_char,
}

/// The sizes of the options in all versions.
const SIZES: [usize; 3] = [
    std::mem::offset_of!(byoc_options, variant),
    std::mem::offset_of!(byoc_options, isolate_by),
    size_of::<byoc_options>(),
];

impl byoc_options {
    /// # Safety
    /// `options` is NULL, or points to options whose texts and arrays are as they say.
    unsafe fn read(options: *const byoc_options) -> Result<OpenOptions> {
        let opening = OpenOptions::new();
        if options.is_null() {
            return Ok(opening);
        }
        // SAFETY: the caller says so; the first field is there in every version.
        let size = unsafe { (*options).struct_size };
        if !SIZES.contains(&size) {
            let message = format!("struct_size of the options is {size}, not {}", size_of::<byoc_options>());
            return Err(Diagnostic::new(Code::Usage, message).hint("Set it to sizeof(byoc_options)"));
        }
        // What a program does not know, since it was built with an earlier version, is 0.
        let mut known = MaybeUninit::<byoc_options>::zeroed();
        // SAFETY: the caller says that so many bytes are there, and the options are at least as large: it is the size of one of their
        // versions. All fields are numbers and pointers,
        // which may be 0.
        let options = unsafe {
            std::ptr::copy_nonoverlapping(options.cast::<u8>(), known.as_mut_ptr().cast::<u8>(), size);
            known.assume_init()
        };
        // SAFETY: the caller says so.
        let (entry, variant, program, devices, plugins, dirs, settings) = unsafe {
            (
                optional(options.entry, "entry")?,
                optional(options.variant, "variant")?,
                optional(options.isolate_by, "isolate_by")?.map(PathBuf::from),
                list(options.devices, options.device_count, "a device")?,
                list(options.plugins, options.plugin_count, "a plugin")?,
                list(options.plugin_dirs, options.plugin_dir_count, "a folder of plugins")?,
                list(options.settings, options.setting_count, "a setting")?,
            )
        };
        let paths = |texts: Vec<String>| texts.into_iter().map(PathBuf::from).collect();
        let mut opening = opening.threads(options.threads).plugins(Plugins {
            files: paths(plugins),
            dirs: paths(dirs),
            isolate: program.is_some(),
            program,
        });
        opening = devices.into_iter().fold(opening, OpenOptions::device);
        if let Some(entry) = entry {
            opening = opening.entry(entry);
        }
        if let Some(variant) = variant {
            opening = opening.variant(variant);
        }
        for text in &settings {
            let Some((key, value)) = text.split_once('=') else {
                return Err(Diagnostic::new(Code::Usage, format!("the setting '{text}' is not KEY=VALUE")));
            };
            opening = opening.option(key, value);
        }
        Ok(opening)
    }
}

/// Gives an opened entry a number.
fn number(session: Session) -> Result<u64> {
    let ports = |infos: Vec<_>| infos.iter().map(Port::of).collect::<Result<Vec<_>>>();
    let (inputs, outputs) = (ports(session.inputs())?, ports(session.outputs())?);
    let text = |name: String| CString::new(name.replace('\0', "?")).unwrap_or_default();
    let devices = session.device_handles().into_iter();
    let devices = devices.map(|(name, handles)| (text(name.to_string()), handles)).collect();
    let variant = session.variant().and_then(|name| CString::new(name).ok());
    let none = vec![Output::default(); outputs.len()];
    let running = Mutex::new(Running { session, outputs: none, fetched: false, given: Vec::new() });
    Ok(sessions::add(Open { inputs, outputs, variant, devices, running }))
}

/// Opens the artifact at `path` and writes the number of the session to `session`. The file is mapped: constants are not copied.
/// `options` may be NULL.
///
/// # Safety
/// `path` is a text, `options` are as they say or NULL, and `session` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_open(
    path: *const c_char,
    options: *const byoc_options,
    session: *mut u64,
) -> byoc_status {
    status(|| {
        // SAFETY: as for this function.
        let (path, options) = unsafe { (required(path, "path")?, byoc_options::read(options)?) };
        if session.is_null() {
            return Err(null("session"));
        }
        let number = number(options.open(path)?)?;
        // SAFETY: as for this function.
        unsafe { write(session, number) }
    })
}

/// Memory of the caller's.
struct BorrowedBytes {
    bytes: *const u8,
    length: usize,
}

// SAFETY: the caller of `byoc_open_memory` promises that the bytes stay and do not change; reading them is no matter of threads.
unsafe impl Send for BorrowedBytes {}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the caller of `byoc_open_memory` promises it.
        unsafe { std::slice::from_raw_parts(self.bytes, self.length) }
    }
}

/// Opens an artifact that is in memory, such as one that was decrypted or is a part of another file, and writes the number of the session to
/// `session`. Nothing is copied: the `length` bytes at `bytes` stay, unchanged, until the session is closed and its last call has ended. They
/// begin at a multiple of 4096, as memory of `mmap` does, so that constants lie where kernels can read them.
///
/// # Safety
/// `bytes` points to `length` bytes that stay as is said above, `options` are as they say or NULL, and `session` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_open_memory(
    bytes: *const c_void,
    length: usize,
    options: *const byoc_options,
    session: *mut u64,
) -> byoc_status {
    status(|| {
        if bytes.is_null() || session.is_null() {
            return Err(null(if bytes.is_null() { "bytes" } else { "session" }));
        }
        if !bytes.addr().is_multiple_of(4096) {
            let error = Diagnostic::new(Code::Usage, "the bytes of the artifact do not begin at a multiple of 4096");
            return Err(error.hint("Allocate them with aligned_alloc(4096, ...) or mmap"));
        }
        // SAFETY: as for this function.
        let options = unsafe { byoc_options::read(options)? };
        let lent = Bytes::from_owner(BorrowedBytes { bytes: bytes.cast(), length });
        let number = number(options.open_file(&ArtifactFile::from_bytes(Path::new("memory"), lent)?)?)?;
        // SAFETY: as for this function.
        unsafe { write(session, number) }
    })
}

/// Reads `size` bytes of an artifact from byte `offset` on into `buffer`. `user` is what was given beside the function. Returns 0, or
/// another number where it cannot.
pub type byoc_read =
    Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, buffer: *mut c_void, size: usize) -> c_int>;

/// Most bytes that a caller's function is asked for at once.
const CHUNK: usize = 16 << 20;

/// Opens an artifact of `length` bytes that a function of the caller's reads, such as one that is encrypted or an asset of an application, and
/// writes the number of the session to `session`. The bytes are read once, from the first to the last, before this returns, into memory
/// that belongs to the session.
///
/// # Safety
/// `read` writes to no more than the buffer that it is given and does not unwind, `options` are as they say or NULL, and `session` can be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_open_with(
    read: byoc_read,
    user: *mut c_void,
    length: usize,
    options: *const byoc_options,
    session: *mut u64,
) -> byoc_status {
    status(|| {
        let Some(read) = read.filter(|_| !session.is_null()) else {
            return Err(null(if session.is_null() { "session" } else { "read" }));
        };
        // SAFETY: as for this function.
        let options = unsafe { byoc_options::read(options)? };
        let no_memory = |error: std::io::Error| {
            Diagnostic::new(Code::Io, format!("there is no memory for an artifact of {length} bytes: {error}"))
        };
        // No memory at all cannot be mapped.
        let mut memory = MmapMut::map_anon(length.max(1)).map_err(no_memory)?;
        for (index, chunk) in memory[..length].chunks_mut(CHUNK).enumerate() {
            let offset = (index * CHUNK) as u64;
            // SAFETY: as for this function.
            let failed = unsafe { read(user, offset, chunk.as_mut_ptr().cast(), chunk.len()) };
            if failed != 0 {
                let message =
                    format!("the caller's function cannot read the artifact at byte {offset}: it returned {failed}");
                return Err(Diagnostic::new(Code::Io, message));
            }
        }
        let bytes = Bytes::from_owner(memory.make_read_only().map_err(no_memory)?).slice(..length);
        let number = number(options.open_file(&ArtifactFile::from_bytes(Path::new("memory"), bytes)?)?)?;
        // SAFETY: as for this function.
        unsafe { write(session, number) }
    })
}

/// Writes the name of the variant that was loaded to `name`, or NULL where the file has no variants. The text stays until the session is
/// closed.
///
/// # Safety
/// `name` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byoc_variant(session: u64, name: *mut *const c_char) -> byoc_status {
    status(|| {
        let open = sessions::find(session)?;
        let text = open.variant.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: as for this function.
        unsafe { write(name, text) }
    })
}

/// Closes a session. What it has given is gone with it. A number that is closed already is an error.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_close(session: u64) -> byoc_status {
    status(|| sessions::remove(session))
}
