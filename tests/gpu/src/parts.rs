//! The parts of the suite, a file each.

mod attention;
mod checker;
mod correctness;
mod environment;
mod errors;
mod kernels;
mod memory;
mod operators;
mod probes;
mod replay;
mod tiles;
pub(crate) mod times;

use crate::args::{Args, Part};
use crate::check::Check;
use crate::fixture::{self, GENERATING, PRODUCTS};
use crate::report::{Result, failure};

/// What the checks of a part depend on, beside the device.
pub(crate) struct Scope {
    pub(crate) quick: bool,
    /// The names of the backends.
    backends: Vec<String>,
    /// Whether kernels are only compiled.
    prepares: bool,
}

impl Scope {
    fn of(args: &Args) -> Result<Scope> {
        let registry = fixture::registry(&fixture::plugins(args)?)?;
        let backends = registry.backends.iter().map(|backend| backend.description.name.clone()).collect();
        Ok(Scope { quick: args.quick, backends, prepares: args.prepare.is_some() })
    }

    /// Whether there is a plugin with this backend.
    pub(crate) fn has(&self, backend: &str) -> bool {
        self.backends.iter().any(|name| name == backend)
    }

    fn needs(&self, backend: &str) -> Result<()> {
        if self.has(backend) { Ok(()) } else { failure(format!("there is no plugin with the backend '{backend}'")) }
    }
}

/// The checks of a part, the same at every call.
pub(crate) fn checks(part: Part, args: &Args) -> Result<Vec<Check>> {
    let scope = Scope::of(args)?;
    match part {
        Part::Correctness | Part::Replay | Part::Memory | Part::Errors => scope.needs(fixture::BACKEND)?,
        Part::Kernels | Part::Tiles | Part::Choices => scope.needs(PRODUCTS)?,
        Part::Operators => GENERATING.iter().try_for_each(|backend| scope.needs(backend))?,
        Part::Environment | Part::Probes | Part::Attention | Part::Times | Part::Checker => {}
    }
    let one = |name: &str, work: fn(&fixture::Fixture, &mut crate::report::Report)| vec![Check::several(name, work)];
    Ok(match part {
        Part::Environment => one("environment", environment::run),
        Part::Probes => probes::checks(&scope),
        Part::Correctness => correctness::checks(&scope),
        Part::Tiles => tiles::checks(&scope),
        Part::Kernels => kernels::checks(),
        Part::Attention => attention::checks(),
        Part::Operators => operators::checks(&scope),
        Part::Replay => replay::checks(),
        Part::Memory => one("memory", memory::run).into_iter().map(|check| check.within(180)).collect(),
        Part::Errors => one("errors", errors::run),
        Part::Times => times::checks(&scope),
        Part::Choices => times::choices::checks(&scope),
        Part::Checker => checker::checks(&scope, args)?,
    })
}
