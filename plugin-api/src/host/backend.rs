//! A backend that lives in a plugin, as any other [`Backend`].

use std::ffi::c_void;
use std::io::Write;

use serde_json::Value;

use super::answer::{answer, collect, failure, json, one_line};
use super::device::PluginDeviceExecutable;
use super::domain::PluginDomain;
use super::executable::PluginExecutable;
use super::tuning;
use crate::abi::{self, ConstantList, ConstantView, Sink, Slice};
use crate::backend::{Backend, Candidate, CodeFile, Description, Environment, Executable, FileFormat, Tool};
use crate::constants::{BoundConstant, BoundConstants, Claim, ClaimSink, Claims, Constants};
use crate::domain::{DeviceConstants, DeviceExecutable, Domain, DomainHandles, OPENS_NO_DOMAIN};
use crate::domain_tables::{DEVICE_ID, DEVICE_VERSION, DOMAIN_ID, DOMAIN_VERSION, DeviceTable, DomainTable};
use crate::error::{Error, Refusal, RefusalCode};
use crate::open::{OPEN_ID, OPEN_VERSION, OpenTable};
use crate::options::{OptionSpec, Options};
use crate::pattern::Pattern;
use crate::region::{ConstantId, Region};
use crate::table::PluginTable;
use crate::tuning_tables::{CANDIDATES_ID, CANDIDATES_VERSION, CandidatesTable, TOOLS_ID, TOOLS_VERSION, ToolsTable};

/// A backend that lives in a plugin.
pub struct PluginBackend {
    table: PluginTable,
    index: usize,
    pub(super) description: Description,
    /// Whether it is spoken to as by a host of the future.
    newer: bool,
}

impl BoundConstant<'_> {
    /// The constant as it crosses the border.
    pub(super) fn wire(&self) -> ConstantView {
        let layout = Slice::new(self.layout.unwrap_or("").as_bytes());
        ConstantView { id: self.id.0, layout, tensor: self.view.to_dlpack() }
    }
}

fn constant_views(constants: &Constants<'_>) -> Vec<ConstantView> {
    let layout = Slice::new(&[]);
    constants.iter().map(|(id, view)| ConstantView { id: id.0, layout, tensor: view.to_dlpack() }).collect()
}

fn list(views: &[ConstantView]) -> ConstantList {
    ConstantList { data: views.as_ptr(), len: views.len() }
}

impl PluginBackend {
    pub(super) fn new(table: PluginTable, index: usize) -> Result<Self, Error> {
        let description = answer(|out, error| (table.describe)(index, out, error))?;
        Ok(PluginBackend { table, index, description: in_one_line(description), newer: false })
    }
}

impl PluginBackend {
    /// The same backend, spoken to as by a host of a later version: regions and environments have fields that nobody
    /// knows yet, and that a plugin must ignore.
    pub fn under_newer_host(&self) -> PluginBackend {
        let PluginBackend { table, index, ref description, .. } = *self;
        PluginBackend { table, index, description: description.clone(), newer: true }
    }

    fn region(&self, region: &Region) -> Result<Vec<u8>, Error> {
        if !self.newer {
            return json(region);
        }
        let mut value = serde_json::to_value(region)?;
        for list in ["values", "constants", "nodes"] {
            value[list].as_array_mut().into_iter().flatten().for_each(add_unknown);
        }
        add_unknown(&mut value);
        json(&value)
    }

    fn environment(&self, environment: &Environment) -> Result<Vec<u8>, Error> {
        if !self.newer {
            return json(environment);
        }
        let mut value = serde_json::to_value(environment)?;
        add_unknown(&mut value);
        json(&value)
    }
}

impl PluginBackend {
    /// The table of an optional ability, where the plugin has it: a struct of its size and of functions, all of which
    /// are there.
    ///
    /// # Safety
    /// `T` is the table that stands for `id` and `version` in the contract.
    unsafe fn ability<T: Copy>(&self, id: &str, version: u32) -> Option<T> {
        const WORD: usize = size_of::<usize>();
        let table = (self.table.extension)(self.index, Slice::new(id.as_bytes()), version);
        if table.is_null() {
            return None;
        }
        let words = table.cast::<usize>();
        // SAFETY: by contract such a table starts with its size, which covers what else is read. A function pointer must
        // not even be read as one while it may be null.
        unsafe {
            let functions = 1..size_of::<T>() / WORD;
            let present = *words >= size_of::<T>() && functions.into_iter().all(|at| *words.add(at) != 0);
            present.then(|| *table.cast::<T>())
        }
    }
}

/// The same, with all that is printed in one line each. Names are judged, for they are also what the plugin knows things by.
fn in_one_line(description: Description) -> Description {
    let options = |specs: Vec<OptionSpec>| -> Vec<OptionSpec> {
        specs.into_iter().map(|spec| OptionSpec { help: one_line(&spec.help), ..spec }).collect()
    };
    let file = |format: FileFormat| FileFormat { summary: one_line(&format.summary), ..format };
    Description {
        version: one_line(&description.version),
        summary: one_line(&description.summary),
        options: options(description.options),
        run_options: options(description.run_options),
        files: description.files.into_iter().map(file).collect(),
        ..description
    }
}

/// A field such as a later version may have.
fn add_unknown(object: &mut Value) {
    object["of_a_later_version"] = serde_json::json!({ "list": [1, null, "text"], "nested": {} });
}

impl Backend for PluginBackend {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        let options = json(options)?;
        let patterns: Vec<Pattern> =
            answer(|out, error| (self.table.patterns)(self.index, Slice::new(&options), out, error))?;
        let in_lines = |it: Pattern| Pattern { name: one_line(&it.name), text: one_line(&it.text) };
        Ok(patterns.into_iter().map(in_lines).collect())
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        let failed = |error: Error| Refusal::new(RefusalCode::Failed, error.message);
        let (region, options) = (self.region(candidate).map_err(failed)?, json(options).map_err(failed)?);
        let (status, out, error) =
            collect(|out, error| (self.table.check)(self.index, Slice::new(&region), Slice::new(&options), out, error));
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
        let (region, options, views) = (self.region(region)?, json(options)?, constant_views(constants));
        let mut sink = CodeSink { code, failed: None };
        let context = std::ptr::from_mut(&mut sink).cast();
        let (status, _, error) = collect(|_, error| {
            let code = Sink { context, write: write_code };
            (self.table.codegen)(self.index, Slice::new(&region), list(&views), Slice::new(&options), code, error)
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
        let (region, options, views) = (self.region(region)?, json(options)?, constant_views(constants));
        let mut sink = HostClaims { claims: claims.sink(), failed: None };
        let context = std::ptr::from_mut(&mut sink).cast();
        let (status, _, error) = collect(|_, error| {
            let claims = abi::ClaimSink { context, claim: take_claim, write: take_bytes };
            (self.table.constant_updater)(
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
        let environment = self.environment(environment)?;
        let views: Vec<_> = constants.iter().map(BoundConstant::wire).collect();
        let mut handle = std::ptr::null_mut();
        let (status, _, error) = collect(|_, error| {
            let (code, environment) = (Slice::new(code), Slice::new(&environment));
            (self.table.load)(self.index, code, list(&views), environment, &mut handle, error)
        });
        match (status, handle.is_null()) {
            (abi::OK, false) => Ok(Box::new(PluginExecutable::new(self.table, handle))),
            (abi::OK, true) => Err(Error::new("the plugin loaded the region and gave no handle")),
            (status, _) => Err(failure(status, &error)),
        }
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        // SAFETY: id, version and table belong together.
        let table: Option<OpenTable> = unsafe { self.ability(OPEN_ID, OPEN_VERSION) };
        let table = table.ok_or_else(|| Error::new("this backend opens no files"))?;
        answer(|out, error| (table.open)(self.index, Slice::new(file), out, error))
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        // SAFETY: id, version and table belong together.
        let table: Option<DomainTable> = unsafe { self.ability(DOMAIN_ID, DOMAIN_VERSION) };
        let table = table.ok_or_else(|| Error::new(OPENS_NO_DOMAIN))?;
        Ok(Box::new(PluginDomain::open(table, self.index, ordinal, options)?))
    }

    fn load_on<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        // SAFETY: id, version and table belong together.
        let table: Option<DeviceTable> = unsafe { self.ability(DEVICE_ID, DEVICE_VERSION) };
        let table = table.ok_or_else(|| Error::new("this backend runs in host memory only"))?;
        let environment = self.environment(environment)?;
        Ok(Box::new(PluginDeviceExecutable::load(table, self.index, code, constants, &environment, domain)?))
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        // SAFETY: id, version and table belong together.
        let Some(table) = (unsafe { self.ability::<ToolsTable>(TOOLS_ID, TOOLS_VERSION) }) else {
            return Ok(Vec::new());
        };
        let options = json(options)?;
        answer(|out, error| (table.tools)(self.index, Slice::new(&options), out, error))
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        // SAFETY: id, version and table belong together.
        let Some(table) = (unsafe { self.ability::<CandidatesTable>(CANDIDATES_ID, CANDIDATES_VERSION) }) else {
            return Ok(Vec::new());
        };
        tuning::candidates(table, self.index, code, &json(options)?)
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
