//! A loaded entry: takes inputs, runs the regions in order, hands out the outputs. For inputs of the same shapes a
//! run allocates nothing.

mod file;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byoc_plugin_api::{DType, Dim, TensorView, TensorViewMut};
use bytes::Bytes;

use super::bind::{Bound, bind};
use super::plan::Plan;
use crate::artifact::Artifact;
use crate::artifact::manifest::{Entry, Port};
use crate::buffer::Buffer;
use crate::cpu;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::Registry;

/// How to load an artifact, or a file of a backend's own.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The entry; the only one where none is named.
    pub entry: Option<String>,
    /// Most threads a run may use; 0 for one a core.
    pub threads: usize,
    /// The folder of the files that the artifact takes constants from; where they lay at the compile if absent.
    pub constants_from: Option<PathBuf>,
}

/// An input or an output of the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct PortInfo {
    /// The name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

/// How long a region took in the last run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionTime {
    /// The region's symbol, or the file that is code by itself.
    pub symbol: String,
    /// The backend it ran on.
    pub backend: String,
    /// Wall time.
    pub time: Duration,
}

/// A loaded entry.
pub struct Session {
    calls: Vec<LoadedCall>,
    entry: Entry,
    constants: Vec<EntryConstant>,
    state: Option<State>,
    // Dropped last by order of declaration: calls and constants look into its bytes.
    _artifact: Option<Artifact>,
}

struct LoadedCall {
    symbol: String,
    /// What it is, in messages.
    title: String,
    backend: String,
    bound: Bound,
    time: Duration,
}

/// A value that is a constant, row-major.
struct EntryConstant {
    value: usize,
    bytes: Bytes,
}

/// What depends on the shapes of the inputs.
struct State {
    input_shapes: Vec<Vec<i64>>,
    plan: Plan,
    arena: Buffer,
    /// Row-major copies of inputs that come with other strides, by input port.
    staging: Vec<Option<Buffer>>,
    /// Places of the tensors of each call.
    inputs: Vec<TensorView<'static>>,
    outputs: Vec<TensorViewMut<'static>>,
}

impl Session {
    /// Opens the artifact at `path` and loads one of its entries.
    pub fn open(path: &Path, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        Session::load(Artifact::open(path)?, registry, options)
    }

    /// Loads an entry of an artifact, whose other files are attached first where that is still to be done
    /// ([`Artifact::attach`]). No constant of the artifact itself is copied.
    pub fn load(mut artifact: Artifact, registry: &Registry, options: &LoadOptions) -> Result<Session> {
        check_processor(&artifact)?;
        let entry = select_entry(&artifact, options.entry.as_deref())?.clone();
        artifact.attach(options.constants_from.as_deref())?;
        let threads = options.threads();
        let regions = &artifact.manifest().regions;
        let call = |index: usize| -> Result<LoadedCall> {
            let region = &regions[index];
            let bound = bind(&artifact, region, registry, threads)?;
            let (symbol, backend) = (region.symbol.clone(), region.backend.clone());
            let title = format!("region {symbol}");
            Ok(LoadedCall { symbol, title, backend, bound, time: Duration::ZERO })
        };
        let calls = entry.calls.iter().map(|step| call(step.region)).collect::<Result<_>>()?;
        let constants = entry
            .constants
            .iter()
            .map(|constant| Ok(EntryConstant { value: constant.value, bytes: artifact.constant(&constant.used)? }))
            .collect::<Result<_>>()?;
        Ok(Session { calls, entry, constants, state: None, _artifact: Some(artifact) })
    }

    /// The inputs, in the order in which [`Session::run`] takes them.
    pub fn inputs(&self) -> Vec<PortInfo> {
        self.ports(&self.entry.inputs)
    }

    /// The outputs, in the order of [`Session::output`].
    pub fn outputs(&self) -> Vec<PortInfo> {
        self.ports(&self.entry.outputs)
    }

    fn ports(&self, ports: &[Port]) -> Vec<PortInfo> {
        let info = |port: &Port| {
            let value = &self.entry.values[port.value];
            PortInfo { name: port.name.clone(), dtype: value.dtype, shape: value.shape.clone() }
        };
        ports.iter().map(info).collect()
    }

    /// Computes the outputs from the inputs, given in the order of [`Session::inputs`]. The outputs stay readable
    /// until the next run.
    pub fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.check_inputs(inputs)?;
        if !self.state.as_ref().is_some_and(|state| state.fits(inputs)) {
            // The old arena goes first: both together may not fit in memory.
            self.state = None;
            self.state = Some(State::new(&self.entry, inputs)?);
        }
        let Some(state) = &mut self.state else { return Ok(()) };
        state.stage(&self.entry, inputs);
        for (call, step) in self.calls.iter_mut().zip(&self.entry.calls) {
            let start = Instant::now();
            // SAFETY: the views are used up within the loop body. Inputs come from the caller, the arena or a
            // constant, all alive now; the planner keeps values that are alive together apart, so an output of this
            // call overlaps none of its inputs and no other output.
            unsafe { state.views(&self.entry, &self.constants, step, inputs) };
            let result = call.bound.executable().run(&state.inputs, &mut state.outputs);
            state.inputs.clear();
            state.outputs.clear();
            call.time = start.elapsed();
            result.map_err(|error| run_failed(call, error))?;
        }
        Ok(())
    }

    /// An output of the last run. Errors when there was none.
    pub fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let port = self
            .entry
            .outputs
            .get(index)
            .ok_or_else(|| Diagnostic::new(Code::UnknownName, format!("there is no output {index}")))?;
        let state = self.state.as_ref().ok_or_else(|| Diagnostic::new(Code::RunFailed, "the entry did not run yet"))?;
        let constant = self.constants.iter().find(|constant| constant.value == port.value);
        let data = match (constant, state.plan.offsets[port.value]) {
            (Some(constant), _) => constant.bytes.as_ptr(),
            (None, Some(offset)) => state.arena.as_ptr().wrapping_add(offset),
            (None, None) => std::ptr::null(),
        };
        let (shape, strides) = (&state.plan.shapes[port.value], &state.plan.strides[port.value]);
        // SAFETY: the value lies in the arena or in the constant's bytes at its planned size, and `&self` keeps the
        // next run from writing while the view lives.
        Ok(unsafe { TensorView::from_raw(data, self.entry.values[port.value].dtype, shape, strides) })
    }

    /// How long each region took in the last run, in running order.
    pub fn times(&self) -> Vec<RegionTime> {
        let time = |call: &LoadedCall| RegionTime {
            symbol: call.symbol.clone(),
            backend: call.backend.clone(),
            time: call.time,
        };
        self.calls.iter().map(time).collect()
    }

    /// Bytes of the memory that values take between regions; 0 before the first run.
    pub fn arena_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.plan.size)
    }

    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<()> {
        let expected = &self.entry.inputs;
        if inputs.len() != expected.len() {
            let message =
                format!("the entry '{}' takes {} inputs, got {}", self.entry.name, expected.len(), inputs.len());
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        for (port, input) in expected.iter().zip(inputs) {
            let dtype = self.entry.values[port.value].dtype;
            if input.dtype() != dtype {
                let message = format!("input '{}' is {}, the entry takes {dtype}", port.name, input.dtype());
                return Err(Diagnostic::new(Code::BadInput, message));
            }
        }
        Ok(())
    }
}

impl LoadOptions {
    /// At least one.
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

impl State {
    fn new(entry: &Entry, inputs: &[TensorView<'_>]) -> Result<State> {
        let shapes: Vec<_> = inputs.iter().map(TensorView::shape).collect();
        let plan = Plan::new(entry, &shapes)?;
        let most =
            |count: fn(&crate::artifact::manifest::Call) -> usize| entry.calls.iter().map(count).max().unwrap_or(0);
        Ok(State {
            input_shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            arena: Buffer::new(plan.size),
            plan,
            staging: inputs.iter().map(|_| None).collect(),
            inputs: Vec::with_capacity(most(|call| call.inputs.len())),
            outputs: Vec::with_capacity(most(|call| call.outputs.len())),
        })
    }

    fn fits(&self, inputs: &[TensorView<'_>]) -> bool {
        self.input_shapes.iter().zip(inputs).all(|(known, input)| known == input.shape())
    }

    /// Copies inputs that are not row-major or not aligned, and inputs that are outputs as well.
    fn stage(&mut self, entry: &Entry, inputs: &[TensorView<'_>]) {
        for (position, (port, input)) in entry.inputs.iter().zip(inputs).enumerate() {
            if let Some(offset) = self.plan.offsets[port.value] {
                // SAFETY: the value's place in the arena is as large as the input, whose shape the plan was made for.
                unsafe { copy(input, self.arena.as_mut_ptr().add(offset)) };
            } else if needs_staging(input) {
                let bytes = input.len() * input.dtype().size();
                let staged = self.staging[position].get_or_insert_with(|| Buffer::new(bytes));
                // SAFETY: the block was made for an input of this shape and type.
                unsafe { copy(input, staged.as_mut_ptr()) };
            }
        }
    }

    /// Fills `inputs` and `outputs` with the views of one call.
    ///
    /// # Safety
    /// The views must be gone before the caller's inputs, this state or the constants are, and before any other view
    /// of the outputs is made.
    unsafe fn views(
        &mut self,
        entry: &Entry,
        constants: &[EntryConstant],
        step: &crate::artifact::manifest::Call,
        given: &[TensorView<'_>],
    ) {
        let base = self.arena.as_mut_ptr();
        // SAFETY: shapes and strides live in the plan, which outlives the views by this function's contract.
        let (shapes, strides): (&'static [Vec<i64>], &'static [Vec<i64>]) = unsafe {
            (&*std::ptr::from_ref(self.plan.shapes.as_slice()), &*std::ptr::from_ref(self.plan.strides.as_slice()))
        };
        for &value in &step.inputs {
            let data = match self.plan.offsets[value] {
                Some(offset) => base.wrapping_add(offset).cast_const(),
                None => match entry.inputs.iter().position(|port| port.value == value) {
                    Some(position) => match &self.staging[position] {
                        Some(staged) if needs_staging(&given[position]) => staged.as_ptr(),
                        _ => given[position].as_ptr(),
                    },
                    None => constants
                        .iter()
                        .find(|constant| constant.value == value)
                        .map_or(std::ptr::null(), |constant| constant.bytes.as_ptr()),
                },
            };
            let dtype = entry.values[value].dtype;
            // SAFETY: the address holds the value at its planned shape; see the contract for how long.
            self.inputs.push(unsafe { TensorView::from_raw(data, dtype, &shapes[value], &strides[value]) });
        }
        for &value in &step.outputs {
            let data = base.wrapping_add(self.plan.offsets[value].unwrap_or(0));
            let dtype = entry.values[value].dtype;
            // SAFETY: every output of a call has a place of its own in the arena.
            self.outputs.push(unsafe { TensorViewMut::from_raw(data, dtype, &shapes[value], &strides[value]) });
        }
    }
}

fn needs_staging(input: &TensorView<'_>) -> bool {
    !input.is_contiguous() || !(input.as_ptr() as usize).is_multiple_of(input.dtype().size())
}

/// Copies the elements of `input`, row-major, to `to`.
///
/// # Safety
/// `to` must have room for them.
unsafe fn copy(input: &TensorView<'_>, mut to: *mut u8) {
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

/// Packed constants may be of use to some processors only.
fn check_processor(artifact: &Artifact) -> Result<()> {
    let needed = &artifact.manifest().requirements.cpu_features;
    let missing: Vec<_> = needed.iter().map(String::as_str).filter(|name| !cpu::has(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (path, missing) = (artifact.path().display(), missing.join(", "));
    let message = format!("'{path}' has constants packed for processors with {missing}, which this one lacks");
    Err(Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again on this machine"))
}

fn select_entry<'a>(artifact: &'a Artifact, name: Option<&str>) -> Result<&'a Entry> {
    let entries = &artifact.manifest().entries;
    let found = match name {
        Some(name) => entries.iter().find(|entry| entry.name == name),
        None if entries.len() == 1 => entries.first(),
        None => None,
    };
    found.ok_or_else(|| {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let names = names.join(", ");
        match name {
            Some(name) => Diagnostic::new(Code::UnknownName, format!("there is no entry '{name}'"))
                .hint(format!("The file has {names}")),
            None => Diagnostic::new(Code::UnknownName, "the file has several entries")
                .hint(format!("Choose one with --entry: {names}")),
        }
    })
}

fn run_failed(call: &LoadedCall, error: byoc_plugin_api::Error) -> Diagnostic {
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("{}{node} failed on backend '{}': {}", call.title, call.backend, error.message);
    Diagnostic { code: Code::RunFailed, message, hint: error.hint }
}
