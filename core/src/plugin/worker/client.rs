//! The host's end of a worker: starts it, asks it, and finds out how it ended.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byoc_plugin_api::Error;

use super::Isolation;
use super::ending::Group;
use super::protocol::{Frame, MOST_ANSWER, Part, Reply, Request, busy_wait, receive, send};

/// A worker for one plugin. It is started when it is first asked, and again after it has ended.
pub(super) struct Worker {
    isolation: Isolation,
    path: PathBuf,
    running: Mutex<Option<Running>>,
}

/// How a request that the worker lived through ended.
enum Answer<T> {
    /// With the worker's result or error.
    Given(Result<T, Error>),
    /// With an error of the host's own.
    BrokenOff(Error),
}

struct Running {
    child: Child,
    stream: BufReader<UnixStream>,
    /// Is done once the child has ended, and hangs up then: a process that the plugin forked may hold the other end.
    ended: JoinHandle<()>,
    stopped: bool,
}

impl Worker {
    pub(super) fn new(path: &Path, isolation: &Isolation) -> Worker {
        Worker { isolation: isolation.clone(), path: path.to_owned(), running: Mutex::new(None) }
    }

    /// Sends a request and gives `take` what comes back, until it answers with a result. When the worker ends or is
    /// silent for too long, the error says how, and [`Error::crashed`] is set.
    pub(super) fn ask<T>(
        &self,
        request: &Request,
        mut take: impl FnMut(Part) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut worker = match running.take() {
            Some(worker) => worker,
            None => self.start()?,
        };
        match worker.ask(request, &mut take) {
            Ok(Answer::Given(answer)) => {
                *running = Some(worker);
                answer
            }
            // Frames are left over: the next request goes to a new worker.
            Ok(Answer::BrokenOff(error)) => Err(error),
            Err(error) => Err(worker.end(&error, self.isolation.time)),
        }
    }

    /// Starts the worker and has it open the plugin.
    fn start(&self) -> Result<Running, Error> {
        let failed = |error: io::Error| {
            let program = self.isolation.program.display();
            Error::new(format!("cannot start a worker, '{program}': {error}")).hint("--in-process does without one")
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(Some(self.isolation.time)).map_err(failed)?;
        ours.set_write_timeout(Some(self.isolation.time)).map_err(failed)?;
        let wire = ours.try_clone().map_err(failed)?;
        let mut child = Command::new(&self.isolation.program)
            .args(&self.isolation.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // What a plugin prints must not end up among our results.
            .stdout(io::stderr())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let group = Group::led_by(&child);
        match group.when_leader_ends(move || drop(wire.shutdown(Shutdown::Both))) {
            Ok(ended) => Ok(Running { child, stream: BufReader::new(ours), ended, stopped: false }),
            Err(error) => {
                group.end();
                let _ = child.wait();
                Err(failed(error))
            }
        }
    }

    /// The request that every new worker gets first.
    pub(super) fn open_request(&self) -> Request {
        Request::Open { path: self.path.clone(), memory: self.isolation.memory }
    }

    /// Most bytes of code, and of packed constants, that the plugin may write for a region.
    pub(super) fn most_output(&self) -> u64 {
        self.isolation.output
    }

    /// Whether there is a worker that has opened the plugin.
    pub(super) fn is_running(&self) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Running {
    fn ask<T>(
        &mut self,
        request: &Request,
        take: &mut impl FnMut(Part) -> Result<Option<T>, Error>,
    ) -> io::Result<Answer<T>> {
        send(self.stream.get_mut(), request)?;
        busy_wait(&self.stream);
        loop {
            let part = match receive(&mut self.stream, MOST_ANSWER)?.ok_or(io::ErrorKind::UnexpectedEof)? {
                Frame::Bytes(bytes) => Part::Bytes(bytes),
                Frame::Message(text) => match serde_json::from_slice(&text) {
                    Ok(Reply::Failed(error)) => return Ok(Answer::Given(Err(error))),
                    Ok(reply) => Part::Reply(reply),
                    Err(error) => return Ok(Answer::BrokenOff(error.into())),
                },
            };
            match take(part) {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Answer::Given(Ok(answer))),
                Err(error) => return Ok(Answer::BrokenOff(error)),
            }
        }
    }

    /// Ends the worker, and says how it came to that.
    fn end(mut self, error: &io::Error, limit: Duration) -> Error {
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("did not answer within {} s", limit.as_secs_f64())
            }
            // It lives, and what it says is nothing to go on with.
            io::ErrorKind::InvalidData => format!("broke off: {error}"),
            _ => match self.has_ended().then(|| self.stop()).flatten() {
                Some(status) => describe(status),
                None => format!("broke off: {error}"),
            },
        };
        Error { crashed: true, ..Error::new(cause) }
    }

    /// Whether a worker whose stream has ended has ended itself; it may need a moment.
    fn has_ended(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if self.ended.is_finished() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Ends the worker and the programs that the plugin started: it has nothing to save, and may be in an endless loop.
    fn stop(&mut self) -> Option<ExitStatus> {
        if !self.stopped {
            self.stopped = true;
            Group::led_by(&self.child).end();
        }
        self.child.wait().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crashed (signal {signal})"),
        (None, Some(code)) => format!("ended its process (exit code {code})"),
        (None, None) => "ended its process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a worker that does `script`, and how long that took.
    fn said(script: &str) -> (String, Duration) {
        let arguments = vec!["-c".into(), script.into()];
        let time = Duration::from_secs(2);
        let isolation = Isolation { program: "/bin/sh".into(), arguments, time, memory: 0, output: 0 };
        let worker = Worker::new(Path::new("plugin.so"), &isolation);
        let start = Instant::now();
        let error = worker.ask(&worker.open_request(), |_| Ok(Some(()))).expect_err("it is no worker");
        assert!(error.crashed);
        (error.message, start.elapsed())
    }

    #[test]
    fn whatever_becomes_of_a_worker_is_told() {
        let cases = [
            ("exit 3", "ended its process (exit code 3)"),
            // A process that lives on holds the wire.
            ("sleep 20 & kill -6 $$", "crashed (signal 6)"),
            (
                r"printf '\001\377\377\377\377' >&0; sleep 20",
                "broke off: a frame of 4294967295 bytes, and 1 to 1048576 are taken",
            ),
            (
                r"printf '\001\000\000\000\000' >&0; sleep 20",
                "broke off: a frame of 0 bytes, and 1 to 1048576 are taken",
            ),
            (
                r"printf '\000\000\000\000\060' >&0; sleep 20",
                "broke off: a frame of 805306368 bytes, and 1 to 268435456 are taken",
            ),
        ];
        for (script, expected) in cases {
            let (message, took) = said(script);
            assert_eq!(message, expected, "{script}");
            assert!(took < Duration::from_millis(1900), "{script}: {took:?}");
        }
        assert_eq!(said("sleep 20").0, "did not answer within 2 s");
    }
}
