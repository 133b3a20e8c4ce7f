//! `byoc quickstart`: compiles, runs, verifies and measures a model through the functions of the verbs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use byoc_core::artifact::Artifact;
use byoc_core::atomic_file;
use byoc_core::compile::compile;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_tools::compare::{Comparison, Tolerances, compare_all};
use byoc_tools::execution::Loaded;
use byoc_tools::inputs::{Inputs, OpenSizes};
use byoc_tools::outputs::{self, Summary};
use byoc_tools::statistics::Statistics;
use byoc_tools::tensor::Tensor;

use super::{inspect, verify};
use crate::args::{Backends, Shapes};
use crate::guard::Guard;
use crate::progress::Progress;
use crate::report::{self, Overview, duration, size};
use crate::{compile_request, quickstart};

/// How many runs are measured.
const RUNS: usize = 10;

/// How many of the largest probabilities are shown.
const TOP: usize = 3;

/// Write a model, compile, run, verify and measure it, and show the ledger
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The folder to write the model and the artifact into; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "byoc-quickstart")]
    dir: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.dir).map_err(|error| Diagnostic::io(&args.dir, "make the folder", &error))?;
    let (model, artifact) = (args.dir.join("model.onnx"), args.dir.join("model.byoc"));
    Guard::of([&model, &artifact]).check()?;
    let registry = compile_request::embedded_registry()?;
    write_model(&model)?;
    compile_model(&registry, &model, &artifact)?;
    let start = Instant::now();
    let session = Session::open(&artifact, &registry, &LoadOptions::default())?;
    let load_time = start.elapsed();
    let mut loaded = Loaded::new(session, &Inputs::random(), &OpenSizes::default())?;
    let found = run_model(&mut loaded, &artifact)?;
    let holds = verify_model(&registry, &model, &artifact, &loaded, &found)?;
    measure(&mut loaded, load_time, &artifact)?;
    step("Show the ledger", &format!("byoc inspect {} --constants", artifact.display()))?;
    report::print(&inspect::largest_constants(&Artifact::open(&artifact)?))?;
    report::print(&next(&model, &artifact))?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

/// Prints the title of a step and its command.
fn step(title: &str, command: &str) -> Result<()> {
    report::print(&format!("\n{title}\n$ {command}\n"))
}

fn write_model(path: &Path) -> Result<()> {
    let bytes = quickstart::model();
    if path.exists() && !std::fs::read(path).is_ok_and(|found| found == bytes) {
        let message = format!("'{}' is there already, and is not the model of the tour", path.display());
        return Err(Diagnostic::new(Code::Usage, message).hint("Name another folder with --dir"));
    }
    atomic_file::write(path, &bytes)?;
    let bytes = size(bytes.len() as u64);
    report::print(&format!("Wrote {}, MobileNet v1 with random weights, {bytes}\n", path.display()))
}

fn compile_model(registry: &Registry, model: &Path, artifact: &Path) -> Result<()> {
    step("Compile it into one file", &format!("byoc compile {} -o {}", model.display(), artifact.display()))?;
    let start = Instant::now();
    let sources = vec![("main".to_owned(), model.to_owned())];
    let request = compile_request::request(registry, &Backends::default(), sources, &Shapes::default())?;
    compile(&request, artifact, &mut Progress::new(None))?;
    let overview = Overview::of(&Artifact::open(artifact)?);
    report::print(&format!("{}compiled in {}\n", overview.text(), duration(start.elapsed())))
}

fn run_model(loaded: &mut Loaded, artifact: &Path) -> Result<Vec<(String, Tensor)>> {
    step("Run it", &format!("byoc run {} --fill random --print-top {TOP}", artifact.display()))?;
    loaded.run()?;
    let found = outputs::collect(&loaded.session)?;
    let summaries: Vec<_> = found.iter().map(|(name, tensor)| Summary::of(name, tensor, TOP)).collect();
    report::print(&report::outputs(&summaries))?;
    Ok(found)
}

fn verify_model(
    registry: &Registry,
    model: &Path,
    artifact: &Path,
    loaded: &Loaded,
    found: &[(String, Tensor)],
) -> Result<bool> {
    let command = format!("byoc verify {} --model {}", artifact.display(), model.display());
    step("Compare it with the reference kernels", &command)?;
    let expected = verify::by_reference_kernels(model, registry, loaded)?;
    let comparisons = compare_all(found, &expected, &Tolerances::default())?;
    report::print(&report::comparisons(&comparisons))?;
    Ok(comparisons.iter().all(Comparison::holds))
}

fn measure(loaded: &mut Loaded, load_time: Duration, artifact: &Path) -> Result<()> {
    step("Measure it", &format!("byoc bench {} --repeat {RUNS}", artifact.display()))?;
    let times = (0..RUNS).map(|_| loaded.run()).collect::<Result<Vec<_>>>()?;
    let Some(statistics) = Statistics::of(&times) else { return Ok(()) };
    let [median, min] = [statistics.median, statistics.min].map(|time| duration(Duration::from_secs_f64(time)));
    report::print(&format!("median {median}, min {min}, load {}\n", duration(load_time)))
}

fn next(model: &Path, artifact: &Path) -> String {
    let (model, artifact) = (model.display(), artifact.display());
    let commands = [
        (format!("explain {model}"), "which backend takes which node, and why not"),
        (format!("inspect {artifact} --regions"), "the regions of each backend"),
        (format!("check {artifact}"), "whether this machine can run it"),
        ("plugin list".to_owned(), "the known backends"),
        (format!("compile {model} -o {artifact} --plugin PATH --backend NAME,..."), "with a plugin of yours"),
    ];
    let lines = commands.map(|(command, what)| format!("# {what}\n$ byoc {command}\n"));
    format!("\nTry next\n{}", lines.concat())
}
