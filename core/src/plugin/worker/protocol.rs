//! What host and worker say to each other: frames of a kind, a length and bytes. A request is one frame of JSON; the
//! answer is any number of frames that lead to the last one.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use byoc_plugin_api::host::LoadError;
use byoc_plugin_api::{
    Claim, CodeFile, ConstantId, DType, Description, Error, Options, Pattern, Refusal, Region, Tool,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

/// Largest frame: what is larger comes in several.
pub(super) const MOST: usize = 1 << 20;

/// Bytes before those of a frame.
const HEAD: usize = 5;

/// How long a side that waits for the other stays awake.
const AWAKE: Duration = Duration::from_micros(100);

/// Longest message that a worker may send. The answers of plugins are shorter before they are sent.
pub(super) const MOST_ANSWER: usize = 256 << 20;

/// What the host asks. `backend` is an index into the plugin's list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first request: opens the plugin.
    Open { path: PathBuf, memory: u64 },
    /// The patterns of a backend.
    Patterns { backend: usize, options: Options },
    /// Whether it takes a candidate.
    Check { backend: usize, region: Region, options: Options },
    /// Its code for a region.
    Codegen { backend: usize, region: Region, constants: Shared, options: Options },
    /// Its claims.
    ConstantUpdater { backend: usize, region: Region, constants: Shared, code: SharedBytes, options: Options },
    /// What is in a file of its own, or in code.
    OpenFile { backend: usize, file: SharedBytes },
    /// What it uses on this machine.
    Tools { backend: usize, options: Options },
    /// Other code for a region.
    Candidates { backend: usize, code: SharedBytes, options: Options },
}

/// What the worker answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To `Open`.
    Opened(Opened),
    /// To `Open`.
    NotOpened(LoadError),
    /// To `Patterns`.
    Patterns(Vec<Pattern>),
    /// To `Check`.
    Checked(Option<Refusal>),
    /// A claim; more may follow.
    Claim(ConstantId, Claim),
    /// To `OpenFile`.
    FileOpened(CodeFile),
    /// To `Tools`.
    Tools(Vec<Tool>),
    /// The name of a candidate, whose code follows; more may follow.
    Candidate(String),
    /// The end of `Codegen`, `ConstantUpdater` or `Candidates`.
    Done,
    /// The end of any other request.
    Failed(Error),
}

/// Who the plugin is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) abi_version: u32,
    pub(super) backends: Vec<Description>,
}

/// Constants as places in files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Shared {
    pub(super) files: Vec<SharedFile>,
    pub(super) tensors: Vec<SharedTensor>,
}

/// A file that both sides map: by a path that is good as long as the host has it open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SharedFile {
    pub(super) path: PathBuf,
    pub(super) length: usize,
}

/// A constant: without `place` it has a type and a shape only.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SharedTensor {
    pub(super) id: ConstantId,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// Index into [`Shared::files`], and the first element's offset in bytes.
    pub(super) place: Option<(usize, usize)>,
}

/// Bytes that a request is about.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SharedBytes {
    /// Few bytes, as hex text: a file would take longer to map.
    Hex(String),
    /// A part of a file.
    File { file: SharedFile, offset: usize, length: usize },
}

/// A frame.
pub(super) enum Frame {
    /// A request or a reply.
    Message(Vec<u8>),
    /// Code, or the bytes of the constant or the candidate that was named last.
    Bytes(Vec<u8>),
}

/// A part of an answer.
pub(super) enum Part {
    /// A reply other than an error.
    Reply(Reply),
    /// Code, or the bytes of the constant or the candidate that was named last.
    Bytes(Vec<u8>),
}

/// Writes a request or a reply, at once: each write would wake the other side.
pub(super) fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let head = head(0, frame.len() - HEAD)?;
    frame[..HEAD].copy_from_slice(&head);
    out.write_all(&frame)?;
    out.flush()
}

/// Writes bytes.
pub(super) fn send_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(MOST).try_for_each(|chunk| {
        out.write_all(&head(1, chunk.len())?)?;
        out.write_all(chunk)
    })
}

/// What comes before the bytes of a frame: its kind and their number.
fn head(kind: u8, length: usize) -> io::Result<[u8; HEAD]> {
    let length = u32::try_from(length).map_err(|_| io::Error::other("a message is too long"))?;
    let [a, b, c, d] = length.to_le_bytes();
    Ok([kind, a, b, c, d])
}

/// Waits without sleeping while nothing has come, up to [`AWAKE`], and lets others run: most answers are quick, and to be
/// put to sleep and woken takes longer than they do.
pub(super) fn busy_wait(from: &BufReader<UnixStream>) {
    let start = Instant::now();
    let mut wire = [PollFd::new(from.get_ref(), PollFlags::IN)];
    let mut nothing = || from.buffer().is_empty() && poll(&mut wire, Some(&Timespec::default())) == Ok(0);
    while nothing() && start.elapsed() < AWAKE {
        std::thread::yield_now();
    }
}

/// Reads a frame; `None` where the other side has ended. Bytes are at most [`MOST`], and messages `most_message`; the memory
/// taken is that of what came, whatever length was announced.
pub(super) fn receive(from: &mut impl Read, most_message: usize) -> io::Result<Option<Frame>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head[..1]) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    from.read_exact(&mut head[1..])?;
    let [kind, length @ ..] = head;
    let length = u32::from_le_bytes(length) as usize;
    let most = match kind {
        0 => most_message,
        1 => MOST,
        kind => return Err(invalid(format!("a frame of the unknown kind {kind}"))),
    };
    // Without bytes, a worker could say nothing for ever.
    if length == 0 || length > most {
        return Err(invalid(format!("a frame of {length} bytes, and 1 to {most} are taken")));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    match (bytes.len() == length, kind) {
        (false, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (true, 0) => Ok(Some(Frame::Message(bytes))),
        (true, _) => Ok(Some(Frame::Bytes(bytes))),
    }
}

fn invalid(cause: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut wire = Vec::new();
        send(&mut wire, &Reply::Claim(ConstantId(3), Claim::Embedded)).expect("written");
        send_bytes(&mut wire, &vec![7; MOST + 5]).expect("written");
        let mut from = wire.as_slice();
        let mut lengths = Vec::new();
        while let Some(frame) = receive(&mut from, 100).expect("frames") {
            match frame {
                Frame::Message(text) => assert_eq!(text, br#"{"Claim":[3,"embedded"]}"#),
                Frame::Bytes(bytes) => lengths.push(bytes.len()),
            }
        }
        assert_eq!(lengths, [MOST, 5]);
        let cut = |wire: &[u8]| receive(&mut &*wire, 100).err().expect("no frame");
        assert_eq!(cut(&wire[..3]).kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(cut(&wire[..8]).kind(), io::ErrorKind::UnexpectedEof);
        for (head, cause) in [
            ([9, 1, 0, 0, 0], "a frame of the unknown kind 9"),
            ([0, 0, 0, 0, 0], "a frame of 0 bytes, and 1 to 100 are taken"),
            ([0, 101, 0, 0, 0], "a frame of 101 bytes, and 1 to 100 are taken"),
            ([1, 1, 0, 16, 0], "a frame of 1048577 bytes, and 1 to 1048576 are taken"),
            ([1, 255, 255, 255, 255], "a frame of 4294967295 bytes, and 1 to 1048576 are taken"),
        ] {
            let error = cut(&head);
            assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidData, cause));
        }
    }
}
