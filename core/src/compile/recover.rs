//! Recovery from a crash of a backend's process: the region is saved for the backend's maker, and its nodes may go to the
//! next backend.

use std::path::Path;

use byoc_plugin_api::RefusalCode;

use super::{Observer, Request};
use crate::atomic_file;
use crate::codegen::{ConstantViews, Failure};
use crate::constants::ConstantTable;
use crate::diagnostic::{Code, Diagnostic, Result, dir_of};
use crate::ir::TypedModel;
use crate::onnx;
use crate::overwrite::{self, Input};
use crate::partition::{Avoid, Outcome, Partitioned, RegionPlan};
use crate::plugin::Selected;

/// The remedy that is reported with `--fallback-on-crash`.
const NEXT: &str = "Its nodes go to the next backend";

/// After a failed code generation: what to avoid in the next try, or the error that ends the compile. The region of a
/// crash is saved beside that output, unless that would overwrite it or an input.
pub(super) fn from(
    failure: Failure,
    request: &Request,
    typed: &TypedModel,
    crashes: Option<(&Path, &[Input])>,
    observer: &mut dyn Observer,
) -> Result<Avoid> {
    let Failure { mut diagnostic, crashed } = failure;
    let Some(plan) = crashed else { return Err(diagnostic) };
    if let Some((output, inputs)) = crashes {
        let path = dir_of(output).join(format!("{}.repro.onnx", plan.region.symbol));
        let saved = overwrite::check(&[output, &path], inputs)
            .and_then(|()| save(&typed.model().constants, &plan, &request.backends[plan.backend], false, &path));
        diagnostic.message += &match saved {
            // A path in the current folder is as short as the user wrote it.
            Ok(()) => format!(
                "; the region, with its weights, is saved in '{}'",
                path.strip_prefix(".").unwrap_or(&path).display()
            ),
            Err(error) => format!("; the region cannot be saved: {}", error.message),
        };
    }
    if !request.fallback_on_crash {
        return Err(diagnostic);
    }
    diagnostic.hint = Some(NEXT.into());
    observer.warning(&diagnostic);
    let nodes = plan.region.nodes.iter().map(|node| node.name.clone()).collect();
    Ok(Avoid { entry: plan.entry, backend: plan.backend, nodes })
}

/// A warning for each backend that crashed while it checked nodes, which the next backend gets then.
pub(super) fn crashed_checks(partitioned: &Partitioned, backends: &[Selected]) -> Vec<Diagnostic> {
    let warning = |(index, selected): (usize, &Selected)| {
        let crashed = partitioned.attempts.iter().filter(|attempt| attempt.backend == index);
        let mut crashed = crashed.filter_map(|attempt| match &attempt.outcome {
            Outcome::Refused(refusal) if is_crash(refusal.code) => Some((attempt, refusal)),
            _ => None,
        });
        let (attempt, refusal) = crashed.next()?;
        let node =
            attempt.nodes.last().map_or("", |&node| partitioned.model.entries[attempt.entry].nodes[node].name.as_str());
        let more = crashed.count();
        let more = if more > 0 { format!(" (and {more} more times)") } else { String::new() };
        let (name, told) = (selected.name(), &refusal.message);
        let (code, message) = match refusal.code {
            RefusalCode::Panicked => {
                (Code::BackendFailed, format!("backend '{name}' failed while it checked node '{node}'{more}: {told}"))
            }
            _ => (Code::BackendCrashed, format!("backend '{name}' {told} while checking node '{node}'{more}")),
        };
        Some(Diagnostic::new(code, message).hint(NEXT))
    };
    backends.iter().enumerate().filter_map(warning).collect()
}

/// Whether that is no answer, since the backend ended or panicked.
fn is_crash(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::Crashed | RefusalCode::Panicked)
}

/// Writes a region as an ONNX model that says for which backend it was made, with which options.
pub(super) fn save(
    table: &ConstantTable,
    plan: &RegionPlan,
    selected: &Selected,
    strip: bool,
    path: &Path,
) -> Result<()> {
    let views = ConstantViews::new(table, plan, true);
    let description = &selected.registered.description;
    let options = serde_json::to_string(&selected.kept_options()).unwrap_or_default();
    let about = [
        (onnx::REPRO_BACKEND, description.name.clone()),
        (onnx::REPRO_OPTIONS, options),
        ("byoc.backend_version", description.version.clone()),
        ("byoc.region", plan.region.symbol.clone()),
    ];
    let model = onnx::region_model(&plan.region, &views.constants(), strip, &about)?;
    atomic_file::write(path, &model)
}
