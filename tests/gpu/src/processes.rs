//! Starts this program for each case, several at once, and ends those that take too long.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::report::{Report, failure};

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The most lines of a failed process's standard error that are told.
const TOLD: usize = 4;

/// A case that is to be done.
pub(crate) struct Job {
    /// Its name, for messages.
    pub(crate) name: String,
    /// The arguments of the process.
    pub(crate) arguments: Vec<OsString>,
    /// How long it may take.
    pub(crate) limit: Duration,
}

/// What comes from a process.
enum Event {
    /// A line of its standard output.
    Line(String),
    /// It ended: its name, and what is wrong with how it did, if anything is.
    Ended(String, Option<String>),
}

/// Does the jobs, so many at once. Every line that comes is reported at once.
pub(crate) fn run(jobs: Vec<Job>, at_once: usize, report: &mut Report) {
    let queue = Mutex::new(VecDeque::from(jobs));
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        for _ in 0..at_once.max(1) {
            let (tell, queue) = (tell.clone(), &queue);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(job) = next() {
                    let wrong = one(&job, &tell);
                    let _ = tell.send(Event::Ended(job.name, wrong));
                }
            });
        }
        drop(tell);
        for event in told {
            match event {
                Event::Line(line) => {
                    if !report.take_over(&line) {
                        report.note(&format!("      {line}"));
                    }
                }
                Event::Ended(_, None) => {}
                Event::Ended(name, Some(wrong)) => report.check(&name, failure(wrong)),
            }
        }
    });
}

/// One process: what is wrong with how it ended, if anything is.
fn one(job: &Job, tell: &Sender<Event>) -> Option<String> {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(format!("this program is not found: {error}")),
    };
    let mut command = Command::new(program);
    command.args(&job.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it starts ends with it.
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Some(format!("it does not start: {error}")),
    };
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let lines = scope.spawn(move || {
            let mut count = 0;
            for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                count += 1;
                let _ = tell.send(Event::Line(line));
            }
            count
        });
        let errors = scope.spawn(move || {
            let mut text = Vec::new();
            let _ = errors.map(|mut errors| errors.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let ended = wait(&mut child, job.limit);
        // Nothing that it started may hold its output open.
        end(&child);
        let (lines, errors) = (lines.join().unwrap_or(0), errors.join().unwrap_or_default());
        match ended {
            Ok(Some(status)) if status.success() && lines > 0 => None,
            Ok(Some(status)) if status.success() => Some("ended without a word".into()),
            Ok(Some(status)) => Some(format!("{status}{}", last(&errors))),
            Ok(None) => Some(format!("was not done after {} s{}", job.limit.as_secs(), last(&errors))),
            Err(error) => Some(format!("its end is not known: {error}")),
        }
    })
}

/// Waits for the end, and ends it when the time is over.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK);
    }
    end(child);
    child.wait().map(|_| None)
}

/// Ends all processes of its group.
fn end(child: &Child) {
    let group = format!("kill -9 -{} 2>/dev/null", child.id());
    let _ = Command::new("sh").args(["-c", &group]).status();
}

/// The end of what a process said.
fn last(errors: &str) -> String {
    let lines: Vec<_> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = &lines[lines.len().saturating_sub(TOLD)..];
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join(" / ")) }
}
