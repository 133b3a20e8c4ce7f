//! The host's end of a region that runs in a worker. Its tensors lie in memory that both sides map; code and constants are those
//! of the artifact, which the worker maps as well. A worker that has ended is started again for the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byoc_plugin_api::host::{Answer, Part};
use byoc_plugin_api::{
    BoundConstant, BoundConstants, Constants, Error, Executable, SizedOutputs, StepTime, TensorView, TensorViewMut,
    Texts,
};

use super::client::{Worker, passed_on};
use super::protocol::{Placed, Request, SharedRegion, SharedRun};
use super::shared::{share_bytes, share_constants};
use crate::map::SharedMemory;

/// Of every tensor: what backends may rely on.
const ALIGNMENT: usize = 64;

/// How often a region is loaded for one request: other regions of its plugin may end the worker in between.
const MOST_LOADS: usize = 3;

/// A region that runs in a worker.
pub(super) struct Apart<'a> {
    worker: Arc<Worker>,
    backend: usize,
    code: &'a [u8],
    constants: Vec<BoundConstant<'a>>,
    environment: Vec<u8>,
    /// What it is called there.
    region: u64,
    /// Which process has it.
    process: u64,
    /// Made in the first run, and anew where it is too small.
    memory: Option<SharedMemory>,
    /// How often it was made.
    generation: u64,
    /// Whether times of its steps are taken.
    timed: bool,
}

impl<'a> Apart<'a> {
    pub(super) fn load(
        worker: Arc<Worker>,
        backend: usize,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &[u8],
    ) -> Result<Apart<'a>, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut apart = Apart {
            worker,
            backend,
            code,
            constants: constants.iter().copied().collect(),
            environment: environment.to_vec(),
            region: NEXT.fetch_add(1, Ordering::Relaxed),
            process: 0,
            memory: None,
            generation: 0,
            timed: false,
        };
        apart.load_there()?;
        Ok(apart)
    }

    fn load_there(&mut self) -> Result<(), Error> {
        let views = self.constants.iter().map(|constant| (constant.id, constant.view)).collect();
        // What lies in no file goes into one, which is open until the worker has mapped it.
        let mut constants = share_constants(&Constants::new(views))?;
        let (code, _file) = share_bytes(self.code)?;
        let layouts = self.constants.iter().filter_map(|constant| Some((constant.id, constant.layout?.to_owned())));
        let request = Request::Load(SharedRegion {
            region: self.region,
            backend: self.backend,
            code,
            constants: std::mem::take(&mut constants.shared),
            layouts: layouts.collect(),
        });
        let (ending, process) = self.worker.load_region(&request, &self.environment)?;
        ending.result()?;
        self.process = process;
        match self.timed {
            true => self.ask_here(&Request::TimeSteps { region: self.region, on: true }, &mut |_| Ok(())).map(drop),
            false => Ok(()),
        }
    }

    /// Asks the process that has the region; false where it has ended.
    fn ask_here(&self, request: &Request, answer: &mut Answer<'_>) -> Result<bool, Error> {
        match self.worker.ask_of(self.process, request, answer)? {
            Some(ending) => ending.result().map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks about the region, which is loaded again where the process that had it has ended.
    fn ask(&mut self, request: &Request, answer: &mut Answer<'_>) -> Result<(), Error> {
        for _ in 0..MOST_LOADS {
            if self.ask_here(request, answer)? {
                return Ok(());
            }
            self.load_there()?;
        }
        Err(Error {
            crashed: true,
            ..Error::new(format!("was ended {MOST_LOADS} times by other regions of its plugin"))
        })
    }

    /// Memory of so many bytes.
    fn memory(&mut self, length: usize) -> Result<&SharedMemory, Error> {
        let memory = match self.memory.take() {
            Some(memory) if memory.len() >= length => memory,
            _ => {
                self.generation += 1;
                SharedMemory::new(length).map_err(|error| Error { hint: error.hint, ..Error::new(error.message) })?
            }
        };
        Ok(self.memory.insert(memory))
    }
}

/// Gives each tensor its place behind the others.
#[derive(Default)]
struct Places {
    end: usize,
}

impl Places {
    fn place(&mut self, view: &TensorView<'_>) -> Placed {
        let offset = self.end.next_multiple_of(ALIGNMENT);
        self.end = offset.saturating_add(view.byte_len());
        Placed { dtype: view.dtype(), shape: view.shape().to_vec(), offset }
    }
}

/// The error for a tensor that is not as core makes tensors, which is a mistake of core's.
fn scattered() -> Error {
    Error::new("a tensor does not lie row-major, or does not fit into its memory")
}

impl Executable for Apart<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let mut places = Places::default();
        let placed_in: Vec<_> = inputs.iter().map(|view| places.place(view)).collect();
        let placed_out: Vec<_> = outputs.iter().map(|view| places.place(&view.as_view())).collect();
        let memory = self.memory(places.end)?;
        for (view, placed) in inputs.iter().zip(&placed_in).filter(|(view, _)| !view.is_empty()) {
            let written = view.as_bytes().and_then(|bytes| memory.write(placed.offset, bytes));
            written.ok_or_else(scattered)?;
        }
        let memory = memory.path();
        let offsets: Vec<_> = placed_out.iter().map(|placed| placed.offset).collect();
        let generation = self.generation;
        let run = SharedRun { region: self.region, memory, generation, inputs: placed_in, outputs: placed_out };
        self.ask(&Request::Run(run), &mut passed_on)?;
        let memory = self.memory.as_ref().ok_or_else(scattered)?;
        let mut filled = outputs.iter_mut().zip(offsets).filter(|(view, _)| !view.as_view().is_empty());
        filled.try_for_each(|(view, offset)| {
            view.as_mut_bytes().and_then(|bytes| memory.read(offset, bytes)).ok_or_else(scattered)
        })
    }

    fn run_sized(&mut self, _: &[TensorView<'_>], _: &mut dyn SizedOutputs) -> Result<(), Error> {
        let error = Error::new("regions that tell the sizes of outputs run in this process only");
        Err(error.hint("Leave out --isolate"))
    }

    fn lend(&mut self, _: Arc<dyn Texts>) -> Result<(), Error> {
        Err(Error::new("regions with texts run in this process only").hint("Leave out --isolate"))
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.timed = on;
        self.ask(&Request::TimeSteps { region: self.region, on }, &mut |_| Ok(()))
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let mut steps = Vec::new();
        let mut take = |part: Part<'_>| {
            if let Part::Item(json) = part {
                steps = serde_json::from_slice(json)?;
            }
            Ok(())
        };
        // Where the process has ended since, nobody knows.
        self.ask_here(&Request::Steps { region: self.region }, &mut take)?;
        Ok(steps)
    }
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        let _ = self.ask_here(&Request::Free { region: self.region }, &mut |_| Ok(()));
    }
}
