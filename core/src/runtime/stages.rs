//! Cuts an entry where a size becomes known: behind each call that has an output of a size that its inputs do not tell, and
//! at control flow. What follows is planned when that has run.

use std::collections::{HashMap, HashSet};

use crate::artifact::manifest::{Call, Entry, Port, ValueType};
use crate::dim;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An input of the entry.
    Input(usize),
    /// A value of the entry that is a constant.
    Constant(usize),
    /// An output of a stage.
    Made { stage: usize, output: usize },
    /// An output of what runs behind a stage.
    Sized { stage: usize, output: usize },
}

/// What runs behind a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// The call of that index, which tells sizes.
    Call(usize),
    /// The control flow of that index.
    Control(usize),
}

/// Calls whose sizes are known when they begin, and what is behind them, which tells further sizes.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The calls as an entry of their own. The first takes what the whole entry does, the others what they read.
    pub(super) entry: Entry,
    /// The place of each of its inputs.
    pub(super) feeds: Vec<Place>,
    /// The calls, of all calls.
    pub(super) calls: std::ops::Range<usize>,
    /// What is behind them with the places of its inputs; the last stage has none.
    pub(super) behind: Option<(Behind, Vec<Place>)>,
}

/// An entry in stages.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) stages: Vec<Stage>,
    /// The place of each output of the entry.
    pub(super) outputs: Vec<Place>,
}

/// The ends of the stages but the last: how many calls are before each, and what is behind it.
fn ends(entry: &Entry) -> Vec<(usize, Behind)> {
    let mut known: HashSet<String> = HashSet::new();
    for port in &entry.inputs {
        known.extend(dim::symbols(&entry.values[port.value].shape));
    }
    let mut control = entry.control.iter().enumerate().peekable();
    let mut ends = Vec::new();
    for index in 0..=entry.calls.len() {
        while let Some((number, control)) = control.next_if(|(_, control)| control.before <= index) {
            ends.push((index, Behind::Control(number)));
            let outputs = control.outputs.iter().flatten();
            known.extend(outputs.flat_map(|&value| dim::symbols(&entry.values[value].shape)));
        }
        let Some(call) = entry.calls.get(index) else { break };
        let told: Vec<_> = call.outputs.iter().flat_map(|&value| dim::symbols(&entry.values[value].shape)).collect();
        if told.iter().any(|symbol| !known.contains(symbol)) {
            ends.push((index, Behind::Call(index)));
            known.extend(told);
        }
    }
    ends
}

/// What is behind a stage takes and gives these values.
fn values_of(entry: &Entry, behind: Behind) -> (&[usize], Vec<Option<usize>>) {
    match behind {
        Behind::Call(index) => {
            let call = &entry.calls[index];
            (&call.inputs, call.outputs.iter().copied().map(Some).collect())
        }
        Behind::Control(index) => (&entry.control[index].inputs, entry.control[index].outputs.clone()),
    }
}

/// The stages of an entry whose values have these names; `None` where all sizes follow from those of the inputs.
pub(super) fn split(entry: &Entry, names: &[String]) -> Option<Staged> {
    let ends = ends(entry);
    if ends.is_empty() {
        return None;
    }
    let mut splitter = Splitter::new(entry, names, &ends);
    let mut stages = Vec::with_capacity(ends.len() + 1);
    let mut start = 0;
    let last = (entry.calls.len(), None);
    let all = ends.iter().map(|&(end, behind)| (end, Some(behind))).chain([last]);
    for (stage, (end, behind)) in all.enumerate() {
        let (stage_entry, feeds) = splitter.stage(stage, &entry.calls[start..end]);
        let behind = behind.map(|behind| {
            let (inputs, outputs) = values_of(entry, behind);
            let inputs = inputs.iter().map(|&value| splitter.place(value)).collect();
            for (output, value) in outputs.into_iter().enumerate() {
                splitter.places.extend(value.map(|value| (value, Place::Sized { stage, output })));
            }
            (behind, inputs)
        });
        let next = end + usize::from(matches!(behind, Some((Behind::Call(_), _))));
        stages.push(Stage { entry: stage_entry, feeds, calls: start..end, behind });
        start = next;
    }
    let outputs = entry.outputs.iter().map(|port| splitter.place(port.value)).collect();
    Some(Staged { stages, outputs })
}

struct Splitter<'a> {
    entry: &'a Entry,
    names: &'a [String],
    /// Values that are read outside the stage that makes them.
    shared: HashSet<usize>,
    /// Where each value is that was made so far.
    places: HashMap<usize, Place>,
}

impl<'a> Splitter<'a> {
    fn new(entry: &'a Entry, names: &'a [String], ends: &[(usize, Behind)]) -> Splitter<'a> {
        // Calls of a stage have its number, those behind stages none.
        let mut made_in: HashMap<usize, usize> = HashMap::new();
        let mut shared: HashSet<usize> = entry.outputs.iter().map(|port| port.value).collect();
        for (index, call) in entry.calls.iter().enumerate() {
            // One that ends a stage is read from the place that it has there.
            let behind = ends.contains(&(index, Behind::Call(index)));
            let stage = (!behind).then(|| ends.partition_point(|(end, _)| *end <= index));
            let outside = |value: &&usize| made_in.get(value).is_some_and(|made| Some(*made) != stage);
            shared.extend(call.inputs.iter().filter(outside));
            if let Some(stage) = stage {
                made_in.extend(call.outputs.iter().map(|&value| (value, stage)));
            }
        }
        let read = entry.control.iter().flat_map(|control| &control.inputs);
        shared.extend(read.filter(|value| made_in.contains_key(value)));
        let inputs = entry.inputs.iter().enumerate().map(|(index, port)| (port.value, Place::Input(index)));
        let constants = entry.constants.iter().map(|constant| (constant.value, Place::Constant(constant.value)));
        Splitter { entry, names, shared, places: inputs.chain(constants).collect() }
    }

    /// The place of a value; the reader of artifacts has checked that each is made before it is read.
    fn place(&self, value: usize) -> Place {
        self.places.get(&value).copied().unwrap_or(Place::Constant(value))
    }

    fn stage(&mut self, stage: usize, calls: &[Call]) -> (Entry, Vec<Place>) {
        let whole = self.entry;
        let mut entry = Entry { name: whole.name.clone(), body: whole.body, ..Entry::default() };
        let mut numbers = Numbers { whole, new: HashMap::new(), values: Vec::new() };
        let mut feeds = Vec::new();
        for (index, port) in whole.inputs.iter().enumerate() {
            if stage == 0 {
                feeds.push(Place::Input(index));
                entry.inputs.push(Port { name: port.name.clone(), value: numbers.of(port.value) });
            }
        }
        for call in calls {
            for &value in &call.inputs {
                if numbers.new.contains_key(&value) {
                    continue;
                }
                match self.place(value) {
                    Place::Constant(value) => {
                        let constant = whole.constants.iter().find(|constant| constant.value == value).cloned();
                        let number = numbers.of(value);
                        entry.constants.extend(constant.map(|mut constant| {
                            constant.value = number;
                            constant
                        }));
                    }
                    place => {
                        feeds.push(place);
                        entry.inputs.push(Port { name: self.names[value].clone(), value: numbers.of(value) });
                    }
                }
            }
            let mut renumbered = |values: &[usize]| values.iter().map(|&value| numbers.of(value)).collect();
            let (inputs, outputs) = (renumbered(&call.inputs), renumbered(&call.outputs));
            entry.calls.push(Call { region: call.region, inputs, outputs });
        }
        let made = calls.iter().flat_map(|call| call.outputs.iter().copied());
        // An input that is an output, too: the first stage copies it.
        let given = whole.inputs.iter().map(|port| port.value).filter(|_| stage == 0);
        for value in given.chain(made).filter(|value| self.shared.contains(value)) {
            let output = entry.outputs.len();
            entry.outputs.push(Port { name: self.names[value].clone(), value: numbers.of(value) });
            if !matches!(self.places.get(&value), Some(Place::Input(_))) || self.is_output(value) {
                self.places.insert(value, Place::Made { stage, output });
            }
        }
        entry.values = numbers.values;
        (entry, feeds)
    }

    fn is_output(&self, value: usize) -> bool {
        self.entry.outputs.iter().any(|port| port.value == value)
    }
}

/// New numbers for the values that a stage has.
struct Numbers<'a> {
    whole: &'a Entry,
    new: HashMap<usize, usize>,
    values: Vec<ValueType>,
}

impl Numbers<'_> {
    fn of(&mut self, value: usize) -> usize {
        *self.new.entry(value).or_insert_with(|| {
            self.values.push(self.whole.values[value].clone());
            self.values.len() - 1
        })
    }
}
