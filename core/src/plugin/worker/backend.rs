//! A backend that lives in a worker, as any other [`Backend`]. What it compiled is loaded and run in this process: only
//! then is the plugin opened here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byoc_plugin_api::host::{self, LoadError, PluginBackend};
use byoc_plugin_api::{
    Backend, BoundConstants, Candidate, Claims, CodeFile, Constants, Description, DeviceConstants, DeviceExecutable,
    Domain, DomainHandles, Environment, Error, Executable, Options, Pattern, Refusal, RefusalCode, Region, Tool,
};

use super::Isolation;
use super::budget::OutputBudget;
use super::client::Worker;
use super::protocol::{Opened, Part, Reply, Request};
use super::shared::{lend, lend_bytes};

/// A backend of a plugin that runs in a process of its own while it compiles.
pub struct IsolatedBackend {
    worker: Arc<Worker>,
    path: PathBuf,
    index: usize,
    description: Description,
    /// The plugin in this process, once something is to be run.
    here: OnceLock<Result<PluginBackend, Error>>,
}

/// Opens a plugin in a worker: the ABI version it speaks, and its backends.
pub(crate) fn open(path: &Path, isolation: &Isolation) -> Result<(u32, Vec<IsolatedBackend>), OpenError> {
    let worker = Arc::new(Worker::new(path, isolation));
    let opened = worker.open()?;
    let backends = opened.backends.into_iter().enumerate().map(|(index, description)| IsolatedBackend {
        worker: worker.clone(),
        path: path.to_owned(),
        index,
        description,
        here: OnceLock::new(),
    });
    Ok((opened.abi_version, backends.collect()))
}

/// Why a plugin is not open in a worker.
pub(crate) enum OpenError {
    /// The plugin was refused.
    Refused(LoadError),
    /// The worker has failed or ended.
    Worker(Error),
}

impl Worker {
    fn open(&self) -> Result<Opened, OpenError> {
        let answer = self.ask(&self.open_request(), |part| match part {
            Part::Reply(Reply::Opened(opened)) => Ok(Some(Ok(opened))),
            Part::Reply(Reply::NotOpened(error)) => Ok(Some(Err(error))),
            _ => Err(unexpected()),
        });
        answer.map_err(OpenError::Worker)?.map_err(OpenError::Refused)
    }

    /// Asks a worker that has the plugin open.
    fn call<T>(&self, request: &Request, take: impl FnMut(Part) -> Result<Option<T>, Error>) -> Result<T, Error> {
        if !self.is_running() {
            self.open().map_err(|error| match error {
                OpenError::Worker(error) => error,
                OpenError::Refused(error) => Error::new(format!("the plugin cannot be opened again: {error}")),
            })?;
        }
        self.ask(request, take)
    }
}

impl IsolatedBackend {
    /// The backend in this process.
    fn here(&self) -> Result<&PluginBackend, Error> {
        let here = self.here.get_or_init(|| {
            let plugin = host::open(&self.path)
                .map_err(|error| Error::new(format!("its plugin cannot be opened here: {error}")))?;
            let backend = plugin.backends.into_iter().nth(self.index);
            backend.ok_or_else(|| Error::new("the plugin has another list of backends here"))
        });
        here.as_ref().map_err(Clone::clone)
    }
}

fn unexpected() -> Error {
    Error::new("the worker answered something else than it was asked")
}

impl Backend for IsolatedBackend {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        let request = Request::Patterns { backend: self.index, options: options.clone() };
        self.worker.call(&request, |part| match part {
            Part::Reply(Reply::Patterns(patterns)) => Ok(Some(patterns)),
            _ => Err(unexpected()),
        })
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        let request = Request::Check { backend: self.index, region: candidate.clone(), options: options.clone() };
        let answer = self.worker.call(&request, |part| match part {
            Part::Reply(Reply::Checked(refusal)) => Ok(Some(refusal)),
            _ => Err(unexpected()),
        });
        match answer {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(refusal),
            Err(error) => {
                let code = if error.crashed { RefusalCode::Crashed } else { RefusalCode::Failed };
                Err(Refusal::new(code, error.message))
            }
        }
    }

    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut lent = lend(constants)?;
        let request = Request::Codegen {
            backend: self.index,
            region: region.clone(),
            constants: std::mem::take(&mut lent.shared),
            options: options.clone(),
        };
        let mut budget = OutputBudget::new("code", self.worker.most_output(), constants);
        self.worker.call(&request, |part| match part {
            Part::Bytes(bytes) => {
                budget.take(&bytes)?;
                code.write_all(&bytes)?;
                Ok(None)
            }
            Part::Reply(Reply::Done) => Ok(Some(())),
            Part::Reply(_) => Err(unexpected()),
        })
    }

    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        code: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        let mut lent = lend(constants)?;
        let (code, _file) = lend_bytes(code)?;
        let request = Request::ConstantUpdater {
            backend: self.index,
            region: region.clone(),
            constants: std::mem::take(&mut lent.shared),
            code,
            options: options.clone(),
        };
        let sink = claims.sink();
        let mut budget = OutputBudget::new("packed constants", self.worker.most_output(), constants);
        self.worker.call(&request, |part| match part {
            Part::Bytes(bytes) => {
                budget.take(&bytes)?;
                sink.write(&bytes)?;
                Ok(None)
            }
            Part::Reply(Reply::Claim(id, claim)) => {
                sink.claim(id, &claim)?;
                Ok(None)
            }
            Part::Reply(Reply::Done) => Ok(Some(())),
            Part::Reply(_) => Err(unexpected()),
        })
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        self.here()?.load(code, constants, environment)
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        let (file, _kept) = lend_bytes(file)?;
        self.worker.call(&Request::OpenFile { backend: self.index, file }, |part| match part {
            Part::Reply(Reply::FileOpened(contents)) => Ok(Some(contents)),
            _ => Err(unexpected()),
        })
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        self.here()?.open_domain(ordinal, options)
    }

    fn load_on<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        self.here()?.load_on(code, constants, environment, domain)
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        let request = Request::Tools { backend: self.index, options: options.clone() };
        self.worker.call(&request, |part| match part {
            Part::Reply(Reply::Tools(tools)) => Ok(Some(tools)),
            _ => Err(unexpected()),
        })
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        let (code, _file) = lend_bytes(code)?;
        let request = Request::Candidates { backend: self.index, code, options: options.clone() };
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut taken = 0;
        self.worker.call(&request, |part| match (part, candidates.last_mut()) {
            (Part::Reply(Reply::Candidate(name)), _) => {
                taken += name.len();
                host::few_candidates(candidates.len() + 1, taken)?;
                candidates.push(Candidate { name, code: Vec::new() });
                Ok(None)
            }
            (Part::Bytes(bytes), Some(candidate)) => {
                taken += bytes.len();
                host::few_candidates(1, taken)?;
                candidate.code.extend_from_slice(&bytes);
                Ok(None)
            }
            (Part::Reply(Reply::Done), _) => Ok(Some(())),
            _ => Err(unexpected()),
        })?;
        Ok(candidates)
    }
}
