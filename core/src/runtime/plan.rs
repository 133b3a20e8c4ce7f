//! Memory planning: offsets of an entry's values in each memory, for one set of input shapes.

use std::collections::{HashMap, HashSet};

use byoc_dim::{Lifetime, plan_arena};
use byoc_plugin_api::{DEVICE_ALIGNMENT, DType, Dim, contiguous_strides};

use crate::artifact::manifest::Entry;
use crate::buffer::ALIGNMENT;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::runtime::steps::{HOST, Step, Steps};

/// Shapes and places of the values of an entry.
pub(super) struct Plan {
    /// Shape of each value.
    pub(super) shapes: Vec<Vec<i64>>,
    /// Row-major strides of each value.
    pub(super) strides: Vec<Vec<i64>>,
    /// The arena of each memory, the host's first.
    pub(super) arenas: Vec<Arena>,
}

/// Offsets of values and scratch in one memory.
pub(super) struct Arena {
    /// Offset of each value; `None` for those that are not there, and on the host for inputs and constants.
    pub(super) values: Vec<Option<usize>>,
    /// Offset of the scratch of each call that has some.
    pub(super) scratch: Vec<Option<usize>>,
    /// Bytes.
    pub(super) size: usize,
}

/// The input of planning.
pub(super) struct Layout<'a> {
    /// The entry.
    pub(super) entry: &'a Entry,
    /// Its steps.
    pub(super) steps: &'a Steps,
    /// The memory of each call.
    pub(super) memories: &'a [usize],
    /// How many devices there are beside the host.
    pub(super) devices: usize,
}

impl Layout<'_> {
    /// The shape of each value for inputs of the given shapes, one for each input port, where sizes that were told before are
    /// known. Shapes that the entry does not take are errors that name the port.
    pub(super) fn shapes(&self, input_shapes: &[&[i64]], told: &HashMap<String, usize>) -> Result<Vec<Vec<i64>>> {
        let entry = self.entry;
        let symbols = bind_symbols(entry, input_shapes, told)?;
        let shapes = entry.values.iter().map(|value| evaluate(&value.shape, &symbols)).collect::<Result<Vec<_>>>()?;
        for (port, given) in entry.inputs.iter().zip(input_shapes) {
            if shapes[port.value] != *given {
                return Err(wrong_shape(entry, &port.name, port.value, given));
            }
        }
        self.sizes(&shapes)?;
        Ok(shapes)
    }

    /// Bytes of each value. Shapes whose values do not fit in memory, or whose strides cannot be counted, are errors.
    fn sizes(&self, shapes: &[Vec<i64>]) -> Result<Vec<usize>> {
        let sizes = self.entry.values.iter().zip(shapes).map(|(value, shape)| bytes(shape, value.dtype));
        sizes.collect()
    }

    /// The plan for values of these shapes and so many bytes of scratch for each call.
    pub(super) fn plan(&self, shapes: Vec<Vec<i64>>, scratch: &[usize]) -> Result<Plan> {
        let sizes = self.sizes(&shapes)?;
        // No arena is larger than all that may be in it.
        let aligned = sizes.iter().chain(scratch).map(|size| size.checked_next_multiple_of(DEVICE_ALIGNMENT));
        let all = aligned.into_iter().try_fold(0usize, |sum, size| sum.checked_add(size?));
        if all.is_none_or(|all| isize::try_from(all).is_err()) {
            return Err(Diagnostic::new(Code::BadInput, "the values of a run of these shapes do not fit in memory"));
        }
        let arenas = (0..=self.devices).map(|memory| self.arena(memory, &sizes, scratch)).collect();
        let strides = shapes.iter().map(|shape| contiguous_strides(shape)).collect();
        Ok(Plan { shapes, strides, arenas })
    }

    fn arena(&self, memory: usize, sizes: &[usize], scratch: &[usize]) -> Arena {
        let values = lifetimes(self, memory, sizes);
        let scratch: Vec<_> = self
            .calls()
            .map(|(time, call)| {
                let here = self.memories[call] == memory && scratch[call] > 0;
                here.then(|| Lifetime { size: scratch[call], first: time, last: time })
            })
            .collect();
        let placed: Vec<_> = values.iter().chain(&scratch).flatten().copied().collect();
        let arena = plan_arena(&placed, if memory == HOST { ALIGNMENT } else { DEVICE_ALIGNMENT });
        let mut places = arena.offsets.into_iter();
        let mut place = |lifetime: &Option<Lifetime>| lifetime.and_then(|_| places.next());
        Arena {
            values: values.iter().map(&mut place).collect(),
            scratch: scratch.iter().map(&mut place).collect(),
            size: arena.size,
        }
    }

    /// The time and the index of each call.
    fn calls(&self) -> impl Iterator<Item = (usize, usize)> {
        self.steps.body.iter().enumerate().filter_map(|(index, step)| match step {
            Step::Call(call) => Some((index + 1, *call)),
            Step::Copy(_) | Step::Wait(_) => None,
        })
    }

    /// The end of the timeline: inputs at time 0, then the steps, then the outputs.
    fn end(&self) -> usize {
        self.steps.body.len() + 2
    }
}

/// The size of each symbol, read off the shapes of the inputs, beside those that are known.
pub(super) fn bind_symbols(
    entry: &Entry,
    input_shapes: &[&[i64]],
    told: &HashMap<String, usize>,
) -> Result<HashMap<String, usize>> {
    let mut symbols = told.clone();
    let mut open = Vec::new();
    for (port, given) in entry.inputs.iter().zip(input_shapes) {
        let declared = &entry.values[port.value].shape;
        if declared.len() != given.len() {
            return Err(wrong_shape(entry, &port.name, port.value, given));
        }
        for (dim, &size) in declared.iter().zip(*given) {
            let size = usize::try_from(size).map_err(|_| wrong_shape(entry, &port.name, port.value, given))?;
            if let Dim::Symbolic(text) = dim {
                open.push((port, text, size));
            }
        }
    }
    // A sum of two symbols can be taken apart once another input has told one of them.
    loop {
        let before = open.len();
        let mut later = Vec::new();
        for (port, text, size) in open {
            let place = || format!("input '{}'", port.name);
            if !dim::bind(text, size, &mut symbols).map_err(|error| Diagnostic::from(error).within(place()))? {
                later.push((port, text, size));
            }
        }
        open = later;
        if open.is_empty() || open.len() == before {
            return Ok(symbols);
        }
    }
}

fn evaluate(shape: &[Dim], symbols: &HashMap<String, usize>) -> Result<Vec<i64>> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Ok(*size as i64),
        Dim::Symbolic(text) => Ok(dim::eval(text, symbols).map(|size| size as i64)?),
    };
    shape.iter().map(size).collect()
}

fn wrong_shape(entry: &Entry, port: &str, value: usize, given: &[i64]) -> Diagnostic {
    let dims: Vec<_> = entry.values[value].shape.iter().map(Dim::to_string).collect();
    let given: Vec<_> = given.iter().map(i64::to_string).collect();
    let message = format!("input '{port}' has shape [{}], the entry takes [{}]", given.join(","), dims.join(","));
    Diagnostic::new(Code::BadInput, message)
}

/// When each value is in use in one memory; outputs stay until the next run.
fn lifetimes(layout: &Layout<'_>, memory: usize, sizes: &[usize]) -> Vec<Option<Lifetime>> {
    let Layout { entry, steps, memories, .. } = layout;
    let end = layout.end();
    let waits = waits(steps, end);
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; entry.values.len()];
    let stay = |lifetimes: &mut Vec<Option<Lifetime>>, value: usize| {
        lifetimes[value] = Some(Lifetime { size: sizes[value], first: 0, last: end });
    };
    // Inputs stay on the device, for runs that reuse them.
    let given = steps.inputs.iter().filter(|crossing| crossing.to == memory);
    given.for_each(|crossing| stay(&mut lifetimes, crossing.value));
    for (index, step) in steps.body.iter().enumerate() {
        let time = index + 1;
        let (written, read): (&[usize], &[usize]) = match step {
            Step::Call(call) if memories[*call] == memory => (&entry.calls[*call].outputs, &entry.calls[*call].inputs),
            Step::Copy(crossing) if crossing.to == memory => (&[crossing.value], &[]),
            Step::Copy(crossing) if crossing.from == memory => (&[], &[crossing.value]),
            Step::Call(_) | Step::Copy(_) | Step::Wait(_) => continue,
        };
        for &value in written {
            lifetimes[value] = Some(Lifetime { size: sizes[value], first: time, last: time });
        }
        // A device reads the host's memory when its queue gets there.
        let last = match step {
            Step::Copy(_) if memory == HOST => waits[index],
            _ => time,
        };
        for &value in read {
            if let Some(lifetime) = &mut lifetimes[value] {
                lifetime.last = lifetime.last.max(last);
            }
        }
    }
    for crossing in &steps.outputs {
        if crossing.to == memory {
            lifetimes[crossing.value] = Some(Lifetime { size: sizes[crossing.value], first: end - 1, last: end });
        }
    }
    for port in &entry.outputs {
        if let Some(lifetime) = &mut lifetimes[port.value] {
            lifetime.last = end;
        }
    }
    // An output that is an input: the caller's memory may be gone when the output is read, so it is copied.
    if memory == HOST {
        let outputs: HashSet<usize> = entry.outputs.iter().map(|port| port.value).collect();
        let both = entry.inputs.iter().filter(|port| outputs.contains(&port.value));
        both.for_each(|port| stay(&mut lifetimes, port.value));
    }
    lifetimes
}

/// For each copy the time at which the host next waits for the device that it goes to; `end` where it does not any more.
fn waits(steps: &Steps, end: usize) -> Vec<usize> {
    let mut next = HashMap::new();
    let mut waits = vec![end; steps.body.len()];
    for (index, step) in steps.body.iter().enumerate().rev() {
        match step {
            Step::Wait(device) => drop(next.insert(*device, index + 1)),
            Step::Copy(crossing) => waits[index] = next.get(&crossing.to).copied().unwrap_or(end),
            Step::Call(_) => {}
        }
    }
    waits
}

pub(super) fn bytes(shape: &[i64], dtype: DType) -> Result<usize> {
    // A size of 0 makes the tensor empty, and its strides are counted as if it were 1.
    let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(usize::try_from(size.max(1)).ok()?));
    count
        .and_then(|count| dtype.bytes_for(count))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .map(|bytes| if shape.contains(&0) { 0 } else { bytes })
        .ok_or_else(|| Diagnostic::new(Code::BadInput, format!("a tensor of shape {shape:?} does not fit in memory")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::steps::testing::entry;

    /// The places of all values in the host's memory and on the device, for calls in these memories.
    fn places(
        inputs: &[usize],
        outputs: &[usize],
        calls: &[(&[usize], &[usize])],
        memories: &[usize],
        scratch: &[usize],
    ) -> [Arena; 2] {
        let values = calls.iter().flat_map(|(_, outputs)| *outputs).max().expect("a call") + 1;
        let entry = entry(values, inputs, outputs, calls);
        let steps = Steps::new(&entry, memories);
        let layout = Layout { entry: &entry, steps: &steps, memories, devices: 1 };
        let shapes = layout.shapes(&vec![&[4][..]; inputs.len()], &HashMap::new()).expect("the shape of the inputs");
        let arenas = layout.plan(shapes, scratch).expect("a plan").arenas;
        <[Arena; 2]>::try_from(arenas).unwrap_or_else(|arenas| panic!("{} memories", arenas.len()))
    }

    #[test]
    fn what_a_device_still_reads_is_not_written_by_the_host() {
        // The host makes 1 for the device, and 3 before the host has waited for the device to read 1.
        let calls: &[(&[usize], &[usize])] = &[(&[0], &[1]), (&[1], &[2]), (&[0], &[3]), (&[3], &[4])];
        let [host, _] = places(&[0], &[2, 4], calls, &[0, 1, 0, 0], &[0; 4]);
        assert_ne!(host.values[1], host.values[3]);
        // Once it has, the place is free.
        let calls: &[(&[usize], &[usize])] = &[(&[0], &[1]), (&[1], &[2]), (&[2], &[3]), (&[3], &[4]), (&[4], &[5])];
        let [host, _] = places(&[0], &[5], calls, &[0, 1, 0, 0, 0], &[0; 5]);
        assert_eq!(host.values[1], host.values[3]);
    }

    #[test]
    fn memory_of_a_device_is_used_again_in_the_order_of_its_queue() {
        let calls: &[(&[usize], &[usize])] = &[(&[0], &[1]), (&[1], &[2]), (&[2], &[3]), (&[3], &[4])];
        let [host, device] = places(&[0], &[4], calls, &[1; 4], &[100, 0, 0, 0]);
        assert_eq!(device.values[1], device.values[3], "1 is read when 3 is written");
        assert!(device.values[0].is_some() && device.values[0] != device.values[4], "inputs stay for the next run");
        let [input, scratch] = [device.values[0], device.scratch[0]].map(|offset| offset.expect("it is there"));
        assert!(input != scratch && scratch % DEVICE_ALIGNMENT == 0);
        assert!(device.scratch[1..].iter().all(Option::is_none));
        let on_host: Vec<_> = (0..5).filter(|&value| host.values[value].is_some()).collect();
        assert_eq!(on_host, [4], "only the output comes back");
    }
}
