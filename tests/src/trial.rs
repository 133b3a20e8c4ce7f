//! Tests of binaries without libtest: cases that are made at run time, and `#[test]` functions beside them
//! (`byoc_tests_macros`). A case may find that what it needs is not there. It is reported as ignored then, by name and with
//! the reason; where the environment says `CI=true` it fails instead.

use std::process::ExitCode;

pub use inventory::submit;
use libtest_mimic::{Arguments, Completion};

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
        libtest_mimic::Trial::ignorable_test(format!("{module}::{}", self.name), move || match (self.run)() {
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

/// Whether all cases are asked for where a usual run takes a sample: the variable of the environment is `all`.
pub fn all_are_asked_for(variable: &str) -> bool {
    match std::env::var(variable).as_deref() {
        Ok("all") => true,
        Ok(other) => panic!("{variable} is 'all' or not set, not '{other}'"),
        Err(_) => false,
    }
}

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
    let functions = inventory::iter::<Function>().map(|function| {
        let name = function.path.split_once("::").map_or(function.path, |(_, name)| name);
        libtest_mimic::Trial::test(name, || {
            (function.run)();
            Ok(())
        })
    });
    let mut all: Vec<_> = functions.collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    for (module, trials) in modules.iter().filter(|(module, _)| is_wanted(module, &arguments)) {
        all.extend(trials().into_iter().map(|trial| trial.below(module)));
    }
    libtest_mimic::run(&arguments, all).exit_code()
}

/// Whether cases of a module may be among those that are asked for: making them may take long.
fn is_wanted(module: &str, arguments: &Arguments) -> bool {
    let asked = arguments.filter.as_deref().and_then(|filter| filter.split_once("::"));
    asked.is_none_or(|(asked, _)| module.ends_with(asked))
}
