//! A backend as a host has it, as any other [`Backend`], wherever its code is: linked into this program, in a library that
//! is open here, or in one that is open in another process. What it says is judged here, for it may say anything and ends up
//! on terminals, in artifacts and in memory sizes.

mod other_hosts;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use self::other_hosts::{FIRST_METHODS, Host};
use super::answer::{MOST, failure, in_lines, one_line, parsed, parsed_in_full, too_long};
use super::code_file::checked_file;
use super::device::PluginDeviceExecutable;
use super::domain::PluginDomain;
use super::lists::{checked_candidates, checked_steps, checked_tools, few_candidates};
use super::wire::Wire;
use crate::abi;
use crate::backend::{Backend, Candidate, CodeFile, Description, FileFormat, Tool};
use crate::call::{Answer, Call, CandidateItem, ClaimItem, Part, Request, make};
use crate::constants::{BoundConstants, Claims, Constants};
use crate::domain::{DeviceConstants, DeviceExecutable, Domain, DomainHandles};
use crate::error::{Error, Refusal, RefusalCode};
use crate::job::{Generated, Job};
use crate::operator::OutputType;
use crate::options::{OptionSpec, Options};
use crate::panics::{Guard, guarded};
use crate::pattern::Pattern;
use crate::region::Region;
use crate::runtime::{DeviceRuntime, Environment, Executable, HostRuntime, Runtime, SizedOutputs, StepTime};
use crate::tensor::{TensorView, TensorViewMut};
use crate::texts::Texts;

/// What a refusal says whose backend gives no reason.
pub const NO_REASON: &str = "refused without a reason";

/// A backend that a host has.
pub struct LoadedBackend {
    code: Code,
    pub(super) description: Description,
    /// Fields of its description that this version does not know.
    unknown: Vec<String>,
    /// The host that it is spoken to as by.
    host: Host,
}

/// Where the code of a backend is.
#[derive(Clone)]
enum Code {
    /// In this program. A panic in any of its calls is an error.
    Linked(&'static dyn Backend),
    /// In a plugin, which has it under that index.
    Plugin(Arc<dyn Wire>, usize),
}

impl LoadedBackend {
    /// A backend that is linked into this program.
    pub fn linked(backend: &'static dyn Backend) -> Result<LoadedBackend, Error> {
        LoadedBackend::described(Code::Linked(backend))
    }

    /// The backend of that index of a plugin.
    pub(super) fn of_plugin(wire: Arc<dyn Wire>, index: usize) -> Result<LoadedBackend, Error> {
        LoadedBackend::described(Code::Plugin(wire, index))
    }

    fn described(code: Code) -> Result<LoadedBackend, Error> {
        let mut backend =
            LoadedBackend { code, description: Description::default(), unknown: Vec::new(), host: Host::This };
        let answer = backend.ask_bytes("describe", &Request::default(), &[])?.ok_or_else(unknown)?;
        let (description, unknown) = parsed_in_full(&answer)?;
        backend.description = in_one_line(description);
        backend.unknown = unknown;
        Ok(backend)
    }

    /// Fields of its description that this version does not know: those of a later one, or misspelt ones.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// The backend itself where it is linked into this program: a call without a detour by JSON, for methods that are called
    /// for every node or that borrow.
    fn direct(&self) -> Option<&'static dyn Backend> {
        match self.code {
            Code::Linked(backend) if self.host == Host::This => Some(backend),
            _ => None,
        }
    }

    /// Calls a method. False where the backend does not have it.
    fn call(
        &self,
        method: &str,
        request: &Request<'_>,
        constants: &Constants<'_>,
        blobs: &[&[u8]],
        answer: &mut Answer<'_>,
    ) -> Result<bool, Error> {
        if self.host == Host::First && !FIRST_METHODS.contains(&method) {
            return Ok(false);
        }
        let call = Call { method, request: &self.request(request)?, constants, blobs };
        let ending = match &self.code {
            Code::Linked(backend) => return guarded(|| make(*backend, &call, answer)),
            Code::Plugin(wire, index) => wire.call(*index, &call, answer)?,
        };
        match ending.status {
            abi::OK => Ok(true),
            abi::UNKNOWN => Ok(false),
            status => Err(failure(status, &ending.error)),
        }
    }

    /// The answer of a method that gives nothing but JSON; `None` where the backend does not have it. No answer at all is
    /// as good as `null`.
    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        request: &Request<'_>,
        blobs: &[&[u8]],
    ) -> Result<Option<T>, Error> {
        self.ask_bytes(method, request, blobs)?.map(|answer| parsed(&answer)).transpose()
    }

    fn ask_bytes(&self, method: &str, request: &Request<'_>, blobs: &[&[u8]]) -> Result<Option<Vec<u8>>, Error> {
        let mut answer = Vec::new();
        let has = self.call(method, request, &Constants::new(Vec::new()), blobs, &mut |part| match part {
            Part::Bytes(more) => append(&mut answer, more),
            Part::Item(_) => Err(Error::new("the plugin gave an item where none is taken")),
            Part::Event(_) => Ok(()),
        })?;
        Ok(has.then(|| if answer.is_empty() { b"null".to_vec() } else { answer }))
    }
}

/// Appends to an answer that is kept in memory.
fn append(answer: &mut Vec<u8>, more: &[u8]) -> Result<(), Error> {
    if answer.len().saturating_add(more.len()) > MOST {
        return Err(too_long());
    }
    answer.extend_from_slice(more);
    Ok(())
}

/// Hands an event to whoever listens to the job. One that cannot be read is one of a later version.
fn report(job: &Job<'_>, json: &[u8]) {
    if let Ok(event) = serde_json::from_slice(json) {
        job.emit(in_lines(event));
    }
}

/// The error of a plugin without a method that every backend has.
fn unknown() -> Error {
    failure(abi::UNKNOWN, &[])
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

/// What a refusal says in one line, where it says anything.
fn reason(message: &str) -> String {
    let line = one_line(message);
    if line.trim().is_empty() { NO_REASON.into() } else { line }
}

/// What a request is about.
fn about<'a>(region: &'a Region, options: &'a Options) -> Request<'a> {
    Request { region: Some(Cow::Borrowed(region)), ..with(options) }
}

fn with(options: &Options) -> Request<'_> {
    Request { options: Cow::Borrowed(options), region: None }
}

impl Backend for LoadedBackend {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        let patterns: Vec<Pattern> = self.ask("patterns", &with(options), &[])?.ok_or_else(unknown)?;
        let in_lines = |it: Pattern| Pattern { name: one_line(&it.name), text: one_line(&it.text) };
        Ok(patterns.into_iter().map(in_lines).collect())
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        let answer = match self.direct() {
            Some(backend) => guarded(|| Ok(backend.check(candidate, options).err())),
            None => self.ask("check", &about(candidate, options), &[]).and_then(|answer| answer.ok_or_else(unknown)),
        };
        match answer {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(Refusal { message: reason(&refusal.message), ..refusal }),
            Err(error) => {
                let code = match (error.crashed, error.panicked) {
                    (true, _) => RefusalCode::Crashed,
                    (_, true) => RefusalCode::Panicked,
                    _ => RefusalCode::Failed,
                };
                Err(Refusal::new(code, error.message))
            }
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let mut generated: Option<Generated> = None;
        if let Some(backend) = self.direct() {
            let clean = |event| job.emit(in_lines(event));
            generated = Some(guarded(|| backend.codegen(&job.with_events(&clean), code))?);
        } else {
            let request = about(job.region, job.options);
            let has = self.call("codegen", &request, job.constants, &[], &mut |part| match (part, &mut generated) {
                (Part::Bytes(bytes), None) => Ok(code.write_all(bytes)?),
                (Part::Bytes(bytes), Some(generated)) => append(&mut generated.learnt, bytes),
                (Part::Item(json), None) => {
                    generated = Some(parsed(json)?);
                    Ok(())
                }
                (Part::Item(_), Some(_)) => Err(Error::new("the plugin gave a second item behind the code")),
                (Part::Event(json), _) => {
                    report(job, json);
                    Ok(())
                }
            })?;
            has.then_some(()).ok_or_else(unknown)?;
        }
        let generated = generated.unwrap_or_default();
        Ok(Generated { notes: generated.notes.iter().map(|note| one_line(note)).collect(), ..generated })
    }

    fn constant_updater(
        &self,
        job: &Job<'_>,
        code: &[u8],
        learnt: &[u8],
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        if let Some(backend) = self.direct() {
            let clean = |event| job.emit(in_lines(event));
            return guarded(|| backend.constant_updater(&job.with_events(&clean), code, learnt, claims));
        }
        let (request, blobs, sink) = (about(job.region, job.options), [code, learnt], claims.sink());
        let has = self.call("constant_updater", &request, job.constants, &blobs, &mut |part| match part {
            Part::Bytes(bytes) => sink.write(bytes),
            Part::Item(json) => {
                let item: ClaimItem = serde_json::from_slice(json)
                    .map_err(|error| Error::new(format!("a claim is not valid: {error}")))?;
                sink.claim(item.id, &item.claim)
            }
            Part::Event(json) => {
                report(job, json);
                Ok(())
            }
        })?;
        has.then_some(()).ok_or_else(unknown)
    }

    fn runtime(&self) -> Runtime<'_> {
        match self.description.domain {
            None => Runtime::Host(self),
            Some(_) => Runtime::Device(self),
        }
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        let answer = self.ask("open", &Request::default(), &[file])?;
        checked_file(answer.ok_or_else(|| Error::new("this backend opens no files"))?, file.len())
    }

    fn infer(&self, candidate: &Region, options: &Options) -> Result<Vec<OutputType>, Error> {
        let answer = match self.direct() {
            Some(backend) => guarded(|| backend.infer(candidate, options).map(Some)),
            None => self.ask("infer", &about(candidate, options), &[]),
        };
        answer?.ok_or_else(|| Error::new("this backend gives no types"))
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        checked_tools(self.ask("tools", &with(options), &[])?.unwrap_or_default())
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut taken = 0_usize;
        self.call("candidates", &with(options), &Constants::new(Vec::new()), &[code], &mut |part| {
            let (Part::Item(bytes) | Part::Bytes(bytes)) = part else { return Ok(()) };
            taken = taken.saturating_add(bytes.len());
            few_candidates(candidates.len() + usize::from(matches!(part, Part::Item(_))), taken)?;
            match (part, candidates.last_mut()) {
                (Part::Item(json), _) => {
                    let item: CandidateItem = serde_json::from_slice(json)
                        .map_err(|error| Error::new(format!("the name of a candidate is not valid: {error}")))?;
                    candidates.push(Candidate { name: item.name, code: Vec::new() });
                }
                (Part::Bytes(bytes), Some(candidate)) => candidate.code.extend_from_slice(bytes),
                (Part::Bytes(_), None) => {
                    return Err(Error::new("the plugin gave code before the name of a candidate"));
                }
                (Part::Event(_), _) => {}
            }
            Ok(())
        })?;
        checked_candidates(candidates, code)
    }
}

impl HostRuntime for LoadedBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        match &self.code {
            Code::Linked(backend) => {
                let executable = guarded(|| backend.runtime().host()?.load(code, constants, environment))?;
                Ok(Box::new(LinkedExecutable(Guard::new(executable))))
            }
            Code::Plugin(wire, index) => {
                Arc::clone(wire).load(*index, code, constants, &self.environment(environment)?)
            }
        }
    }
}

impl DeviceRuntime for LoadedBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        match &self.code {
            Code::Linked(backend) => {
                let executable = guarded(|| backend.runtime().device()?.load(code, constants, environment, domain))?;
                Ok(Box::new(PluginDeviceExecutable::linked(executable, domain)))
            }
            Code::Plugin(wire, index) => {
                let environment = self.environment(environment)?;
                wire.library()?.load_on(*index, code, constants, &environment, domain)
            }
        }
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        match &self.code {
            Code::Linked(backend) => {
                let open = || Ok(PluginDomain::linked(backend.runtime().device()?.open_domain(ordinal, options)?));
                Ok(Box::new(guarded(open)?))
            }
            Code::Plugin(wire, index) => wire.library()?.open_domain(*index, ordinal, options),
        }
    }
}

/// A loaded region of a backend that is linked into this program: its tensors take no detour.
struct LinkedExecutable<'a>(Guard<dyn Executable + 'a>);

impl Executable for LinkedExecutable<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.0.call(|executable| executable.run(inputs, outputs))
    }

    fn run_sized(&mut self, inputs: &[TensorView<'_>], outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        self.0.call(|executable| executable.run_sized(inputs, outputs))
    }

    fn lend(&mut self, texts: Arc<dyn Texts>) -> Result<(), Error> {
        self.0.call(|executable| executable.lend(texts))
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.0.call(|executable| executable.time_steps(on))
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        checked_steps(self.0.call(|executable| executable.steps())?)
    }
}
