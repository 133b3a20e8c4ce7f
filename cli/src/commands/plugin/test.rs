//! `byoc plugin test`: the conformance kit on one plugin file, in a child process that may crash.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use byoc_conformance::{Report, Settings, Share, Tag, Vendor, child, supervise};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registry, SearchPath, Selected};
use serde_json::json;

use crate::args::name_value;
use crate::embed;
use crate::report::{self, Table, duration, size};

/// Test a plugin, given nothing but its file
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  byoc plugin test libbyoc_acme.so\n  byoc plugin test libbyoc_acme.so --case cases --json"
)]
pub(crate) struct Args {
    /// The plugin file
    file: PathBuf,
    /// Only these backends of the plugin (repeatable) [default: all of them]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    backend: Vec<String>,
    /// An option of a backend (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    backend_opt: Vec<(String, String)>,
    /// Further cases and expected failures: a TOML file, or a folder of them (repeatable)
    #[arg(long, value_name = "DIR|FILE.toml")]
    case: Vec<PathBuf>,
    /// Seconds that a case may take
    #[arg(long = "plugin-timeout", alias = "timeout", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Memory that the tests may take; 0: no limit
    #[arg(long = "plugin-memory", alias = "memory", value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    memory: u64,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Run the cases in this process, from this number on; how the verb calls itself.
    #[arg(long, hide = true)]
    child: Option<usize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Whether it is a plugin is the first case; whether it is there is not the plugin's matter.
    std::fs::metadata(&args.file).map_err(|error| Diagnostic::io(&args.file, "read", &error))?;
    let settings = Settings {
        plugin: args.file.clone(),
        backends: args.backend.clone(),
        options: args.backend_opt.clone(),
        memory: args.memory << 20,
        reference: reference()?,
        vendor: Vendor::read(&args.case)?,
        share: Share::ALL,
    };
    if let Some(from) = args.child {
        child(&settings, from);
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe()
        .map_err(|error| Diagnostic::new(Code::Io, format!("cannot find this program: {error}")))?;
    let command = |from: usize| {
        let mut command = Command::new(&program);
        command.args(["plugin", "test"]).arg(&args.file).args(["--child", &from.to_string()]);
        command.args(["--plugin-memory", &args.memory.to_string()]);
        for name in &args.backend {
            command.args(["--backend", name]);
        }
        for (key, value) in &args.backend_opt {
            command.arg("--backend-opt").arg(format!("{key}={value}"));
        }
        for place in &args.case {
            command.arg("--case").arg(place);
        }
        command
    };
    let report = supervise(&settings, &command, Duration::from_secs(args.timeout), &mut |_| {})?;
    if args.json {
        let Report { plugin, refused, cases } = &report;
        let summary = summary(&report);
        report::print_json(&json!({ "plugin": plugin, "refused": refused, "summary": summary, "cases": cases }))?;
    } else {
        report::print(&text(&report))?;
    }
    Ok(match (report.refused, report.count(Tag::Fail)) {
        (true, _) => ExitCode::from(Code::NotAPlugin.exit()),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

/// The embedded backend with kernels to compare with.
fn reference() -> Result<Selected> {
    let (name, setting) = embed::reference()?;
    let registry = Registry::discover(&SearchPath::default(), &embed::backends(), None)?;
    Ok(registry.select(&[name], &[setting])?.remove(0))
}

/// How many cases ended how, by tag.
fn summary(report: &Report) -> serde_json::Value {
    json!({
        "pass": report.count(Tag::Pass),
        "fail": report.count(Tag::Fail),
        "unsupported": report.count(Tag::Unsupported),
        "expected_failure": report.count(Tag::ExpectedFailure),
    })
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["backend", "case", "result", ">time", ">per call", ">memory", "reason"]);
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    for case in &report.cases {
        let backend = if case.backend.is_empty() { "-" } else { &case.backend };
        table.row([
            backend.to_owned(),
            case.name.clone(),
            case.result.to_string(),
            time(case.seconds),
            case.seconds_per_call.map(time).unwrap_or_default(),
            case.peak_bytes.map(size).unwrap_or_default(),
            case.reason.clone().unwrap_or_default(),
        ]);
    }
    let count = |tag| report.count(tag);
    let (passed, failed, unsupported) = (count(Tag::Pass), count(Tag::Fail), count(Tag::Unsupported));
    let expected = count(Tag::ExpectedFailure);
    format!(
        "{}\n{passed} passed, {failed} failed, {unsupported} unsupported, {expected} failed as expected\n",
        table.text()
    )
}
