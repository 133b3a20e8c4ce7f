//! Artifacts whose digests fit and whose code or graph was mutated: every number, text and list of small ones is changed, and
//! whatever is said ends in an error or in a run, never in a crash, a panic or a hang. Some go through the program, as users
//! have it; many more through processes that try one after another.
//!
//! `BYOC_MUTATIONS=all` tries every mutation, `BYOC_MUTATIONS=<n>` one in n. How to do so with a sanitizer stands
//! in CONTRIBUTING.md.

mod bases;
mod coverage;
mod damage;
mod devices;
mod groups;
mod layers;
mod program;
mod sweep;
mod tables;
mod texts;

use std::path::{Path, PathBuf};

use self::bases::{Base, bases};
use self::sweep::Stage;
use byoc_tests::folder::Folder;
use byoc_tests::mutator::{Mutator, random};
use byoc_tests::tensor::Tensor;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{engine, npz, places};

pub(crate) fn trials() -> Vec<Trial> {
    let mut all = Vec::new();
    all.push(trial("every_kernel_is_mutated", coverage::every_kernel));
    for base in bases() {
        all.push(trial(format!("json/{}", base.name), move || json(&base)));
    }
    all.push(trial("kendryte", kendryte));
    all.extend(devices::trials());
    all.push(trial("through_the_program", through_the_program));
    all.push(trial("damage/every_verb", damage::every_verb));
    all.push(trial("damage/cut_files_are_refused", damage::cut_files_are_refused));
    all
}

/// One mutation in how many is tried.
fn share() -> usize {
    match std::env::var("BYOC_MUTATIONS").as_deref() {
        Ok("all") => 1,
        Ok(number) => number.parse().expect("BYOC_MUTATIONS is 'all' or a number"),
        Err(_) => 40,
    }
}

/// A model by the host backend, with each of its settings.
fn json(base: &Base) -> Needed<()> {
    let folder = places::temporary();
    let mut tally = sweep::Tally::default();
    for (setting, path) in compiled(base, folder.path()) {
        let name = format!("{} {setting}", base.name);
        tally.add(sweep::sweep(
            &Stage { name, path, plugins: Vec::new(), settings: Vec::new(), graph: setting.is_empty() },
            share(),
        ));
    }
    judge(&tally, base.name);
    Ok(())
}

/// The artifacts of a model, with the setting of each.
fn compiled(base: &Base, folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let model = places::write(folder, "model.onnx", base.model.clone().finish());
    let settings = std::iter::once("").chain(base.settings.iter().copied());
    let compiled = settings.map(|setting| {
        let path = folder.join(format!("{}.byoc", setting.replace(['.', '='], "-")));
        let settings: Vec<_> = setting.split_once('=').into_iter().collect();
        let compiled = engine::compile_with(&model, &path, &engine::embedded(), &["json"], &settings);
        compiled.unwrap_or_else(|error| panic!("{} {setting}: {error:?}", base.name));
        (setting, path)
    });
    compiled.collect()
}

/// How many mutations go through the program, each by every verb of [`VERBS`].
const TRIED: u64 = 120;

/// What users do with a file that they were given.
const VERBS: [&[&str]; 3] = [
    &["check", "mutant.byoc"],
    &["inspect", "mutant.byoc", "--constants", "--regions", "--sections", "--plugins"],
    &["run", "mutant.byoc", "--fill", "random"],
];

/// A sample of the mutations by processes of their own.
fn through_the_program() -> Needed<()> {
    let folder = Folder::empty();
    let mut mutators = Vec::new();
    for base in bases() {
        let compiled = compiled(&base, folder.path()).into_iter();
        mutators.extend(compiled.map(|(_, path)| (base.name, Mutator::new(&places::read(&path), true))));
    }
    let mut wrong = Vec::new();
    for number in 0..TRIED {
        let (name, mutator) = &mutators[number as usize % mutators.len()];
        let case = (random(number) % mutator.cases() as u64) as usize;
        let (text, file) = mutator.mutate(case);
        folder.write("mutant.byoc", file);
        let size: &[&str] = if name == &"open" { &["--dim", "batch=3"] } else { &[] };
        for verb in VERBS {
            let size = if verb[0] == "run" { size } else { &[] };
            if let Err(cause) = program::ends_well(folder.path(), &[verb, size].concat(), &[]) {
                wrong.push(format!("{name} case {case}: {text}: {cause}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TRIED * VERBS.len() as u64, wrong.join("\n"));
    Ok(())
}

/// A convolution for the K210: a kmodel, and what the host must know of it.
fn kendryte() -> Needed<()> {
    let folder = Folder::empty();
    folder.write("model.onnx", bases::tiny().finish());
    let samples = Tensor::f32(&[2, 1, 3, 8, 8], &(0..384).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect::<Vec<_>>());
    npz::write(&folder.path().join("data.npz"), &[("x", &samples)]);
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte,json", "--dataset", "data.npz"];
    folder.byoc(&compile).success();
    let path = folder.path().join("model.byoc");
    let stage = Stage { name: "kendryte".into(), path, plugins: Vec::new(), settings: Vec::new(), graph: true };
    judge(&sweep::sweep(&stage, share()), "kendryte");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was tried is part of a test's report")]
fn judge(tally: &sweep::Tally, name: &str) {
    println!("{name}: {} cases: {:?}", tally.cases, tally.ends);
    let shown: Vec<_> = tally.wrong.iter().take(12).map(String::as_str).collect();
    assert!(tally.wrong.is_empty(), "{} of {} cases went wrong:\n{}", tally.wrong.len(), tally.cases, shown.join("\n"));
}
