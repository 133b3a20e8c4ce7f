//! What a plugin says, made fit for the host: collected, parsed, one line each.

use std::ffi::c_void;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::abi::{self, Sink, Slice};
use crate::error::Error;
use crate::job::Event;

/// Most bytes of an answer other than code and constants: JSON, or an error. No sane one is near.
pub(super) const MOST: usize = 64 << 20;

/// Most characters of an error.
const MOST_OF_ERROR: usize = 4096;

pub(super) fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// An error's text: one line that a terminal can take.
fn message(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MOST_OF_ERROR) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// What a plugin has written into a sink.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    too_much: bool,
}

extern "C" fn append(context: *mut c_void, bytes: Slice) -> i32 {
    // SAFETY: `context` is what `collect` keeps for the call; the plugin lends `bytes` for this one.
    let (written, bytes) = unsafe { (&mut *context.cast::<Written>(), bytes.bytes()) };
    written.too_much |= written.bytes.len().saturating_add(bytes.len()) > MOST;
    if written.too_much {
        return abi::FAILED;
    }
    written.bytes.extend_from_slice(bytes);
    abi::OK
}

/// Collects what a plugin writes: its status, its answer and its error. An answer that is too long is an error, whatever the
/// plugin made of the refusal.
pub(super) fn collect(call: impl FnOnce(Sink, Sink) -> i32) -> (i32, Vec<u8>, Vec<u8>) {
    let (mut out, mut error) = (Written::default(), Written::default());
    let sink = |written: &mut Written| Sink { context: std::ptr::from_mut(written).cast(), write: append };
    let status = call(sink(&mut out), sink(&mut error));
    if out.too_much {
        return (abi::FAILED, Vec::new(), too_long().message.into());
    }
    (status, out.bytes, error.bytes)
}

pub(super) fn too_long() -> Error {
    Error::new(format!("the plugin's answer has more than {} MiB", MOST >> 20))
}

/// The error of a call that did not go well: an `Error` as JSON, or its message alone.
pub(super) fn failure(status: i32, error: &[u8]) -> Error {
    let text = message(&String::from_utf8_lossy(error));
    match serde_json::from_slice::<Error>(error) {
        // What a plugin says ends on the user's terminal: one line, no control characters.
        Ok(error) => Error {
            message: message(&error.message),
            node: error.node.as_deref().map(message),
            hint: error.hint.as_deref().map(message),
            crashed: false,
            panicked: error.panicked,
        },
        Err(_) if status == abi::FAILED && !text.is_empty() => Error::new(text),
        Err(_) if status == abi::FAILED => Error::new("the plugin failed and gave no reason"),
        Err(_) if status == abi::UNKNOWN => Error::new("the plugin does not have a method that every plugin has"),
        Err(_) => Error::new(format!("the plugin answered with the unknown status {status}")),
    }
}

pub(super) fn answer<T: DeserializeOwned>(call: impl FnOnce(Sink, Sink) -> i32) -> Result<T, Error> {
    let (status, out, error) = collect(call);
    if status != abi::OK {
        return Err(failure(status, &error));
    }
    parsed(&out)
}

/// An event with a line for each text of it.
pub(super) fn in_lines(event: Event) -> Event {
    match event {
        Event::Log(line) => Event::Log(one_line(&line)),
        Event::Progress { done, total, next } => Event::Progress { done, total, next: one_line(&next) },
    }
}

/// An answer in JSON.
pub(super) fn parsed<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|error| invalid(&error))
}

/// The same, with the fields that nobody reads, each as `regions.merg`.
pub(super) fn parsed_in_full<T: DeserializeOwned>(answer: &[u8]) -> Result<(T, Vec<String>), Error> {
    let mut unread = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(answer);
    let read = serde_ignored::deserialize(&mut json, |path| unread.push(one_line(&path.to_string())));
    let read = read.and_then(|read| json.end().map(|()| read));
    read.map(|read| (read, unread)).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::new(format!("the plugin's answer is not valid: {error}"))
}

pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    Ok(serde_json::to_vec(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(sink: Sink, bytes: &[u8]) -> i32 {
        (sink.write)(sink.context, Slice::new(bytes))
    }

    #[test]
    fn answers_have_an_end() {
        let block = vec![b' '; 1 << 20];
        let endless = |out: Sink, _: Sink| {
            let written = (0..1000).take_while(|_| put(out, &block) == abi::OK).count();
            assert_eq!(written, 64);
            abi::OK
        };
        let error = answer::<Vec<String>>(endless).expect_err("too long");
        assert_eq!(error.message, "the plugin's answer has more than 64 MiB");
        let (status, out, error) = collect(|out, error| put(out, b"[]") + put(error, b"\0"));
        assert_eq!((status, out.as_slice(), error.as_slice()), (abi::OK, b"[]".as_slice(), b"\0".as_slice()));
    }

    #[test]
    fn errors_are_one_line_of_some_length() {
        let message = |text: &[u8]| failure(abi::FAILED, text).message;
        assert_eq!(message(b"bad \xff\0\ntext"), "bad \u{fffd} text");
        assert_eq!(message(b" \0\x1b"), "the plugin failed and gave no reason");
        let long = "\u{fc}".repeat(5000);
        assert_eq!(message(long.as_bytes()), format!("{}...", "\u{fc}".repeat(4096)));
        let json = serde_json::to_vec(&Error::new(long.clone()).hint(long)).expect("JSON");
        let error = failure(abi::FAILED, &json);
        assert_eq!(error.message.chars().count(), 4099);
        assert_eq!(error.hint.map(|hint| hint.chars().count()), Some(4099));
    }
}
