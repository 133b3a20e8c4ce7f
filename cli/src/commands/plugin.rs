//! `byoc plugin`: the known backends, their descriptions, a project for a new one, the conformance kit, and times of regions.

mod bench;
mod new;
mod test;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registered, Registry, digest, plugin_files};
use byoc_plugin_api::{Description, Operator, OptionKind, OptionSpec, RegionPolicy, Tool};
use serde_json::{Value, json};

use crate::args::{Plugins, hide_limits, name_value};
use crate::compile_request;
use crate::report::{self, Table};

/// Show backends and where they come from
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Args {
    List(List),
    Info(Info),
    New(new::Args),
    Test(test::Args),
    Bench(bench::Args),
}

impl Args {
    /// Whether this process runs the cases of the conformance kit, and another one looks after it.
    pub(crate) fn runs_cases(&self) -> bool {
        matches!(self, Args::Test(args) if args.runs_cases())
    }
}

/// List every backend that is found, and files that were not loaded
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc plugin list\n  byoc plugin list --no-load --plugin-dir .",
    mut_args(hide_limits)
)]
pub(crate) struct List {
    /// List the plugin files and what each says of itself, and run no code of any of them
    #[arg(long)]
    no_load: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Where plugins are.
    #[command(flatten)]
    places: Plugins,
}

/// Show what a backend says of itself, and its options
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc plugin info cpu\n  byoc plugin info acme --plugin libbyoc_acme.so",
    mut_args(hide_limits)
)]
pub(crate) struct Info {
    /// The backend
    #[arg(value_parser = name_value::backend)]
    name: String,
    /// An option of the backend, for what it looks for on this machine (repeatable)
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    backend_opt: Vec<(String, String)>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Where plugins are.
    #[command(flatten)]
    places: Plugins,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match args {
        Args::List(args) => list(args),
        Args::Info(args) => info(args),
        Args::New(args) => new::run(args),
        Args::Test(args) => return test::run(args),
        Args::Bench(args) => return bench::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &List) -> Result<()> {
    if args.no_load {
        return list_files(args);
    }
    let registry = compile_request::isolated_registry(&args.places, &[])?;
    if args.json {
        return report::print_json(&list_json(&registry)?);
    }
    let mut table = Table::new(&["backend", "version", ">ABI", "origin", "summary"]);
    for backend in &registry.backends {
        let found = &backend.description;
        let abi = backend.abi_version.to_string();
        table.row([&found.name, &found.version, &abi, &backend.origin.to_string(), &found.summary]);
    }
    let mut text = table.text();
    for shadowed in &registry.shadowed {
        text +=
            &format!("shadowed: '{}' from {}, by an earlier one of the same name\n", shadowed.name, shadowed.origin);
    }
    for refused in &registry.refused {
        text += &format!("refused: {}\n", refused.reason);
    }
    report::print(&(text + &ignored_text(&registry.ignored)))
}

/// The files, going by their manifests.
fn list_files(args: &List) -> Result<()> {
    let search = compile_request::search(&args.places);
    let files = plugin_files(&search);
    if args.json {
        let files = files.iter().map(|file| {
            let error =
                file.manifest.as_ref().err().map(|error| json!({ "code": error.code.id(), "message": error.message }));
            let manifest = file.manifest.as_ref().ok().cloned().flatten();
            json!({ "path": file.path, "digest": digest(&file.path).ok(), "manifest": manifest, "error": error })
        });
        return report::print_json(&json!({ "files": files.collect::<Vec<_>>(), "ignored": search.ignored }));
    }
    let mut table = Table::new(&["backends", "plugin", "version", ">ABI", "file"]);
    let mut refused = String::new();
    for file in &files {
        let path = file.path.display().to_string();
        match &file.manifest {
            Ok(Some(manifest)) => {
                let names = if manifest.backends.is_empty() { "?".to_owned() } else { manifest.backends.join(", ") };
                table.row([&names, &manifest.name, &manifest.version, &manifest.abi.to_string(), &path]);
            }
            Ok(None) => table.row(["?", "?", "?", "?", &path]),
            Err(error) => refused += &format!("refused: {error}\n"),
        }
    }
    report::print(&format!("{}{refused}{}", table.text(), ignored_text(&search.ignored)))
}

fn ignored_text(ignored: &[PathBuf]) -> String {
    let line = |path: &PathBuf| {
        format!("ignored: the entry '{}' of BYOC_PLUGIN_PATH is not an absolute path\n", path.display())
    };
    ignored.iter().map(line).collect()
}

fn list_json(registry: &Registry) -> Result<Value> {
    let shadowed = registry
        .shadowed
        .iter()
        .map(|shadowed| json!({ "name": shadowed.name, "origin": shadowed.origin.to_string() }));
    let refused = registry.refused.iter().map(|refused| {
        let reason = &refused.reason;
        // A file that cannot be read has no digest.
        let digest = digest(&refused.path).ok();
        json!({ "path": refused.path, "digest": digest, "code": reason.code.id(), "message": reason.message, "hint": reason.hint })
    });
    Ok(json!({
        "backends": registry.backends.iter().map(backend_json).collect::<Result<Vec<_>>>()?,
        "shadowed": shadowed.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "ignored": registry.ignored,
    }))
}

fn backend_json(backend: &Registered) -> Result<Value> {
    Ok(json!({
        "origin": backend.origin.to_string(),
        "digest": backend.origin.digest()?,
        "abi_version": backend.abi_version,
        "description": backend.description,
    }))
}

fn info(args: &Info) -> Result<()> {
    let registry = compile_request::isolated_registry(&args.places, std::slice::from_ref(&args.name))?;
    let backend = registry.get(&args.name)?;
    of_backend(&args.name, &args.backend_opt)?;
    let tools = backend.tools(&args.backend_opt)?;
    if args.json {
        let mut answer = backend_json(backend)?;
        answer["tools"] = json!(tools);
        answer["patterns"] = json!(backend.patterns(&args.backend_opt)?);
        return report::print_json(&answer);
    }
    let found = &backend.description;
    let facts = [
        ("backend", format!("{} {}", found.name, found.version)),
        ("summary", found.summary.clone()),
        ("origin", backend.origin.to_string()),
        ("ABI", backend.abi_version.to_string()),
        ("code", found.code_versions()),
        ("runs on", runs_on(found).into()),
        ("regions", regions(&found.regions)),
    ];
    let calibration = found.calibration.then(|| ("data set", "needed to compile".to_owned()));
    let precision = found.precision.iter().map(|row| ("precise to", row.to_string()));
    let files = found.files.iter().map(|format| ("file", format!(".{}: {}", format.extension, format.summary)));
    let digest = backend.origin.digest()?.map(|digest| ("digest", digest));
    let domain = found.domain.iter().map(|kind| ("memory", format!("{kind}, such as {kind}:0")));
    let tunes = found.candidates.then(|| ("kernels", "several for a region; byoc tune finds the fastest".to_owned()));
    let takes = ("patterns", patterns(backend, &args.backend_opt)?);
    let own = found.operators.iter().map(|own| ("operator", operator(own)));
    let facts = facts
        .into_iter()
        .chain([takes])
        .chain(domain)
        .chain(tunes)
        .chain(own)
        .chain(precision)
        .chain(calibration)
        .chain(files)
        .chain(digest);
    let mut text: String = facts.map(|(name, value)| format!("{name:8} {value}\n")).collect();
    for (title, options) in [("option", &found.options), ("option of a machine", &found.run_options)] {
        if options.is_empty() {
            continue;
        }
        let mut table = Table::new(&[title, "values", "default", "help"]);
        for option in options {
            let key = format!("{}.{}", found.name, option.name);
            table.row([&key, &values(option), &option.default, &option.help]);
        }
        text += &format!("\n{}", table.text());
    }
    report::print(&(text + &pattern_texts(backend, &args.backend_opt)? + &tools_text(&tools)))
}

/// The patterns as a table, where they are few enough to be read.
fn pattern_texts(backend: &Registered, settings: &[(String, String)]) -> Result<String> {
    let patterns = backend.patterns(settings)?;
    if patterns.is_empty() || patterns.len() > SHOWN_PATTERNS {
        return Ok(String::new());
    }
    let mut table = Table::new(&["pattern", "matches"]);
    patterns.iter().for_each(|pattern| table.row([&pattern.name, &pattern.text]));
    Ok(format!("\n{}", table.text()))
}

/// Where its regions run, in words.
fn runs_on(found: &Description) -> &'static str {
    match (found.host, &found.domain) {
        (true, _) => "the host; takes whatever is left over",
        (false, Some(_)) => "its device",
        (false, None) => "the host's memory",
    }
}

/// How many patterns are named: a backend for everything has hundreds.
const SHOWN_PATTERNS: usize = 40;

/// The names of the backend's patterns, each once.
fn patterns(backend: &Registered, settings: &[(String, String)]) -> Result<String> {
    let patterns = backend.patterns(settings)?;
    let mut names: Vec<_> = patterns.iter().map(|pattern| pattern.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let more = names.len().saturating_sub(SHOWN_PATTERNS);
    names.truncate(SHOWN_PATTERNS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(if names.is_empty() { "none".into() } else { names.join(", ") + &more })
}

/// An operator that a backend brings, with its versions.
fn operator(own: &Operator) -> String {
    let set = if own.domain.is_empty() { String::new() } else { format!("{}.", own.domain) };
    match own.until {
        Some(until) if until == own.since => format!("{set}{} version {until}", own.name),
        Some(until) => format!("{set}{} versions {} to {until}", own.name, own.since),
        None => format!("{set}{} from version {} on", own.name, own.since),
    }
}

/// Errors where a setting is one of another backend.
fn of_backend(name: &str, settings: &[(String, String)]) -> Result<()> {
    match settings.iter().find(|(key, _)| key.split_once('.').is_none_or(|(backend, _)| backend != name)) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("option '{key}' is not one of the backend '{name}'");
            Err(Diagnostic::new(Code::BadOption, message).hint(format!("Write --backend-opt {name}.KEY=VALUE")))
        }
    }
}

/// What a backend uses on this machine, and how to get what is missing.
fn tools_text(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["tool", "needed for", "found"]);
    // One line may install several of them.
    let mut hints: Vec<&str> = Vec::new();
    for Tool { name, found, hint, needed_for } in tools {
        table.row([name, needed_for, found.as_deref().unwrap_or("missing")]);
        hints.extend(hint.as_deref().filter(|hint| found.is_none() && !hints.contains(hint)));
    }
    let hints: String = hints.iter().map(|hint| format!("hint: {hint}\n")).collect();
    format!("\n{}{hints}", table.text())
}

/// `neighbouring matches are merged, at most 1 input, start with Conv or Gemm`.
fn regions(policy: &RegionPolicy) -> String {
    let merged = if policy.merge { "neighbouring matches are merged" } else { "one for each match" };
    let limit = policy.max_inputs.map(|most| format!("at most {}", report::count(most, "input")));
    let start = (!policy.starts_with.is_empty()).then(|| format!("start with {}", policy.starts_with.join(" or ")));
    let side = policy.side_by_side.then(|| "and those beside one another".to_owned());
    let nodes = policy.max_nodes.map(|most| format!("at most {}", report::count(most, "node")));
    let outputs = policy.max_outputs.map(|most| format!("at most {}", report::count(most, "output")));
    let bytes = policy.max_bytes.map(|most| format!("at most {} of values", report::size(most)));
    [Some(merged.to_owned()), side, limit, nodes, outputs, bytes, start]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

fn values(option: &OptionSpec) -> String {
    match &option.kind {
        OptionKind::Bool => "true|false".into(),
        OptionKind::Int => "whole number".into(),
        OptionKind::Float => "number".into(),
        OptionKind::Text => "text".into(),
        OptionKind::Choice(words) => words.join("|"),
        _ => "value".into(),
    }
}
