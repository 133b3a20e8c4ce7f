//! Stage 5: runs each region through its backend's codegen and constant_updater. Code and packed bytes go to the spool,
//! not into memory.

mod claims;
mod constant_views;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use byoc_plugin_api::{self as api, Backend, Claims, ConstantAccess, ConstantId, Error, Job};

pub(crate) use self::claims::Recorder;
pub(crate) use self::claims::{PackedConstant, RecordedClaim};
pub(crate) use self::constant_views::ConstantViews;
use crate::constants::{ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::Model;
use crate::partition::{ControlPlan, Partitioned, RegionPlan};
use crate::plugin::Selected;
use crate::spool::{Spool, SpoolRange};

/// A constant of a region, from the model to the claim.
#[derive(Clone, Debug)]
pub(crate) struct RegionConstant {
    /// The region's parameter.
    pub(crate) id: ConstantId,
    /// The model's constant.
    pub(crate) source: ConstantRef,
    /// The backend's claim.
    pub(crate) claim: RecordedClaim,
}

/// A region with its code and its constants.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedRegion {
    /// The region.
    pub(crate) plan: RegionPlan,
    /// Its code.
    pub(crate) code: SpoolRange,
    /// Its constants, in the order of the region's.
    pub(crate) constants: Vec<RegionConstant>,
    /// Its backend's notes about the code.
    pub(crate) notes: Vec<String>,
}

/// Stage 5's result.
pub(crate) struct Generated {
    /// The graphs and constants.
    pub(crate) model: Arc<Model>,
    /// The regions, in the order in which they run.
    pub(crate) regions: Vec<GeneratedRegion>,
    /// The control flow.
    pub(crate) control: Vec<ControlPlan>,
    /// Holds code and packed bytes until the artifact is written.
    pub(crate) spool: Spool,
}

/// What happens while code is generated.
pub(crate) enum Event<'a> {
    /// So many of so many regions have code; what is next.
    Progress(usize, usize, &'a str),
    /// A backend logs a line.
    Log(&'a str, &'a str),
}

/// A failed code generation.
pub(crate) struct Failure {
    /// The error.
    pub(crate) diagnostic: Diagnostic,
    /// The region, if its backend's process ended or it panicked.
    pub(crate) crashed: Option<Box<RegionPlan>>,
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure { diagnostic, crashed: None }
    }
}

/// Generates the code of every region. `report` is called before each one, and for events of its backend.
pub(crate) fn generate(
    partitioned: Partitioned,
    backends: &[Selected],
    mut spool: Spool,
    report: &dyn Fn(Event<'_>),
) -> std::result::Result<Generated, Failure> {
    let Partitioned { model, regions: plans, control, .. } = partitioned;
    let count = plans.len();
    let mut regions = Vec::with_capacity(count);
    for (index, mut plan) in plans.into_iter().enumerate() {
        let graph = &model.entries[plan.entry];
        plan.region.covers_entry = graph.body_of.is_none() && plan.nodes.len() == graph.nodes.len();
        let report = Reporter { done: index, count, report };
        regions.push(try_region(&model.constants, plan, backends, &mut spool, &report)?);
    }
    Ok(Generated { model, regions, control, spool })
}

/// Generates the code of some regions once more: what is known of their constants has changed.
pub(crate) fn regenerate(
    generated: &mut Generated,
    again: &BTreeSet<usize>,
    backends: &[Selected],
    report: &dyn Fn(Event<'_>),
) -> std::result::Result<(), Failure> {
    let Generated { model, regions, spool, .. } = generated;
    let count = regions.len();
    for &index in again {
        let report = Reporter { done: count, count, report };
        regions[index] = try_region(&model.constants, regions[index].plan.clone(), backends, spool, &report)?;
    }
    Ok(())
}

/// Passes on what happens while the code of one of so many regions is generated.
struct Reporter<'a> {
    done: usize,
    count: usize,
    report: &'a dyn Fn(Event<'_>),
}

impl Reporter<'_> {
    fn begin(&self, region: &str) {
        (self.report)(Event::Progress(self.done, self.count, region));
    }

    fn event(&self, backend: &str, region: &str, event: api::Event) {
        match event {
            api::Event::Log(line) => (self.report)(Event::Log(backend, &format!("{region}: {line}"))),
            api::Event::Progress { done, total, next } => {
                self.begin(&format!("{region}: {next} ({done} of {total})"));
            }
            _ => {}
        }
    }
}

fn try_region(
    table: &ConstantTable,
    plan: RegionPlan,
    backends: &[Selected],
    spool: &mut Spool,
    report: &Reporter<'_>,
) -> std::result::Result<GeneratedRegion, Failure> {
    let has_crashed = Cell::new(false);
    let selected = &backends[plan.backend];
    let failed = |error: Error| {
        has_crashed.set(error.crashed || error.panicked);
        backend_failed(selected.name(), &plan.region.symbol, error)
    };
    match generate_region(table, &plan, selected, spool, report, &failed) {
        Ok((code, constants, notes)) => Ok(GeneratedRegion { plan, code, constants, notes }),
        Err(diagnostic) => Err(Failure { diagnostic, crashed: has_crashed.get().then(|| Box::new(plan)) }),
    }
}

fn generate_region(
    table: &ConstantTable,
    plan: &RegionPlan,
    selected: &Selected,
    spool: &mut Spool,
    report: &Reporter<'_>,
    failed: &dyn Fn(Error) -> Diagnostic,
) -> Result<(SpoolRange, Vec<RegionConstant>, Vec<String>)> {
    let backend = &selected.registered.backend;
    let symbol = &plan.region.symbol;
    let with_data = selected.registered.description.constant_access != ConstantAccess::Load;
    let views = ConstantViews::new(table, plan, with_data);
    let constants = views.constants();
    report.begin(symbol);
    let events = |event| report.event(selected.name(), symbol, event);
    let job = Job::new(&plan.region, &constants, &selected.options).with_events(&events);
    let mut writer = spool.writer(format!("the code of region {symbol}"));
    let outcome = backend.codegen(&job, &mut writer);
    // The spool's own error (a full disk) is the cause of the backend's.
    let code = writer.finish()?;
    let api::Generated { notes, learnt } = outcome.map_err(failed)?;
    let opens_files = !selected.registered.description.files.is_empty();
    // What a backend is not asked costs no message to a worker, and no reading back.
    if plan.region.constants.is_empty() && !opens_files {
        return Ok((code, Vec::new(), notes));
    }
    let code_bytes = spool.briefly(code)?;
    let claimed = claimed(plan, &job, (&code_bytes, &learnt), selected, spool, failed)?;
    if opens_files {
        check_readable(selected, &code_bytes, failed)?;
    }
    Ok((code, claimed, notes))
}

/// The constants of a region that has code, as its backend claims them, given that code and what codegen has learnt. What
/// it packs goes to `spool`; `failed` wraps its errors. A region without constants is not asked about.
pub(crate) fn claimed(
    plan: &RegionPlan,
    job: &Job<'_>,
    (code, learnt): (&[u8], &[u8]),
    selected: &Selected,
    spool: &mut Spool,
    failed: &dyn Fn(Error) -> Diagnostic,
) -> Result<Vec<RegionConstant>> {
    if plan.region.constants.is_empty() {
        return Ok(Vec::new());
    }
    let mut recorder = Recorder::new(&plan.region, selected.name(), spool);
    let outcome = selected.registered.backend.constant_updater(job, code, learnt, &mut Claims::new(&mut recorder));
    let claims = recorder.finish(outcome.map_err(failed))?;
    let claimed = plan.constants().zip(claims);
    Ok(claimed
        .map(|((constant, source), claim)| RegionConstant { id: constant.id, source: source.clone(), claim })
        .collect())
}

/// A backend that opens files has to open the code that it has just written.
fn check_readable(selected: &Selected, code: &[u8], failed: &dyn Fn(Error) -> Diagnostic) -> Result<()> {
    let told = |error: Error| {
        let message = format!("it cannot read its own code: {}", error.message);
        failed(if error.crashed { error } else { Error { message, ..error } })
    };
    selected.registered.backend.open(code).map(drop).map_err(told)
}

/// The notes of every region, as warnings.
pub(crate) fn warnings(generated: &Generated, backends: &[Selected]) -> Vec<Diagnostic> {
    let of_region = |region: &GeneratedRegion| -> Vec<Diagnostic> {
        let place = format!("backend '{}', region {}", backends[region.plan.backend].name(), region.plan.region.symbol);
        region.notes.iter().map(|note| Diagnostic::new(Code::BackendNote, format!("{place}: {note}"))).collect()
    };
    generated.regions.iter().flat_map(of_region).collect()
}

/// The text form: each region with the size of its code and its claims.
pub(crate) fn print(generated: &Generated, backends: &[Selected]) -> String {
    let mut text = String::new();
    for region in &generated.regions {
        let (plan, code) = (&region.plan, region.code.len);
        text += &format!("region {} on {}, code {code} B\n", plan.region.symbol, backends[plan.backend].name());
        for (constant, claimed) in plan.region.constants.iter().zip(&region.constants) {
            let value = &plan.region.values[constant.value];
            let kind = format!("{:?}", claimed.claim.kind()).to_lowercase();
            let form = claimed.claim.packed().map(|PackedConstant { form, .. }| form);
            let form = form.map(|form| format!(" {} {}{:?}", form.layout, form.dtype, form.shape)).unwrap_or_default();
            text += &format!("  {} '{}' {kind}{form}\n", constant.id, value.name);
        }
    }
    text
}

/// The remedy for a backend whose process ended, or that panicked.
const CRASH_HINT: &str = "Report this to the backend's maker; --fallback-on-crash gives the region to the next backend";

/// A backend's error, with backend, region and node before it.
pub(crate) fn backend_failed(backend: &str, symbol: &str, error: Error) -> Diagnostic {
    if error.crashed {
        let message = format!("backend '{backend}' {} while generating {symbol}", error.message);
        return Diagnostic::new(Code::BackendCrashed, message).hint(CRASH_HINT);
    }
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("backend '{backend}' failed on region {symbol}{node}: {}", error.message);
    let hint = error.hint.or_else(|| error.panicked.then(|| CRASH_HINT.into()));
    Diagnostic { code: Code::BackendFailed, message, hint }
}
