//! `byoc inspect`: what is in an artifact, or in a model.

mod code;
mod ledger;
mod model;
mod variants;
mod views;

use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::artifact::{Artifact, ArtifactFile};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde_json::{Map, Value, json};

pub(super) use self::ledger::fate;
pub(super) use self::views::by_count;
use crate::args::{Plugins, SELDOM, Shapes, hide_limits};
use crate::artifact::{Compared, Compiled, find, is_model};
use crate::report::{self, Overview, size};

/// Show what is in an artifact, in a model, or in a file that a backend opens
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc inspect model.onnx\n  byoc inspect model.byoc --constants",
    mut_args(hide_limits)
)]
pub(crate) struct Args {
    /// An artifact, an .onnx model, or a file that a backend opens
    file: PathBuf,
    /// The ledger, which is the list of constants: who reads each, who stores it, and what became of it
    #[arg(long)]
    constants: bool,
    /// Every region with its backend, code, inputs and outputs
    #[arg(long)]
    regions: bool,
    /// Every section of the file
    #[arg(long)]
    sections: bool,
    /// The backends that the artifact needs
    #[arg(long)]
    plugins: bool,
    /// This variant, of a file that has some [default: all of them]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// This region: what its backend says is in its code, or else the same as --regions
    #[arg(long, value_name = "SYMBOL", conflicts_with_all = ["constants", "regions", "sections", "plugins", "verify_digests"])]
    region: Option<String>,
    /// Write the file that is in the code of that region; OUT.h is an array of C, OUT.kfpkg a package for K210 flash tools
    #[arg(long, value_name = "OUT", requires = "region")]
    extract: Option<PathBuf>,
    /// Write the code of that region as it is in the artifact; no plugin is needed for it
    #[arg(long, value_name = "OUT", requires = "region", conflicts_with = "extract")]
    code: Option<PathBuf>,
    /// Read every byte and compare it with the digests
    #[arg(long)]
    verify_digests: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Sizes that a model leaves open.
    #[command(flatten)]
    shapes: Shapes,
    /// Where plugins are, for code and files that backends open.
    #[command(flatten)]
    places: Plugins,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR", requires = "verify_digests", hide_short_help = true, help_heading = SELDOM)]
    constants_from: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if is_model(&args.file) {
        no_parts(args, "a model", "Compile it first, or leave the flags out")?;
        model::run(args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = match find(&args.file, &args.places)? {
        Compiled::Artifact(file) => file,
        Compiled::File(opened) => {
            no_parts(args, "a file of a backend's own", "Leave the flags out")?;
            code::file(args, &opened)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    if args.verify_digests {
        file.verify_digests()?;
    }
    // The region of a symbol is in one variant.
    if args.variant.is_none() && file.variants().len() > 1 && args.region.is_none() {
        variants::run(args, &file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut artifact = args.variant.as_ref().map_or_else(|| file.only(), |name| file.variant(name))?;
    if let Some(symbol) = &args.region {
        code::region(args, &artifact, symbol)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Whatever is shown, a ledger that does not fit is told.
    artifact.ledger()?;
    if args.verify_digests {
        artifact.attach(args.constants_from.as_deref())?;
    }
    if args.json {
        report::print_json(&Value::Object(json(args, &file, &artifact)?))?;
    } else {
        report::print(&text(args, &file, &artifact)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Errors where the selected parts exist in artifacts only.
fn no_parts(args: &Args, kind: &str, hint: &str) -> Result<()> {
    let parts = [args.constants, args.regions, args.sections, args.plugins, args.verify_digests];
    if parts.contains(&true) || args.region.is_some() || args.variant.is_some() {
        let message = format!("'{}' is {kind}; only an artifact has these parts", args.file.display());
        return Err(Diagnostic::new(Code::Usage, message).hint(hint));
    }
    Ok(())
}

/// A few rows of the ledger, with its sums: what `quickstart` shows.
pub(crate) fn some_constants(artifact: &Artifact) -> Result<String> {
    ledger::some(artifact)
}

/// The selected parts; the overview by default.
fn text(args: &Args, file: &ArtifactFile, artifact: &Artifact) -> Result<String> {
    let mut parts = Vec::new();
    if args.constants {
        parts.push(ledger::text(artifact)?);
    }
    if args.regions {
        parts.push(views::regions(artifact)?);
    }
    if args.sections {
        parts.push(views::sections(file));
    }
    if args.plugins {
        parts.push(views::backends(artifact));
    }
    if parts.is_empty() {
        let (what, producer) = (what(file, artifact), &artifact.manifest().producer);
        let path = artifact.path().display();
        let head = format!("{path}: {}, {what}, written by {producer}\n", size(artifact.size()));
        let compared = if args.verify_digests { String::new() } else { Compared::by_showing_one(file).text() };
        parts.push(head + &Overview::of(artifact)?.text() + &compared);
    }
    if args.verify_digests {
        parts.push(Compared::all(file).text());
    }
    Ok(parts.join("\n"))
}

/// `format 1`, or `variant cpu, format 2`.
fn what(file: &ArtifactFile, artifact: &Artifact) -> String {
    let variant = artifact.variant().map(|name| format!("variant {name}, ")).unwrap_or_default();
    format!("{variant}format {}", file.format())
}

fn json(args: &Args, file: &ArtifactFile, artifact: &Artifact) -> Result<Map<String, Value>> {
    let manifest = artifact.manifest();
    let mut parts = Map::new();
    if args.constants {
        parts.insert("constants".into(), json!(artifact.ledger()?));
        parts.insert("totals".into(), json!(report::Bytes::of(artifact)?));
        parts.insert("stored".into(), json!(manifest.constants));
        parts.insert("files".into(), json!(manifest.files));
    }
    if args.regions {
        parts.insert("regions".into(), views::regions_json(artifact)?);
    }
    if args.sections {
        parts.insert("sections".into(), views::sections_json(file));
    }
    if args.plugins {
        parts.insert("plugins".into(), json!(manifest.requirements));
    }
    if parts.is_empty() {
        parts.insert("file".into(), json!(artifact.path()));
        if let Some(name) = artifact.variant() {
            parts.insert("variant".into(), json!(name));
        }
        parts.insert("format".into(), json!(file.format()));
        parts.insert("producer".into(), json!(manifest.producer));
        if let Value::Object(overview) = json!(Overview::of(artifact)?) {
            parts.extend(overview);
        }
    }
    let mut compared = Compared::by_showing_one(file);
    if args.verify_digests {
        parts.insert("digests".into(), json!("ok"));
        compared = Compared::all(file);
    }
    parts.insert("compared".into(), json!(compared));
    Ok(parts)
}
