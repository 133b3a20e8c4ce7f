//! Opening and closing sessions.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use byoc_core::artifact::Artifact;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registry, SearchPath};
use byoc_core::runtime::{DeviceName, LoadOptions, Session};
use bytes::Bytes;

use crate::error::{byoc_status, status};
use crate::port::{Port, write};
use crate::sessions::{self, Open, Running};
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
}

/// The same for Rust.
#[derive(Default)]
struct Wishes {
    load: LoadOptions,
    search: SearchPath,
    settings: Vec<(String, String)>,
}

impl Wishes {
    /// # Safety
    /// `options` is NULL, or points to options whose texts and arrays are as they say.
    unsafe fn read(options: *const byoc_options) -> Result<Wishes> {
        if options.is_null() {
            return Ok(Wishes { search: SearchPath::standard(Vec::new(), Vec::new()), ..Wishes::default() });
        }
        // SAFETY: the caller says so; the first field is there in every version.
        let options = unsafe {
            if (*options).struct_size != size_of::<byoc_options>() {
                let message = format!(
                    "struct_size of the options is {}, not {}",
                    (*options).struct_size,
                    size_of::<byoc_options>()
                );
                return Err(Diagnostic::new(Code::Usage, message).hint("Set it to sizeof(byoc_options)"));
            }
            &*options
        };
        // SAFETY: the caller says so.
        let (entry, devices, plugins, dirs, settings) = unsafe {
            (
                optional(options.entry, "entry")?,
                list(options.devices, options.device_count, "a device")?,
                list(options.plugins, options.plugin_count, "a plugin")?,
                list(options.plugin_dirs, options.plugin_dir_count, "a folder of plugins")?,
                list(options.settings, options.setting_count, "a setting")?,
            )
        };
        let device = |name: &String| {
            name.parse::<DeviceName>()
                .map_err(|cause| Diagnostic::new(Code::Usage, format!("'{name}' is not the name of a device: {cause}")))
                .map_err(|error| error.hint("A device is called KIND:N, such as cuda:0"))
        };
        let setting = |text: &String| {
            let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Diagnostic::new(Code::Usage, format!("the setting '{text}' is not KEY=VALUE")))
        };
        let paths = |texts: Vec<String>| texts.into_iter().map(PathBuf::from).collect();
        Ok(Wishes {
            load: LoadOptions {
                entry: entry.map(str::to_owned),
                threads: options.threads,
                devices: devices.iter().map(device).collect::<Result<_>>()?,
                ..LoadOptions::default()
            },
            search: SearchPath::standard(paths(plugins), paths(dirs)),
            settings: settings.iter().map(setting).collect::<Result<_>>()?,
        })
    }

    /// Loads an entry, and gives it a number.
    fn load(self, artifact: Artifact) -> Result<u64> {
        let Wishes { mut load, search, settings } = self;
        let names = artifact.manifest().backends();
        let registry = Registry::discover_wanted(&search, &byoc_plugin_api::registered(), &names, None)?;
        let (others, run_options) = registry.part_settings(&settings);
        if let Some((key, _)) = others.first() {
            return Err(Diagnostic::new(Code::BadOption, format!("option '{key}' is not an option of running")));
        }
        load.run_options = run_options;
        let session = Session::load(artifact, &registry, &load)?;
        let ports = |infos: Vec<_>| infos.iter().map(Port::of).collect::<Result<Vec<_>>>();
        let (inputs, outputs) = (ports(session.inputs())?, ports(session.outputs())?);
        let copies = vec![Vec::new(); outputs.len()];
        let running = Mutex::new(Running { session, copies, given: Vec::new() });
        Ok(sessions::add(Open { inputs, outputs, running }))
    }
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
        let (path, wishes) = unsafe { (required(path, "path")?, Wishes::read(options)?) };
        if session.is_null() {
            return Err(null("session"));
        }
        let number = wishes.load(Artifact::open(Path::new(path))?)?;
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
        let wishes = unsafe { Wishes::read(options)? };
        let lent = Bytes::from_owner(BorrowedBytes { bytes: bytes.cast(), length });
        let number = wishes.load(Artifact::from_bytes(Path::new("memory"), lent)?)?;
        // SAFETY: as for this function.
        unsafe { write(session, number) }
    })
}

/// Closes a session. What it has given is gone with it. A number that is closed already is an error.
#[unsafe(no_mangle)]
pub extern "C" fn byoc_close(session: u64) -> byoc_status {
    status(|| sessions::remove(session))
}
