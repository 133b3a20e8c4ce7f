//! Checks by name: each is done in a process of its own, so that one that hangs or breaks the device is one line.

use std::time::Duration;

use crate::fixture::Fixture;
use crate::report::{Report, Result};

/// The time that a check has where it does not say another.
const LIMIT: Duration = Duration::from_secs(60);

/// What a check does.
type Work = Box<dyn FnOnce(&Fixture, &mut Report)>;

/// A check, or several that belong together.
pub(crate) struct Check {
    /// Its name, unique in its part.
    pub(crate) name: String,
    /// How long it may take.
    pub(crate) limit: Duration,
    pub(crate) work: Work,
}

impl Check {
    /// One check.
    pub(crate) fn one(name: impl Into<String>, check: impl FnOnce(&Fixture) -> Result<String> + 'static) -> Check {
        let name = name.into();
        let told = name.clone();
        let work: Work = Box::new(move |fixture, report| {
            let found = check(fixture);
            let found = found.or_else(|error| if error.is::<Prepared>() { Ok(error.to_string()) } else { Err(error) });
            report.check(&told, found);
        });
        Check { name, limit: LIMIT, work }
    }

    /// Several checks, which have names of their own.
    pub(crate) fn several(name: impl Into<String>, work: impl FnOnce(&Fixture, &mut Report) + 'static) -> Check {
        Check { name: name.into(), limit: LIMIT, work: Box::new(work) }
    }

    /// With more time.
    pub(crate) fn within(self, seconds: u64) -> Check {
        Check { limit: Duration::from_secs(seconds), ..self }
    }
}

/// Why nothing is loaded: only kernels are compiled, by `--prepare`.
#[derive(Debug)]
pub(crate) struct Prepared;

impl std::fmt::Display for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("compiled")
    }
}

impl std::error::Error for Prepared {}
