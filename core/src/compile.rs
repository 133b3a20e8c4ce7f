//! The compile tower from top to bottom: with `front_end.rs`, the only file that knows the order of the stages. Each stage
//! consumes the result of the one before, so a wrong order does not compile.

mod front_end;
mod known_part;
pub mod parts;
mod policy;
mod recover;
pub mod variants;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use self::front_end::FrontEnd;
pub use self::policy::{Policy, wildcard};
use crate::artifact::{Contents, Ledger};
use crate::atomic_file::{Disk, Scratch};
use crate::calibrate::{self, Dataset, Event, Observations, Setting};
use crate::codegen::{self, Failure, Generated};
use crate::diagnostic::{Code, Diagnostic, Result, in_place_of};
use crate::ir::{CustomOperators, Model};
use crate::onnx::ImportOptions;
use crate::overwrite::{self, Input};
use crate::ownership::{self, Forms, SettleOptions, Settled, Storage};
use crate::partition::{self, NodeRow, Partitioned};
use crate::plugin::{self, BackendIdentity, Registered, Selected};
use crate::spool::Spool;

/// What to compile, and how.
pub struct Request {
    /// Entry names with their model files.
    pub sources: Vec<(String, PathBuf)>,
    /// A model that is in memory already, in place of `sources`.
    pub model: Option<Model>,
    /// How to read the models.
    pub import: ImportOptions,
    /// The backends, in the order in which they may take nodes.
    pub backends: Vec<Selected>,
    /// All backends that were found: where an operator is brought by one that is not in the list, the error names it.
    pub found: Vec<Registered>,
    /// The host backend that computes constants ahead of time; nothing is folded by computation without one.
    pub folding_backend: Option<Selected>,
    /// Samples of the inputs, for backends that choose ranges from them. The last host backend of the list runs the model
    /// over them, or else `folding_backend`.
    pub calibration: Option<Box<dyn Dataset>>,
    /// Rules for where nodes may go.
    pub policy: Policy,
    /// Gives the nodes of a region in which a backend crashes to the next backend, with a warning in place of an error.
    pub fallback_on_crash: bool,
    /// Makes a constant that is both in code and stored a warning in place of an error.
    pub allow_duplicates: bool,
    /// Refers to constants in the model's files in place of copying them into the artifact.
    pub external_constants: bool,
    /// Files that the observer writes: like the output, none of them may be one that a model is read from.
    pub also_written: Vec<PathBuf>,
}

impl Request {
    /// A request with every rule at its default; no constant is folded by computation.
    pub fn new(sources: Vec<(String, PathBuf)>, backends: Vec<Selected>) -> Request {
        Request {
            sources,
            model: None,
            import: ImportOptions::default(),
            backends,
            found: Vec::new(),
            folding_backend: None,
            calibration: None,
            policy: Policy::default(),
            fallback_on_crash: false,
            allow_duplicates: false,
            external_constants: false,
            also_written: Vec::new(),
        }
    }

    /// What the backends of the list know beside core.
    fn custom_operators(&self) -> CustomOperators {
        plugin::custom_operators_among(&self.backends, &self.found)
    }
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

/// Callbacks for progress, stage output and warnings. All methods do nothing by default.
pub trait Observer {
    /// A stage begins.
    fn stage(&mut self, _stage: Stage) {}
    /// Within a stage: `done` of `total` steps, and the next one.
    fn progress(&mut self, _done: usize, _total: usize, _next: &str) {}
    /// A backend logs a line while it generates code.
    fn log(&mut self, _backend: &str, _line: &str) {}
    /// A stage that has a text form ended; `text` makes it.
    fn dump(&mut self, _stage: Stage, _text: &dyn Fn() -> String) {}
    /// A warning.
    fn warning(&mut self, _warning: &Diagnostic) {}
    /// Whether to go on: asked where a stage begins, and before anything is written. The error ends the compile.
    fn go_on(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An observer that does nothing.
pub struct Silent;

impl Observer for Silent {}

/// The result of a compile.
pub struct Report {
    /// One row for each node: the backend that took it, and the refusals of others.
    pub nodes: Vec<NodeRow>,
    /// The ledger.
    pub ledger: Ledger,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Compiles the request into the file `output`. On an error nothing is written, and an existing file stays. It is an error if
/// a model is read from `output`.
pub fn compile(request: &Request, output: &Path, observer: &mut dyn Observer) -> Result<Report> {
    let destination = Destination { scratch: Scratch::beside(output), output: Some(output) };
    let Made { contents, nodes, ledger, inputs } = make(request, &destination, observer)?;
    // The models may have been replaced since they were read.
    destination.check(request, &inputs)?;
    observer.go_on()?;
    let file_bytes = contents.write(output, &mut |done, total, next| observer.progress(done, total, next))?;
    Ok(Report { nodes, ledger, file_bytes })
}

/// An artifact without a file of its own.
pub struct Unnamed {
    /// Its bytes, mapped from an unnamed file.
    pub bytes: Bytes,
    /// The files that it was made of.
    pub inputs: Vec<Input>,
}

/// Compiles the request into an unnamed file, which is freed with the last of the bytes, even if the process is
/// killed. With `beside` it is the artifact that would be written to that path, on the same disk.
pub fn compile_unnamed(request: &Request, beside: Option<&Path>, observer: &mut dyn Observer) -> Result<Unnamed> {
    let scratch = beside.map_or_else(Scratch::temporary, Scratch::beside);
    let destination = Destination { scratch, output: None };
    let Made { contents, inputs, .. } = make(request, &destination, observer)?;
    let name = beside.unwrap_or(&destination.scratch.dir);
    let bytes = contents
        .write_unnamed(name, &destination.scratch, &mut |done, total, next| observer.progress(done, total, next))?;
    Ok(Unnamed { bytes, inputs })
}

/// Runs the stages up to and including `last` (at most [`Stage::Ownership`]); the observer gets each one's text form.
pub fn compile_until(request: &Request, last: Stage, observer: &mut dyn Observer) -> Result<()> {
    let destination = Destination { scratch: Scratch::temporary(), output: None };
    if last == Stage::Onnx {
        let custom = request.custom_operators();
        return front_end::import(request, custom, &destination, observer).map(drop);
    }
    if last >= Stage::Codegen {
        let ready = ready(request, &destination, observer)?;
        return settled(&ready, request, &destination, observer).map(drop);
    }
    let mut front_end = FrontEnd::new(request, &destination, observer)?;
    match last {
        Stage::Partition => front_end.partition(&[], observer).map(drop),
        _ => Ok(()),
    }
}

/// What `byoc explain` shows: one row for each node, also where no backend takes it, and for each call of a function that
/// was expanded. Operators that nobody knows are a warning here; then backends are asked about the nodes in front of them.
pub fn explain(request: &Request, observer: &mut dyn Observer) -> Result<Vec<NodeRow>> {
    match partitioned(request, observer) {
        Ok(partitioned) => Ok(partition::explain(&partitioned, &request.backends)),
        Err(error) if error.code == Code::UnknownOperator => {
            let rows = known_part::explain(request)?;
            observer.warning(&error);
            Ok(rows)
        }
        Err(error) => Err(error),
    }
}

/// Writes the region of that symbol as an ONNX model to `output`: what its backend's maker needs to reproduce
/// a failure. With `strip` its weights have made-up elements.
pub fn repro(request: &Request, symbol: &str, strip: bool, output: &Path, observer: &mut dyn Observer) -> Result<()> {
    let destination = Destination { scratch: Scratch::temporary(), output: Some(output) };
    let partitioned = partitioned_at(request, &destination, observer)?;
    let Some(plan) = partitioned.regions.iter().find(|plan| plan.region.symbol == symbol) else {
        let symbols = partitioned.regions.iter().map(|plan| plan.region.symbol.as_str());
        let error = Diagnostic::new(Code::UnknownName, format!("the model has no region '{symbol}'"));
        return Err(error.hint(in_place_of(symbol, symbols)));
    };
    destination.check(request, &partitioned.model.inputs())?;
    recover::save(&partitioned.model.constants, plan, &request.backends[plan.backend], strip, output)
}

/// The stages up to the partition: the regions as backends get them, the attempts, and unassigned nodes.
pub fn partitioned(request: &Request, observer: &mut dyn Observer) -> Result<Partitioned> {
    partitioned_at(request, &Destination { scratch: Scratch::temporary(), output: None }, observer)
}

fn partitioned_at(
    request: &Request,
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<Partitioned> {
    FrontEnd::new(request, destination, observer)?.partition(&[], observer)
}

/// As [`partitioned`], with the observations for backends that use calibration.
pub fn prepared(request: &Request, observer: &mut dyn Observer) -> Result<Partitioned> {
    let mut partitioned = partitioned(request, observer)?;
    watch(request, &mut partitioned, &Scratch::temporary(), &mut Observations::default(), observer)?;
    Ok(partitioned)
}

/// Where a compile may write.
struct Destination<'a> {
    scratch: Scratch,
    /// The file that is to be written, if it has a name.
    output: Option<&'a Path>,
}

impl Destination<'_> {
    /// Errors where an output is a file that a model is read from: it would be lost, and an artifact may refer
    /// to it.
    fn check(&self, request: &Request, inputs: &[Input]) -> Result<()> {
        let outputs: Vec<&Path> =
            self.output.into_iter().chain(request.also_written.iter().map(PathBuf::as_path)).collect();
        overwrite::check(&outputs, inputs)
    }

    /// The directory from which the artifact refers to other files.
    fn dir(&self) -> &Path {
        match self.scratch.disk {
            Disk::Output => &self.scratch.dir,
            Disk::Temporary => Path::new("."),
        }
    }
}

/// An artifact that is ready to be written.
struct Made {
    contents: Contents,
    nodes: Vec<NodeRow>,
    ledger: Ledger,
    /// The files that it is made of.
    inputs: Vec<Input>,
}

fn make(request: &Request, destination: &Destination<'_>, observer: &mut dyn Observer) -> Result<Made> {
    let ready = ready(request, destination, observer)?;
    let settled = settled(&ready, request, destination, observer)?;
    observer.go_on()?;
    observer.stage(Stage::Artifact);
    let (contents, ledger) = settled.into_contents();
    Ok(Made { contents, nodes: ready.nodes, ledger, inputs: ready.inputs })
}

/// A model whose regions have code and claims.
struct Ready {
    generated: Generated,
    storage: Storage,
    nodes: Vec<NodeRow>,
    /// The files that it is made of.
    inputs: Vec<Input>,
}

fn ready(request: &Request, destination: &Destination<'_>, observer: &mut dyn Observer) -> Result<Ready> {
    let front_end = FrontEnd::new(request, destination, observer)?;
    let inputs = front_end.typed.model().inputs();
    let (generated, storage, nodes) = generate(front_end, observer)?;
    codegen::warnings(&generated, &request.backends).iter().for_each(|warning| observer.warning(warning));
    observer.dump(Stage::Codegen, &|| codegen::print(&generated, &request.backends));
    Ok(Ready { generated, storage, nodes, inputs })
}

/// Partition and code generation; once more, without the nodes in question, for each backend that crashes, if the user
/// wants that.
fn generate(mut front_end: FrontEnd<'_>, observer: &mut dyn Observer) -> Result<(Generated, Storage, Vec<NodeRow>)> {
    let FrontEnd { request, destination, .. } = front_end;
    let inputs = front_end.typed.model().inputs();
    let crashes = destination.output.map(|output| (output, inputs.as_slice()));
    let mut avoid = Vec::new();
    let mut known = Observations::default();
    loop {
        let mut partitioned = front_end.partition(&avoid, observer)?;
        partitioned.require_complete(&request.backends)?;
        request.policy.check(&partitioned, &request.backends)?;
        if avoid.is_empty() {
            front_end.warn(partition::unused(&partitioned, &request.backends), observer);
        }
        let nodes = partition::explain(&partitioned, &request.backends);
        observer.go_on()?;
        observer.stage(Stage::Codegen);
        watch(request, &mut partitioned, &destination.scratch, &mut known, observer)?;
        let spool = Spool::new(&destination.scratch)?;
        match generate_settled(partitioned, &request.backends, spool, observer) {
            Ok((generated, storage)) => return Ok((generated, storage, nodes)),
            Err(failure) => avoid.push(recover::from(failure, request, &front_end.typed, crashes, observer)?),
        }
    }
}

/// The code of every region, and what is stored of the constants. Where a constant would be stored in more than one form,
/// the backends that pack it are asked once more, with that constant marked as shared.
fn generate_settled(
    partitioned: Partitioned,
    backends: &[Selected],
    spool: Spool,
    observer: &mut dyn Observer,
) -> std::result::Result<(Generated, Storage), Failure> {
    let observer = RefCell::new(observer);
    let report = |event: codegen::Event<'_>| tell(event, &observer);
    let mut generated = codegen::generate(partitioned, backends, spool, &report)?;
    loop {
        let storage = Storage::find(&generated)?;
        let forms = Forms::of(&generated, &storage);
        let again = ownership::mark_shared(&mut generated, &forms);
        if again.is_empty() {
            return Ok((generated, storage));
        }
        codegen::regenerate(&mut generated, &again, backends, &report)?;
    }
}

/// Tells what happens while code is generated.
fn tell(event: codegen::Event<'_>, observer: &RefCell<&mut dyn Observer>) {
    match event {
        codegen::Event::Progress(done, total, next) => observer.borrow_mut().progress(done, total, next),
        codegen::Event::Log(backend, line) => observer.borrow_mut().log(backend, line),
    }
}

/// Calibrates: sets the observed ranges of the regions whose backends use them.
fn watch(
    request: &Request,
    partitioned: &mut Partitioned,
    scratch: &Scratch,
    known: &mut Observations,
    observer: &mut dyn Observer,
) -> Result<()> {
    let host =
        request.backends.iter().rev().find(|selected| selected.is_exact_host()).or(request.folding_backend.as_ref());
    let setting = Setting {
        backends: &request.backends,
        host,
        dataset: request.calibration.as_deref(),
        scratch,
        expanded: &|entry, values| front_end::expanded(request, scratch, entry, values),
    };
    calibrate::calibrate(partitioned, &setting, known, &mut |event| match event {
        Event::Progress(done, total, next) => observer.progress(done, total, next),
        Event::Warning(warning) => observer.warning(&warning),
    })
}

fn settled(
    ready: &Ready,
    request: &Request,
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<Settled> {
    observer.stage(Stage::Ownership);
    let identities: Vec<_> = request.backends.iter().map(BackendIdentity::of).collect();
    let options = SettleOptions {
        allow_duplicates: request.allow_duplicates,
        refer_from: request.external_constants.then(|| destination.dir().to_owned()),
    };
    let settled = ownership::settle(&ready.generated, &ready.storage, &identities, &options)?;
    for warning in settled.warnings() {
        observer.warning(warning);
    }
    observer.dump(Stage::Ownership, &|| settled.print());
    Ok(settled)
}
