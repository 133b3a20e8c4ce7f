//! The compile tower from top to bottom: the only file that knows the order of the stages. Each stage consumes the
//! result of the one before, so a wrong order does not compile.

use std::path::{Path, PathBuf};

use crate::artifact::Contents;
use crate::codegen;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::fold;
use crate::ir::{self, Model};
use crate::map;
use crate::onnx::{self, ImportOptions};
use crate::ownership::{self, BackendIdentity, Ledger, SettleOptions, Settled};
use crate::partition::{self, NodeRow, Partitioned};
use crate::passes;
use crate::plugin::Selected;
use crate::spool::Spool;

/// What to compile, and how.
pub struct Request {
    /// Entry names with their model files.
    pub sources: Vec<(String, PathBuf)>,
    /// How to read the models.
    pub import: ImportOptions,
    /// The backends, in the order in which they may take nodes.
    pub backends: Vec<Selected>,
    /// The host backend that computes constants ahead of time; nothing is folded by computation without one.
    pub folder: Option<Selected>,
    /// Rules for where nodes may go.
    pub policy: Policy,
    /// Turns a constant found in a code blob and stored as well from an error into a warning.
    pub allow_duplicates: bool,
    /// Refers to constants in the model's files in place of copying them into the artifact.
    pub external_constants: bool,
}

/// Rules for the placement, checked after partitioning; a broken one is an error with exit code 4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// (backend, operator pattern with `*`): each such node must go to that backend.
    pub require: Vec<(String, String)>,
    /// No node may go to a host backend unless it is the only one in the list.
    pub no_fallback: bool,
    /// Most nodes that may go to host backends.
    pub max_host_nodes: Option<usize>,
}

/// The stages, as `--stop-after` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// ONNX is read and brought to its canonical form.
    Onnx,
    /// Shapes are known, constants folded, dead nodes gone.
    Passes,
    /// Every node is in a region.
    Partition,
    /// Every region has code and claims.
    Codegen,
    /// Every constant has one home.
    Ownership,
    /// The file is written.
    Artifact,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 6] =
        [Stage::Onnx, Stage::Passes, Stage::Partition, Stage::Codegen, Stage::Ownership, Stage::Artifact];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Onnx => "onnx",
            Stage::Passes => "passes",
            Stage::Partition => "partition",
            Stage::Codegen => "codegen",
            Stage::Ownership => "ownership",
            Stage::Artifact => "artifact",
        }
    }
}

/// Is told what is going on. All methods do nothing by default.
pub trait Observer {
    /// A stage begins.
    fn stage(&mut self, _stage: Stage) {}
    /// Within a stage: `done` of `total` steps, and what is next.
    fn progress(&mut self, _done: usize, _total: usize, _next: &str) {}
    /// A stage that has a text form ended; `text` makes it.
    fn dump(&mut self, _stage: Stage, _text: &dyn Fn() -> String) {}
    /// Something the user should know that is no error.
    fn warning(&mut self, _warning: &Diagnostic) {}
}

/// An observer that does nothing.
pub struct Silent;

impl Observer for Silent {}

/// What came of a compile.
pub struct Report {
    /// One row for each node: who took it, and who refused it why.
    pub nodes: Vec<NodeRow>,
    /// What became of every constant.
    pub ledger: Ledger,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Compiles the request into the file `output`. On an error nothing is written, and what was there stays.
pub fn compile(request: &Request, output: &Path, observer: &mut dyn Observer) -> Result<Report> {
    let settled = settle(request, output, observer)?;
    observer.stage(Stage::Artifact);
    let nodes = settled.nodes;
    let (contents, ledger) = settled.settled.into_contents();
    let file_bytes = write(contents, output, observer)?;
    Ok(Report { nodes, ledger, file_bytes })
}

/// Runs the stages up to and including `last` (at most [`Stage::Ownership`]); the observer gets each one's text form.
pub fn compile_until(request: &Request, last: Stage, observer: &mut dyn Observer) -> Result<()> {
    let mut stop = |stage: Stage| stage >= last;
    let model = import(request, observer)?;
    if stop(Stage::Onnx) {
        return Ok(());
    }
    let mut spool = Spool::new(&std::env::temp_dir())?;
    let partitioned = place(request, model, &mut spool, observer, &mut stop)?;
    let Some(partitioned) = partitioned else { return Ok(()) };
    if stop(Stage::Partition) {
        return Ok(());
    }
    partitioned.require_complete(&request.backends)?;
    finish(request, partitioned, spool, None, observer).map(drop)
}

/// What `byoc explain` shows: one row for each node, also where no backend takes it.
pub fn explain(request: &Request, observer: &mut dyn Observer) -> Result<Vec<NodeRow>> {
    let model = import(request, observer)?;
    let mut spool = Spool::new(&std::env::temp_dir())?;
    let partitioned = place(request, model, &mut spool, observer, &mut |_| false)?;
    Ok(partitioned.map_or_else(Vec::new, |partitioned| partition::explain(&partitioned, &request.backends)))
}

struct SettledReport {
    settled: Settled,
    nodes: Vec<NodeRow>,
}

fn settle(request: &Request, output: &Path, observer: &mut dyn Observer) -> Result<SettledReport> {
    let model = import(request, observer)?;
    keep_sources(&model, output)?;
    // Beside the output, so that a full disk shows there and not in some other file system.
    let mut spool = Spool::new(folder_of(output))?;
    let Some(partitioned) = place(request, model, &mut spool, observer, &mut |_| false)? else {
        return Err(Diagnostic::new(Code::BadGraph, "the model has no nodes"));
    };
    partitioned.require_complete(&request.backends)?;
    request.policy.check(&partitioned, &request.backends)?;
    finish(request, partitioned, spool, Some(output), observer)
}

/// The output must not take the place of a file that the model was read from: an artifact may need that file, and nobody
/// wants a model to be gone.
fn keep_sources(model: &Model, output: &Path) -> Result<()> {
    // Where there is no such folder, the first file that is written there says so.
    let Ok(place) = map::real_place(output) else { return Ok(()) };
    let at_place = |path: &Path| path == place || path.canonicalize().is_ok_and(|real| real == place);
    if model.sources.iter().any(|source| at_place(&source.path)) {
        let message = format!("the output '{}' is a file that the model is read from", output.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Give the artifact a name of its own"));
    }
    Ok(())
}

fn import(request: &Request, observer: &mut dyn Observer) -> Result<Model> {
    observer.stage(Stage::Onnx);
    let sources: Vec<_> = request.sources.iter().map(|(name, path)| (name.clone(), path.as_path())).collect();
    let model = onnx::import(&sources, &request.import)?;
    observer.dump(Stage::Onnx, &|| ir::print(&model));
    Ok(model)
}

/// Passes and partition; `None` when `stop` says to stop after the passes.
fn place(
    request: &Request,
    model: Model,
    spool: &mut Spool,
    observer: &mut dyn Observer,
    stop: &mut dyn FnMut(Stage) -> bool,
) -> Result<Option<Partitioned>> {
    observer.stage(Stage::Passes);
    let typed = fold::simplify(model, request.folder.as_ref(), spool)?;
    observer.dump(Stage::Passes, &|| ir::print(typed.model()));
    if stop(Stage::Passes) {
        return Ok(None);
    }
    observer.stage(Stage::Partition);
    let partitioned = partition::partition(typed, &request.backends)?;
    observer.dump(Stage::Partition, &|| partition::print(&partitioned, &request.backends));
    Ok(Some(partitioned))
}

fn finish(
    request: &Request,
    partitioned: Partitioned,
    spool: Spool,
    output: Option<&Path>,
    observer: &mut dyn Observer,
) -> Result<SettledReport> {
    let nodes = partition::explain(&partitioned, &request.backends);
    observer.stage(Stage::Codegen);
    let generated = codegen::generate(partitioned, &request.backends, spool, &mut |done, total, next| {
        observer.progress(done, total, next);
    })?;
    observer.dump(Stage::Codegen, &|| codegen::print(&generated, &request.backends));
    observer.stage(Stage::Ownership);
    let identities: Vec<_> = request.backends.iter().map(BackendIdentity::of).collect();
    let artifact_folder = output.map_or(Path::new("."), folder_of);
    let options = SettleOptions {
        allow_duplicates: request.allow_duplicates,
        refer_from: request.external_constants.then(|| artifact_folder.to_owned()),
    };
    let (folded, shaping) = (generated.model.folded.clone(), passes::shaping(&generated.model)?);
    let mut settled = ownership::settle(generated, &identities, &options)?;
    settled.mark_folded(folded);
    settled.mark_shaping(shaping);
    for warning in settled.warnings() {
        observer.warning(warning);
    }
    observer.dump(Stage::Ownership, &|| settled.print());
    Ok(SettledReport { settled, nodes })
}

fn write(contents: Contents, output: &Path, observer: &mut dyn Observer) -> Result<u64> {
    contents.write(output, &mut |done, total, next| observer.progress(done, total, next))
}

fn folder_of(output: &Path) -> &Path {
    output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Policy {
    fn check(&self, partitioned: &Partitioned, backends: &[Selected]) -> Result<()> {
        if *self == Policy::default() {
            return Ok(());
        }
        let rows = partition::explain(partitioned, backends);
        let host = |name: &str| {
            let found = backends.iter().find(|selected| selected.name() == name);
            found.is_some_and(|selected| selected.registered.description.host)
        };
        let broken = |message: String| Err(Diagnostic::new(Code::PlacementPolicy, message));
        for (backend, pattern) in &self.require {
            let wanted = rows.iter().filter(|row| wildcard(pattern, &row.op));
            let missed = wanted.clone().find(|row| row.taken.as_ref().is_none_or(|(_, taken)| taken != backend));
            if let Some(row) = missed {
                let taken = row.taken.as_ref().map_or("nobody", |(_, backend)| backend);
                let reason = row.refused.iter().find(|(name, _)| name == backend).map(|(_, reason)| reason.as_str());
                let reason = reason.map(|reason| format!(" ({backend}: {reason})")).unwrap_or_default();
                return broken(format!(
                    "--require {backend}={pattern}: node '{}' ({}) goes to {taken}{reason}",
                    row.node, row.op
                ));
            }
            if wanted.count() == 0 {
                return broken(format!("--require {backend}={pattern}: the model has no such node"));
            }
        }
        let on_host: Vec<_> =
            rows.iter().filter(|row| row.taken.as_ref().is_some_and(|(_, backend)| host(backend))).collect();
        let only_host = backends.iter().all(|selected| selected.registered.description.host);
        if self.no_fallback
            && !only_host
            && let Some(row) = on_host.first()
        {
            let count = on_host.len();
            return broken(format!(
                "--no-fallback: {count} nodes go to a host backend, first '{}' ({})",
                row.node, row.op
            ));
        }
        if let Some(most) = self.max_host_nodes.filter(|&most| on_host.len() > most) {
            return broken(format!("--max-host-nodes {most}: {} nodes go to a host backend", on_host.len()));
        }
        Ok(())
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any characters.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::wildcard;

    #[test]
    fn wildcards() {
        let cases = [
            ("Conv", "Conv", true),
            ("Conv", "ConvTranspose", false),
            ("Conv*", "ConvTranspose", true),
            ("*Pool", "MaxPool", true),
            ("*a*b*", "xaybz", true),
            ("*a*b", "xaybz", false),
            ("*", "", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
