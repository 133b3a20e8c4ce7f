//! A loaded entry with its inputs: what runs, is measured and is compared.

use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{PortInfo, Session};
use byoc_plugin_api::TensorView;

use crate::inputs::{self, Gathered, Inputs, OpenSizes};
use crate::lists::{Given, Handles};
pub use crate::profile::Profile;

/// A loaded entry with its inputs.
pub struct Loaded {
    /// The entry.
    pub session: Session,
    /// A value for each of its inputs.
    inputs: Vec<Given>,
    /// Names of the inputs whose values are made up.
    pub made_up: Vec<String>,
    /// What the session has given for those that are not tensors of numbers.
    handles: Vec<Handles>,
}

impl Loaded {
    /// Gathers the inputs of a session. `warn` is called with what a user should know of them.
    pub fn new(
        session: Session,
        given: &Inputs,
        open_sizes: &OpenSizes,
        warn: &mut dyn FnMut(Diagnostic),
    ) -> Result<Loaded> {
        let Gathered { values, made_up } = inputs::gather(&session.inputs(), given, open_sizes, warn)?;
        Loaded::with(session, values, made_up)
    }

    /// Another session of the same entry on the same inputs, which are copied.
    pub fn beside(&self, session: Session) -> Result<Loaded> {
        Loaded::with(session, self.inputs.clone(), self.made_up.clone())
    }

    fn with(mut session: Session, inputs: Vec<Given>, made_up: Vec<String>) -> Result<Loaded> {
        let handles = inputs.iter().map(|given| given.give(&mut session)).collect::<Result<_>>()?;
        Ok(Loaded { session, inputs, made_up, handles })
    }

    /// The shapes of the inputs that are tensors, by name.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let shape = |(port, given): (PortInfo, &Given)| match given {
            Given::Tensor(tensor) => {
                let sizes = tensor.shape().iter().map(|&size| usize::try_from(size).unwrap_or(0));
                Some((port.name, sizes.collect()))
            }
            Given::Nothing | Given::Optional(_) | Given::Sequence(_) => None,
        };
        self.session.inputs().into_iter().zip(&self.inputs).filter_map(shape).collect()
    }

    /// Runs another session of the model that the entry was compiled from on the same inputs.
    pub fn run_on(&self, other: &mut Session) -> Result<()> {
        let own = self.session.inputs();
        let find = |port: &PortInfo| {
            let at = own.iter().position(|other| other.name == port.name).ok_or_else(|| {
                let message = format!("the model has an input '{}', which the artifact does not have", port.name);
                Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
            })?;
            Ok(&self.inputs[at])
        };
        let inputs = other.inputs().iter().map(find).collect::<Result<Vec<_>>>()?;
        let handles = inputs.iter().map(|given| given.give(other)).collect::<Result<Vec<_>>>()?;
        other.run(&views(inputs.into_iter(), &handles)?)
    }

    /// Runs once.
    pub fn run(&mut self) -> Result<Duration> {
        let views = views(self.inputs.iter(), &self.handles)?;
        let start = Instant::now();
        self.session.run(&views)?;
        Ok(start.elapsed())
    }

    /// Runs once, with inputs and outputs that stay on devices where they can.
    pub fn run_resident(&mut self) -> Result<Duration> {
        let views = views(self.inputs.iter(), &self.handles)?;
        let start = Instant::now();
        self.session.run_resident(&views)?;
        Ok(start.elapsed())
    }

    /// Where the time of the last run went.
    pub fn profile(&self) -> Profile {
        Profile { regions: self.session.times(), copies: self.session.copies(), spans: self.session.spans() }
    }
}

/// The values as a run takes them.
fn views<'a>(inputs: impl Iterator<Item = &'a Given>, handles: &'a [Handles]) -> Result<Vec<TensorView<'a>>> {
    inputs.zip(handles).map(|(given, handles)| given.view(handles)).collect()
}
