//! Mutations tried by processes of a program, which try many of them each; one that ends or hangs is followed by another,
//! from the next case on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use byoc_tests::mutator::Mutator;
use byoc_tests::places;

/// The longest that a case may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// An artifact, and where it runs.
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) plugins: Vec<PathBuf>,
    pub(crate) settings: Vec<(&'static str, String)>,
    /// Whether its graph and its ledger are mutated, too.
    pub(crate) graph: bool,
}

/// What came of the cases of one artifact or more.
#[derive(Default)]
pub(crate) struct Tally {
    /// How many were tried.
    pub(crate) cases: usize,
    /// How many ended in which way: `ok`, or the code of an error.
    pub(crate) ends: BTreeMap<String, usize>,
    /// What must not happen, each with its case.
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.cases += other.cases;
        other.ends.into_iter().for_each(|(end, count)| *self.ends.entry(end).or_default() += count);
        self.wrong.extend(other.wrong);
    }
}

/// Tries one out of `each` of the mutations of an artifact.
pub(crate) fn sweep(stage: &Stage, each: usize) -> Tally {
    let mutator = Mutator::new(&places::read(&stage.path), stage.graph);
    let mut tally = Tally::default();
    let mut first = 0;
    while let Some((case, how)) = one_process(stage, first, each, &mut tally) {
        let end = how.split(':').next().unwrap_or_default();
        *tally.ends.entry(end.to_owned()).or_default() += 1;
        tally.cases += 1;
        tally.wrong.push(format!("{} case {case}: {how}: {}", stage.name, mutator.mutate(case).0));
        first = case + 1;
    }
    tally
}

/// Tries cases until the process ends. The case at which it did not end well, and how.
fn one_process(stage: &Stage, first: usize, each: usize, tally: &mut Tally) -> Option<(usize, String)> {
    let mut child = start(stage, first, each);
    let lines = lines(&mut child);
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    // Read beside it, so that a child with much to say does not wait.
    let said = std::thread::spawn(move || {
        let mut last = String::new();
        let mut line = Vec::new();
        while errors.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            last = [&last, String::from_utf8_lossy(&line).trim()].map(str::to_owned).join(" ");
            last = last.chars().rev().take(300).collect::<String>().chars().rev().collect();
            line.clear();
        }
        last
    });
    let mut hung = false;
    let mut case = None;
    loop {
        match lines.recv_timeout(LONGEST) {
            Ok(Said::Begins(number)) => case = Some(number),
            Ok(Said::Ends(end)) => {
                tally.cases += 1;
                if end.ends_with("panic") {
                    tally.wrong.push(format!(
                        "{} case {}: a panic that was caught",
                        stage.name,
                        case.unwrap_or_default()
                    ));
                }
                *tally.ends.entry(end).or_default() += 1;
                case = None;
            }
            Err(RecvTimeoutError::Timeout) => {
                hung = true;
                child.kill().expect("the child is ours");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().expect("the child is ours");
    let said = said.join().unwrap_or_default();
    if status.success() {
        return None;
    }
    let how = match (hung, status.signal(), status.code()) {
        (true, ..) => format!("no end within {} s", LONGEST.as_secs()),
        (_, Some(signal), _) => format!("signal {signal}: {said}"),
        (.., code) => format!("exit code {}: {said}", code.unwrap_or_default()),
    };
    // Without a case it is the test that is wrong.
    Some((case.unwrap_or_else(|| panic!("{}: {how}", stage.name)), how))
}

/// The program that tries cases; another build of it where the environment names one.
fn start(stage: &Stage, first: usize, each: usize) -> Child {
    let runner =
        std::env::var_os("BYOC_MUTATION_RUNNER").unwrap_or_else(|| env!("CARGO_BIN_EXE_mutation_runner").into());
    let mut command = Command::new(runner);
    command.arg(&stage.path).args([first.to_string(), each.to_string(), stage.graph.to_string()]);
    command.args(&stage.plugins).envs(stage.settings.iter().map(|(name, value)| (name, value)));
    // What is told of panics is for people.
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the runner is a program")
}

/// A path as a text.
pub(crate) fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// What a child says.
enum Said {
    /// A case begins.
    Begins(usize),
    /// It has ended.
    Ends(String),
}

/// What it says, as it says it.
fn lines(child: &mut Child) -> Receiver<Said> {
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        loop {
            text.clear();
            // The number ends at a space, the outcome at the end of the line.
            if !out.read_until(b' ', &mut text).is_ok_and(|read| read > 0) {
                break;
            }
            let number = String::from_utf8_lossy(&text).trim().parse().ok();
            if number.is_none_or(|number| sender.send(Said::Begins(number)).is_err()) {
                break;
            }
            text.clear();
            if !out.read_until(b'\n', &mut text).is_ok_and(|read| read > 0) {
                break;
            }
            let end = String::from_utf8_lossy(&text).trim().to_owned();
            if sender.send(Said::Ends(end)).is_err() {
                break;
            }
        }
    });
    receiver
}
