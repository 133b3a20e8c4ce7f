//! Tests of binaries without libtest: cases that are made at run time, and `#[test]` functions beside them
//! (`byoc_tests_macros`). A case may find that what it needs is not there. It is reported as ignored then, by name and with
//! the reason; where the environment says `CI=true` it fails instead.

#![allow(clippy::print_stdout, reason = "how long tests took is part of their report")]

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use inventory::submit;
use libtest_mimic::{Arguments, Completion};

use crate::sample;

/// Why a test cannot run here.
#[derive(Clone, Debug)]
pub struct Skip(pub String);

/// What a test needs, or why it is not to be had.
pub type Needed<T> = Result<T, Skip>;

/// A case that is made at run time.
pub struct Trial {
    name: String,
    run: Box<dyn FnOnce() -> Needed<()> + Send>,
    is_optional: bool,
}

impl Trial {
    fn below(self, module: &str) -> libtest_mimic::Trial {
        let is_demanded = !self.is_optional && std::env::var_os("CI").is_some_and(|value| value == "true");
        let name = format!("{module}::{}", self.name);
        libtest_mimic::Trial::ignorable_test(name.clone(), move || match timed(&name, self.run) {
            Ok(()) => Ok(Completion::Completed),
            Err(Skip(reason)) if is_demanded => Err(format!("skipped, which CI does not allow: {reason}").into()),
            Err(Skip(reason)) => Ok(Completion::ignored_with(reason)),
        })
    }
}

/// A module, and what makes its cases.
pub type Module = (&'static str, fn() -> Vec<Trial>);

/// A `#[test]` function.
pub struct Function {
    /// Its path, from the binary's crate on.
    pub path: &'static str,
    /// The function.
    pub run: fn(),
}

inventory::collect!(Function);

/// A test that passes, fails by panic, or returns why it cannot run.
pub fn trial(name: impl Into<String>, run: impl FnOnce() -> Needed<()> + Send + 'static) -> Trial {
    Trial { name: name.into(), run: Box::new(run), is_optional: false }
}

/// The same, for what not even CI is asked to have.
pub fn optional(name: impl Into<String>, run: impl FnOnce() -> Needed<()> + Send + 'static) -> Trial {
    Trial { name: name.into(), run: Box::new(run), is_optional: true }
}

/// Runs a binary's `#[test]` functions and the cases that its modules make, each below the name of its module.
pub fn run(modules: &[Module]) -> ExitCode {
    let arguments = Arguments::from_args();
    if !takes_all() {
        sample::default_to_all();
    }
    let functions = inventory::iter::<Function>().map(|function| {
        let name = function.path.split_once("::").map_or(function.path, |(_, name)| name);
        libtest_mimic::Trial::test(name, move || {
            timed(name, function.run);
            Ok(())
        })
    });
    let mut all: Vec<_> = functions.collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    let wanted: Vec<_> = modules.iter().filter(|(module, _)| is_wanted(module, &arguments)).collect();
    // Some have to make the files first that they list, and nothing else can run meanwhile.
    let made = std::thread::scope(|scope| {
        let making: Vec<_> = wanted.iter().map(|(_, trials)| scope.spawn(trials)).collect();
        making.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for ((module, _), trials) in wanted.into_iter().zip(made) {
        let trials = trials.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        all.extend(trials.into_iter().map(|trial| trial.below(module)));
    }
    let code = libtest_mimic::run(&arguments, all).exit_code();
    show_the_slowest();
    if let Some(sample) = sample::taken() {
        println!("a sample, taken again by {sample}");
    }
    code
}

/// Whether this run takes all tests of the binary: none is named, and they are not just listed.
pub fn takes_all() -> bool {
    let arguments = Arguments::from_args();
    arguments.filter.is_none() && !arguments.list
}

/// What each test that has ended took.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Does what a test does, and notes how long that takes.
fn timed<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    TIMES.lock().unwrap_or_else(PoisonError::into_inner).push((start.elapsed(), name.to_owned()));
    result
}

/// Says which tests took longest, so that the log of a run tells what a leaner one would start with.
fn show_the_slowest() {
    let mut times = std::mem::take(&mut *TIMES.lock().unwrap_or_else(PoisonError::into_inner));
    times.retain(|(time, _)| *time >= Duration::from_secs(5));
    times.sort_by(|one, other| other.cmp(one));
    for (time, name) in times.iter().take(10) {
        println!("{:6.1} s  {name}", time.as_secs_f64());
    }
}

/// Whether cases of a module may be among those that are asked for: making them may take long.
fn is_wanted(module: &str, arguments: &Arguments) -> bool {
    let asked = arguments.filter.as_deref().and_then(|filter| filter.split_once("::"));
    asked.is_none_or(|(asked, _)| module.ends_with(asked))
}
