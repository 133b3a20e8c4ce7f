//! Turns program and constants into an executable. Shape-dependent work is done once for each set of shapes: at load where
//! they are all known, else at the first run with new ones.

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
use shapes::Shapes;
use steps::Clock;

/// A loaded region.
struct Loaded<'a> {
    program: Program,
    constants: Vec<Bound<'a>>,
    threads: Arc<Threads>,
    shapes: Shapes,
    prepared: Option<Prepared>,
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
        let constants = bind::bind(&program, constants)?;
        let mut loaded = Loaded {
            shapes: Shapes::new(&program),
            program,
            constants,
            threads: shared_threads::get(environment.threads.max(1)),
            prepared: None,
            arena: Buffer::default(),
            scratch: Buffer::default(),
            texts: None,
            clock: None,
        };
        if loaded.shapes.fixed()? {
            loaded.prepare()?;
        }
        Ok(Box::new(loaded))
    }
}

impl Loaded<'_> {
    /// Plans memory and sets up kernels for the current shapes.
    fn prepare(&mut self) -> Result<(), Error> {
        let prepared = Prepared::new(&self.program, &self.constants, self.shapes.all(), &self.threads)?;
        self.arena.grow(prepared.arena_bytes)?;
        self.scratch.grow(prepared.scratch_bytes)?;
        self.prepared = Some(prepared);
        Ok(())
    }
}

impl Executable for Loaded<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        if self.shapes.bind(&self.program, inputs)? || self.prepared.is_none() {
            self.prepare()?;
        }
        let Some(prepared) = &self.prepared else { return Err(Error::new("the shapes are not known")) };
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
        let work = self.prepared.as_ref().map(|prepared| prepared.work(&self.program, self.shapes.all()));
        Ok(clock.steps(&self.program, work.unwrap_or_default()))
    }

    fn lend(&mut self, texts: Arc<dyn Texts>) -> Result<(), Error> {
        self.texts = Some(texts);
        Ok(())
    }
}
