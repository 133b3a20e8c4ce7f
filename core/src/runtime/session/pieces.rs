//! What a run does, in pieces: calls that follow one another on a device are one, which is recorded and replayed.

use byoc_plugin_api::Error;

use super::{LoadedCall, LoadedRegion};
use crate::runtime::device::Device;
use crate::runtime::steps::{Crossing, HOST, Step, Steps};

/// A [`Step`], with consecutive calls on one device joined.
pub(super) enum Piece {
    Host(usize),
    Copy(Crossing),
    Wait(usize),
    Device(Queued),
}

/// Calls that follow one another on one device.
pub(super) struct Queued {
    pub(super) memory: usize,
    pub(super) calls: Vec<usize>,
    recording: Recording,
}

/// Whether calls are replayed.
enum Recording {
    /// From the second run on.
    Wanted,
    /// They are.
    Made(Device, u64),
    /// They are not, for the reason given; empty where a backend said from the beginning that its region, or its device,
    /// does not record.
    Not(String),
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Recording::Made(device, number) = self {
            device.domain().forget(*number);
        }
    }
}

impl Piece {
    /// The calls that are queued on that device, if this is such a piece.
    pub(super) fn of_device(&self, memory: usize) -> Option<&Queued> {
        match self {
            Piece::Device(queued) if queued.memory == memory => Some(queued),
            _ => None,
        }
    }

    /// Whether it can be done whatever regions on devices were prepared for last.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Piece::Device(queued) => queued.is_recorded(),
            Piece::Host(_) | Piece::Copy(_) | Piece::Wait(_) => true,
        }
    }
}

impl Queued {
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded().is_some()
    }

    /// The number of the recording, where there is one.
    pub(super) fn recorded(&self) -> Option<u64> {
        match self.recording {
            Recording::Made(_, number) => Some(number),
            Recording::Wanted | Recording::Not(_) => None,
        }
    }

    /// Whether the calls are to be recorded, and are not yet.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.recording, Recording::Wanted)
    }

    /// Records the calls on what they were prepared for last, or finds out why not.
    pub(super) fn record(&mut self, device: &Device, calls: &mut [LoadedCall]) {
        self.recording = match record(device, &self.calls, calls) {
            Ok(Some(number)) => Recording::Made(device.clone(), number),
            Ok(None) => Recording::Not(String::new()),
            Err(error) => {
                let first = self.calls.first().map_or("", |&call| &calls[call].title);
                Recording::Not(format!("{first} and those behind it: {}", error.message))
            }
        };
    }

    /// Why not, where it was tried.
    pub(super) fn unrecorded(&self) -> Option<&str> {
        match &self.recording {
            Recording::Not(reason) if !reason.is_empty() => Some(reason),
            _ => None,
        }
    }
}

/// The steps as pieces; `records` says which calls may be recorded.
pub(super) fn pieces(steps: &Steps, memories: &[usize], records: &[bool]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for step in &steps.body {
        let call = match *step {
            Step::Copy(crossing) => {
                pieces.push(Piece::Copy(crossing));
                continue;
            }
            Step::Wait(memory) => {
                pieces.push(Piece::Wait(memory));
                continue;
            }
            Step::Call(call) if memories[call] == HOST => {
                pieces.push(Piece::Host(call));
                continue;
            }
            Step::Call(call) => call,
        };
        let memory = memories[call];
        match pieces.last_mut() {
            Some(Piece::Device(queued)) if queued.memory == memory => queued.calls.push(call),
            _ => pieces.push(Piece::Device(Queued { memory, calls: vec![call], recording: Recording::Wanted })),
        }
    }
    for piece in &mut pieces {
        if let Piece::Device(queued) = piece
            && !queued.calls.iter().all(|&call| records[call])
        {
            queued.recording = Recording::Not(String::new());
        }
    }
    pieces
}

/// Records what is to be recorded and is not yet, on what it was prepared for last, which has run.
pub(super) fn record_all(pieces: &mut [Piece], devices: &[Device], calls: &mut [LoadedCall]) {
    for piece in pieces {
        if let Piece::Device(queued) = piece
            && queued.is_wanted()
        {
            queued.record(&devices[queued.memory - 1], calls);
        }
    }
}

/// Records calls, where the device does that.
fn record(device: &Device, indices: &[usize], calls: &mut [LoadedCall]) -> std::result::Result<Option<u64>, Error> {
    if !device.info().records {
        return Ok(None);
    }
    device.domain().begin_recording()?;
    let queued = indices.iter().try_for_each(|&call| match &mut calls[call].region {
        LoadedRegion::Device(bound) => bound.executable().run(),
        LoadedRegion::Host(_) => Ok(()),
    });
    // A recording is ended also where it failed.
    let ended = device.domain().end_recording();
    match (queued, ended) {
        (Ok(()), ended) => ended.map(Some),
        (Err(error), ended) => {
            ended.into_iter().for_each(|number| device.domain().forget(number));
            Err(error)
        }
    }
}
