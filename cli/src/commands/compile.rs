//! `byoc compile`: models into one artifact.

mod default_output;
mod variants;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use byoc_core::artifact::ArtifactFile;
use byoc_core::compile::variants::{Variant, Variants};
use byoc_core::compile::{Observer, Request, Stage, Unnamed, compile, compile_unnamed, compile_until};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_tools::dataset::Files;
use byoc_tools::trace;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use self::variants::Scoped;
use crate::args::{Backends, ModelArg, Plugins, SELDOM, Shapes, name_value, number};
use crate::compile_request;
use crate::file_kind;
use crate::guard::{Guard, Written};
use crate::kept::Kept;
use crate::progress::{Logged, Progress, dump_files};
use crate::report::{self, Overview, VariantsOverview};
use crate::trace::Traced;

#[derive(Serialize)]
struct Report<'a> {
    file: String,
    #[serde(flatten)]
    contents: &'a Contents,
    seconds: f64,
    /// What backends logged, and how many lines more it were.
    log: Vec<Logged>,
    log_left_out: usize,
}

/// What is in the file.
#[derive(Serialize)]
#[serde(untagged)]
enum Contents {
    One(Overview),
    Variants(VariantsOverview),
}

/// Compile models into one artifact
#[derive(clap::Args, Debug)]
#[command(mut_arg("backend_opt", |arg| arg.value_parser(name_value::option_of_variant)))]
#[command(
    after_help = "Examples:\n  byoc compile model.onnx\n  byoc compile model.onnx -o model.byoc --backend acme,cpu --dataset photos"
)]
pub(crate) struct Args {
    /// Models; several become entries of one artifact that share constants. NAME names the entry
    #[arg(required = true, value_name = "[NAME=]MODEL.onnx", value_parser = name_value::model)]
    models: Vec<ModelArg>,
    /// The artifact to write [default: NAME.byoc in this folder for a model NAME.onnx, if no other file has that name]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Refer to the models' constants in their own files, which the artifact then needs, in place of copying them; what a
    /// backend packs or folds is stored
    #[arg(long)]
    external_constants: bool,
    /// Report as JSON
    #[arg(long, conflicts_with = "print")]
    json: bool,
    /// Which backends may take nodes.
    #[command(flatten)]
    backends: Backends,
    /// Several compiles in one file.
    #[command(flatten)]
    variants: VariantFlags,
    /// Sizes that are left open.
    #[command(flatten)]
    shapes: Shapes,
    /// Samples of the inputs.
    #[command(flatten)]
    data: Data,
    /// Where nodes may go.
    #[command(flatten)]
    policy: PolicyFlags,
    /// Looking inside.
    #[command(flatten)]
    debug: Debugging,
    /// Where plugins are.
    #[command(flatten)]
    plugins: Plugins,
    /// Store a constant although a backend's code holds its bytes too: a warning in place of an error
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    allow_duplicates: bool,
    /// Give the nodes of a region in which a backend crashes to the next backend: a warning in place of an error
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    fallback_on_crash: bool,
    /// Read the models into memory; for files on a network or ones that may change meanwhile
    #[arg(long, hide_short_help = true, help_heading = SELDOM)]
    no_mmap: bool,
    /// Compile a second time and compare the files
    #[arg(long, conflicts_with = "stop_after", hide_short_help = true, help_heading = SELDOM)]
    check_reproducible: bool,
}

/// Several compiles of the model in one file.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Variants (one file for several targets)")]
struct VariantFlags {
    /// A variant of the model for these backends (repeatable), the most wanted first: where the file is loaded, the first that can
    /// be is taken. What they have in common is in the file once. `NAME:` in front of a --backend-opt, a --require or a
    /// --max-host-nodes makes it one of that variant
    #[arg(long, value_name = "NAME=BACKEND,...", value_parser = variants::parse)]
    #[arg(conflicts_with_all = ["backend", "stop_after", "print", "dump_ir"])]
    variant: Vec<variants::VariantArg>,
    /// Ask backends that pack a constant to give way where another variant has it in another form: a smaller file, maybe slower
    #[arg(long, requires = "variant")]
    share: bool,
}

/// Samples of the inputs, and how images become some.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Data set (for backends that choose number ranges from samples)")]
struct Data {
    /// Samples of the inputs: a folder of images (.png, .jpg, .bmp), .npy and .npz files, one for each sample; or an .npz file with
    /// an array for each input, or an .npy file for the only one, in which the samples are the first dimension
    #[arg(long, value_name = "PATH")]
    dataset: Option<PathBuf>,
    /// What is subtracted from each pixel of an image, where 0 is black and 1 is white: one number, or one for each channel
    /// [default: 0]
    #[arg(long, value_name = "MEAN,...", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(requires = "dataset", value_parser = number::finite)]
    input_mean: Vec<f32>,
    /// What each pixel is divided by after that: one number, or one for each channel [default: 1]
    #[arg(long, value_name = "STD,...", value_delimiter = ',', allow_hyphen_values = true)]
    #[arg(requires = "dataset", value_parser = number::positive)]
    input_std: Vec<f32>,
}

/// Rules for the placement of nodes.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Placement policy (exit code 4 where it does not hold)")]
struct PolicyFlags {
    /// Nodes of that operator must go to that backend (repeatable): 'gpu=Conv*'
    #[arg(long, value_name = "NAME=PATTERN", value_parser = variants::scoped_require)]
    require: Vec<Scoped<(String, String)>>,
    /// No node may go to a host backend, unless the list has no other; of all variants, or of one (repeatable)
    #[arg(long, value_name = "VARIANT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    no_fallback: Vec<String>,
    /// Most nodes that may go to host backends
    #[arg(long, value_name = "N", value_parser = variants::scoped_number)]
    max_host_nodes: Vec<Scoped<usize>>,
}

/// Flags that show what the compiler does.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Looking inside")]
struct Debugging {
    /// Stop after a stage
    #[arg(long, value_name = "STAGE", value_parser = stages())]
    stop_after: Option<Stage>,
    /// Print the text form of the stage to stop after; the last one, `artifact`, has none
    #[arg(long, requires = "stop_after")]
    print: bool,
    /// Write the text form of every stage into this folder
    #[arg(long, value_name = "DIR")]
    dump_ir: Option<PathBuf>,
    /// Write when each stage ran, and the steps in it, into this file, for Perfetto and chrome://tracing
    #[arg(long, value_name = "TRACE.json", conflicts_with = "stop_after")]
    trace: Option<PathBuf>,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    let stage = |name: String| Stage::ALL.into_iter().find(|stage| stage.name() == name);
    PossibleValuesParser::new(Stage::ALL.map(Stage::name))
        .try_map(move |name| stage(name).ok_or("not the name of a stage"))
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    work(args).map_err(|error| file_kind::of_models(error, &args.models, &args.plugins))
}

fn work(args: &Args) -> Result<ExitCode> {
    if args.debug.print && args.debug.stop_after == Some(Stage::Artifact) {
        let error = Diagnostic::new(Code::Usage, "--print has no text for the stage 'artifact', which is the file");
        return Err(error.hint("Leave --print out; byoc inspect shows what is in the file"));
    }
    let start = Instant::now();
    let dumps = args.debug.dump_ir.as_deref().map(dump_files).unwrap_or_default();
    let stop = args.debug.stop_after.filter(|&stage| stage != Stage::Artifact);
    let output = match (&args.output, stop) {
        (None, None) => Some(default_output::of(&args.models)?),
        (output, _) => output.clone(),
    };
    let guard = Guard::of(Written::Artifact, &output).writes(Written::TextInFolder, &dumps);
    let guard = guard.writes(Written::Text, &args.debug.trace);
    guard.models(&args.models).plugins(&args.plugins).dataset(args.data.dataset.as_deref()).check()?;
    let also_written = dumps.into_iter().chain(args.debug.trace.clone()).collect();
    let work = requests(args, also_written)?;
    let output = match (stop, output.as_deref(), &work) {
        (None, Some(output), _) => output,
        (stop, _, Work::One(request)) => {
            stop_after(args, request, stop.unwrap_or(Stage::Artifact))?;
            return Ok(ExitCode::SUCCESS);
        }
        // Flags that stop early are refused for variants.
        (_, _, Work::Variants(..)) => return Err(Diagnostic::new(Code::Usage, "--variant needs --output")),
    };
    let mut progress = Progress::new(args.debug.dump_ir.clone());
    let mut traced = Traced::new(&mut progress);
    let done = work.compile(output, &mut traced);
    let spans = traced.spans();
    progress.check()?;
    done?;
    if let Some(path) = &args.debug.trace {
        trace::write(path, &spans)?;
    }
    let logged = progress.take_logged();
    drop(progress);
    if args.output.is_none() {
        report::note("named after the model; --output names another file");
    }
    if args.check_reproducible {
        check_reproducible(&work, output)?;
    }
    let file = ArtifactFile::open(output)?;
    let contents = match &work {
        Work::One(_) => Contents::One(Overview::of(&file.only()?)?),
        Work::Variants(..) => Contents::Variants(VariantsOverview::of(&file, &file.all()?)?),
    };
    print(args, output, &contents, (start.elapsed(), logged))?;
    Ok(ExitCode::SUCCESS)
}

/// What is to be compiled.
enum Work {
    One(Box<Request>),
    /// Variants, and whether backends are asked to give way.
    Variants(Vec<Variant>, bool),
}

impl Work {
    fn compile(&self, output: &Path, observer: &mut dyn Observer) -> Result<()> {
        match self {
            Work::One(request) => compile(request, output, observer).map(drop),
            Work::Variants(list, share) => Variants { list, share: *share }.compile(output, observer).map(drop),
        }
    }

    fn compile_unnamed(&self, beside: &Path, observer: &mut dyn Observer) -> Result<Unnamed> {
        match self {
            Work::One(request) => compile_unnamed(request, Some(beside), observer),
            Work::Variants(list, share) => Variants { list, share: *share }.compile_unnamed(Some(beside), observer),
        }
    }
}

fn requests(args: &Args, also_written: Vec<PathBuf>) -> Result<Work> {
    let listed = args.variants.variant.iter().flat_map(|variant| variant.backends.iter().cloned());
    let wanted: Vec<_> = args.backends.backend.iter().cloned().chain(listed).collect();
    let registry = compile_request::isolated_registry(&args.plugins, &wanted)?;
    variants::check_scopes(args)?;
    let request = |name: Option<&str>, backends: Vec<String>| -> Result<Request> {
        let backends = Backends { backend: backends, backend_opt: variants::options(args, name) };
        let sources = compile_request::sources(&args.models);
        let mut request = compile_request::request(&registry, &backends, sources, &args.shapes)?;
        request.import.no_mmap = args.no_mmap;
        request.fallback_on_crash = args.fallback_on_crash;
        request.allow_duplicates = args.allow_duplicates;
        request.external_constants = args.external_constants;
        request.also_written.clone_from(&also_written);
        if let Some(path) = &args.data.dataset {
            let files = Files::find(path, &args.data.input_mean, &args.data.input_std)?;
            files.tell(&mut request.backends)?;
            request.calibration = Some(Box::new(files));
        }
        request.policy = variants::policy(args, name);
        Ok(request)
    };
    if args.variants.variant.is_empty() {
        return Ok(Work::One(Box::new(request(None, args.backends.backend.clone())?)));
    }
    let variant = |variant: &variants::VariantArg| {
        let request = request(Some(&variant.name), variant.backends.clone())?;
        Ok(Variant { name: variant.name.clone(), request })
    };
    Ok(Work::Variants(args.variants.variant.iter().map(variant).collect::<Result<_>>()?, args.variants.share))
}

fn stop_after(args: &Args, request: &Request, stage: Stage) -> Result<()> {
    let keep = args.debug.print.then_some(stage);
    let mut progress = Progress::new(args.debug.dump_ir.clone()).keep_text(keep);
    let done = compile_until(request, stage, &mut progress);
    progress.check()?;
    done?;
    if let Some(text) = progress.text() {
        return report::print(text);
    }
    report::note(&format!("stopped after the stage '{}'; no file is written", stage.name()));
    Ok(())
}

/// Compiles once more beside the output, so that a full disk shows where it would anyway and paths from its folder are
/// the same, and compares the two.
fn check_reproducible(work: &Work, output: &Path) -> Result<()> {
    let again = work.compile_unnamed(output, &mut Progress::new(None).without_warnings())?;
    let (first, second) = (ArtifactFile::open(output)?, ArtifactFile::from_bytes(output, again.bytes)?);
    match first_difference(&first, &second) {
        None => Ok(()),
        Some(section) => {
            let message = format!("a second compile gave another '{section}' than '{}' has", output.display());
            Err(Diagnostic::new(Code::NotReproducible, message).hint("Report this to the maker of the backend"))
        }
    }
}

/// The name of the first section in which the files differ. Both were written just now, so their digests are right.
fn first_difference(first: &ArtifactFile, second: &ArtifactFile) -> Option<String> {
    let (mut left, mut right) = (first.sections(), second.sections());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return a.or(b).map(|section| section.name.to_owned()),
        }
    }
}

fn print(args: &Args, output: &Path, contents: &Contents, (time, log): (Duration, Kept<Logged>)) -> Result<()> {
    if args.json {
        let file = output.display().to_string();
        return report::print_json(&Report {
            file,
            contents,
            seconds: time.as_secs_f64(),
            log: log.lines,
            log_left_out: log.left_out,
        });
    }
    let again = if args.check_reproducible { ", twice with the same bytes" } else { "" };
    let took = report::duration(time);
    let names = format!("names of regions: byoc inspect {} --regions\n", output.display());
    let text = match contents {
        Contents::One(overview) => overview.text(),
        Contents::Variants(overview) => overview.text(),
    };
    report::print(&format!("{}{text}compiled in {took}{again}\n{names}", report::written(output)?))
}
