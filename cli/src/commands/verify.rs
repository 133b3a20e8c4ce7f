//! `byoc verify`: compares outputs, or what each region computes, with those of a file or of the reference kernels.

mod bisect;
mod part;
mod regions;
mod repro_command;
mod variants;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byoc_core::artifact::ArtifactFile;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_tools::compare::{Comparison, Criterion, Tolerance, Tolerances, compare_all};
use byoc_tools::execution::Loaded;
use byoc_tools::fill::Fill;
use byoc_tools::inputs::{Source, expected_outputs};
use byoc_tools::outputs;
use byoc_tools::reference;
use byoc_tools::tensor::Tensor;
use serde_json::json;

use crate::args::tolerance::{self, OfOutput};
use crate::args::{Execution, FIRST, SECOND, number};
use crate::artifact::Digests;
use crate::execution::{self, Need, Ready, Variant};
use crate::file_kind::told_by_backends;
use crate::progress::Progress;
use crate::{artifact, compile_request, embed, report};

/// Compare the outputs of an artifact, or of a model, with a reference
#[derive(clap::Args, Debug)]
#[command(next_display_order = SECOND, after_help = "Examples:\n  byoc verify model.byoc --model model.onnx\n  byoc verify model.byoc -i inputs.npz --reference outputs.npz")]
#[command(mut_arg("verify_digests", |arg| arg.hide(true)))] // It always does.
#[command(group = clap::ArgGroup::new("expected").args(["reference", "model"]))]
pub(crate) struct Args {
    /// The expected outputs: an .npz file with their names, an .npy file or a tensor of ONNX (.pb) for the only one, or a folder
    /// of ONNX's test data [default: output_0.pb and so on of such a folder that is given with --input]
    #[arg(long, value_name = "OUT.npz", display_order = FIRST)]
    reference: Option<PathBuf>,
    /// The model to compute the expected outputs with, by byoc's own reference kernels, which are plain and slow; inputs that no
    /// file gives are random
    #[arg(long, value_name = "MODEL.onnx", display_order = FIRST)]
    model: Option<PathBuf>,
    /// Run each region by itself on what the reference kernels make of the regions before it, and name the first that differs
    #[arg(long, requires = "model", conflicts_with = "reference")]
    regions: bool,
    /// Also look in that region for the first node whose result differs: its backend compiles the nodes again, more of them
    /// each time
    #[arg(long, requires = "regions")]
    bisect: bool,
    /// Absolute tolerance, of all outputs or of one (repeatable): |a-b| <= atol + rtol*|b| [default: 1e-5 for f32 and f64,
    /// 1e-3 for f16, 1e-2 for bf16]
    #[arg(long, value_name = "[OUTPUT=]X", value_parser = tolerance::parse, allow_negative_numbers = true)]
    atol: Vec<OfOutput>,
    /// Relative tolerance, of all outputs or of one (repeatable) [default: 1e-3 for f32 and f64, 1e-2 for f16, 5e-2 for bf16]
    #[arg(long, value_name = "[OUTPUT=]X", value_parser = tolerance::parse, allow_negative_numbers = true)]
    rtol: Vec<OfOutput>,
    /// Signal-to-noise ratio in dB that each output of floats must have, in place of the tolerances. For models that are
    /// quantised: a value that is rounded otherwise is a level apart; 20 is usual
    #[arg(long, value_name = "DB", value_parser = number::tolerance, conflicts_with_all = ["atol", "rtol"])]
    snr: Option<f64>,
    /// Cosine between each output of floats and its reference, as vectors, in place of the tolerances; 0.99 is usual for
    /// models that are quantised
    #[arg(long, value_name = "X", value_parser = number::cosine, allow_negative_numbers = true, conflicts_with_all = ["atol", "rtol", "snr"])]
    min_cosine: Option<f64>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// What to run.
    #[command(flatten)]
    execution: Execution,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.reference.is_none() && args.model.is_none() {
        test_data(args)?;
    }
    let tolerances = tolerances(args)?;
    if let (true, Some(model)) = (args.regions, &args.model) {
        return regions::run(args, model, &tolerances);
    }
    let variants = variants::of(&args.execution);
    if variants.len() > 1 && args.execution.variant.is_none() {
        return variants::run(args, &variants, &tolerances);
    }
    let ready = load(args, &args.execution, Digests::Always)?;
    let Compared { comparisons, made_up, hint, variant } = compare(args, &args.execution, ready, &tolerances)?;
    let holds = comparisons.iter().all(Comparison::holds);
    if args.json {
        let mut found = json!({ "matches": holds, "made_up_inputs": made_up, "outputs": comparisons, "hint": hint });
        Variant::add_to(variant.as_ref(), &mut found);
        report::print_json(&found)?;
    } else {
        let hint = hint.map(|hint| format!("\n{hint}\n")).unwrap_or_default();
        let made_up = execution::made_up(&args.execution, &made_up);
        report::print(&format!("{}{made_up}{hint}", report::comparisons(&comparisons)))?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

/// Outputs beside those that are expected.
struct Compared {
    comparisons: Vec<Comparison>,
    /// Inputs that no file gives.
    made_up: Vec<String>,
    /// How the comparison may be loosened.
    hint: Option<String>,
    /// Which variant it is, of a file that has some.
    variant: Option<Variant>,
}

/// Loads what the flags say.
fn load(args: &Args, execution: &Execution, digests: Digests) -> Result<Ready> {
    // Any inputs will do to compare with the model itself.
    let fill = args.model.as_ref().map(|_| Fill::Random);
    execution::load(execution, Need { fill, profile: false, digests, streams: 1 })
}

/// Runs what is loaded and compares its outputs.
fn compare(args: &Args, execution: &Execution, ready: Ready, tolerances: &Tolerances) -> Result<Compared> {
    let Ready { mut loaded, variant, .. } = ready;
    loaded.run()?;
    let found = outputs::collect(&loaded.session)?;
    let expected = match (&args.reference, &args.model) {
        (Some(path), _) if path.is_dir() => expected_outputs(path, &loaded.session.outputs())?,
        (Some(path), _) => outputs::read_expected(path, &loaded.session.outputs())?,
        (None, Some(model)) => {
            let names = [embed::reference()?.0, embed::default_backend()?];
            let registry = compile_request::registry_of(&execution.places(), &names)?;
            by_reference_kernels(model, &registry, &loaded)
                .map_err(|error| told_by_backends(error, &[model], || Ok(registry)))?
        }
        (None, None) => expected_outputs(&test_data(args)?, &loaded.session.outputs())?,
    };
    let tolerances = Tolerances { declared: loaded.session.allowances(), ..tolerances.clone() };
    let comparisons = compare_all(&found, &expected, &tolerances)?;
    let holds = comparisons.iter().all(Comparison::holds);
    let quantised = || quantised(execution, loaded.session.variant());
    let hint = if holds { None } else { looser(&comparisons, quantised().as_deref()) };
    Ok(Compared { comparisons, made_up: loaded.made_up, hint, variant })
}

/// The backend of a region that computes in numbers of few bits, whose ranges come from samples; `None` where there is none.
fn quantised(execution: &Execution, variant: Option<&str>) -> Option<String> {
    let (Execution { file, backends, .. }, plugins) = (execution, &execution.places());
    let (registry, used): (_, Vec<String>) = if artifact::is_model(file) {
        (compile_request::isolated_registry(plugins, &backends.backend), backends.backend.clone())
    } else {
        let file = ArtifactFile::open(file).ok()?;
        let artifact = variant.map_or_else(|| file.only(), |name| file.variant(name)).ok()?;
        let used = artifact.manifest().regions.iter().map(|region| region.backend.clone()).collect();
        (compile_request::isolated_registry_for(plugins, &artifact), used)
    };
    let described = registry.ok()?.backends.into_iter().map(|backend| backend.description);
    described.filter(|it| it.calibration && used.contains(&it.name)).map(|it| it.name).next()
}

/// Outputs that are this much alike, in dB or by their cosine, may differ by rounding alone.
const ALIKE_SNR: f64 = 20.0;
const ALIKE_COSINE: f64 = 0.99;

/// How a comparison element by element may be loosened; `None` where that decides nothing.
fn looser(outputs: &[Comparison], quantised: Option<&str>) -> Option<String> {
    let by_element = |it: &&Comparison| !it.holds() && matches!(it.criterion, Criterion::Elements { .. });
    let (name, found) = outputs.iter().filter(by_element).find_map(|it| Some((&it.name, it.likeness.as_ref()?)))?;
    let has = format!("  {name} has {:.1} dB and a cosine of {:.6}", found.snr, found.cosine);
    match quantised {
        Some(backend) => {
            let usual = format!("--snr {ALIKE_SNR} or --min-cosine {ALIKE_COSINE} is usual");
            Some(format!("hint: {backend} rounds values to few bits: {usual}\n{has}"))
        }
        // What is wrong is not to be compared more loosely.
        None => (found.snr >= ALIKE_SNR || found.cosine >= ALIKE_COSINE)
            .then(|| format!("hint: --atol, --rtol, --snr and --min-cosine loosen the comparison\n{has}")),
    }
}

/// The folder of test data, whose outputs are expected.
fn test_data(args: &Args) -> Result<PathBuf> {
    let folders = args.execution.inputs.input.iter().filter_map(Source::test_data);
    folders.map(Path::to_owned).next().ok_or_else(|| {
        Diagnostic::new(Code::Usage, "there is nothing to compare with").hint(
            "Give --reference OUT.npz, --model MODEL.onnx, or a folder of ONNX's test data as --input, with its output_0.pb",
        )
    })
}

/// The tolerances of the flags.
fn tolerances(args: &Args) -> Result<Tolerances> {
    let all = Tolerance { snr: args.snr, min_cosine: args.min_cosine, ..Tolerance::default() };
    let mut tolerances = Tolerances { all, ..Tolerances::default() };
    type Place = fn(&mut Tolerance) -> &mut Option<f64>;
    let flags: [(&str, &[OfOutput], Place); 2] =
        [("--atol", &args.atol, |it| &mut it.atol), ("--rtol", &args.rtol, |it| &mut it.rtol)];
    for (flag, given, place) in flags {
        for (output, value) in given {
            let tolerance = match output {
                Some(output) => tolerances.of_output.entry(output.clone()).or_default(),
                None => &mut tolerances.all,
            };
            if place(tolerance).replace(*value).is_some() {
                let of = output.as_ref().map_or("all outputs".to_owned(), |output| format!("output '{output}'"));
                let error = Diagnostic::new(Code::Usage, format!("{flag} is given twice for {of}"));
                return Err(error.hint("Leave one of them out"));
            }
        }
    }
    Ok(tolerances)
}

/// The outputs of the model on the same inputs, computed by the reference kernels.
pub(crate) fn by_reference_kernels(
    model: &Path,
    registry: &Registry,
    loaded: &Loaded,
) -> Result<Vec<(String, Tensor)>> {
    reference::outputs_of(model, registry, &embed::backends(), loaded, &mut Progress::new(None))
}
