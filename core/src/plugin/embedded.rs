//! Backends that are linked into the program, held as plugins are: a panic in any of their calls, loading and running
//! included, is an error with the same text and never the end of the program.

mod domain;
mod place;
#[cfg(test)]
mod tests;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Candidate, Claims, CodeFile, Constants, Description, DeviceConstants, DeviceExecutable,
    Domain, DomainHandles, Environment, Error, Executable, Options, Pattern, Refusal, RefusalCode, Region, TensorView,
    TensorViewMut, Tool,
};

use self::domain::{GuardedDeviceExecutable, GuardedDomain};
pub use self::place::quiet_panics;
use self::place::{answer, guarded, quietly};

/// A backend that is linked into the program.
pub struct EmbeddedBackend {
    backend: &'static dyn Backend,
    description: Description,
}

impl EmbeddedBackend {
    /// Asks the backend what it is.
    pub(super) fn new(backend: &'static dyn Backend) -> Result<EmbeddedBackend, Error> {
        Ok(EmbeddedBackend { backend, description: answer(|| backend.describe())? })
    }
}

impl Backend for EmbeddedBackend {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        guarded(|| self.backend.patterns(options))
    }

    fn check(&self, candidate: &Region, options: &Options) -> Result<(), Refusal> {
        answer(|| self.backend.check(candidate, options))
            .unwrap_or_else(|error| Err(Refusal::new(RefusalCode::Failed, error.message)))
    }

    fn codegen(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        options: &Options,
        code: &mut dyn Write,
    ) -> Result<(), Error> {
        guarded(|| self.backend.codegen(region, constants, options, code))
    }

    fn constant_updater(
        &self,
        region: &Region,
        constants: &Constants<'_>,
        code: &[u8],
        options: &Options,
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        guarded(|| self.backend.constant_updater(region, constants, code, options, claims))
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let executable = guarded(|| self.backend.load(code, constants, environment))?;
        Ok(Box::new(GuardedExecutable { guard: Guard::new(executable) }))
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        guarded(|| self.backend.open(file))
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        let domain = guarded(|| self.backend.open_domain(ordinal, options))?;
        Ok(Box::new(GuardedDomain::new(domain)?))
    }

    fn load_on<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        let executable = guarded(|| self.backend.load_on(code, constants, environment, domain))?;
        Ok(Box::new(GuardedDeviceExecutable { guard: Guard::new(executable) }))
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        guarded(|| self.backend.tools(options))
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        guarded(|| self.backend.candidates(code, options))
    }
}

/// Something of a backend that lasts. Once a call of it has panicked it may be half done, so it is not called again.
struct Guard<T: ?Sized> {
    /// Taken when this is dropped.
    held: Option<Box<T>>,
    panicked: Option<Error>,
}

impl<T: ?Sized> Guard<T> {
    fn new(held: Box<T>) -> Guard<T> {
        Guard { held: Some(held), panicked: None }
    }

    /// What the call gives, unless it panics, or one before it has.
    fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R, Error>) -> Result<R, Error> {
        let (Some(held), None) = (&mut self.held, &self.panicked) else {
            let before = self.panicked.as_ref().map_or("", |error| error.message.as_str());
            return Err(Error::new(format!("it failed before and is not called again: {before}")));
        };
        answer(|| call(held)).map_err(|error| self.panicked.insert(error).clone()).flatten()
    }
}

impl<T: ?Sized> Drop for Guard<T> {
    fn drop(&mut self) {
        let held = self.held.take();
        quietly(|| drop(held));
    }
}

/// A loaded region.
struct GuardedExecutable<'a> {
    guard: Guard<dyn Executable + 'a>,
}

impl Executable for GuardedExecutable<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.guard.call(|executable| executable.run(inputs, outputs))
    }
}
