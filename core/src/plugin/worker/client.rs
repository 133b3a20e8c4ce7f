//! The host's end of a worker: starts it, passes calls on to it, and finds out how it ended. What it compiled is loaded and
//! run in this process, where runs are not to be in a worker too: only then is the plugin opened here.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byoc_plugin_api::host::{Answer, Call, Ending, Identity, Library, LoadError, Part, Plugin, Wire, pass_event};
use byoc_plugin_api::{BoundConstants, Error, Executable};

use super::Isolation;
use super::apart::Apart;
use super::budget::OutputBudget;
use super::ending::Group;
use super::protocol::{Frame, MOST_ANSWER, Request, SharedCall, receive, send_request};
use super::shared::{share_bytes, share_constants};
use super::wait::busy_wait;

/// Opens a plugin in a worker.
pub(crate) fn open(path: &Path, isolation: &Isolation) -> Result<Plugin, LoadError> {
    let worker = Arc::new(Worker::new(path, isolation));
    let identity = worker.open()?;
    Plugin::over(worker, identity)
}

/// A worker for one plugin. It is started when it is first asked, and again after it has ended.
pub(super) struct Worker {
    isolation: Isolation,
    path: PathBuf,
    running: Mutex<Option<Running>>,
    /// Who the plugin is: what is opened again must be the same.
    identity: OnceLock<Identity>,
    /// The plugin in this process, once something is to be run.
    here: OnceLock<Result<Library, Error>>,
    /// How many processes were started.
    started: AtomicU64,
}

/// How a request that the worker lived through ended.
enum Answered {
    /// With the worker's answer.
    Ended(Ending),
    /// With an error of the host.
    BrokenOff(Error),
}

struct Running {
    /// Which of those that were started.
    number: u64,
    child: Child,
    stream: BufReader<UnixStream>,
    /// Closes the stream once the child has ended: a process that the plugin forked may hold the other end.
    ended: JoinHandle<()>,
    stopped: bool,
}

impl Worker {
    pub(super) fn new(path: &Path, isolation: &Isolation) -> Worker {
        Worker {
            isolation: isolation.clone(),
            path: path.to_owned(),
            running: Mutex::new(None),
            identity: OnceLock::new(),
            here: OnceLock::new(),
            started: AtomicU64::new(0),
        }
    }

    /// Starts the worker and has it open the plugin.
    fn open(&self) -> Result<Identity, LoadError> {
        self.open_in(&mut self.running())
    }

    /// The same. A worker that has not opened it is not kept.
    fn open_in(&self, running: &mut Option<Running>) -> Result<Identity, LoadError> {
        let request = Request::Open { path: self.path.clone(), memory: self.isolation.memory };
        let mut opened = Err(LoadError::Process(Error::new("the worker does not say whether the plugin is open")));
        let mut take = |part: Part<'_>| {
            if let Part::Item(json) = part {
                opened = serde_json::from_slice(json)?;
            }
            Ok(())
        };
        *running = None;
        let worker = self.start().map_err(LoadError::Process)?;
        self.ask_one(worker, running, (&request, None), &mut take).map_err(LoadError::Process)?;
        let identity = opened.and_then(|identity| self.check_identity(identity));
        if identity.is_err() {
            *running = None;
        }
        identity
    }

    /// The identity, unless it was another one before.
    fn check_identity(&self, identity: Identity) -> Result<Identity, LoadError> {
        match self.identity.get_or_init(|| identity.clone()) == &identity {
            true => Ok(identity),
            false => Err(LoadError::Contract("its file has become another plugin".into())),
        }
    }

    /// The worker, which is started where there is none; it has opened the plugin.
    fn opened(&self, running: &mut Option<Running>) -> Result<Running, Error> {
        if let Some(worker) = running.take() {
            return Ok(worker);
        }
        self.open_in(running).map_err(|error| match error {
            LoadError::Process(error) => error,
            refused => Error::new(format!("the plugin cannot be opened again: {refused}")),
        })?;
        running.take().ok_or_else(|| Error::new("the worker has ended"))
    }

    /// Sends a request and gives `answer` what comes back. When the worker ends or is silent for too long, the error says
    /// how, and [`Error::crashed`] is set.
    fn ask(&self, request: &Request, behind: Option<&[u8]>, answer: &mut Answer<'_>) -> Result<Ending, Error> {
        let mut running = self.running();
        let worker = self.opened(&mut running)?;
        self.ask_one(worker, &mut running, (request, behind), answer).map(|(ending, _)| ending)
    }

    /// Loads a region: how that ended, and which process has it.
    pub(super) fn load_region(&self, request: &Request, environment: &[u8]) -> Result<(Ending, u64), Error> {
        let mut running = self.running();
        let worker = self.opened(&mut running)?;
        self.ask_one(worker, &mut running, (request, Some(environment)), &mut passed_on)
    }

    /// Asks the process of that number; `None` where it has ended.
    pub(super) fn ask_of(
        &self,
        number: u64,
        request: &Request,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Ending>, Error> {
        let mut running = self.running();
        let Some(worker) = running.take_if(|worker| worker.number == number) else { return Ok(None) };
        self.ask_one(worker, &mut running, (request, None), answer).map(|(ending, _)| Some(ending))
    }

    /// Asks a process, and keeps it in `running` where it lives on.
    fn ask_one(
        &self,
        mut worker: Running,
        running: &mut Option<Running>,
        (request, behind): (&Request, Option<&[u8]>),
        answer: &mut Answer<'_>,
    ) -> Result<(Ending, u64), Error> {
        match worker.ask(request, behind, answer) {
            Ok(Answered::Ended(ending)) => Ok((ending, running.insert(worker).number)),
            // Frames are left over: the next request goes to a new worker.
            Ok(Answered::BrokenOff(error)) => Err(error),
            Err(error) => Err(worker.end(&error, &self.isolation)),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process.
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
            // A plugin's output must not mix with ours.
            .stdout(io::stderr())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let group = Group::led_by(&child);
        match group.when_leader_ends(move || drop(wire.shutdown(Shutdown::Both))) {
            Ok(ended) => {
                let number = self.started.fetch_add(1, Ordering::Relaxed);
                Ok(Running { number, child, stream: BufReader::new(ours), ended, stopped: false })
            }
            Err(error) => {
                group.end();
                let _ = child.wait();
                Err(failed(error))
            }
        }
    }
}

impl Wire for Worker {
    fn call(&self, backend: usize, call: &Call<'_>, answer: &mut Answer<'_>) -> Result<Ending, Error> {
        let mut shared = share_constants(call.constants)?;
        let mut blobs = Vec::new();
        // Open until the worker has answered.
        let mut files = Vec::new();
        for blob in call.blobs {
            let (blob, file) = share_bytes(blob)?;
            blobs.push(blob);
            files.extend(file);
        }
        let constants = std::mem::take(&mut shared.shared);
        let request = Request::Call(SharedCall { backend, method: call.method.to_owned(), constants, blobs });
        let mut budget = OutputBudget::of_method(call.method, self.isolation.output, call.constants);
        self.ask(&request, Some(call.request), &mut |part| {
            if let (Part::Bytes(bytes), Some(budget)) = (&part, &mut budget) {
                budget.take(bytes)?;
            }
            answer(part)
        })
    }

    fn library(&self) -> Result<&Library, Error> {
        if self.isolation.runs {
            let error = Error::new("regions on a device run in this process only");
            return Err(error.hint("Leave out --isolate"));
        }
        let here = self.here.get_or_init(|| {
            let opened = Library::open(&self.path)
                .and_then(|(identity, library)| self.check_identity(identity).map(|_| library));
            opened.map_err(|error| Error::new(format!("its plugin cannot be opened here: {error}")))
        });
        here.as_ref().map_err(Clone::clone)
    }

    fn load<'a>(
        self: Arc<Self>,
        backend: usize,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &[u8],
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        match self.isolation.runs {
            true => Ok(Box::new(Apart::load(self, backend, code, constants, environment)?)),
            false => self.library()?.load(backend, code, constants, environment),
        }
    }
}

impl Running {
    fn ask(&mut self, request: &Request, behind: Option<&[u8]>, answer: &mut Answer<'_>) -> io::Result<Answered> {
        send_request(self.stream.get_mut(), request, behind)?;
        busy_wait(&self.stream);
        loop {
            let taken = match receive(&mut self.stream, MOST_ANSWER)?.ok_or(io::ErrorKind::UnexpectedEof)? {
                Frame::Bytes(bytes) => answer(Part::Bytes(&bytes)),
                Frame::Message(json) => answer(Part::Item(&json)),
                Frame::Event(json) => answer(Part::Event(&json)),
                Frame::End(ending) => return Ok(Answered::Ended(ending)),
            };
            if let Err(error) = taken {
                return Ok(Answered::BrokenOff(error));
            }
        }
    }

    /// Ends the worker, and describes how it ended.
    fn end(mut self, error: &io::Error, isolation: &Isolation) -> Error {
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let cause = format!("did not answer within {} s", isolation.time.as_secs_f64());
                return Error { crashed: true, ..Error::new(cause).hint(SILENT) };
            }
            // It is alive, but its output is invalid.
            io::ErrorKind::InvalidData => format!("broke off: {error}"),
            _ => match self.has_ended().then(|| self.stop()).flatten() {
                Some(status) => describe(status, isolation.memory),
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

/// Takes an answer that is nothing but events of a region, which go to who listens to those of regions in this process.
#[allow(clippy::unnecessary_wraps, reason = "one of the functions that take answers")]
pub(super) fn passed_on(part: Part<'_>) -> Result<(), Error> {
    if let Part::Event(json) = part {
        pass_event(json);
    }
    Ok(())
}

/// The remedy for a worker that was silent for too long.
const SILENT: &str =
    "Report this to the backend's maker, or allow more with --plugin-timeout; each sign of life begins it anew";

/// How a process ended; `memory` is how many bytes it could have, if that was limited.
fn describe(status: ExitStatus, memory: u64) -> String {
    // Those that end a process for want of memory.
    let may_be_memory = memory > 0 && [libc::SIGABRT, libc::SIGKILL].map(Some).contains(&status.signal());
    let limit = if may_be_memory { format!(", with {} MiB of memory", memory >> 20) } else { String::new() };
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crashed (signal {signal}{limit})"),
        (None, Some(code)) => format!("ended its process (exit code {code})"),
        (None, None) => "ended its process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a worker that runs `script`, and the time until it.
    fn said(script: &str) -> (String, Duration) {
        let arguments = vec!["-c".into(), script.into()];
        let time = Duration::from_secs(2);
        let isolation = Isolation { program: "/bin/sh".into(), arguments, time, memory: 0, output: 0, runs: false };
        let worker = Worker::new(Path::new("plugin.so"), &isolation);
        let start = Instant::now();
        let Err(LoadError::Process(error)) = worker.open() else { panic!("it is not a worker") };
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
