//! The worker's end: opens one plugin, makes the calls and runs the regions it is asked for, until the host hangs up. The plugin's output is
//! streamed as it is: the host validates it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use byoc_plugin_api::Error;
use byoc_plugin_api::host::{Call, Ending, Library, Part, Wire};

use super::ending::{end_process, end_with_parent};
use super::protocol::{Frame, MOST, Request, SharedCall, receive, send_bytes, send_end, send_event, send_message};
use super::region_events::Events;
use super::regions::Regions;
use super::shared::{bytes, constants, map};
use super::wait::busy_wait;

/// Serves the host at the other end of the standard input, and ends this process when that is gone. Any error
/// ends it as well, which the host sees.
pub(super) fn serve() -> ! {
    let _ = serve_host();
    end_process()
}

fn serve_host() -> io::Result<()> {
    let stream = take_wire()?;
    end_with_parent(&stream)?;
    let mut from = BufReader::new(stream.try_clone()?);
    let events = Events::over(stream.try_clone()?);
    let mut out = BufWriter::with_capacity(MOST, stream);
    let mut plugin = None;
    let mut regions = Regions::default();
    while let Some(request) = message(&mut from)? {
        let ending = match serde_json::from_slice(&request)? {
            Request::Open { path, memory } => {
                limit(memory);
                let opened = Library::open(&path).map(|(identity, library)| {
                    plugin = Some(library);
                    identity
                });
                send_message(&mut out, &serde_json::to_vec(&opened)?)?;
                Ending::default()
            }
            Request::Call(call) => {
                let behind = message(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let answered = opened(plugin.as_ref()).and_then(|plugin| answer(&call, &behind, plugin, &mut out));
                answered.unwrap_or_else(|error| Ending::failed(&error))
            }
            Request::Load(region) => {
                let environment = message(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let _open = events.open();
                ended(opened(plugin.as_ref()).and_then(|plugin| regions.load(region, &environment, plugin)))
            }
            Request::Run(run) => {
                let _open = events.open();
                ended(regions.run(run))
            }
            Request::TimeSteps { region, on } => ended(regions.time_steps(region, on)),
            Request::Steps { region } => {
                let steps = regions.steps(region).and_then(|steps| Ok(send_message(&mut out, &steps)?));
                ended(steps)
            }
            Request::Free { region } => {
                regions.free(region);
                Ending::default()
            }
        };
        send_end(&mut out, &ending)?;
        busy_wait(&from);
    }
    Ok(())
}

fn opened(plugin: Option<&Library>) -> Result<&Library, Error> {
    plugin.ok_or_else(|| Error::new("the plugin is not open"))
}

fn ended(result: Result<(), Error>) -> Ending {
    result.map_or_else(|error| Ending::failed(&error), |()| Ending::default())
}

/// The next request; `None` where the host has hung up.
fn message(from: &mut BufReader<UnixStream>) -> io::Result<Option<Vec<u8>>> {
    match receive(from, u32::MAX as usize)? {
        None => Ok(None),
        Some(Frame::Message(text)) => Ok(Some(text)),
        Some(_) => Err(io::Error::other("something else in place of a request")),
    }
}

/// The wire, which no program that the plugin starts inherits: it would outlive a crash and keep the host waiting. The
/// standard input is empty from now on, so that the plugin cannot read requests from it.
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
    // It reserves more addresses than there is memory; the limits that a sanitizer has are the ones to use.
    if crate::signals::is_sanitized() {
        return;
    }
    let most = if memory > 0 { Some(memory) } else { crate::memory::physical() };
    if let Some(most) = most {
        // Where it is not allowed, the plugin runs without the limit.
        let _ = setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

/// Makes a call.
fn answer(call: &SharedCall, behind: &[u8], plugin: &Library, out: &mut impl Write) -> Result<Ending, Error> {
    let files = map(&call.constants.files)?;
    let mapped = call.blobs.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    let blobs: Vec<&[u8]> = mapped.iter().map(|bytes| &bytes[..]).collect();
    let constants = constants(&call.constants.tensors, &files)?;
    let made = Call { method: &call.method, request: behind, constants: &constants, blobs: &blobs };
    plugin.call(call.backend, &made, &mut |part| match part {
        // An empty frame would be a broken wire.
        Part::Item([]) => Err(Error::new("the plugin gave an empty item")),
        Part::Event([]) => Err(Error::new("the plugin gave an empty event")),
        Part::Item(json) => Ok(send_message(out, json)?),
        Part::Bytes(bytes) => Ok(send_bytes(out, bytes)?),
        Part::Event(json) => Ok(send_event(out, json)?),
    })
}
