//! State of a session for one set of input shapes: where values are in memory, and the steps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byoc_plugin_api::{DType, DeviceTensor, TensorView, TensorViewMut};
use bytes::Bytes;

use super::arenas::Arenas;
use super::kept::Kept;
use super::pieces::{Piece, pieces};
use super::{LoadedCall, LoadedRegion};
use crate::artifact::manifest::{Call, Entry};
use crate::buffer::Buffer;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::memory::{self, Shortage, titled};
use crate::runtime::device::Device;
use crate::runtime::plan::{Layout, Plan};
use crate::runtime::steps::{HOST, Steps};

/// The state for one set of input shapes.
pub(super) struct State {
    pub(super) input_shapes: Vec<Vec<i64>>,
    /// What was known beside them.
    pub(super) told: HashMap<String, usize>,
    /// Whether recordings stay good while regions are prepared for other shapes; so they do where no region is on a device.
    pub(super) recordings_last: bool,
    /// The position of each input, by its value.
    positions: HashMap<usize, usize>,
    pub(super) plan: Plan,
    /// What a run does, step by step. Dropped before the memory that recordings work in.
    pub(super) pieces: Vec<Piece>,
    /// Whether a run has been made: what is recorded has to have run before.
    pub(super) has_run: bool,
    pub(super) filled: Filled,
    /// How long each copy took.
    pub(super) copy_times: Vec<Duration>,
    /// When each copy began, where times are taken.
    pub(super) copy_starts: Vec<Option<Instant>>,
    /// For each memory the number of what was queued there first in a run, and when, where times are taken.
    pub(super) origins: Vec<Option<(usize, Instant)>>,
    /// Memory for the values, which another state has while this is not that of the last run.
    pub(super) arenas: Arenas,
    /// Values that the run writes to memory of the caller's.
    elsewhere: Vec<Elsewhere>,
    /// Row-major copies of inputs that come with other strides, by input port.
    staging: Vec<Option<Buffer>>,
    /// Places of the tensors of each call.
    pub(super) inputs: Vec<TensorView<'static>>,
    pub(super) outputs: Vec<TensorViewMut<'static>>,
}

/// What the last run has left; nothing where it failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    /// The inputs are on the devices that read them.
    pub(super) inputs: bool,
    /// The outputs are in the host's memory.
    pub(super) outputs: bool,
}

/// Memory of the caller's for a value.
struct Elsewhere {
    value: usize,
    data: *mut u8,
}

// SAFETY: it is exclusive memory of plain bytes, by the contract of `State::lend`; nothing about it is tied to a thread.
unsafe impl Send for Elsewhere {}

/// Builds a [`State`].
pub(super) struct StateBuilder<'a> {
    pub(super) entry: &'a Entry,
    pub(super) steps: &'a Steps,
    pub(super) memories: &'a [usize],
    pub(super) devices: &'a [Device],
    pub(super) names: &'a [String],
    pub(super) told: &'a HashMap<String, usize>,
}

impl StateBuilder<'_> {
    /// The state for inputs of these shapes, with every region on a device ready to run in it. It has the memory that the other ones
    /// left.
    pub(super) fn state(&self, inputs: &[TensorView<'_>], calls: &mut [LoadedCall], kept: &mut Kept) -> Result<State> {
        let input_shapes: Vec<_> = inputs.iter().map(TensorView::shape).collect();
        let layout =
            Layout { entry: self.entry, steps: self.steps, memories: self.memories, devices: self.devices.len() };
        let shapes = layout.shapes(&input_shapes, self.told)?;
        let mut scratch = vec![0; calls.len()];
        let mut records = vec![true; calls.len()];
        let mut recordings_last = true;
        for (index, call) in calls.iter_mut().enumerate() {
            let tensors = |values: &[usize]| self.tensors(values, &shapes, &|_| 0);
            let (ins, outs) = (tensors(&self.entry.calls[index].inputs), tensors(&self.entry.calls[index].outputs));
            if let LoadedRegion::Device(bound) = &mut call.region {
                let needs = bound.executable().plan(&ins, &outs).map_err(|error| not_ready(call, error))?;
                scratch[index] = usize::try_from(needs.scratch).unwrap_or(usize::MAX).min(isize::MAX as usize);
                records[index] = needs.records;
                recordings_last &= needs.recordings_last;
            }
        }
        let plan = layout.plan(shapes, &scratch)?;
        self.make_room(&plan, calls, &scratch, kept)?;
        self.prepare(&plan, &kept.arenas, calls)?;
        let most = |count: fn(&Call) -> usize| self.entry.calls.iter().map(count).max().unwrap_or(0);
        Ok(State {
            told: self.told.clone(),
            recordings_last,
            input_shapes: input_shapes.iter().map(|shape| shape.to_vec()).collect(),
            positions: self.entry.inputs.iter().enumerate().map(|(index, port)| (port.value, index)).collect(),
            plan,
            pieces: pieces(self.steps, self.memories, &records),
            has_run: false,
            filled: Filled::default(),
            copy_times: vec![Duration::ZERO; self.steps.crossings().count()],
            copy_starts: vec![None; self.steps.crossings().count()],
            origins: vec![None; self.devices.len() + 1],
            arenas: std::mem::take(&mut kept.arenas),
            elsewhere: Vec::new(),
            staging: inputs.iter().map(|_| None).collect(),
            inputs: Vec::with_capacity(most(|call| call.inputs.len())),
            outputs: Vec::with_capacity(most(|call| call.outputs.len())),
        })
    }

    /// A state that was kept, with memory again. The blocks on devices have not moved since, for they only grow, and then none is kept.
    pub(super) fn state_again(&self, mut state: State, kept: &mut Kept) -> Result<State> {
        let size = state.plan.arenas[HOST].size;
        kept.arenas.grow_host(size, self.devices, &|shortage| self.short(&state.plan, shortage))?;
        state.arenas = std::mem::take(&mut kept.arenas);
        Ok(state)
    }

    /// Makes room for a plan. What was recorded on a device's memory is forgotten before that moves.
    fn make_room(&self, plan: &Plan, calls: &[LoadedCall], scratch: &[usize], kept: &mut Kept) -> Result<()> {
        let bytes: Vec<_> = plan.arenas.iter().skip(1).map(|arena| arena.size).collect();
        if !kept.arenas.devices_have(&bytes) {
            kept.states.clear();
        }
        let purpose = |index: usize| purpose(calls, bytes[index], scratch, self.memories, index + 1);
        kept.arenas.grow_host(plan.arenas[HOST].size, self.devices, &|shortage| self.short(plan, shortage))?;
        kept.arenas.grow_devices(&bytes, self.devices, &purpose)
    }

    /// The error for values that the host has no memory for: names the one that takes the most.
    fn short(&self, plan: &Plan, shortage: Shortage) -> Diagnostic {
        let arena = &plan.arenas[HOST];
        let size = |value: &usize| bytes(&plan.shapes[*value], self.entry.values[*value].dtype);
        let here = (0..arena.values.len()).filter(|&value| arena.values[value].is_some());
        let Some(largest) = here.max_by_key(size) else { return shortage.diagnostic(Code::RunFailed, "the entry") };
        let title = titled(&self.names[largest], self.entry.values[largest].dtype, &plan.shapes[largest]);
        let (most, rest) = (size(&largest), arena.size.saturating_sub(size(&largest)));
        match memory::check(most) {
            Err(shortage) => shortage.diagnostic(Code::RunFailed, title),
            Ok(()) if rest < most => shortage.diagnostic(Code::RunFailed, title),
            Ok(()) => {
                let run = format!("a run, in which {title} takes {},", memory::readable(most as u64));
                shortage.diagnostic(Code::RunFailed, run)
            }
        }
    }

    fn tensors<'s>(
        &self,
        values: &[usize],
        shapes: &'s [Vec<i64>],
        address: &dyn Fn(usize) -> u64,
    ) -> Vec<DeviceTensor<'s>> {
        let tensor = |&value: &usize| DeviceTensor {
            address: address(value),
            dtype: self.entry.values[value].dtype,
            shape: &shapes[value],
        };
        values.iter().map(tensor).collect()
    }

    fn prepare(&self, plan: &Plan, arenas: &Arenas, calls: &mut [LoadedCall]) -> Result<()> {
        for (index, call) in calls.iter_mut().enumerate() {
            let LoadedRegion::Device(bound) = &mut call.region else { continue };
            let memory = self.memories[index];
            let (arena, base) = (&plan.arenas[memory], arenas.on_device(memory - 1));
            let at = |offset: Option<usize>| offset.map_or(0, |offset| base + offset as u64);
            let tensors = |values: &[usize]| self.tensors(values, &plan.shapes, &|value| at(arena.values[value]));
            let (ins, outs) = (tensors(&self.entry.calls[index].inputs), tensors(&self.entry.calls[index].outputs));
            let prepared = bound.executable().prepare(&ins, &outs, at(arena.scratch[index]));
            prepared.map_err(|error| not_ready(call, error))?;
        }
        Ok(())
    }
}

/// What the memory of a device is for, with the region that asks for the most scratch.
fn purpose(calls: &[LoadedCall], size: usize, scratch: &[usize], memories: &[usize], memory: usize) -> String {
    let here = (0..calls.len()).filter(|&call| memories[call] == memory && scratch[call] > 0);
    match here.max_by_key(|&call| scratch[call]) {
        Some(call) => {
            format!("values and scratch, of which {} takes {} bytes", calls[call].title, scratch[call].min(size))
        }
        None => "values".into(),
    }
}

fn not_ready(call: &LoadedCall, error: byoc_plugin_api::Error) -> Diagnostic {
    let message = format!("backend '{}' cannot prepare {}: {}", call.backend, call.title, error.message);
    Diagnostic { code: Code::RunFailed, message, hint: error.hint }
}

impl State {
    /// Forgets what is of no use while another state has the memory. Gives whether the state is of use afterwards.
    pub(super) fn leave(&mut self) -> bool {
        self.filled = Filled::default();
        self.staging.fill_with(|| None);
        self.recordings_last && self.pieces.iter().all(Piece::is_ready)
    }

    pub(super) fn fits(&self, inputs: &[TensorView<'_>]) -> bool {
        self.input_shapes.iter().zip(inputs).all(|(known, input)| known == input.shape())
    }

    /// Bytes of a value.
    pub(super) fn bytes(&self, entry: &Entry, value: usize) -> usize {
        bytes(&self.plan.shapes[value], entry.values[value].dtype)
    }

    /// Whether a run could write the value to other memory on the host: it is in the arena, which no device reaches.
    pub(super) fn may_lend(&self, value: usize) -> bool {
        self.arenas.is_own() && self.plan.arenas[HOST].values[value].is_some()
    }

    /// Has the next run write a value to `data` in place of the arena, until [`State::take_back`].
    ///
    /// # Safety
    /// `data` is aligned like the arena and has room for the value. Nobody else reads or writes it until it is taken back.
    pub(super) unsafe fn lend(&mut self, value: usize, data: *mut u8) {
        self.elsewhere.push(Elsewhere { value, data });
    }

    /// Forgets the memory of the caller's.
    pub(super) fn take_back(&mut self) {
        self.elsewhere.clear();
    }

    fn elsewhere(&self, value: usize) -> Option<*mut u8> {
        self.elsewhere.iter().find(|other| other.value == value).map(|other| other.data)
    }

    /// Where a value is in the host's memory; null where it is not.
    pub(super) fn on_host(&self, value: usize) -> *const u8 {
        if let Some(elsewhere) = self.elsewhere(value) {
            return elsewhere;
        }
        let offset = self.plan.arenas[HOST].values[value];
        offset.map_or(std::ptr::null(), |offset| self.arenas.on_host().wrapping_add(offset))
    }

    /// The same, to be written.
    pub(super) fn on_host_mut(&mut self, value: usize) -> *mut u8 {
        if let Some(elsewhere) = self.elsewhere(value) {
            return elsewhere;
        }
        let offset = self.plan.arenas[HOST].values[value];
        offset.map_or(std::ptr::null_mut(), |offset| self.arenas.on_host_mut().wrapping_add(offset))
    }

    /// Whether a device has the value.
    pub(super) fn is_on(&self, value: usize, memory: usize) -> bool {
        self.plan.arenas[memory].values[value].is_some()
    }

    /// Where a value is in a device's memory.
    pub(super) fn on_device(&self, value: usize, memory: usize) -> u64 {
        self.arenas.on_device(memory - 1) + self.plan.arenas[memory].values[value].unwrap_or(0) as u64
    }

    /// Whether some of these bytes on a device are in the memory of values.
    pub(super) fn owns(&self, memory: usize, address: u64, bytes: usize) -> bool {
        let (start, size) = (self.arenas.on_device(memory - 1), self.arenas.device_bytes(memory - 1) as u64);
        address < start.saturating_add(size) && start < address.saturating_add(bytes as u64)
    }

    /// The position of an input, by its value.
    pub(super) fn position(&self, value: usize) -> Option<usize> {
        self.positions.get(&value).copied()
    }

    /// How many sequences of regions of a device are replayed.
    pub(super) fn recordings(&self, memory: usize) -> usize {
        self.pieces.iter().filter(|piece| piece.of_device(memory).is_some_and(|queued| queued.is_recorded())).count()
    }

    /// Why sequences of regions of a device are not replayed.
    pub(super) fn unrecorded(&self, memory: usize) -> Vec<String> {
        let why = self.pieces.iter().filter_map(|piece| piece.of_device(memory)?.unrecorded());
        why.map(str::to_owned).collect()
    }

    /// Copies inputs that are not row-major or not aligned, and inputs that are outputs as well; none that are on their device
    /// already.
    pub(super) fn stage(&mut self, entry: &Entry, inputs: &[TensorView<'_>], arrived: &[Option<u64>]) -> Result<()> {
        for (position, (port, input)) in entry.inputs.iter().zip(inputs).enumerate() {
            if arrived.get(position).is_some_and(Option::is_some) {
                continue;
            }
            if self.plan.arenas[HOST].values[port.value].is_some() {
                // SAFETY: the value's place in the arena is as large as the input, whose shape the plan was made for.
                unsafe { copy(input, self.on_host_mut(port.value)) };
            } else if needs_staging(input) {
                if self.staging[position].is_none() {
                    let title = || format!("a row-major copy of {}", titled(&port.name, input.dtype(), input.shape()));
                    let staged = Buffer::new(input.byte_len());
                    self.staging[position] =
                        Some(staged.map_err(|shortage| shortage.diagnostic(Code::RunFailed, title()))?);
                }
                if let Some(staged) = &mut self.staging[position] {
                    // SAFETY: the block was made for an input of this shape and type.
                    unsafe { copy(input, staged.as_mut_ptr()) };
                }
            }
        }
        Ok(())
    }

    /// Where the host has a value that a call or a copy reads: in its memory, as an input, or as a constant.
    pub(super) fn source(
        &self,
        constants: &HashMap<usize, Bytes>,
        value: usize,
        given: &[TensorView<'_>],
    ) -> *const u8 {
        if self.plan.arenas[HOST].values[value].is_some() {
            return self.on_host(value);
        }
        match self.position(value) {
            Some(position) => match &self.staging[position] {
                Some(staged) if needs_staging(&given[position]) => staged.as_ptr(),
                _ => given[position].as_ptr(),
            },
            None => constants.get(&value).map_or(std::ptr::null(), |constant| constant.as_ptr()),
        }
    }

    /// Fills `inputs` and `outputs` with the views of one call on the host.
    ///
    /// # Safety
    /// The views must be gone before the caller's inputs, this state or the constants are, and before any other view
    /// of the outputs is made.
    pub(super) unsafe fn views(
        &mut self,
        entry: &Entry,
        constants: &HashMap<usize, Bytes>,
        step: &Call,
        given: &[TensorView<'_>],
    ) {
        // SAFETY: shapes and strides live in the plan, which outlives the views by this function's contract.
        let (shapes, strides): (&'static [Vec<i64>], &'static [Vec<i64>]) = unsafe {
            (&*std::ptr::from_ref(self.plan.shapes.as_slice()), &*std::ptr::from_ref(self.plan.strides.as_slice()))
        };
        for &value in &step.inputs {
            let data = self.source(constants, value, given);
            let dtype = entry.values[value].dtype;
            // SAFETY: the address holds the value at its planned shape; see the contract for how long.
            self.inputs.push(unsafe { TensorView::from_raw(data, dtype, &shapes[value], &strides[value]) });
        }
        for &value in &step.outputs {
            let data = self.on_host_mut(value);
            let dtype = entry.values[value].dtype;
            // SAFETY: every output of a call has a place of its own in the arena.
            self.outputs.push(unsafe { TensorViewMut::from_raw(data, dtype, &shapes[value], &strides[value]) });
        }
    }
}

/// Bytes of a tensor.
fn bytes(shape: &[i64], dtype: DType) -> usize {
    let count: i64 = shape.iter().product();
    dtype.bytes_for(usize::try_from(count).unwrap_or(0)).unwrap_or(usize::MAX)
}

pub(super) fn needs_staging(input: &TensorView<'_>) -> bool {
    !input.is_contiguous() || !(input.as_ptr() as usize).is_multiple_of(input.dtype().unpacked_bytes())
}

/// Copies the elements of `input`, row-major, to `to`.
///
/// # Safety
/// `to` must have room for them.
pub(super) unsafe fn copy(input: &TensorView<'_>, mut to: *mut u8) {
    if let Some(bytes) = input.as_bytes() {
        // SAFETY: by contract there is room for all of them; the caller's tensor is not in our memory.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        return;
    }
    input.for_each_element(|bytes| {
        // SAFETY: as above, one element after the other.
        unsafe {
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            to = to.add(bytes.len());
        }
    });
}
