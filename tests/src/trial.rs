//! Tests that may find at run time that what they need is not there. Such a test is reported as ignored, by name and
//! with the reason; where the environment says `CI=true` it fails instead.

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// Why a test cannot run here.
#[derive(Clone, Debug)]
pub struct Skip(pub String);

/// What a test needs, or why it is not to be had.
pub type Needed<T> = Result<T, Skip>;

/// A test that passes, fails by panic, or returns why it cannot run.
pub fn trial(name: impl Into<String>, run: impl FnOnce() -> Needed<()> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || match run() {
        Ok(()) => Ok(Completion::Completed),
        Err(Skip(reason)) if in_ci() => Err(Failed::from(format!("skipped, which CI does not allow: {reason}"))),
        Err(Skip(reason)) => Ok(Completion::ignored_with(reason)),
    })
}

/// The same, for what not even CI is asked to have.
pub fn optional(name: impl Into<String>, run: impl FnOnce() -> Needed<()> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || match run() {
        Ok(()) => Ok(Completion::Completed),
        Err(Skip(reason)) => Ok(Completion::ignored_with(reason)),
    })
}

/// Runs the tests and ends the process.
pub fn run(trials: Vec<Trial>) -> Conclusion {
    libtest_mimic::run(&Arguments::from_args(), trials)
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}
