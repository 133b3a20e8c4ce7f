//! What tells sizes while an entry runs: a region, or control flow. Its outputs get their memory when their sizes are known.

use std::collections::HashMap;
use std::time::Instant;

use byoc_plugin_api::{Error, TensorView};

use super::control::ControlFlow;
use super::filling::{Filling, SizedOutput};
use super::held::Held;
use super::lists::ListCall;
use super::work::run_failed;
use super::{LoadedCall, LoadedRegion, Session};
use crate::artifact::manifest::ValueType;
use crate::crash;
use crate::diagnostic::Result;
use crate::runtime::stages::Place;

/// A call, or control flow, with outputs of sizes that it tells.
pub(super) struct SizedCall {
    pub(super) what: What,
    /// The place of each of its inputs.
    pub(super) feeds: Vec<Place>,
    /// None for what nobody reads.
    outputs: Vec<Option<SizedOutput>>,
}

/// What tells sizes.
pub(super) enum What {
    Region(LoadedCall),
    Control(ControlFlow),
    List(ListCall),
}

impl SizedCall {
    pub(super) fn new(what: What, feeds: Vec<Place>, outputs: Vec<Option<(String, ValueType)>>) -> SizedCall {
        let output = |(name, ty)| SizedOutput { name, ty, given: false, held: Held::default() };
        SizedCall { what, feeds, outputs: outputs.into_iter().map(|named| named.map(output)).collect() }
    }

    /// The bodies of control flow.
    pub(super) fn bodies(&self) -> &[Session] {
        match &self.what {
            What::Region(_) | What::List(_) => &[],
            What::Control(control) => &control.bodies,
        }
    }

    /// Bytes of its outputs.
    pub(super) fn room(&self) -> usize {
        self.outputs.iter().flatten().map(|output| output.held.room()).sum()
    }

    /// An output of the last run.
    pub(super) fn output(&self, index: usize) -> Option<TensorView<'_>> {
        let output = self.outputs.get(index)?.as_ref()?;
        Some(output.held.view(output.ty.dtype))
    }

    pub(super) fn run(&mut self, inputs: &[TensorView<'_>], symbols: &mut HashMap<String, usize>) -> Result<()> {
        let SizedCall { what, outputs, .. } = self;
        outputs.iter_mut().flatten().for_each(|output| output.given = false);
        let mut filling = Filling { outputs, symbols, failed: None };
        match what {
            What::Control(control) => control.run(inputs, &mut filling),
            What::List(call) => call.run(inputs, &mut filling),
            What::Region(call) => run_region(call, inputs, filling),
        }
    }
}

fn run_region(call: &mut LoadedCall, inputs: &[TensorView<'_>], mut filling: Filling<'_>) -> Result<()> {
    let start = Instant::now();
    let LoadedRegion::Host(bound) = &mut call.region else { return Ok(()) };
    let done = {
        let _running = crash::enter(call.place);
        bound.executable().run_sized(inputs, &mut filling)
    };
    let time = start.elapsed();
    call.time += time;
    // Whatever the backend made of it.
    let done = filling.failed.map_or(done, Err);
    let done = done.and_then(|()| match filling.outputs.iter().flatten().find(|output| !output.given) {
        Some(output) => Err(Error::new(format!("it did not give '{}'", output.name))),
        None => Ok(()),
    });
    let done = done.and_then(|()| match &mut call.watch {
        Some(watch) => bound.executable().steps().and_then(|steps| watch.ran(start, time, steps)),
        None => Ok(()),
    });
    done.map_err(|error| run_failed(call, error))
}
