//! The host's end of a worker: starts it, asks it, and finds out how it ended.

use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use byoc_plugin_api::Error;

use super::Isolation;
use super::protocol::{Frame, Part, Reply, Request, receive, send};

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
        let child = Command::new(&self.isolation.program)
            .args(&self.isolation.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // What a plugin prints must not end up among our results.
            .stdout(io::stderr())
            .spawn()
            .map_err(failed)?;
        Ok(Running { child, stream: BufReader::new(ours) })
    }

    /// The request that every new worker gets first.
    pub(super) fn open_request(&self) -> Request {
        Request::Open { path: self.path.clone(), memory: self.isolation.memory }
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
        loop {
            let part = match receive(&mut self.stream)?.ok_or(io::ErrorKind::UnexpectedEof)? {
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
        let silent = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let cause = if silent {
            format!("did not answer within {} s", limit.as_secs_f64())
        } else {
            match self.wait() {
                Some(status) => describe(status),
                None => format!("broke off: {error}"),
            }
        };
        Error { crashed: true, ..Error::new(cause) }
    }

    /// The exit status of a worker whose stream has ended; it may need a moment.
    fn wait(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has nothing to save, and a plugin may be in an endless loop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crashed (signal {signal})"),
        (None, Some(code)) => format!("ended its process (exit code {code})"),
        (None, None) => "ended its process".to_owned(),
    }
}
