//! What a plugin says, made fit for the host: collected, parsed, one line each.

use std::ffi::c_void;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::abi::{self, Sink, Slice};
use crate::error::Error;

pub(super) fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Collects what a plugin writes, up to a limit that no sane answer reaches.
pub(super) fn collect(call: impl FnOnce(Sink, Sink) -> i32) -> (i32, Vec<u8>, Vec<u8>) {
    extern "C" fn append(context: *mut c_void, bytes: Slice) -> i32 {
        const MOST: usize = 1 << 30;
        // SAFETY: `context` is the vector below, alive for the call; the plugin lends `bytes` for this call.
        let (out, bytes) = unsafe { (&mut *context.cast::<Vec<u8>>(), bytes.bytes()) };
        if out.len() + bytes.len() > MOST {
            return abi::FAILED;
        }
        out.extend_from_slice(bytes);
        abi::OK
    }
    let (mut out, mut error) = (Vec::new(), Vec::new());
    let sink = |vec: &mut Vec<u8>| Sink { context: std::ptr::from_mut(vec).cast(), write: append };
    let status = call(sink(&mut out), sink(&mut error));
    (status, out, error)
}

/// The error of a call that did not go well: an `Error` as JSON, or its message alone.
pub(super) fn failure(status: i32, error: &[u8]) -> Error {
    let text = one_line(&String::from_utf8_lossy(error));
    match serde_json::from_slice::<Error>(error) {
        // What a plugin says ends on the user's terminal: one line, no control characters.
        Ok(error) => Error {
            message: one_line(&error.message),
            node: error.node.as_deref().map(one_line),
            hint: error.hint.as_deref().map(one_line),
            crashed: false,
        },
        Err(_) if status == abi::FAILED && !text.is_empty() => Error::new(text),
        Err(_) if status == abi::FAILED => Error::new("the plugin failed and gave no reason"),
        Err(_) => Error::new(format!("the plugin answered with the unknown status {status}")),
    }
}

pub(super) fn answer<T: DeserializeOwned>(call: impl FnOnce(Sink, Sink) -> i32) -> Result<T, Error> {
    let (status, out, error) = collect(call);
    if status != abi::OK {
        return Err(failure(status, &error));
    }
    serde_json::from_slice(&out).map_err(|error| Error::new(format!("the plugin's answer is not valid: {error}")))
}

pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    Ok(serde_json::to_vec(value)?)
}
