//! The states of earlier input shapes: a run of shapes that came before finds its plan, and its recordings, as they were.
//!
//! A state is kept if it can run although regions were prepared for other shapes in between: no region is on a device, or all work on
//! devices is recorded and the backends say that recordings last. Recording takes time, so it is done for shapes that came twice.

use std::collections::HashMap;

use byoc_plugin_api::TensorView;

use super::LoadedCall;
use super::arenas::Arenas;
use super::pieces;
use super::state::State;
use crate::runtime::device::Device;

/// How many states are kept beside that of the last run: as many as programs have that give texts of about the same length to one
/// session, and few enough for a recording each.
const KEPT: usize = 7;

/// How many shapes are remembered.
const REMEMBERED: usize = 32;

/// What was left by runs of other shapes than the last one's.
#[derive(Default)]
pub(super) struct Kept {
    // Dropped before the memory that their recordings work in.
    /// The states, the latest last.
    pub(super) states: Vec<State>,
    /// Shapes that came, the latest last.
    met: Vec<Shapes>,
    /// The memory for values, while no state has it.
    pub(super) arenas: Arenas,
}

/// What a state is for.
struct Shapes {
    inputs: Vec<Vec<i64>>,
    told: HashMap<String, usize>,
}

impl Kept {
    /// Takes the memory of the state of the last run, and keeps the state if it is of use.
    pub(super) fn leave(&mut self, mut state: State, devices: &[Device], calls: &mut [LoadedCall], records: bool) {
        let again = self.remember(&state);
        if again && records && state.has_run && state.recordings_last {
            pieces::record_all(&mut state.pieces, devices, calls);
        }
        self.arenas = std::mem::take(&mut state.arenas);
        if state.leave() {
            if self.states.len() == KEPT {
                self.states.remove(0);
            }
            self.states.push(state);
        }
    }

    /// The state for these shapes, if there is one.
    pub(super) fn take(&mut self, inputs: &[TensorView<'_>], told: &HashMap<String, usize>) -> Option<State> {
        let found = self.states.iter().rposition(|state| state.fits(inputs) && state.told == *told)?;
        Some(self.states.remove(found))
    }

    /// Whether the shapes of a state came before. They are the latest from now on.
    fn remember(&mut self, state: &State) -> bool {
        let known = self.met.iter().position(|met| met.inputs == state.input_shapes && met.told == state.told);
        let latest = match known {
            Some(index) => self.met.remove(index),
            None => {
                if self.met.len() == REMEMBERED {
                    self.met.remove(0);
                }
                Shapes { inputs: state.input_shapes.clone(), told: state.told.clone() }
            }
        };
        self.met.push(latest);
        known.is_some()
    }
}
