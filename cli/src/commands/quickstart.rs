//! `byoc quickstart`: compiles, runs, verifies and measures a model through the functions of the verbs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use byoc_core::artifact::Artifact;
use byoc_core::atomic_file;
use byoc_core::compile::{Request, compile, explain};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_tools::compare::{Comparison, Tolerances, compare_all};
use byoc_tools::execution::Loaded;
use byoc_tools::inputs::{Inputs, OpenSizes};
use byoc_tools::outputs;
use byoc_tools::statistics::Statistics;

use super::explain::Summary;
use super::{inspect, verify};
use crate::args::{Backends, Shapes};
use crate::guard::{Guard, Written};
use crate::progress::Progress;
use crate::report::{self, Bytes, duration, size};
use crate::{compile_request, embed, quickstart};

/// How many runs are measured.
const RUNS: usize = 10;

/// Write a model, show who would take what of it, compile, run, verify and measure it, and show the ledger; takes some
/// seconds
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  byoc quickstart\n  byoc quickstart --dir tour")]
pub(crate) struct Args {
    /// The folder to write the model and the artifact into; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "byoc-quickstart")]
    dir: PathBuf,
}

/// The tour: the commands that it shows work where it was started.
struct Tour {
    /// How the user calls this program.
    program: String,
    registry: Registry,
    model: PathBuf,
    artifact: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let (model, artifact) = (args.dir.join("model.onnx"), args.dir.join("model.byoc"));
    let tour = Tour { program: program(), registry: compile_request::embedded_registry()?, model, artifact };
    let made = make_dir(&args.dir)?;
    Guard::of(Written::Model, [&tour.model]).writes(Written::Artifact, [&tour.artifact]).check()?;
    tour.write_model()?;
    if made {
        // Git leaves a folder alone that is ours.
        atomic_file::write(&args.dir.join(".gitignore"), b"*\n")?;
    }
    tour.explain()?;
    tour.compile()?;
    let holds = tour.run()?;
    tour.step("The ledger: each weight once, whoever reads it", "inspect ARTIFACT --constants")?;
    report::print(&inspect::some_constants(&Artifact::open(&tour.artifact)?)?)?;
    report::print(&tour.next(start.elapsed()))?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

/// Makes the folder; whether it was not there.
fn make_dir(dir: &Path) -> Result<bool> {
    let made = !dir.is_dir();
    std::fs::create_dir_all(dir).map_err(|error| Diagnostic::io(dir, "make the folder", &error))?;
    Ok(made)
}

/// `byoc` where that is this program, else the path of it.
fn program() -> String {
    let Ok(own) = std::env::current_exe() else { return "byoc".into() };
    let found = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|dir| dir.join("byoc")).find(|file| file.is_file()));
    if found.is_some_and(|found| std::fs::canonicalize(found).is_ok_and(|found| found == own)) {
        return "byoc".into();
    }
    let here = std::env::current_dir().ok();
    let from_here = here.and_then(|here| own.strip_prefix(here).map(Path::to_owned).ok());
    from_here.unwrap_or(own).display().to_string()
}

impl Tour {
    /// Prints the title of a step and its command, in which `MODEL` and `ARTIFACT` are the files. So that all steps fit on a
    /// screen, none shows all that its command prints.
    fn step(&self, title: &str, command: &str) -> Result<()> {
        report::print(&format!("\n# {title} (shortened)\n{}", self.command(command)))
    }

    fn command(&self, command: &str) -> String {
        let (model, artifact) = (self.model.display().to_string(), self.artifact.display().to_string());
        format!("$ {} {}\n", self.program, command.replace("MODEL", &model).replace("ARTIFACT", &artifact))
    }

    fn write_model(&self) -> Result<()> {
        let (path, bytes) = (&self.model, quickstart::model());
        if path.exists() && !std::fs::read(path).is_ok_and(|found| found == bytes) {
            let message = format!("'{}' is there already, and is not the model of the tour", path.display());
            return Err(Diagnostic::new(Code::Usage, message).hint("Name another folder with --dir"));
        }
        atomic_file::write(path, &bytes)?;
        let bytes = size(bytes.len() as u64);
        report::print(&format!("Wrote {}, a MobileNet with random weights, {bytes}\n", path.display()))
    }

    fn request(&self, backends: Vec<String>) -> Result<Request> {
        let sources = vec![("main".to_owned(), self.model.clone())];
        let chosen = Backends { backend: backends, backend_opt: Vec::new() };
        compile_request::request(&self.registry, &chosen, sources, &Shapes::default())
    }

    /// The split between the first embedded backend that is not for the host, and the one that is.
    fn explain(&self) -> Result<()> {
        let device = self.registry.backends.iter().map(|found| &found.description).find(|it| !it.host);
        let Some(device) = device.map(|it| it.name.clone()) else { return Ok(()) };
        let command = format!("explain MODEL --backend {device},cpu");
        self.step("Two backends: who takes what, and why not all", &command)?;
        let request = self.request(vec![device, embed::default_backend()?])?;
        let rows = explain(&request, &mut Progress::new(None))?;
        report::print(&Summary::of(&rows).in_short())
    }

    fn compile(&self) -> Result<()> {
        self.step("Compile it for the CPU, into one file", "compile MODEL -o ARTIFACT")?;
        let start = Instant::now();
        compile(&self.request(Vec::new())?, &self.artifact, &mut Progress::new(None))?;
        let sentence = Bytes::of(&Artifact::open(&self.artifact)?)?.sentence();
        report::print(&format!("{sentence}\ncompiled in {}\n", duration(start.elapsed())))
    }

    /// One run, compared with the reference kernels, and some that are measured. Whether the outputs are right.
    fn run(&self) -> Result<bool> {
        let start = Instant::now();
        let session = Session::open(&self.artifact, &self.registry, &LoadOptions::default())?;
        let load_time = start.elapsed();
        let mut loaded = Loaded::new(session, &Inputs::random(), &OpenSizes::default(), &mut |_| {})?;
        loaded.run()?;
        let found = outputs::collect(&loaded.session)?;
        self.step("Is it right, against the reference kernels? And fast?", "verify ARTIFACT --model MODEL")?;
        let expected = verify::by_reference_kernels(&self.model, &self.registry, &loaded)?;
        let comparisons = compare_all(&found, &expected, &Tolerances::default())?;
        report::print(&report::comparisons_in_short(&comparisons))?;
        report::print(&self.command(&format!("bench ARTIFACT --repeat {RUNS}")))?;
        let times = (0..RUNS).map(|_| loaded.run()).collect::<Result<Vec<_>>>()?;
        if let Some(statistics) = Statistics::of(&times) {
            let [median, min] = [statistics.median, statistics.min].map(|it| duration(Duration::from_secs_f64(it)));
            report::print(&format!("median {median}, min {min}, load {}\n", duration(load_time)))?;
        }
        Ok(comparisons.iter().all(Comparison::holds))
    }

    fn next(&self, time: Duration) -> String {
        let commands = ["run ARTIFACT --fill random --print-top 3", "plugin new acme"];
        let lines = commands.map(|command| self.command(command));
        format!("\n# All that took {}. Try next\n{}", duration(time), lines.concat())
    }
}
