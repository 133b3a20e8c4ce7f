//! The protocol between host and worker: frames of a kind, a length and bytes. A request is a frame of JSON, and for a
//! call another one, with what the plugin is to get; the answer is what the plugin gives, frame by frame, and how the call
//! ended. The worker knows no methods and passes all calls through.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use byoc_plugin_api::host::Ending;
use byoc_plugin_api::{ConstantId, DType};
use serde::{Deserialize, Serialize};

/// Largest frame of bytes: what is larger comes in several.
pub(super) const MOST: usize = 1 << 20;

/// Bytes before those of a frame.
const HEAD: usize = 5;

/// Longest message that a worker may send. Those of plugins are shorter.
pub(super) const MOST_ANSWER: usize = 256 << 20;

/// A request of the host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first request: opens the plugin. The answer is an item, a `Result<Identity, LoadError>`.
    Open { path: PathBuf, memory: u64 },
    /// Calls a method. The plugin's request is in the frame behind this one.
    Call(SharedCall),
    /// Loads a region. Its environment is in the frame behind this one.
    Load(SharedRegion),
    /// Runs a region.
    Run(SharedRun),
    /// Whether a region takes times of its steps from here on.
    TimeSteps { region: u64, on: bool },
    /// The steps of a region's last run. The answer is an item, a list of them.
    Steps { region: u64 },
    /// Gives a region's memory back.
    Free { region: u64 },
}

/// A call with its constants and bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SharedCall {
    /// An index into the plugin's list.
    pub(super) backend: usize,
    pub(super) method: String,
    pub(super) constants: Shared,
    pub(super) blobs: Vec<SharedBytes>,
}

/// A region that is to run in the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SharedRegion {
    /// What the host calls it: no two of a host have the same.
    pub(super) region: u64,
    /// An index into the plugin's list.
    pub(super) backend: usize,
    pub(super) code: SharedBytes,
    pub(super) constants: Shared,
    /// The layouts of those constants that are packed.
    pub(super) layouts: Vec<(ConstantId, String)>,
}

/// A run: its tensors lie row-major in memory that both sides map.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SharedRun {
    pub(super) region: u64,
    /// A path by which the memory can be mapped, as long as the host has it.
    pub(super) memory: PathBuf,
    /// Another one than before where the memory is: a path may be that of one before.
    pub(super) generation: u64,
    pub(super) inputs: Vec<Placed>,
    pub(super) outputs: Vec<Placed>,
}

/// A tensor of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Placed {
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    /// Of its first byte in the memory.
    pub(super) offset: usize,
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
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A request, or an item of an answer: JSON.
    Message(Vec<u8>),
    /// Bytes of an answer.
    Bytes(Vec<u8>),
    /// An event: JSON.
    Event(Vec<u8>),
    /// The end of an answer.
    End(Ending),
}

/// Writes a request and its second frame at once: each write would wake the other side.
pub(super) fn send_request(out: &mut impl Write, request: &Request, behind: Option<&[u8]>) -> io::Result<()> {
    let text = serde_json::to_vec(request)?;
    let mut frames = Vec::with_capacity(2 * HEAD + text.len() + behind.map_or(0, <[u8]>::len));
    for message in [Some(text.as_slice()), behind].into_iter().flatten() {
        send_message(&mut frames, message)?;
    }
    out.write_all(&frames)
}

/// Writes a message.
pub(super) fn send_message(out: &mut impl Write, json: &[u8]) -> io::Result<()> {
    out.write_all(&head(0, json.len())?)?;
    out.write_all(json)
}

/// Writes an event, which is sent at once: it is also a sign of life.
pub(super) fn send_event(out: &mut impl Write, json: &[u8]) -> io::Result<()> {
    out.write_all(&head(3, json.len())?)?;
    out.write_all(json)?;
    out.flush()
}

/// Writes bytes.
pub(super) fn send_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(MOST).try_for_each(|chunk| {
        out.write_all(&head(1, chunk.len())?)?;
        out.write_all(chunk)
    })
}

/// Ends an answer.
pub(super) fn send_end(out: &mut impl Write, ending: &Ending) -> io::Result<()> {
    out.write_all(&head(2, size_of::<i32>() + ending.error.len())?)?;
    out.write_all(&ending.status.to_le_bytes())?;
    out.write_all(&ending.error)?;
    out.flush()
}

/// What comes before the bytes of a frame: its kind and their number.
fn head(kind: u8, length: usize) -> io::Result<[u8; HEAD]> {
    let length = u32::try_from(length).map_err(|_| io::Error::other("a message is too long"))?;
    let [a, b, c, d] = length.to_le_bytes();
    Ok([kind, a, b, c, d])
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
        0 | 2 | 3 => most_message,
        1 => MOST,
        kind => return Err(invalid(format!("a frame of the unknown kind {kind}"))),
    };
    // Empty frames are refused: a worker could send them for ever.
    if length == 0 || length > most {
        return Err(invalid(format!("a frame of {length} bytes, and 1 to {most} are taken")));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(match kind {
        0 => Frame::Message(bytes),
        1 => Frame::Bytes(bytes),
        3 => Frame::Event(bytes),
        _ => {
            let (status, error) =
                bytes.split_first_chunk().ok_or_else(|| invalid(format!("an end of {length} bytes")))?;
            Frame::End(Ending { status: i32::from_le_bytes(*status), error: error.to_vec() })
        }
    }))
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
        let ending = Ending { status: -3, error: b"why".to_vec() };
        send_message(&mut wire, b"{}").expect("written");
        send_event(&mut wire, b"[]").expect("written");
        send_bytes(&mut wire, &vec![7; MOST + 5]).expect("written");
        send_end(&mut wire, &ending).expect("written");
        let mut from = wire.as_slice();
        let frames: Vec<_> = std::iter::from_fn(|| receive(&mut from, 100).expect("frames")).collect();
        let bytes = |length: usize| Frame::Bytes(vec![7; length]);
        assert_eq!(
            frames,
            [Frame::Message(b"{}".to_vec()), Frame::Event(b"[]".to_vec()), bytes(MOST), bytes(5), Frame::End(ending)]
        );
        let cut = |wire: &[u8]| receive(&mut &*wire, 100).expect_err("no frame");
        assert_eq!(cut(&wire[..3]).kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(cut(&wire[..6]).kind(), io::ErrorKind::UnexpectedEof);
        for (head, cause) in [
            ([9, 1, 0, 0, 0], "a frame of the unknown kind 9"),
            ([0, 0, 0, 0, 0], "a frame of 0 bytes, and 1 to 100 are taken"),
            ([0, 101, 0, 0, 0], "a frame of 101 bytes, and 1 to 100 are taken"),
            ([1, 1, 0, 16, 0], "a frame of 1048577 bytes, and 1 to 1048576 are taken"),
            ([1, 255, 255, 255, 255], "a frame of 4294967295 bytes, and 1 to 1048576 are taken"),
            ([2, 101, 0, 0, 0], "a frame of 101 bytes, and 1 to 100 are taken"),
        ] {
            let error = cut(&head);
            assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidData, cause));
        }
        let error = cut(&[2, 3, 0, 0, 0, 1, 0, 0]);
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidData, "an end of 3 bytes"));
    }
}
