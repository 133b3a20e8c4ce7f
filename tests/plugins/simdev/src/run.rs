//! What the device does when it runs a region: reads operands, computes, writes results, and leaves no scratch memory as
//! it was.

use std::sync::atomic::{AtomicBool, Ordering};

use byoc_plugin_api::Error;

use crate::codegen::{Call, Kernel};
use crate::kernels;
use crate::memory::{Memory, UNWRITTEN};

const ELEMENT: usize = size_of::<f32>();

/// What regions do wrong, where a test asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    /// One is added to the first element of each output.
    Result,
    /// The last output is not written.
    Output,
    /// An element behind the last output is written.
    Beyond,
    /// The first input is written to.
    Input,
    /// What a run needs is put into scratch memory once.
    Scratch,
    /// A run does not wait for its turn in the queue.
    Queue,
    /// A run fails while it is recorded, and the plan says that it can be.
    Recording,
    /// What is recorded does nothing once the region is prepared anew, and the plan says that it lasts.
    Past,
}

impl Wrong {
    /// As the option has them.
    pub(crate) const NAMES: [(&str, Wrong); 9] = [
        ("nothing", Wrong::Nothing),
        ("result", Wrong::Result),
        ("output", Wrong::Output),
        ("beyond", Wrong::Beyond),
        ("input", Wrong::Input),
        ("scratch", Wrong::Scratch),
        ("queue", Wrong::Queue),
        ("recording", Wrong::Recording),
        ("past", Wrong::Past),
    ];

    pub(crate) fn named(name: &str) -> Wrong {
        Wrong::NAMES.iter().find(|(known, _)| *known == name).map_or(Wrong::Nothing, |&(_, wrong)| wrong)
    }

    /// Bytes of scratch memory without which it cannot be done.
    pub(crate) fn scratch(self) -> u64 {
        if self == Wrong::Scratch { ELEMENT as u64 } else { 0 }
    }
}

/// A tensor of f32 on the device.
#[derive(Clone)]
pub(crate) struct Place {
    /// Of the element of index 0.
    pub(crate) address: u64,
    pub(crate) shape: Vec<i64>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
}

impl Place {
    /// The first address that it reaches, and the bytes from there on.
    pub(crate) fn reach(&self) -> (u64, usize) {
        if kernels::count(&self.shape) == 0 {
            return (self.address, 0);
        }
        let ends = self.shape.iter().zip(&self.strides).map(|(size, stride)| (size - 1) * stride);
        let (low, high) = ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)));
        let bytes = (high - low + 1) as usize * ELEMENT;
        (self.address.wrapping_add_signed(low * ELEMENT as i64), bytes)
    }

    /// Whether all of it is memory that is there.
    pub(crate) fn within(&self, memory: &Memory) -> Result<(), Error> {
        let (from, bytes) = self.reach();
        memory.bytes(from, bytes).map(drop)
    }

    /// Its elements in row-major order.
    fn read(&self, memory: &Memory) -> Result<Vec<f32>, Error> {
        let (from, bytes) = self.reach();
        let reached: Vec<f32> = memory
            .bytes(from, bytes)?
            .chunks_exact(ELEMENT)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let first = self.address.wrapping_sub(from) as i64 / ELEMENT as i64;
        let element = |mut place: i64| {
            let mut at = first;
            for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += place % size * stride;
                place /= size;
            }
            reached[at as usize]
        };
        Ok((0..kernels::count(&self.shape) as i64).map(element).collect())
    }
}

fn write(memory: &mut Memory, address: u64, values: &[f32]) -> Result<(), Error> {
    let bytes = memory.bytes_mut(address, values.len() * ELEMENT)?;
    for (bytes, value) in bytes.chunks_exact_mut(ELEMENT).zip(values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    Ok(())
}

/// A region with the addresses of its tensors.
pub(crate) struct Prepared {
    pub(crate) symbol: String,
    /// The number of the region that it is of.
    pub(crate) region: usize,
    pub(crate) calls: Vec<Call>,
    /// Of every value.
    pub(crate) shapes: Vec<Vec<i64>>,
    /// Of the values that are in memory.
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// Address and bytes.
    pub(crate) scratch: (u64, usize),
    pub(crate) wrong: Wrong,
    pub(crate) kernel: &'static Kernel,
    /// Whether it may be replayed when the region was prepared anew, and whether it was.
    pub(crate) lasts: bool,
    pub(crate) is_past: AtomicBool,
}

impl Prepared {
    /// Bytes of all outputs.
    pub(crate) fn output_bytes(&self) -> usize {
        self.outputs.iter().map(|&output| kernels::count(&self.shapes[output]) * ELEMENT).sum()
    }

    /// What is done once, before the first run.
    pub(crate) fn prepare(&self, memory: &mut Memory) -> Result<(), Error> {
        if self.wrong == Wrong::Scratch { write(memory, self.scratch.0, &[1.0]) } else { Ok(()) }
    }

    /// Runs the region; `fault` is the operator whose kernel faults.
    pub(crate) fn run(&self, memory: &mut Memory, fault: &str) -> Result<(), Error> {
        match (self.is_past.load(Ordering::Relaxed), self.wrong) {
            (true, Wrong::Past) => return Ok(()),
            (true, _) if !self.lasts => {
                return Err(Error::new(format!("{} is replayed, and was prepared anew before", self.symbol)));
            }
            _ => {}
        }
        self.named(self.spoil(memory))?;
        let mut made: Vec<Option<Vec<f32>>> = vec![None; self.places.len()];
        for call in &self.calls {
            if call.op == fault || self.kernel.fatal {
                return Err(Error::new("a kernel wrote outside of its memory"));
            }
            self.named(self.call(call, &mut made, memory))?;
        }
        self.named(self.go_wrong(memory))?;
        self.named(self.spoil_scratch(memory))
    }

    /// An error with the region's name.
    fn named(&self, done: Result<(), Error>) -> Result<(), Error> {
        done.map_err(|error| Error::new(format!("{}: {}", self.symbol, error.message)))
    }

    /// Overwrites what a run may not read.
    fn spoil(&self, memory: &mut Memory) -> Result<(), Error> {
        // Who forgets an output is to be found by whoever looks at what it held before.
        let outputs = self.outputs.iter().filter(|_| self.wrong != Wrong::Output);
        for output in outputs.filter_map(|&output| self.places[output].as_ref()) {
            let (address, bytes) = output.reach();
            memory.bytes_mut(address, bytes)?.fill(UNWRITTEN);
        }
        self.spoil_scratch(memory)
    }

    fn spoil_scratch(&self, memory: &mut Memory) -> Result<(), Error> {
        if self.wrong != Wrong::Scratch {
            memory.bytes_mut(self.scratch.0, self.scratch.1)?.fill(UNWRITTEN);
        }
        Ok(())
    }

    fn call(&self, call: &Call, made: &mut [Option<Vec<f32>>], memory: &mut Memory) -> Result<(), Error> {
        let operand = |&value: &usize| match (&made[value], &self.places[value]) {
            (Some(values), _) => Ok(values.clone()),
            (None, Some(place)) => place.read(memory),
            (None, None) => Err(Error::new("damaged code: a value is used before it is made")),
        };
        let operands: Vec<_> = call.operands.iter().map(operand).collect::<Result<_, _>>()?;
        let shapes = call.operands.iter().map(|&value| self.shapes[value].as_slice());
        let operands: Vec<_> = operands.iter().map(Vec::as_slice).zip(shapes).collect();
        let mut result = kernels::compute(&call.op, &self.shapes[call.result], &operands)?;
        if self.wrong == Wrong::Scratch {
            let by = memory.bytes(self.scratch.0, ELEMENT)?;
            let by = f32::from_le_bytes([by[0], by[1], by[2], by[3]]);
            result.iter_mut().for_each(|value| *value *= by);
        }
        let forgotten = self.wrong == Wrong::Output && self.outputs.last() == Some(&call.result);
        if let Some(place) = self.places[call.result].as_ref().filter(|_| !forgotten) {
            write(memory, place.address, &result)?;
        }
        made[call.result] = Some(result);
        Ok(())
    }

    /// Does after the last kernel what a test asks for.
    fn go_wrong(&self, memory: &mut Memory) -> Result<(), Error> {
        let place = |list: &[usize], index: Option<usize>| index.and_then(|index| self.places[list[index]].clone());
        match self.wrong {
            Wrong::Result => {
                self.outputs.iter().filter_map(|&output| self.places[output].clone()).try_for_each(|place| {
                    let first = place.read(memory)?.first().map(|first| first + 1.0);
                    write(memory, place.address, first.as_slice())
                })
            }
            Wrong::Beyond => place(&self.outputs, self.outputs.len().checked_sub(1)).map_or(Ok(()), |place| {
                let (address, bytes) = place.reach();
                write(memory, address + bytes as u64, &[1.0])
            }),
            Wrong::Input => place(&self.inputs, (!self.inputs.is_empty()).then_some(0)).map_or(Ok(()), |place| {
                let negated: Vec<_> = place.read(memory)?.iter().map(|value| -value).collect();
                write(memory, place.address, &negated)
            }),
            _ => Ok(()),
        }
    }
}
