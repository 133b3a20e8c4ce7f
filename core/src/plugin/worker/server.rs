//! The worker's end: opens one plugin and answers what it is asked, until the host hangs up.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use byoc_plugin_api::host::{self, Plugin, PluginBackend};
use byoc_plugin_api::{Backend, Claim, ClaimSink, Claims, ConstantId, Error};

use super::ending::{end_process, end_with_parent};
use super::protocol::{Frame, MOST, Opened, Reply, Request, busy_wait, receive, send, send_bytes};
use super::shared::{bytes, constants, map};

/// Serves the host at the other end of the standard input, and ends this process when that is gone. What goes wrong on the
/// way ends it as well: the host sees that, and there is nobody else to tell.
pub fn serve() -> ! {
    let _ = serve_host();
    end_process()
}

fn serve_host() -> io::Result<()> {
    let stream = take_wire()?;
    end_with_parent(&stream)?;
    let mut from = BufReader::new(stream.try_clone()?);
    let mut out = BufWriter::with_capacity(MOST, stream);
    let mut plugin = None;
    while let Some(frame) = receive(&mut from, u32::MAX as usize)? {
        let Frame::Message(text) = frame else { return Err(io::Error::other("bytes in place of a request")) };
        let reply = match (serde_json::from_slice(&text)?, &plugin) {
            (Request::Open { path, memory }, _) => {
                limit(memory);
                match host::open(&path) {
                    Ok(opened) => Reply::Opened(summary(plugin.insert(opened))),
                    Err(error) => Reply::NotOpened(error),
                }
            }
            (_, None) => Reply::Failed(Error::new("the plugin is not open")),
            (request, Some(plugin)) => answer(request, plugin, &mut out).unwrap_or_else(Reply::Failed),
        };
        send(&mut out, &reply)?;
        busy_wait(&from);
    }
    Ok(())
}

/// The wire, which no program that the plugin starts inherits: it would outlive a crash and keep the host waiting. The
/// standard input is empty from now on, so that nobody reads requests from it.
fn take_wire() -> io::Result<UnixStream> {
    let wire = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(wire))
}

/// Keeps this process from taking more bytes of memory than that; 0 for what the machine has.
pub fn limit(memory: u64) {
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
    #[cfg(target_os = "linux")]
    limit_data(memory);
}

#[cfg(target_os = "linux")]
fn limit_data(memory: u64) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let most = if memory > 0 { Some(memory) } else { crate::memory::physical() };
    if let Some(most) = most {
        // Where it is not allowed, the plugin runs without the limit.
        let _ = setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

fn summary(plugin: &Plugin) -> Opened {
    let backends = plugin.backends.iter().map(PluginBackend::describe);
    Opened { abi_version: plugin.abi_version, backends: backends.collect() }
}

/// Answers a request; code, claims and packed bytes go out while they are made.
fn answer(request: Request, plugin: &Plugin, out: &mut impl Write) -> Result<Reply, Error> {
    let backend =
        |index: usize| plugin.backends.get(index).ok_or_else(|| Error::new(format!("there is no backend {index}")));
    match request {
        Request::Open { .. } => Err(Error::new("the plugin is open")),
        Request::Patterns { backend: index, options } => Ok(Reply::Patterns(backend(index)?.patterns(&options)?)),
        Request::Check { backend: index, region, options } => {
            Ok(Reply::Checked(backend(index)?.check(&region, &options).err()))
        }
        Request::Codegen { backend: index, region, constants: shared, options } => {
            let files = map(&shared.files)?;
            let mut code = BytesOut(out);
            backend(index)?.codegen(&region, &constants(&shared.tensors, &files)?, &options, &mut code)?;
            Ok(Reply::Done)
        }
        Request::ConstantUpdater { backend: index, region, constants: shared, code, options } => {
            let (files, code) = (map(&shared.files)?, bytes(&code)?);
            let mut sink = ClaimsOut(out);
            let mut claims = Claims::new(&mut sink);
            let views = constants(&shared.tensors, &files)?;
            backend(index)?.constant_updater(&region, &views, &code, &options, &mut claims)?;
            Ok(Reply::Done)
        }
        Request::OpenFile { backend: index, file } => Ok(Reply::FileOpened(backend(index)?.open(&bytes(&file)?)?)),
        Request::Tools { backend: index, options } => Ok(Reply::Tools(backend(index)?.tools(&options)?)),
        Request::Candidates { backend: index, code, options } => {
            for candidate in backend(index)?.candidates(&bytes(&code)?, &options)? {
                send(out, &Reply::Candidate(candidate.name))?;
                send_bytes(out, &candidate.code)?;
            }
            Ok(Reply::Done)
        }
    }
}

/// Code on its way to the host.
struct BytesOut<'a, W>(&'a mut W);

impl<W: Write> Write for BytesOut<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_bytes(self.0, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Claims on their way to the host, which judges them.
struct ClaimsOut<'a, W>(&'a mut W);

impl<W: Write> ClaimSink for ClaimsOut<'_, W> {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        Ok(send(self.0, &Reply::Claim(id, claim.clone()))?)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(send_bytes(self.0, bytes)?)
    }
}
