//! `byoc plugin test`: the conformance kit on one plugin file, in a child process that may crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use byoc_conformance::{Case, Choice, Report, Settings, Shard, Tag, Vendor, child, supervise};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registry, SearchPath, Selected};
use serde_json::json;

use crate::args::{name_value, shard};
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
    /// Memory that the tests may take; 0: what the machine has
    #[arg(long = "plugin-memory", alias = "memory", value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    memory: u64,
    /// Only cases whose names match; `*` stands for any characters
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Only a part of the models: the Ith of N parts, to share them among machines
    #[arg(long, value_name = "I/N", value_parser = shard::parse)]
    shard: Option<Shard>,
    /// Speak to the plugin as the host of that ABI version does
    #[arg(long, value_name = "VERSION", value_parser = ["1.0"])]
    as_host: Option<String>,
    /// End with the first case that fails
    #[arg(long)]
    fail_fast: bool,
    /// Report only cases that fail, and those with notes
    #[arg(long)]
    failed: bool,
    /// Write the models of failing cases into this empty folder, as small as they were found
    #[arg(long, value_name = "DIR")]
    save_failing: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Run the cases in this process, from this number on; how the verb calls itself.
    #[arg(long, hide = true)]
    child: Option<usize>,
}

impl Args {
    /// Whether this is the process that runs the cases.
    pub(super) fn runs_cases(&self) -> bool {
        self.child.is_some()
    }
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
        shard: args.shard.unwrap_or(Shard::ALL),
        choice: Choice {
            only: args.only.clone(),
            first_host: args.as_host.is_some(),
            fail_fast: args.fail_fast,
            save_failing: args.save_failing.clone(),
        },
    };
    if let Some(from) = args.child {
        child(&settings, from);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.save_failing {
        super::new::make_dir(folder, "--save-failing")?;
    }
    let program = std::env::current_exe()
        .map_err(|error| Diagnostic::new(Code::Io, format!("cannot find this program: {error}")))?;
    let command = |from: usize| child_command(args, &program, from);
    let report = supervise(&settings, &command, Duration::from_secs(args.timeout), &mut |_| {})?;
    if args.json {
        let Report { plugin, refused, .. } = &report;
        let (summary, cases) = (summary(&report), shown(&report, args.failed));
        report::print_json(
            &json!({ "plugin": plugin, "refused": refused, "summary": summary, "cases": cases, "notes": report.notes }),
        )?;
    } else {
        report::print(&text(&report, args.failed))?;
    }
    Ok(match (report.refused, report.count(Tag::Fail)) {
        (true, _) => ExitCode::from(Code::NotAPlugin.exit()),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

/// The command that runs the cases from that number on, in a process of their own.
fn child_command(args: &Args, program: &Path, from: usize) -> Command {
    let mut command = Command::new(program);
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
    if let Some(only) = &args.only {
        command.args(["--only", only]);
    }
    if let Some(shard) = args.shard {
        command.args(["--shard", &shard.to_string()]);
    }
    if let Some(folder) = &args.save_failing {
        command.arg("--save-failing").arg(folder);
    }
    if let Some(version) = &args.as_host {
        command.args(["--as-host", version]);
    }
    if args.fail_fast {
        command.arg("--fail-fast");
    }
    command
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

/// The cases that are reported: all, or those that fail and those with notes.
fn shown(report: &Report, failed: bool) -> Vec<&Case> {
    report.cases.iter().filter(|case| !failed || case.result == Tag::Fail || !case.notes.is_empty()).collect()
}

/// What was noted, each once with the first case that it was noted in.
fn notes(report: &Report) -> String {
    let mut of_cases: Vec<(&str, &str, usize)> = Vec::new();
    for case in &report.cases {
        for note in &case.notes {
            match of_cases.iter_mut().find(|(known, ..)| known == note) {
                Some((.., more)) => *more += 1,
                None => of_cases.push((note, &case.name, 0)),
            }
        }
    }
    let line = |(note, case, more): (&str, &str, usize)| match more {
        0 => format!("{case}: {note}\n"),
        more => format!("{case}, and {}: {note}\n", report::count(more, "more case")),
    };
    let of_all = report.notes.iter().map(|note| format!("{note}\n"));
    let lines: String = of_all.chain(of_cases.into_iter().map(line)).collect();
    if lines.is_empty() { lines } else { format!("\nnotes\n{lines}") }
}

/// How near to the noise the right results of each pattern came at worst, where that is what is asked of them.
fn noise(report: &Report) -> String {
    let mut worst: BTreeMap<(&str, &str), (f64, &str)> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| case.result == Tag::Pass) {
        let (Some(noise), Some((pattern, _))) = (case.noise_db, case.name.split_once(": ")) else { continue };
        let known = worst.entry((&case.backend, pattern)).or_insert((noise, &case.name));
        if noise < known.0 {
            *known = (noise, &case.name);
        }
    }
    let line =
        |((backend, _), (noise, case)): ((&str, &str), (f64, &str))| format!("{backend} {case}: {noise:.1} dB\n");
    let lines: String = worst.into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nleast signal above the noise, of each pattern\n{lines}") }
}

fn text(report: &Report, failed: bool) -> String {
    let mut table = Table::new(&["backend", "case", "result", ">time", ">per call", ">memory", "reason"]);
    let time = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    let shown = shown(report, failed);
    for case in &shown {
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
    let models = shown.iter().filter_map(|case| Some(format!("{}\n  {}\n", case.name, case.model.as_ref()?)));
    let models: Vec<_> = models.collect();
    let notes = [notes(report), noise(report)].concat();
    let smallest = if models.is_empty() { String::new() } else { format!("\nsmallest models\n{}", models.concat()) };
    format!(
        "{}{smallest}{notes}\n{passed} passed, {failed} failed, {unsupported} unsupported, {expected} failed as expected\n",
        table.text()
    )
}
