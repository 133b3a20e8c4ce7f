//! The host's side of the wire: opens a plugin file, shakes hands, and makes each of its backends look like any other
//! [`Backend`]. Libraries stay open for the life of the process: nothing of a plugin can dangle.

use std::ffi::c_void;
use std::io::Write;
use std::path::Path;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::{LibHeader, lib_header_from_path};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::abi::{
    self, ABI_VERSION, ConstantList, ConstantView, MAGIC, OLDEST_ABI_VERSION, PluginInfo, PluginModuleRef, Sink, Slice,
    TensorList,
};
use crate::backend::{Backend, Description, Environment, Executable};
use crate::constants::{BoundConstants, Claim, ClaimSink, Claims, Constants};
use crate::dlpack::DLTensor;
use crate::error::{Error, Refusal, RefusalCode};
use crate::options::Options;
use crate::pattern::Pattern;
use crate::region::{ConstantId, Region};
use crate::tensor::{TensorView, TensorViewMut};

/// Why a file was not loaded. Each text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file cannot be opened as a library, or it is no plugin.
    NotAPlugin(String),
    /// The plugin speaks another ABI.
    Incompatible {
        /// What each side speaks.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The plugin broke a rule of the contract.
    Contract(String),
}

/// An open plugin.
pub struct Plugin {
    /// The plugin's name, from its package.
    pub name: String,
    /// The plugin's version, from its package.
    pub version: String,
    /// The ABI version it speaks.
    pub abi_version: u32,
    /// Its backends.
    pub backends: Vec<PluginBackend>,
}

/// A backend that lives in a plugin.
pub struct PluginBackend {
    module: PluginModuleRef,
    index: usize,
    description: Description,
}

/// Opens the plugin file at `path`.
pub fn open(path: &Path) -> Result<Plugin, LoadError> {
    let bytes = std::fs::read(path).map_err(|error| LoadError::NotAPlugin(error.to_string()))?;
    crate::elf::check_segments(&bytes).map_err(LoadError::NotAPlugin)?;
    drop(bytes);
    // SAFETY: opening runs the library's constructors. The file is whole and its user chose it as a plugin.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| LoadError::NotAPlugin(reason(&error)))?;
    let info = read_info(&library)?;
    // Never unloaded: executables, static texts and threads of the plugin may live on.
    std::mem::forget(library);
    check_version(&info)?;
    let header = lib_header_from_path(path).map_err(|error| LoadError::NotAPlugin(one_line(&error.to_string())))?;
    let module = check_layout(header, &info)?;
    let backends = (0..(module.count())())
        .map(|index| PluginBackend::new(module, index))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| LoadError::Contract(format!("describe failed: {error}")))?;
    if backends.is_empty() {
        return Err(LoadError::Contract("it registers no backend".into()));
    }
    if let Some(bad) = backends.iter().map(|backend| &backend.description.name).find(|name| !is_name(name)) {
        let bad = one_line(bad);
        return Err(LoadError::Contract(format!(
            "its backend is called '{bad}'; names are lower-case letters, digits and '-'"
        )));
    }
    Ok(Plugin { name: info.name, version: info.version, abi_version: info.abi, backends })
}

/// Names stand in symbols, section names and on the command line.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(allowed)
}

struct Info {
    name: String,
    version: String,
    abi: u32,
}

fn read_info(library: &Library) -> Result<Info, LoadError> {
    // SAFETY: the symbol's type is the contract; the magic and the size are checked before any other field is read.
    let symbol = unsafe { library.get::<*const PluginInfo>("byoc_plugin_info") }
        .map_err(|_| LoadError::NotAPlugin("it has no symbol byoc_plugin_info".into()))?;
    let info: *const PluginInfo = *symbol;
    // SAFETY: the library exports the symbol, so at least the 16 bytes before the texts are there in every version.
    let (magic, size, abi) = unsafe { ((*info).magic, (*info).struct_size, (*info).abi_version) };
    if magic != MAGIC || (size as usize) < size_of::<PluginInfo>() {
        return Err(LoadError::NotAPlugin("its symbol byoc_plugin_info is not what it should be".into()));
    }
    // SAFETY: `struct_size` covers both texts, which are static.
    let (name, version) = unsafe { ((*info).name.bytes(), (*info).version.bytes()) };
    let text = |bytes| one_line(&String::from_utf8_lossy(bytes));
    Ok(Info { name: text(name), version: text(version), abi })
}

fn check_version(info: &Info) -> Result<(), LoadError> {
    if (OLDEST_ABI_VERSION..=ABI_VERSION).contains(&info.abi) {
        return Ok(());
    }
    let newer = info.abi > ABI_VERSION;
    Err(LoadError::Incompatible {
        message: format!(
            "plugin '{}' {} speaks ABI {}; this byoc speaks {}",
            info.name,
            info.version,
            info.abi,
            spoken()
        ),
        hint: if newer {
            format!("Update byoc, or install an older {}", info.name)
        } else {
            format!("Install a newer {}", info.name)
        },
    })
}

fn spoken() -> String {
    if OLDEST_ABI_VERSION == ABI_VERSION {
        ABI_VERSION.to_string()
    } else {
        format!("{OLDEST_ABI_VERSION} to {ABI_VERSION}")
    }
}

/// Compares the layouts in both directions: abi_stable takes a host to be at least as old as its library and would
/// refuse every plugin that was built before the module grew.
fn check_layout(header: &'static LibHeader, info: &Info) -> Result<PluginModuleRef, LoadError> {
    let incompatible = |details: String| LoadError::Incompatible {
        message: format!("plugin '{}' {} does not fit this byoc: {details}", info.name, info.version),
        hint: format!("Install a build of {} for byoc-plugin-api {}", info.name, env!("CARGO_PKG_VERSION")),
    };
    let ours = <PluginModuleRef as StableAbi>::LAYOUT;
    let theirs = header.layout().ok_or_else(|| incompatible("it carries no layout".into()))?;
    if let Err(error) = check_layout_compatibility(ours, theirs)
        && check_layout_compatibility(theirs, ours).is_err()
    {
        return Err(incompatible(summary(&error.to_string())));
    }
    // SAFETY: every field that both sides know has the same layout, as one of the two checks found; functions that an
    // older plugin lacks lie after the last prefix field and read as `None`.
    unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() }
        .map_err(|error| incompatible(one_line(&error.to_string())))
}

/// The innermost complaint of an abi_stable report, which runs to thousands of lines.
fn summary(report: &str) -> String {
    let mut lines = report.lines().map(str::trim);
    let Some(first) = lines.find_map(|line| line.strip_prefix("Error:")) else { return one_line(report) };
    let rest: Vec<_> = lines.take(4).collect();
    let value = |label: &str| {
        let at = rest.iter().position(|line| line.starts_with(label))?;
        let inline = rest[at].strip_prefix(label)?.trim_start_matches(':').trim();
        Some(if inline.is_empty() { rest.get(at + 1).copied().unwrap_or("") } else { inline })
    };
    match (value("Expected"), value("Found")) {
        (Some(expected), Some(found)) => format!("{first}: expected {expected}, found {found}"),
        _ => first.to_owned(),
    }
}

/// The whole chain of causes: libloading's own text says only that `dlopen` failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Collects what a plugin writes, up to a limit that no sane answer reaches.
fn collect(call: impl FnOnce(Sink, Sink) -> i32) -> (i32, Vec<u8>, Vec<u8>) {
    extern "C" fn append(context: *mut c_void, bytes: Slice) -> i32 {
        const MOST: usize = 1 << 30;
        // SAFETY: `context` is the vector below, alive for the call; the plugin lends `bytes` for this call.
        let (out, bytes) = unsafe { (&mut *context.cast::<Vec<u8>>(), bytes.bytes()) };
        if out.len() + bytes.len() > MOST {
            return abi::FAILED;
        }
        out.extend_from_slice(bytes);
        abi::OK
    }
    let (mut out, mut error) = (Vec::new(), Vec::new());
    let sink = |vec: &mut Vec<u8>| Sink { context: std::ptr::from_mut(vec).cast(), write: append };
    let status = call(sink(&mut out), sink(&mut error));
    (status, out, error)
}

fn failure(status: i32, error: &[u8]) -> Error {
    match serde_json::from_slice::<Error>(error) {
        // What a plugin says ends on the user's terminal: one line, no control characters.
        Ok(error) => Error {
            message: one_line(&error.message),
            node: error.node.as_deref().map(one_line),
            hint: error.hint.as_deref().map(one_line),
        },
        Err(_) if status == abi::FAILED => Error::new("the plugin failed and gave no reason"),
        Err(_) => Error::new(format!("the plugin answered with the unknown status {status}")),
    }
}

fn answer<T: DeserializeOwned>(call: impl FnOnce(Sink, Sink) -> i32) -> Result<T, Error> {
    let (status, out, error) = collect(call);
    if status != abi::OK {
        return Err(failure(status, &error));
    }
    serde_json::from_slice(&out).map_err(|error| Error::new(format!("the plugin's answer is not valid: {error}")))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    Ok(serde_json::to_vec(value)?)
}

fn constant_views(constants: &Constants<'_>) -> Vec<ConstantView> {
    let layout = Slice::new(&[]);
    constants.iter().map(|(id, view)| ConstantView { id: id.0, layout, tensor: view.to_dlpack() }).collect()
}

fn list(views: &[ConstantView]) -> ConstantList {
    ConstantList { data: views.as_ptr(), len: views.len() }
}

impl PluginBackend {
    fn new(module: PluginModuleRef, index: usize) -> Result<Self, Error> {
        let description = answer(|out, error| (module.describe())(index, out, error))?;
        Ok(PluginBackend { module, index, description })
    }
}

impl Backend for PluginBackend {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        let options = json(options)?;
        answer(|out, error| (self.module.patterns())(self.index, Slice::new(&options), out, error))
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        let failed = |error: Error| Refusal::new(RefusalCode::Failed, error.message);
        let (region, options) = (json(candidate).map_err(failed)?, json(options).map_err(failed)?);
        let (status, out, error) = collect(|out, error| {
            (self.module.check())(self.index, Slice::new(&region), Slice::new(&options), out, error)
        });
        match status {
            abi::OK => Ok(()),
            abi::REFUSED => match serde_json::from_slice::<Refusal>(&out) {
                Ok(refusal) => Err(Refusal { message: one_line(&refusal.message), ..refusal }),
                Err(error) => Err(failed(error.into())),
            },
            _ => Err(failed(failure(status, &error))),
        }
    }

    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        let (region, options, views) = (json(region)?, json(options)?, constant_views(constants));
        let mut sink = CodeSink { code, failed: None };
        let context = std::ptr::from_mut(&mut sink).cast();
        let (status, _, error) = collect(|_, error| {
            let code = Sink { context, write: write_code };
            (self.module.codegen())(self.index, Slice::new(&region), list(&views), Slice::new(&options), code, error)
        });
        match (sink.failed, status) {
            (Some(error), _) => Err(error.into()),
            (None, abi::OK) => Ok(()),
            (None, status) => Err(failure(status, &error)),
        }
    }

    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        code: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        let (region, options, views) = (json(region)?, json(options)?, constant_views(constants));
        let mut sink = HostClaims { claims: claims.sink(), failed: None };
        let context = std::ptr::from_mut(&mut sink).cast();
        let (status, _, error) = collect(|_, error| {
            let claims = abi::ClaimSink { context, claim: take_claim, write: take_bytes };
            (self.module.constant_updater())(
                self.index,
                Slice::new(&region),
                list(&views),
                Slice::new(code),
                Slice::new(&options),
                claims,
                error,
            )
        });
        match (sink.failed, status) {
            (Some(error), _) => Err(error),
            (None, abi::OK) => Ok(()),
            (None, status) => Err(failure(status, &error)),
        }
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let environment = json(environment)?;
        let views: Vec<_> = constants
            .iter()
            .map(|bound| ConstantView {
                id: bound.id.0,
                layout: Slice::new(bound.layout.unwrap_or("").as_bytes()),
                tensor: bound.view.to_dlpack(),
            })
            .collect();
        let mut handle = std::ptr::null_mut();
        let (status, _, error) = collect(|_, error| {
            let (code, environment) = (Slice::new(code), Slice::new(&environment));
            (self.module.load())(self.index, code, list(&views), environment, &mut handle, error)
        });
        match (status, handle.is_null()) {
            (abi::OK, false) => {
                Ok(Box::new(PluginExecutable { module: self.module, handle, inputs: vec![], outputs: vec![] }))
            }
            (abi::OK, true) => Err(Error::new("the plugin loaded the region and gave no handle")),
            (status, _) => Err(failure(status, &error)),
        }
    }
}

struct CodeSink<'a> {
    code: &'a mut dyn Write,
    failed: Option<std::io::Error>,
}

extern "C" fn write_code(context: *mut c_void, bytes: Slice) -> i32 {
    // SAFETY: `context` is the sink of the running `codegen`; the plugin lends `bytes` for this call.
    let (sink, bytes) = unsafe { (&mut *context.cast::<CodeSink<'_>>(), bytes.bytes()) };
    match sink.code.write_all(bytes) {
        Ok(()) => abi::OK,
        Err(error) => {
            sink.failed = Some(error);
            abi::FAILED
        }
    }
}

struct HostClaims<'a> {
    claims: &'a mut dyn ClaimSink,
    failed: Option<Error>,
}

impl HostClaims<'_> {
    fn note(&mut self, result: Result<(), Error>) -> i32 {
        match result {
            Ok(()) => abi::OK,
            Err(error) => {
                // The first error is the cause; what follows are its consequences.
                self.failed.get_or_insert(error);
                abi::FAILED
            }
        }
    }
}

extern "C" fn take_claim(context: *mut c_void, id: u64, claim: Slice) -> i32 {
    // SAFETY: `context` is the sink of the running `constant_updater`; the plugin lends `claim` for this call.
    let (sink, claim) = unsafe { (&mut *context.cast::<HostClaims<'_>>(), claim.bytes()) };
    let result = match serde_json::from_slice::<Claim>(claim) {
        Ok(claim) => sink.claims.claim(ConstantId(id), &claim),
        Err(error) => Err(Error::new(format!("the claim for constant {id} is not valid: {error}"))),
    };
    sink.note(result)
}

extern "C" fn take_bytes(context: *mut c_void, bytes: Slice) -> i32 {
    // SAFETY: as in `take_claim`.
    let (sink, bytes) = unsafe { (&mut *context.cast::<HostClaims<'_>>(), bytes.bytes()) };
    let result = sink.claims.write(bytes);
    sink.note(result)
}

struct PluginExecutable {
    module: PluginModuleRef,
    handle: *mut c_void,
    inputs: Vec<DLTensor>,
    outputs: Vec<DLTensor>,
}

// SAFETY: the contract makes executables `Send`; the handle is opaque, and the tensor lists hold only addresses that
// are refilled at each run.
unsafe impl Send for PluginExecutable {}

impl Executable for PluginExecutable {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.inputs.clear();
        self.inputs.extend(inputs.iter().map(TensorView::to_dlpack));
        self.outputs.clear();
        self.outputs.extend(outputs.iter().map(|view| view.to_dlpack()));
        let tensors = |list: &[DLTensor]| TensorList { data: list.as_ptr(), len: list.len() };
        let (inputs, outputs) = (tensors(&self.inputs), tensors(&self.outputs));
        let (status, _, error) = collect(|_, error| (self.module.run())(self.handle, inputs, outputs, error));
        if status == abi::OK { Ok(()) } else { Err(failure(status, &error)) }
    }
}

impl Drop for PluginExecutable {
    fn drop(&mut self) {
        (self.module.free())(self.handle);
    }
}
