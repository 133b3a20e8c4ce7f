//! `byoc verify --regions`: each region on what the reference kernels make of those before it.

use std::path::Path;
use std::process::ExitCode;

use byoc_core::artifact::manifest::Entry;
use byoc_core::compile::Observer;
use byoc_core::compile::parts::{Parts, sizes_like};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, PortInfo, SingleCalls, select_entry};
use byoc_tools::compare::Tolerances;
use byoc_tools::fill::Fill;
use byoc_tools::inputs::{self, Gathered};
use byoc_tools::regions::{self, Checked, Request};
use serde_json::json;

use super::bisect::{self, Found};
use super::part::{ByKernels, Runner};
use super::repro_command::{About, repro_command};
use super::{Args, looser};
use crate::args::{Backends, Execution, Shapes};
use crate::artifact::{self, Digests, Opened};
use crate::progress::Progress;
use crate::{compile_request, embed, execution, report};

/// Runs the verb with this flag.
pub(super) fn run(args: &Args, model: &Path, tolerances: &Tolerances) -> Result<ExitCode> {
    let execution = &args.execution;
    let opened = artifact::open(execution, Digests::Always, false)?;
    let artifact = opened.artifact().ok_or_else(|| {
        let message = format!("'{}' is code of one backend, and has no regions", execution.file.display());
        Diagnostic::new(Code::Usage, message).hint("Leave out --regions")
    })?;
    let manifest = artifact.manifest();
    let entry = select_entry(manifest, execution.entry.as_deref())?;
    let Gathered { values: given, made_up } = entry_inputs(execution, &opened, entry)?;
    let sizes = sizes_like(model, &declared(entry))?;
    let names = [embed::reference()?.0, embed::default_backend()?];
    let registry = compile_request::registry_of(&execution.places(), &names)?;
    let mut reference = by_kernels(model, &registry, &entry.name, &sizes)?;
    let options = &opened.options;
    let mut calls = SingleCalls::new(artifact, opened.registry(), options)?;
    let request = Request { artifact, entry, tolerances, keep_inputs: args.bisect };
    let mut progress = Progress::new(None);
    let checked = regions::check(&request, &mut calls, &mut reference, given, &mut |done, total, next| {
        progress.progress(done, total, next);
    })?;
    drop(progress);
    if checked.iter().all(|row| row.not_compared.is_some()) && !checked.is_empty() {
        return Err(nothing_compared(execution, &checked));
    }
    let culprit = checked.iter().find(|row| !row.holds());
    let node = culprit.filter(|_| args.bisect);
    let node = node.map(|it| bisect::first_node(it, artifact, &opened, options, &reference, tolerances));
    let about = About { execution, manifest, entry: &entry.name, model, sizes: &sizes, registry: opened.registry() };
    let repro = culprit.map(|culprit| repro_command(&about, &culprit.symbol));
    let hint = culprit.and_then(|culprit| {
        let backend = opened.registry().get(&culprit.backend).ok().map(|it| &it.description);
        let quantised = backend.filter(|it| it.calibration).map(|it| it.name.as_str());
        looser(&culprit.outputs, quantised)
    });
    let found = Findings { made_up, culprit, node, hint, repro };
    print(args, &checked, &found)?;
    Ok(if culprit.is_none() { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

/// What there is to say of all regions.
struct Findings<'a> {
    /// Inputs that no file gives.
    made_up: Vec<String>,
    /// The first region that differs.
    culprit: Option<&'a Checked>,
    /// The first node in it that does.
    node: Option<Found>,
    hint: Option<String>,
    /// The command that writes the region as a model.
    repro: Option<String>,
}

fn print(args: &Args, checked: &[Checked], found: &Findings<'_>) -> Result<()> {
    let Findings { made_up, culprit, node, hint, repro } = found;
    if args.json {
        return report::print_json(&json!({
            "matches": culprit.is_none(),
            "regions": checked,
            "made_up_inputs": made_up,
            "first_that_differs": culprit.map(|culprit| &culprit.symbol),
            "first_node": node,
            "hint": hint,
            "repro": repro,
        }));
    }
    let mut text = report::checked_regions(checked) + &execution::made_up(&args.execution, made_up);
    if let (Some(culprit), Some(repro)) = (culprit, repro) {
        let known: Vec<String> = node.iter().map(Found::sentence).chain(hint.clone()).collect();
        text += &report::culprit(culprit, &known, repro);
    }
    report::print(&text)
}

fn nothing_compared(execution: &Execution, checked: &[Checked]) -> Diagnostic {
    let reason = checked.iter().find_map(|row| row.not_compared.as_deref()).unwrap_or_default();
    let message = format!("no region of '{}' can be compared: {reason}", execution.file.display());
    Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
}

/// The inputs of the entry: from files, or at random.
fn entry_inputs(execution: &Execution, opened: &Opened, entry: &Entry) -> Result<Gathered> {
    let port = |port: &byoc_core::artifact::manifest::Port| {
        let ty = entry.values[port.value].clone();
        PortInfo { name: port.name.clone(), dtype: ty.dtype, shape: ty.shape, list: ty.list }
    };
    let ports: Vec<_> = entry.inputs.iter().map(port).collect();
    let given = execution.inputs.given(Some(Fill::Random));
    let sizes = opened.open_sizes.sizes();
    inputs::gather(&ports, &given, &sizes, &mut |warning| report::warning(&warning))
}

/// The shapes of the entry's inputs as they were compiled.
fn declared(entry: &Entry) -> Vec<(String, Vec<byoc_plugin_api::Dim>)> {
    let tensors = entry.inputs.iter().filter(|port| entry.values[port.value].list.is_none());
    tensors.map(|port| (port.name.clone(), entry.values[port.value].shape.clone())).collect()
}

/// The model, to be run part by part by the reference kernels.
fn by_kernels<'a>(model: &Path, registry: &'a Registry, entry: &str, sizes: &ImportOptions) -> Result<ByKernels<'a>> {
    let (name, setting) = embed::reference()?;
    let chosen = Backends { backend: vec![name], backend_opt: vec![setting] };
    let shapes = Shapes { shape: sizes.shapes.clone(), dim: sizes.dims.clone() };
    let sources = vec![(entry.to_owned(), model.to_owned())];
    let request = compile_request::request(registry, &chosen, sources, &shapes)?;
    let parts = Parts::new(&request, entry)?;
    let runner = Runner {
        model: model.to_owned(),
        registry,
        folding_backend: request.folding_backend,
        backends: request.backends,
        samples_needed: false,
        options: LoadOptions::default(),
    };
    Ok(ByKernels { parts, runner })
}
