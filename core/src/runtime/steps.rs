//! The order of the work of an entry: its calls, and the copies where a value crosses from one memory to another.
//!
//! Memories are numbered: 0 is the host's, the others are those of the devices. Devices work through queues of their own, so
//! a call on the host waits for what it reads from one; nothing else waits.

use crate::artifact::manifest::Entry;

/// The host's memory.
pub(super) const HOST: usize = 0;

/// A value that goes from one memory to another. One of the two is the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    /// Index into the entry's values.
    pub(super) value: usize,
    /// The memory that has it.
    pub(super) from: usize,
    /// The memory that gets it.
    pub(super) to: usize,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Run the call of that index.
    Call(usize),
    /// Queue a copy.
    Copy(Crossing),
    /// Wait for the queue of that memory's device.
    Wait(usize),
}

/// The steps of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Inputs of the entry that devices read.
    pub(super) inputs: Vec<Crossing>,
    /// The calls, with what crosses between them.
    pub(super) body: Vec<Step>,
    /// Outputs of the entry that devices computed.
    pub(super) outputs: Vec<Crossing>,
}

impl Steps {
    /// The steps of an entry whose calls run in these memories.
    pub(super) fn new(entry: &Entry, memories: &[usize]) -> Steps {
        let mut planner = Planner::new(entry, memories);
        for (call, (step, &memory)) in entry.calls.iter().zip(memories).enumerate() {
            step.inputs.iter().for_each(|&value| planner.bring(value, memory));
            step.inputs.iter().for_each(|&value| planner.finish(value, memory));
            planner.steps.body.push(Step::Call(call));
            for &value in &step.outputs {
                planner.places[value] = vec![memory];
            }
        }
        for port in &entry.outputs {
            let places = &planner.places[port.value];
            if let Some(&from) = places.first().filter(|_| !places.contains(&HOST)) {
                planner.steps.outputs.push(Crossing { value: port.value, from, to: HOST });
                planner.places[port.value].push(HOST);
            }
        }
        planner.steps
    }

    /// All that crosses, in order.
    pub(super) fn crossings(&self) -> impl Iterator<Item = &Crossing> {
        let within = self.body.iter().filter_map(|step| match step {
            Step::Copy(crossing) => Some(crossing),
            Step::Call(_) | Step::Wait(_) => None,
        });
        self.inputs.iter().chain(within).chain(&self.outputs)
    }
}

struct Planner {
    steps: Steps,
    /// The memories that have each value.
    places: Vec<Vec<usize>>,
    /// Whether the caller gives the value.
    given: Vec<bool>,
    /// The memory from which a copy of each value to the host was queued, and how many steps there were then.
    pending: Vec<Option<(usize, usize)>>,
    /// How many steps there were when the host last waited for each memory's device.
    waited: Vec<usize>,
}

impl Planner {
    fn new(entry: &Entry, memories: &[usize]) -> Planner {
        let mut places = vec![Vec::new(); entry.values.len()];
        let inputs = entry.inputs.iter().map(|port| port.value);
        let constants = entry.constants.iter().map(|constant| constant.value);
        inputs.clone().chain(constants).for_each(|value| places[value].push(HOST));
        let mut given = vec![false; entry.values.len()];
        inputs.for_each(|value| given[value] = true);
        let pending = vec![None; entry.values.len()];
        let waited = vec![0; memories.iter().max().map_or(1, |last| last + 1)];
        Planner { steps: Steps::default(), places, given, pending, waited }
    }

    /// Has the value copied to a memory that lacks it.
    fn bring(&mut self, value: usize, to: usize) {
        let places = &self.places[value];
        let Some(&first) = places.first().filter(|_| !places.contains(&to)) else { return };
        let from = if places.contains(&HOST) { HOST } else { first };
        if from != HOST && to != HOST {
            self.bring(value, HOST);
            return self.bring(value, to);
        }
        self.finish(value, from);
        let crossing = Crossing { value, from, to };
        if self.given[value] && from == HOST {
            self.steps.inputs.push(crossing);
        } else {
            self.steps.body.push(Step::Copy(crossing));
        }
        self.places[value].push(to);
        if to == HOST {
            self.pending[value] = Some((from, self.steps.body.len()));
        }
    }

    /// Waits for the copy of a value to the host that is to be read there.
    fn finish(&mut self, value: usize, memory: usize) {
        if memory != HOST {
            return;
        }
        // All work that was queued before a wait is done then.
        if let Some((device, _)) = self.pending[value].filter(|&(device, end)| end > self.waited[device]) {
            self.steps.body.push(Step::Wait(device));
            self.waited[device] = self.steps.body.len();
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use byoc_plugin_api::{DType, Dim};

    use crate::artifact::manifest::{Call, Entry, Port, ValueType};

    /// An entry of as many values, with calls of (inputs, outputs).
    pub(in crate::runtime) fn entry(
        values: usize,
        inputs: &[usize],
        outputs: &[usize],
        calls: &[(&[usize], &[usize])],
    ) -> Entry {
        let port = |&value: &usize| Port { name: format!("v{value}"), value };
        let call = |(region, (inputs, outputs)): (usize, &(&[usize], &[usize]))| Call {
            region,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        };
        Entry {
            name: "main".into(),
            inputs: inputs.iter().map(port).collect(),
            outputs: outputs.iter().map(port).collect(),
            values: vec![ValueType { dtype: DType::F32, shape: vec![Dim::Fixed(4)], list: None }; values],
            constants: Vec::new(),
            calls: calls.iter().enumerate().map(call).collect(),
            ..Entry::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::entry;
    use super::*;

    fn crossing(value: usize, from: usize, to: usize) -> Crossing {
        Crossing { value, from, to }
    }

    #[test]
    fn neighbours_in_one_memory_pass_values_without_a_copy() {
        let chain = entry(4, &[0], &[3], &[(&[0], &[1]), (&[1], &[2]), (&[2], &[3])]);
        let on_host = Steps::new(&chain, &[HOST; 3]);
        assert_eq!(on_host.body, [Step::Call(0), Step::Call(1), Step::Call(2)]);
        assert_eq!(on_host.crossings().count(), 0);
        let on_device = Steps::new(&chain, &[1; 3]);
        assert_eq!(on_device.inputs, [crossing(0, HOST, 1)]);
        assert_eq!(on_device.body, [Step::Call(0), Step::Call(1), Step::Call(2)]);
        assert_eq!(on_device.outputs, [crossing(3, 1, HOST)]);
    }

    #[test]
    fn a_value_crosses_once_to_each_memory_that_reads_it() {
        // The host reads what the device computed, twice, and the device reads what the host made of it, twice.
        let calls: &[(&[usize], &[usize])] =
            &[(&[0], &[1]), (&[1], &[2]), (&[1, 2], &[3]), (&[2, 3], &[4]), (&[3], &[5])];
        let steps = Steps::new(&entry(6, &[0], &[4, 5], calls), &[1, HOST, HOST, 1, 1]);
        assert_eq!(steps.inputs, [crossing(0, HOST, 1)]);
        let expected = [
            Step::Call(0),
            Step::Copy(crossing(1, 1, HOST)),
            Step::Wait(1),
            Step::Call(1),
            Step::Call(2),
            Step::Copy(crossing(2, HOST, 1)),
            Step::Copy(crossing(3, HOST, 1)),
            Step::Call(3),
            Step::Call(4),
        ];
        assert_eq!(steps.body, expected);
        assert_eq!(steps.outputs, [crossing(4, 1, HOST), crossing(5, 1, HOST)]);
    }

    #[test]
    fn from_device_to_device_is_through_the_host() {
        let steps = Steps::new(&entry(3, &[0], &[2], &[(&[0], &[1]), (&[1], &[2])]), &[1, 2]);
        let expected = [
            Step::Call(0),
            Step::Copy(crossing(1, 1, HOST)),
            Step::Wait(1),
            Step::Copy(crossing(1, HOST, 2)),
            Step::Call(1),
        ];
        assert_eq!(steps.body, expected);
        assert_eq!(steps.crossings().count(), 4);
    }

    #[test]
    fn one_wait_serves_all_that_was_queued_before() {
        let calls: &[(&[usize], &[usize])] = &[(&[0], &[1, 2]), (&[1, 2], &[3]), (&[1], &[4])];
        let steps = Steps::new(&entry(5, &[0], &[3, 4, 0, 2], calls), &[1, HOST, HOST]);
        let waits = steps.body.iter().filter(|step| matches!(step, Step::Wait(_))).count();
        assert_eq!(waits, 1, "{steps:?}");
        assert_eq!(steps.outputs, [], "the host has all of them");
    }
}
