//! Turns program and constants into an executable. Shape-dependent work is done once for each set of shapes: at load where
//! they are all known, else at the first run with new ones. What was prepared for the last few sets is kept, all of them on the same memory.

use std::sync::Arc;

use byoc_plugin_api::{
    BoundConstants, Environment, Error, Executable, HostRuntime, SizedOutputs, StepTime, TensorView, TensorViewMut,
    Texts,
};

use crate::Json;
use crate::kernels::Threads;
use crate::program::Program;

mod bind;
mod buffer;
mod calls;
mod memory;
mod plan;
mod prepare;
mod shapes;
mod shared_threads;
mod sized;
mod steps;
mod work;

use bind::Bound;
use buffer::Buffer;
use memory::{Frame, Inputs, Outputs};
use prepare::{Prepared, PreparedStep};
use shapes::{Dims, Shapes};
use steps::Clock;

/// How many sets of shapes stay prepared: as many as a session of the host's keeps.
const KEPT: usize = 8;

/// What was prepared for a set of shapes.
struct Ready {
    shapes: Shapes,
    prepared: Prepared,
}

/// A loaded region.
struct Loaded<'a> {
    program: Program,
    constants: Vec<Bound<'a>>,
    threads: Arc<Threads>,
    dims: Dims,
    /// The set of the last run comes last.
    ready: Vec<Ready>,
    arena: Buffer,
    scratch: Buffer,
    texts: Option<Arc<dyn Texts>>,
    /// Where the time of steps is taken.
    clock: Option<Clock>,
}

impl HostRuntime for Json {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let program = Program::parse(code)?;
        let threads = shared_threads::get(environment.threads.max(1));
        let constants = bind::bind(&threads, &program, constants)?;
        let mut loaded = Loaded {
            dims: Dims::new(&program),
            program,
            constants,
            threads,
            ready: Vec::new(),
            arena: Buffer::default(),
            scratch: Buffer::default(),
            texts: None,
            clock: None,
        };
        if let Some(shapes) = loaded.dims.fixed(&loaded.program)? {
            loaded.prepare(shapes)?;
        }
        Ok(Box::new(loaded))
    }
}

impl Loaded<'_> {
    /// Brings what is prepared for inputs of these shapes to the end of the list.
    fn get_ready(&mut self, inputs: &[TensorView<'_>]) -> Result<(), Error> {
        match self.ready.iter().rposition(|ready| ready.shapes.are_of(inputs)) {
            Some(index) => {
                self.ready[index..].rotate_left(1);
                Ok(())
            }
            None => self.prepare(self.dims.shapes(&self.program, inputs)?),
        }
    }

    /// Plans memory and sets up kernels.
    fn prepare(&mut self, shapes: Shapes) -> Result<(), Error> {
        let prepared = Prepared::new(&self.program, &self.constants, shapes.all(), &self.threads)?;
        let grown = self.arena.grow(prepared.arena_bytes).and_then(|()| self.scratch.grow(prepared.scratch_bytes));
        if grown.is_err() {
            // The memory of the others went, to make room.
            self.ready.clear();
        }
        grown?;
        if self.ready.len() == KEPT {
            self.ready.remove(0);
        }
        self.ready.push(Ready { shapes, prepared });
        Ok(())
    }
}

impl Executable for Loaded<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.get_ready(inputs)?;
        let Some(Ready { prepared, .. }) = self.ready.last() else {
            return Err(Error::new("the shapes are not known"));
        };
        let frame = Frame::new(self.arena.as_mut_bytes(), inputs, outputs, &self.constants);
        prepared.check_edges(&frame)?;
        let mut run = |step: &PreparedStep| {
            let inputs = Inputs::new(&frame, &step.inputs);
            let mut outputs = Outputs::new(&frame, &step.outputs);
            let mut io = memory::Io {
                inputs,
                outputs: &mut outputs,
                scratch: self.scratch.as_mut_f32(),
                threads: &self.threads,
                texts: self.texts.as_deref(),
            };
            step.call.run(&mut io).map_err(|error| error.at(step.name.clone()))
        };
        // One question a run and not one a step.
        match &mut self.clock {
            None => {
                prepared.steps.iter().try_for_each(run)?;
                prepared.copy_outputs(&frame)
            }
            Some(clock) => {
                clock.begin();
                prepared.steps.iter().try_for_each(|step| clock.time(|| run(step)))?;
                clock.time(|| prepared.copy_outputs(&frame))
            }
        }
    }

    fn run_sized(&mut self, inputs: &[TensorView<'_>], outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        // It is taken out so that what computes may borrow the rest.
        let Some(mut clock) = self.clock.take() else { return self.compute_sized(inputs, outputs) };
        clock.begin();
        let done = clock.time(|| self.compute_sized(inputs, outputs));
        self.clock = Some(clock);
        done
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.clock = on.then(Clock::default);
        Ok(())
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let Some(clock) = &self.clock else { return Ok(Vec::new()) };
        // Only what was prepared for the shapes of the run has work that is known.
        let work = self.ready.last().map(|ready| ready.prepared.work(&self.program, ready.shapes.all()));
        Ok(clock.steps(&self.program, work.unwrap_or_default()))
    }

    fn lend(&mut self, texts: Arc<dyn Texts>) -> Result<(), Error> {
        self.texts = Some(texts);
        Ok(())
    }
}
