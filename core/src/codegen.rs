//! Stage 5: each region through its backend's codegen and constant_updater. Code and packed bytes go to the spool, so
//! they never pile up in memory.

mod crowded;

use std::sync::Arc;

use byoc_plugin_api::{Backend, Claim, Claims, ConstantAccess};

pub(crate) use crate::claims::{RecordedClaim, Recorder, describe};
use crate::constants::ConstantTable;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::Model;
use crate::lend::ConstantViews;
use crate::partition::{Partitioned, RegionPlan};
use crate::plugin::Selected;
use crate::spool::{Spool, SpoolRange};

/// A region with its code and one claim for each constant, parallel to `plan.region.constants`.
#[derive(Clone, Debug)]
pub struct GeneratedRegion {
    /// The region.
    pub plan: RegionPlan,
    /// Its code.
    pub code: SpoolRange,
    /// Its claims.
    pub claims: Vec<RecordedClaim>,
    /// What its backend has to say about the code.
    pub notes: Vec<String>,
}

/// Stage 5's result.
pub struct Generated {
    /// The graphs and constants.
    pub model: Arc<Model>,
    /// The regions, in the order in which they run.
    pub regions: Vec<GeneratedRegion>,
    /// Where code and packed bytes lie until the artifact is written.
    pub spool: Spool,
}

/// Why there is no code.
pub(crate) struct Failure {
    /// The error.
    pub(crate) diagnostic: Diagnostic,
    /// The region, where its backend's process ended.
    pub(crate) crashed: Option<Box<RegionPlan>>,
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure { diagnostic, crashed: None }
    }
}

/// Generates the code of every region. `progress` is told before each one. Where a constant would be stored in more than
/// one form, the backends that pack it are told so and asked once more.
pub(crate) fn generate(
    partitioned: Partitioned,
    backends: &[Selected],
    mut spool: Spool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> std::result::Result<Generated, Failure> {
    let Partitioned { model, regions: plans, .. } = partitioned;
    let count = plans.len();
    let mut regions = Vec::with_capacity(count);
    for (index, mut plan) in plans.into_iter().enumerate() {
        plan.region.whole = plan.nodes.len() == model.entries[plan.entry].nodes.len();
        progress(index, count, &plan.region.symbol);
        regions.push(try_region(&model.constants, plan, backends, &mut spool)?);
    }
    // Each round marks further constants, so this ends.
    loop {
        let again = crowded::mark(&model, &mut regions, &spool)?;
        if again.is_empty() {
            return Ok(Generated { model, regions, spool });
        }
        for index in again {
            progress(count, count, &regions[index].plan.region.symbol);
            regions[index] = try_region(&model.constants, regions[index].plan.clone(), backends, &mut spool)?;
        }
    }
}

fn try_region(
    table: &ConstantTable,
    plan: RegionPlan,
    backends: &[Selected],
    spool: &mut Spool,
) -> std::result::Result<GeneratedRegion, Failure> {
    match generate_region(table, &plan, backends, spool) {
        Ok((code, claims, notes)) => Ok(GeneratedRegion { plan, code, claims, notes }),
        Err(diagnostic) => {
            let crashed = (diagnostic.code == Code::BackendCrashed).then(|| Box::new(plan));
            Err(Failure { diagnostic, crashed })
        }
    }
}

fn generate_region(
    table: &ConstantTable,
    plan: &RegionPlan,
    backends: &[Selected],
    spool: &mut Spool,
) -> Result<(SpoolRange, Vec<RecordedClaim>, Vec<String>)> {
    let selected = &backends[plan.backend];
    let backend = &selected.registered.backend;
    let symbol = &plan.region.symbol;
    let failed = |error: byoc_plugin_api::Error| backend_failed(selected.name(), symbol, error);
    let with_data = selected.registered.description.constant_access != ConstantAccess::Load;
    let views = ConstantViews::new(table, plan, with_data);
    let constants = views.constants();
    let mut writer = spool.writer(format!("the code of region {symbol}"));
    let outcome = backend.codegen(&plan.region, &constants, &selected.options, &mut writer);
    // The spool's own error (a full disk) is the cause of whatever the backend made of it.
    let code = writer.finish()?;
    outcome.map_err(failed)?;
    let opens_files = !selected.registered.description.files.is_empty();
    // What a backend is not asked costs no message to a worker, and no reading back.
    if plan.region.constants.is_empty() && !opens_files {
        return Ok((code, Vec::new(), Vec::new()));
    }
    let code_bytes = spool.briefly(code)?;
    let claims = if plan.region.constants.is_empty() {
        Vec::new()
    } else {
        let mut recorder = Recorder::new(&plan.region, selected.name(), spool);
        let (region, options) = (&plan.region, &selected.options);
        let outcome =
            backend.constant_updater(region, &constants, &code_bytes, options, &mut Claims::new(&mut recorder));
        recorder.finish(outcome.map_err(failed))?
    };
    let notes = if opens_files { notes(selected, symbol, &code_bytes)? } else { Vec::new() };
    Ok((code, claims, notes))
}

/// What a backend that opens files says about the code that it has just written.
fn notes(selected: &Selected, symbol: &str, code: &[u8]) -> Result<Vec<String>> {
    let failed = |error: byoc_plugin_api::Error| {
        let message = format!("it cannot read its own code: {}", error.message);
        backend_failed(
            selected.name(),
            symbol,
            if error.crashed { error } else { byoc_plugin_api::Error { message, ..error } },
        )
    };
    Ok(selected.registered.backend.open(code).map_err(failed)?.notes)
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
        for (constant, recorded) in plan.region.constants.iter().zip(&region.claims) {
            let value = &plan.region.values[constant.value];
            let claim = match &recorded.claim {
                Claim::Host => "host".to_owned(),
                Claim::Packed(packed) => format!("packed {} {}{:?}", packed.layout, packed.dtype, packed.shape),
                Claim::Embedded => "embedded".to_owned(),
                Claim::Unused => "unused".to_owned(),
            };
            text += &format!("  {} '{}' {claim}\n", constant.id, value.name);
        }
    }
    text
}

/// What to do about a backend whose process ended.
const CRASH_HINT: &str = "Report this to the backend's maker; --fallback-on-crash gives the region to the next backend";

/// A backend's error, with backend, region and node before it.
pub(crate) fn backend_failed(backend: &str, symbol: &str, error: byoc_plugin_api::Error) -> Diagnostic {
    if error.crashed {
        let message = format!("backend '{backend}' {} while generating {symbol}", error.message);
        return Diagnostic::new(Code::BackendCrashed, message).hint(CRASH_HINT);
    }
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("backend '{backend}' failed on region {symbol}{node}: {}", error.message);
    Diagnostic { code: Code::BackendFailed, message, hint: error.hint }
}
