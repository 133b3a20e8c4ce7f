//! The conformance kit passes our own backends, finds the faults of bad ones, and goes on behind a crash.

mod custom;
mod device;
mod faults;
mod loop_of_the_day;
mod mutants;
mod precision;
mod quantised;
mod tarn;
mod vendor;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use byoc_conformance::{Choice, Settings, Shard, Tag, Vendor};
use byoc_tests::fixture::c_device_plugin;
use byoc_tests::program::{Outcome, byoc, outcome};
use byoc_tests::{engine, places, sample};
use serde_json::Value;

/// What `byoc plugin test --json` said.
struct Tested {
    code: Option<i32>,
    report: Value,
}

/// Runs the verb on a plugin file.
fn verb(plugin: &Path, arguments: &[&str], prepare: &dyn Fn(&mut Command)) -> Outcome {
    let mut command = byoc(&["plugin", "test", plugin.to_str().expect("a plain path")]);
    command.args(arguments);
    prepare(&mut command);
    outcome(&mut command)
}

impl Tested {
    fn of(plugin: &Path, arguments: &[&str], prepare: &dyn Fn(&mut Command)) -> Tested {
        let outcome = verb(plugin, &[arguments, &["--json"]].concat(), prepare);
        let report = serde_json::from_str(&outcome.stdout);
        Tested { code: outcome.code, report: report.unwrap_or_else(|_| panic!("no report: {}", outcome.stderr)) }
    }

    fn plain(plugin: &Path, arguments: &[&str]) -> Tested {
        Tested::of(plugin, arguments, &|_| {})
    }

    fn count(&self, tag: &str) -> u64 {
        self.report["summary"][tag].as_u64().expect("a number")
    }

    /// Name and reason of the cases that failed.
    fn failures(&self) -> Vec<(&str, &str)> {
        let cases = self.report["cases"].as_array().expect("a list").iter();
        let failed = cases.filter(|case| case["result"] == "fail");
        failed
            .map(|case| (case["name"].as_str().unwrap_or_default(), case["reason"].as_str().unwrap_or_default()))
            .collect()
    }

    /// Names of the cases that passed.
    fn passed(&self) -> impl Iterator<Item = &str> {
        let cases = self.report["cases"].as_array().expect("a list").iter();
        cases.filter(|case| case["result"] == "pass").filter_map(|case| case["name"].as_str())
    }

    /// The first case that failed.
    #[track_caller]
    fn first_failure(&self) -> (&str, &str) {
        self.failures().first().copied().unwrap_or_else(|| panic!("nothing failed: {}", self.report["summary"]))
    }
}

/// The plugin in C, with parts of its source replaced.
fn c_plugin(folder: &Path, changes: &[(&str, &str)]) -> PathBuf {
    let source = places::checkout().join("tests/plugins/c/matmul.c");
    let text = String::from_utf8(places::read(&source)).expect("text");
    let changed = changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replace(old, new)
    });
    let source = places::write(folder, "plugin.c", changed);
    let plugin = folder.join("libbyoc_cmatmul.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O1", "-fPIC", "-shared", "-I"]).arg(places::checkout().join("plugin-api/include"));
    let compiled = outcome(compiler.arg(source).arg("-o").arg(&plugin));
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    plugin
}

#[test]
fn backends_that_keep_their_promises_pass() {
    let folder = places::temporary();
    // The least number of cases that pass: a kit that stops asking is found.
    let plugins = [
        (places::plugin("template"), 100),
        (places::plugin("hostile"), 50),
        (places::plugin("simdev"), 700),
        (places::plugin("claim_variants"), 600),
        (places::plugin("file_format"), 90),
        (c_plugin(folder.path(), &[]), 25),
        (c_device_plugin(folder.path(), "cdevice", &[]), 100),
    ];
    for (plugin, least) in plugins {
        let tested = Tested::of(&plugin, &[], &|command| {
            command.env_remove(byoc_tests::fault::VARIABLE);
        });
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]), "{}", plugin.display());
        assert!(tested.count("pass") >= least, "{}: {}", plugin.display(), tested.report["summary"]);
    }
}

/// Operators that the kit has no model for. `DecodeStrings` is core's own: it makes texts of constants, and stands behind constants
/// only. The sizes that `Shape` and `Size` give are the compiler's to work out. `RandomNormal` and `RandomUniform` read nothing.
const WITHOUT_MODELS: &[&str] = &["DecodeStrings", "RandomNormal", "RandomUniform", "Shape", "Size"];

/// The host backend has every operator, so this is also the test that the kit's models are right.
#[test]
fn the_host_backend_passes() {
    let tested = Tested::plain(&places::plugin("json"), &["--only", "*: matches"]);
    assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
    let cases = tested.report["cases"].as_array().expect("a list of cases");
    let refused = cases.iter().filter(|case| case["result"] == "unsupported");
    let names = refused.filter_map(|case| case["name"].as_str()?.split(':').next());
    let known: BTreeSet<_> = WITHOUT_MODELS.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(names.map(str::to_owned).collect::<BTreeSet<_>>(), known);
    let shard = sample::shard(4);
    let settings = Settings { plugin: places::plugin("json"), shard, ..settings() };
    let report = byoc_conformance::run(&settings).expect("the settings are good");
    let failures: Vec<_> = report.failures().map(|case| (&case.name, &case.reason)).collect();
    assert_eq!(failures, [], "{:?}", sample::taken());
    assert!(report.count(Tag::Pass) >= 20_000 / shard.count - 600, "{}", report.count(Tag::Pass));
}

/// What the kit is asked, as a library: the template, by the reference kernels of the embedded backend.
fn settings() -> Settings {
    let setting = ("json.kernels".to_owned(), "reference".to_owned());
    let reference = engine::embedded().select(&["json".into()], &[setting]).expect("the embedded backend").remove(0);
    Settings {
        plugin: places::plugin("template"),
        backends: vec![],
        options: vec![],
        memory: 0,
        reference,
        vendor: Vendor::default(),
        shard: Shard::ALL,
        choice: Choice::default(),
    }
}

#[test]
fn the_report_is_a_table_for_people() {
    let outcome = verb(&places::plugin("template"), &[], &|_| {});
    let text = outcome.success();
    let (first, last) = (text.lines().next().unwrap_or_default(), text.lines().last().unwrap_or_default());
    let headings: Vec<_> = first.split_whitespace().collect();
    assert_eq!(headings, ["backend", "case", "result", "time", "per", "call", "memory", "reason"]);
    assert!(last.contains(" passed, 0 failed, ") && last.ends_with(" unsupported, 0 failed as expected"), "{last}");
    let refused = text.lines().find(|line| line.contains("add: i64[4]: check")).unwrap_or_default();
    assert!(refused.contains("unsupported") && refused.ends_with("type: 'x1' is i64, only f32 is taken"), "{refused}");
}

#[test]
fn a_plugin_that_is_refused_ends_with_3() {
    let folder = places::temporary();
    let text = places::write(folder.path(), "libbyoc_text.so", "not a library");
    let tested = Tested::plain(&text, &[]);
    assert_eq!((tested.code, &tested.report["refused"]), (Some(3), &Value::Bool(true)));
    let (name, reason) = tested.first_failure();
    assert_eq!(name, "handshake");
    assert!(reason.starts_with(&format!("[B301] '{}' cannot be loaded as a plugin: ", text.display())), "{reason}");
}

#[test]
fn settings_that_do_not_fit_the_plugin_are_errors() {
    let cases: [(&[&str], i32, &str); 2] = [
        (
            &["--backend", "templates"],
            3,
            "error: [B303] there is no backend 'templates'\n  hint: Did you mean 'template'?",
        ),
        (
            &["--backend-opt", "template.size=3"],
            2,
            "error: [B304] backend 'template': there is no option 'size'\n  hint: It has no options",
        ),
    ];
    for (arguments, code, message) in cases {
        verb(&places::plugin("template"), arguments, &|_| {}).fails(code, message);
    }
}

/// As a vendor's own test would call it.
#[test]
fn the_library_runs_in_the_caller() {
    let settings = settings();
    let report = byoc_conformance::run(&settings).expect("the settings are good");
    assert_eq!(report.failures().count(), 0);
    assert!(report.count(Tag::Pass) >= 100);
    // Shards are all of the work, and nothing twice.
    let shard = |index| {
        let settings = Settings { shard: Shard { index, count: 3 }, ..settings.clone() };
        byoc_conformance::run(&settings).expect("the settings are good").cases
    };
    let mut names: Vec<_> = (0..3).flat_map(shard).map(|case| case.name).collect();
    let mut all: Vec<_> = report.cases.iter().map(|case| case.name.clone()).collect();
    names.sort();
    all.sort();
    assert_eq!(names, all);
    let none = Settings { shard: Shard { index: 3, count: 3 }, ..settings };
    let error = byoc_conformance::run(&none).err().map(|error| error.message);
    assert_eq!(error.as_deref(), Some("there is no shard 4/3"));
}

/// A backend that packs a constant although another form of it is stored as well is told so; one that gives way passes.
#[test]
fn whether_a_backend_gives_way_is_told() {
    let plugin = places::plugin("claim_variants");
    let shared = |honour: &str| -> Vec<(String, String)> {
        let option = format!("panels.honour={honour}");
        let tested = Tested::plain(&plugin, &["--backend", "panels", "--backend-opt", &option]);
        assert_eq!((tested.code, tested.failures()), (Some(0), Vec::new()));
        let cases = tested.report["cases"].as_array().expect("a list").iter();
        let of = |case: &Value| {
            let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
            text("name").ends_with(": shared").then(|| (text("result"), text("reason")))
        };
        cases.filter_map(of).collect()
    };
    let kept = "it packs constant 0 although another form of it is stored as well";
    let (given_up, insisted) = (shared("true"), shared("false"));
    assert!(given_up.len() > 2 && given_up.iter().all(|(result, _)| result == "pass"), "{given_up:?}");
    assert!(insisted.len() > 2, "{insisted:?}");
    assert!(insisted.iter().all(|case| *case == ("unsupported".to_owned(), kept.to_owned())), "{insisted:?}");
}
