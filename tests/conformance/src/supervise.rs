//! The cases in a child process, which may crash or hang: the case that it ended in is recorded, and another child goes
//! on behind it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Group, end_process, end_with_parent, limit_memory};

use crate::report::{Case, Report, Tag, one_line};
use crate::stream::Event;
use crate::{Settings, cases, concluded};

/// After this many crashes, of which a hang counts for several, the rest is left out: the plugin is not fit to be tested.
const MOST_CRASHES: usize = 40;
const CRASHES_A_HANG: usize = 10;

/// The child's side: runs the cases from number `from` on and writes an event a line to standard output.
pub fn child(settings: &Settings, from: usize) {
    limit_memory(settings.memory);
    // Without it a plugin that never returns would outlive a parent that was killed.
    let _ = end_with_parent(std::io::stdout());
    let mut tell = |event: Event| {
        let mut out = std::io::stdout().lock();
        if out.write_all(event.line().as_bytes()).and_then(|()| out.flush()).is_err() {
            // The parent is gone, and with it whoever wanted to know. Exit handlers of the plugin might wait.
            end_process();
        }
    };
    if let Err(error) = cases::run(settings, from, &mut tell) {
        tell(Event::Stopped { code: error.code.id().into(), message: error.message, hint: error.hint });
    }
}

/// The parent's side. `command` makes the command that calls [`child`] with a given number; `limit` is the longest that
/// a case may take; `told` hears of each case as it ends.
pub fn supervise(
    settings: &Settings,
    command: &dyn Fn(usize) -> Command,
    limit: Duration,
    told: &mut dyn FnMut(&Case),
) -> Result<Report> {
    let mut report = Report { plugin: settings.plugin.display().to_string(), ..Report::default() };
    let mut note = |report: &mut Report, case: Case| {
        let case = settings.vendor.settle(case);
        told(&case);
        report.cases.push(case);
    };
    let (mut from, mut crashes) = (0, 0);
    while crashes < MOST_CRASHES {
        let mut watched = Watched::start(command(from), settings.memory)?;
        let ending = watched.follow(limit, &mut |case| note(&mut report, case));
        report.skipped.append(&mut watched.skipped);
        if let (Some(line), false) = (&watched.printed, report.notes.iter().any(|note| note.starts_with(PRINTS))) {
            report.notes.push(format!("{PRINTS}: '{}'", one_line(line)));
        }
        match ending {
            Ending::Done => return Ok(concluded(settings, report)),
            Ending::Refused => {
                report.refused = true;
                return Ok(report);
            }
            Ending::Stopped(error) => return Err(error),
            Ending::Crashed(case, after) => {
                // Without a handshake there is nothing to go on with, and no other name for it than that.
                report.refused |= case.name == "handshake";
                crashes += if case.seconds >= limit.as_secs_f64() { CRASHES_A_HANG } else { 1 };
                note(&mut report, case);
                if after == usize::MAX || (settings.choice.fail_fast && report.failures().count() > 0) {
                    return Ok(report);
                }
                from = after;
            }
        }
    }
    let reason = "after this many crashes the remaining cases were left out".to_owned();
    note(&mut report, Case::of("", "remaining cases", Tag::Fail, reason));
    Ok(report)
}

/// How a child ended.
enum Ending {
    Done,
    Refused,
    /// Within a case, or after the last one; with the number of the case to go on with.
    Crashed(Case, usize),
    /// By an error of the settings, or between cases.
    Stopped(Diagnostic),
}

/// What is said of a plugin that prints. Where it runs, its lines would be among the results.
const PRINTS: &str = "the plugin prints to the standard output";

/// Longest line that is taken: what a plugin prints may have no end.
const LONGEST_LINE: u64 = 1 << 20;

struct Watched {
    child: Child,
    /// Ends what the plugin started once the child has ended: it would keep the pipe open.
    ended: Option<JoinHandle<()>>,
    lines: Receiver<String>,
    /// Backend and name of cases that had nothing to say.
    skipped: Vec<(String, String)>,
    /// Bytes that it may have; 0 for any number.
    memory: u64,
    /// The first line that is none of an event's: the plugin prints.
    printed: Option<String>,
}

impl Watched {
    fn start(mut command: Command, memory: u64) -> Result<Watched> {
        let program = command.get_program().display().to_string();
        let failed = |error| Diagnostic::new(Code::Io, format!("cannot run '{program}': {error}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(&failed)?;
        let group = Group::led_by(&child);
        let ended = group.when_leader_ends(move || group.end()).map_err(|error| {
            group.end();
            let _ = child.wait();
            failed(error)
        })?;
        let (send, lines) = channel();
        if let Some(out) = child.stdout.take() {
            // Ends with the pipe, or when nobody listens any more.
            std::thread::spawn(move || {
                let mut out = BufReader::new(out);
                let mut line = Vec::new();
                while out.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    line.clear();
                    if send.send(text).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Watched { child, ended: Some(ended), lines, skipped: Vec::new(), memory, printed: None })
    }

    /// Hears of cases until the child ends, or is ended because a case takes too long.
    fn follow(&mut self, limit: Duration, note: &mut dyn FnMut(Case)) -> Ending {
        let mut running: Option<(String, String, usize)> = None;
        let mut last = None;
        let mut finished = None;
        let mut since = Instant::now();
        loop {
            let line = self.lines.recv_timeout(limit.saturating_sub(since.elapsed()));
            match line.as_deref().map(Event::parse) {
                Ok(None) => {
                    let text = line.as_deref().unwrap_or_default().trim();
                    if !text.is_empty() && self.printed.is_none() {
                        self.printed = Some(text.to_owned());
                    }
                    continue;
                }
                Ok(Some(Event::Start { after, backend, name })) => running = Some((backend, name, after)),
                Ok(Some(Event::End(case))) => {
                    last = running.take();
                    note(case);
                }
                Ok(Some(Event::Skip { backend, name })) => {
                    last = running.take();
                    self.skipped.push((backend, name));
                }
                Ok(Some(Event::Done)) => finished = Some(Ending::Done),
                Ok(Some(Event::Refused)) => finished = Some(Ending::Refused),
                Ok(Some(Event::Stopped { code, message, hint })) => {
                    let code = Code::ALL.iter().copied().find(|known| known.id() == code);
                    finished = Some(Ending::Stopped(Diagnostic { code: code.unwrap_or(Code::Io), message, hint }));
                }
                Err(end) => {
                    let timed_out = *end == RecvTimeoutError::Timeout;
                    // A crash between cases is the doing of the one before.
                    let behind = last.map(|(backend, name, after)| (backend, format!("after {name}"), after));
                    let running = if finished.is_none() { running.or(behind) } else { running };
                    return self.end(timed_out, limit, since.elapsed(), running, finished);
                }
            }
            since = Instant::now();
        }
    }

    fn end(
        &mut self,
        timed_out: bool,
        limit: Duration,
        elapsed: Duration,
        running: Option<(String, String, usize)>,
        finished: Option<Ending>,
    ) -> Ending {
        if timed_out {
            // It may have ended just now; what matters is that it does end.
            Group::led_by(&self.child).end();
        }
        if let Some(ended) = self.ended.take() {
            let _ = ended.join();
        }
        let status = self.child.wait();
        let reason = match &status {
            _ if timed_out => format!("timed out after {} s", limit.as_secs()),
            Ok(status) => ended(*status, self.memory),
            Err(error) => error.to_string(),
        };
        let (backend, name, after) = match (running, finished) {
            (Some(running), _) => running,
            // A plugin's destructors and threads end with the process.
            (None, Some(ending)) if status.is_ok_and(|status| status.success()) && !timed_out => return ending,
            (None, Some(_)) => (String::new(), "end of the process".to_owned(), usize::MAX),
            (None, None) => {
                let message = format!("the process that runs the cases {reason} between two of them");
                return Ending::Stopped(Diagnostic::new(Code::BackendFailed, message));
            }
        };
        let case = Case { seconds: elapsed.as_secs_f64(), ..Case::of(&backend, &name, Tag::Fail, reason) };
        Ending::Crashed(case, after)
    }
}

/// How a process ended, as a reason; `memory` is how many bytes it could have, if that was limited.
fn ended(status: ExitStatus, memory: u64) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        // Those that end a process for want of memory.
        let may_be_memory = memory > 0 && [libc::SIGABRT, libc::SIGKILL].contains(&signal);
        let limit = if may_be_memory { format!(", with {} MiB of memory", memory >> 20) } else { String::new() };
        return format!("crashed (signal {signal}{limit})");
    }
    match status.code() {
        Some(code) => format!("ended the process (exit code {code})"),
        None => "ended the process".into(),
    }
}
