//! Common start of `run`, `bench` and `verify`: loads an entry by the flags.

use std::time::Duration;

use byoc_core::diagnostic::Result;
use byoc_core::overwrite::Input;
use byoc_core::runtime::PassedOver;
use byoc_tools::execution::Loaded;
use byoc_tools::fill::Fill;
use serde::Serialize;
use serde_json::json;

use crate::args::{Execution, Inputs};
use crate::artifact::{self, Digests};
use crate::{report, threads};

/// A loaded entry, and what is known of the loading.
pub(crate) struct Ready {
    /// The entry with its inputs.
    pub(crate) loaded: Loaded,
    /// Further sessions of it on the same inputs.
    pub(crate) beside: Vec<Loaded>,
    /// How long opening and loading took, compiling not counted.
    pub(crate) load_time: Duration,
    /// Files that were read though the command line does not name them.
    pub(crate) found: Vec<Input>,
    /// Most threads of each session; 0 where it chooses by itself.
    pub(crate) threads: usize,
    /// Which variant it is, of a file that has some.
    pub(crate) variant: Option<Variant>,
}

/// The variant that was loaded, as `--json` tells it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Variant {
    /// Its name.
    variant: String,
    /// Better ones that cannot be loaded here.
    passed_over: Vec<Passed>,
}

#[derive(Clone, Debug, Serialize)]
struct Passed {
    variant: String,
    code: &'static str,
    reason: String,
}

impl Variant {
    fn of(name: &str, passed_over: &[PassedOver]) -> Variant {
        let passed = |it: &PassedOver| Passed {
            variant: it.variant.clone(),
            code: it.reason.code.id(),
            reason: it.reason.message.clone(),
        };
        Variant { variant: name.to_owned(), passed_over: passed_over.iter().map(passed).collect() }
    }

    /// Adds it to a report, where there is one.
    pub(crate) fn add_to(of: Option<&Variant>, report: &mut serde_json::Value) {
        if let Some(Variant { variant, passed_over }) = of {
            report["variant"] = json!(variant);
            report["passed_over"] = json!(passed_over);
        }
    }
}

/// What differs from verb to verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The default fill of inputs without a file.
    pub(crate) fill: Option<Fill>,
    /// Whether the time of each region is taken, which keeps those on a device from being replayed together.
    pub(crate) profile: bool,
    /// When the artifact is compared with its digests.
    pub(crate) digests: Digests,
    /// How many sessions there are.
    pub(crate) streams: usize,
}

/// Opens and loads the entry, and gathers its inputs.
pub(crate) fn load(execution: &Execution, need: Need) -> Result<Ready> {
    let threads = threads::of_each(execution.threads, need.streams);
    let of_each = Execution { threads, ..execution.clone() };
    let mut opened = artifact::open(&of_each, need.digests, need.profile)?;
    if let Some(warning) = threads::too_many(threads, need.streams) {
        report::warning(&warning);
    }
    let (open_sizes, found) = (opened.open_sizes.sizes(), std::mem::take(&mut opened.found));
    let (session, load_time) = opened.load(&execution.file)?;
    let given = execution.inputs.given(need.fill);
    let loaded = Loaded::new(session, &given, &open_sizes, &mut |warning| report::warning(&warning))?;
    let another = |_| opened.load(&execution.file).and_then(|(session, _)| loaded.beside(session));
    let beside = (1..need.streams).map(another).collect::<Result<_>>()?;
    let variant = opened.variant().map(|name| Variant::of(name, &opened.passed_over));
    Ok(Ready { loaded, beside, load_time, found, threads, variant })
}

/// A line that says which inputs are made up though the user did not ask for it; nothing where he did.
pub(crate) fn made_up(execution: &Execution, names: &[String]) -> String {
    const SHOWN: usize = 4;
    let Inputs { fill, fill_range, seed, .. } = &execution.inputs;
    if names.is_empty() || fill.is_some() || !fill_range.is_empty() {
        return String::new();
    }
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let inputs = if names.len() == 1 { "input" } else { "inputs" };
    format!("{inputs} {shown}{more}: random values, seed {seed}\n")
}
