//! Of a model that fails, a smaller one that fails as well: fewer nodes, smaller sizes.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::Result;

use crate::bench::{Bench, Source};
use crate::models::Sample;
use crate::report::Verdict;

/// How long smaller models are looked for.
const LONGEST: Duration = Duration::from_secs(2);

/// The smallest model that was found in which `test` fails. `None` where that is the sample itself.
pub(crate) fn smallest(
    bench: &Bench,
    sample: &Sample,
    test: &dyn Fn(&Source) -> Option<Verdict>,
) -> Result<Option<Sample>> {
    let start = Instant::now();
    let mut found: Option<Sample> = None;
    loop {
        let current = found.as_ref().unwrap_or(sample);
        let mut next = None;
        for smaller in current.smaller(&bench.selected.registered.description) {
            if start.elapsed() > LONGEST {
                return Ok(found);
            }
            let source = Source::write(&smaller.model, &bench.folder)?;
            if !source.is_valid(bench) {
                continue;
            }
            if let Some(Verdict::Fail(_)) = test(&source) {
                next = Some(smaller);
                break;
            }
        }
        match next {
            Some(smaller) => found = Some(smaller),
            None => return Ok(found),
        }
    }
}
