//! Takes the times of the steps of a run: marks in the domain's stream, one before each step and one after the last.

use byoc_plugin_api::{Error, StepTime};

use crate::attached_domain::AttachedDomain;
use crate::locate::Driver;
use crate::marks::Marks;

/// The clock of a region. Drop it while its context is current.
pub struct StepClock {
    marks: Marks,
    /// Where times are taken: how many steps of the last run have begun.
    begun: Option<u32>,
}

// SAFETY: as with the domain: calls come from any thread, one at a time, with the context current, and CUDA takes events of it
// from any.
unsafe impl Send for StepClock {}

impl StepClock {
    /// A clock that takes no times.
    ///
    /// # Errors
    ///
    /// When the driver cannot tell times.
    pub fn new(driver: &Driver) -> Result<StepClock, Error> {
        Ok(StepClock { marks: Marks::new(driver)?, begun: None })
    }

    /// Takes times from the next run on, or no longer does.
    pub fn turn(&mut self, on: bool) {
        self.begun = on.then_some(0);
    }

    /// A run begins.
    pub fn begin(&mut self) {
        self.begun = self.begun.map(|_| 0);
    }

    /// Queues a step.
    ///
    /// # Errors
    ///
    /// Those of the step, and when the driver takes no mark.
    pub fn step(&mut self, attached: &AttachedDomain, queue: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let Some(index) = self.begun else { return queue() };
        if index == 0 {
            self.mark(0, attached)?;
        }
        queue()?;
        self.mark(index + 1, attached)?;
        self.begun = Some(index + 1);
        Ok(())
    }

    /// Marks the end of what was queued so far.
    fn mark(&mut self, number: u32, attached: &AttachedDomain) -> Result<(), Error> {
        // SAFETY: the stream is the domain's, whose context is current, as it was in earlier calls.
        let set = unsafe { self.marks.set(number, attached.stream()) };
        set.map_err(|cause| attached.device().failed("take the time of a step", cause))
    }

    /// The times of the last run, whose steps these are; of those that were queued. It must be over, and the context current.
    ///
    /// # Errors
    ///
    /// When the driver does not tell a time.
    pub fn times(
        &self,
        attached: &AttachedDomain,
        steps: impl IntoIterator<Item = StepTime>,
    ) -> Result<Vec<StepTime>, Error> {
        let begun = self.begun.unwrap_or(0);
        let between = |from: u32, to: u32| {
            let (Some(from), Some(to)) = (self.marks.get(from), self.marks.get(to)) else {
                return Err(Error::new(format!("there is no mark of step {to}")));
            };
            // SAFETY: both are marks, and the caller vouches for the context.
            let seconds = unsafe { self.marks.seconds(from, to) };
            seconds.map_err(|cause| attached.device().failed("tell the time of a step", cause))
        };
        let timed = |(index, step): (u32, StepTime)| {
            Ok(StepTime { start: between(0, index)?, seconds: between(index, index + 1)?, ..step })
        };
        (0..begun).zip(steps).map(timed).collect()
    }
}

impl Drop for StepClock {
    fn drop(&mut self) {
        self.marks.destroy();
    }
}
