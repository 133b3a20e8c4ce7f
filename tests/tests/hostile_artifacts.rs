//! Artifacts whose digests fit and whose code or graph lies: every number, text and list of small ones is changed, and
//! whatever is said ends in an error or in a run, never in a crash, a panic or a hang. Some go through the program, as users
//! have it; many more through processes that try one after another.
//!
//! `BYOC_HOSTILE=all` tells every lie, `BYOC_HOSTILE=<n>` one in n. How to do so with a sanitizer stands in CONTRIBUTING.md.

#[path = "hostile_artifacts/bases.rs"]
mod bases;
#[path = "hostile_artifacts/sweep.rs"]
mod sweep;

use std::process::ExitCode;

use bases::{Base, bases};
use byoc_tests::trial::{Needed, trial};
use byoc_tests::{engine, places, trial as trials};
use sweep::Stage;

fn main() -> ExitCode {
    let mut all = Vec::new();
    for base in bases() {
        all.push(trial(format!("json/{}", base.name), move || json(&base)));
    }
    trials::run(all).exit_code()
}

/// One lie in how many is told.
fn share() -> usize {
    match std::env::var("BYOC_HOSTILE").as_deref() {
        Ok("all") => 1,
        Ok(number) => number.parse().expect("BYOC_HOSTILE is 'all' or a number"),
        Err(_) => 40,
    }
}

/// A model by the host backend, with each of its settings.
fn json(base: &Base) -> Needed<()> {
    let folder = places::temporary();
    let registry = engine::embedded();
    let model = places::write(folder.path(), "model.onnx", base.model.clone().finish());
    let mut tally = sweep::Tally::default();
    for setting in std::iter::once("").chain(base.settings.iter().copied()) {
        let path = folder.path().join(format!("{}.byoc", setting.replace(['.', '='], "-")));
        let settings: Vec<_> = setting.split_once('=').into_iter().collect();
        let compiled = engine::compile_with(&model, &path, &registry, &["json"], &settings);
        compiled.unwrap_or_else(|error| panic!("{} {setting}: {error:?}", base.name));
        let name = format!("{} {setting}", base.name);
        tally.add(sweep::sweep(
            &Stage { name, path, plugins: Vec::new(), settings: Vec::new(), graph: setting.is_empty() },
            share(),
        ));
    }
    judge(&tally, base.name);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was tried is part of a test's report")]
fn judge(tally: &sweep::Tally, name: &str) {
    println!("{name}: {} cases: {:?}", tally.cases, tally.ends);
    let shown: Vec<_> = tally.wrong.iter().take(12).map(String::as_str).collect();
    assert!(tally.wrong.is_empty(), "{} of {} cases went wrong:\n{}", tally.wrong.len(), tally.cases, shown.join("\n"));
}
