//! What follows the first stage of an entry that has sizes known only at run time: calls that tell sizes, each with the stage
//! behind it, a session of its own.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use byoc_plugin_api::{DType, Dim, Error, SizedOutputs, TensorView, TensorViewMut, contiguous_strides};
use bytes::Bytes;

use super::introspect::PortInfo;
use super::state::{copy, needs_staging};
use super::work::run_failed;
use super::{LoadedCall, LoadedRegion, Session};
use crate::artifact::manifest::ValueType;
use crate::buffer::Buffer;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::memory::titled;
use crate::runtime::plan::{bind_symbols, bytes};
use crate::runtime::stages::Place;

/// The stages behind the first one.
pub(super) struct Later {
    /// The outputs of the whole entry.
    pub(super) outputs: Vec<(PortInfo, Place)>,
    /// The call behind each stage but the last.
    pub(super) sized: Vec<SizedCall>,
    /// The second stage and those behind it.
    pub(super) stages: Vec<LaterStage>,
    /// Constants that the calls between stages read, and those that are outputs.
    pub(super) constants: HashMap<usize, Constant>,
    /// Whether the last run went well.
    pub(super) has_run: bool,
}

/// A stage.
pub(super) struct LaterStage {
    pub(super) session: Session,
    /// The place of each of its inputs.
    pub(super) feeds: Vec<Place>,
    /// The symbols in the sizes of its values: it is planned anew where one of them has changed.
    pub(super) symbols: BTreeSet<String>,
}

/// A constant of fixed shape, row-major.
pub(super) struct Constant {
    bytes: Bytes,
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Constant {
    pub(super) fn new(bytes: Bytes, ty: &ValueType) -> Constant {
        let shape: Vec<i64> = ty.shape.iter().map(|size| size.fixed().unwrap_or(0) as i64).collect();
        Constant { bytes, dtype: ty.dtype, strides: contiguous_strides(&shape), shape }
    }
}

/// A call with outputs of sizes that it tells.
pub(super) struct SizedCall {
    pub(super) call: LoadedCall,
    /// The place of each of its inputs.
    pub(super) feeds: Vec<Place>,
    outputs: Vec<SizedOutput>,
}

/// An output with the memory that it has: as much as it has ever needed.
struct SizedOutput {
    name: String,
    ty: ValueType,
    given: bool,
    shape: Vec<i64>,
    strides: Vec<i64>,
    memory: Option<Buffer>,
    room: usize,
}

impl SizedCall {
    pub(super) fn new(call: LoadedCall, feeds: Vec<Place>, outputs: Vec<(String, ValueType)>) -> SizedCall {
        let output = |(name, ty)| SizedOutput {
            name,
            ty,
            given: false,
            shape: Vec::new(),
            strides: Vec::new(),
            memory: None,
            room: 0,
        };
        SizedCall { call, feeds, outputs: outputs.into_iter().map(output).collect() }
    }

    /// Bytes of its outputs.
    pub(super) fn room(&self) -> usize {
        self.outputs.iter().map(|output| output.room).sum()
    }

    fn run(&mut self, inputs: &[TensorView<'_>], symbols: &mut HashMap<String, usize>) -> Result<()> {
        let start = Instant::now();
        let SizedCall { call, outputs, .. } = self;
        outputs.iter_mut().for_each(|output| output.given = false);
        let LoadedRegion::Host(bound) = &mut call.region else { return Ok(()) };
        let mut filling = Filling { outputs, symbols, failed: None };
        let done = bound.executable().run_sized(inputs, &mut filling);
        call.time = start.elapsed();
        // Whatever the backend made of it.
        let done = filling.failed.map_or(done, Err);
        let done = done.and_then(|()| match outputs.iter().find(|output| !output.given) {
            Some(output) => Err(Error::new(format!("it did not give '{}'", output.name))),
            None => Ok(()),
        });
        done.map_err(|error| run_failed(call, error))
    }
}

/// The outputs of the call that is running.
struct Filling<'a> {
    outputs: &'a mut [SizedOutput],
    /// What is known of the sizes of this run.
    symbols: &'a mut HashMap<String, usize>,
    /// Why memory was not given.
    failed: Option<Error>,
}

impl SizedOutputs for Filling<'_> {
    fn allocate(&mut self, index: usize, shape: &[i64]) -> std::result::Result<TensorViewMut<'_>, Error> {
        if let Err(error) = self.prepare(index, shape) {
            return Err(self.failed.get_or_insert(error).clone());
        }
        Ok(self.outputs[index].view_mut())
    }
}

impl Filling<'_> {
    fn prepare(&mut self, index: usize, shape: &[i64]) -> std::result::Result<(), Error> {
        let count = self.outputs.len();
        let none = || Error::new(format!("there is no output {index} of {count}"));
        let output = self.outputs.get_mut(index).ok_or_else(none)?;
        if std::mem::replace(&mut output.given, true) {
            return Err(Error::new(format!("the memory of '{}' was asked for twice", output.name)));
        }
        output.bind(shape, self.symbols)?;
        output.memory(shape)
    }
}

impl SizedOutput {
    /// Takes the sizes that were not known; an error where they cannot be those of the output.
    fn bind(&self, shape: &[i64], symbols: &mut HashMap<String, usize>) -> std::result::Result<(), Error> {
        let SizedOutput { name, ty, .. } = self;
        let fits = |(declared, &size): (&Dim, &i64)| {
            let size = usize::try_from(size).ok()?;
            match declared {
                Dim::Fixed(fixed) => (*fixed == size).then_some(()),
                Dim::Symbolic(text) => dim::bind(text, size, symbols).ok().map(drop),
            }
        };
        if shape.len() == ty.shape.len() && ty.shape.iter().zip(shape).map(fits).all(|fits| fits.is_some()) {
            return Ok(());
        }
        let declared = ty.shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
        Err(Error::new(format!("it computed '{name}' of shape {shape:?}, expected [{declared}]")))
    }

    fn memory(&mut self, shape: &[i64]) -> std::result::Result<(), Error> {
        let dtype = self.ty.dtype;
        let size = bytes(shape, dtype.size()).map_err(|error| Error::new(error.message))?;
        if self.memory.is_none() || self.room < size {
            // The old memory goes first: both together may not fit.
            self.memory = None;
            let block = Buffer::new(size).map_err(|shortage| shortage.error(titled(&self.name, dtype, shape)))?;
            (self.memory, self.room) = (Some(block), size);
        }
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        self.strides = contiguous_strides(shape);
        Ok(())
    }

    fn view_mut(&mut self) -> TensorViewMut<'_> {
        let data = self.memory.as_mut().map_or(std::ptr::null_mut(), Buffer::as_mut_ptr);
        // SAFETY: the block has room for the shape, it is nobody else's, and it stays until the next run.
        unsafe { TensorViewMut::from_raw(data, self.ty.dtype, &self.shape, &self.strides) }
    }

    fn view(&self) -> TensorView<'_> {
        let data = self.memory.as_ref().map_or(std::ptr::null(), Buffer::as_ptr);
        // SAFETY: the block has room for the shape, and is written in the next run only, which `&self` keeps away.
        unsafe { TensorView::from_raw(data, self.ty.dtype, &self.shape, &self.strides) }
    }
}

/// What was made so far in a run.
struct Made<'a> {
    head: &'a Session,
    stages: &'a [LaterStage],
    sized: &'a [SizedCall],
    constants: &'a HashMap<usize, Constant>,
}

impl<'a> Made<'a> {
    fn view(&self, place: Place, given: &[TensorView<'a>]) -> Result<TensorView<'a>> {
        let view = match place {
            Place::Input(index) => given.get(index).copied(),
            Place::Made { stage: 0, output } => Some(self.head.own_output(output)?),
            Place::Made { stage, output } => match self.stages.get(stage - 1) {
                Some(stage) => Some(stage.session.own_output(output)?),
                None => None,
            },
            Place::Sized { stage, output } => {
                self.sized.get(stage).and_then(|call| call.outputs.get(output)).map(SizedOutput::view)
            }
            Place::Constant(value) => self.constants.get(&value).map(|constant| {
                let Constant { bytes, dtype, shape, strides } = constant;
                // SAFETY: the reader of the artifact has checked that the constant has this type and shape.
                unsafe { TensorView::from_raw(bytes.as_ptr(), *dtype, shape, strides) }
            }),
        };
        view.ok_or_else(|| Diagnostic::new(Code::RunFailed, "a value was read before it was computed"))
    }

    fn views(&self, places: &[Place], given: &[TensorView<'a>]) -> Result<Vec<TensorView<'a>>> {
        places.iter().map(|&place| self.view(place, given)).collect()
    }
}

impl Later {
    /// Runs what follows the first stage, which has run with these inputs.
    pub(super) fn run(&mut self, head: &Session, given: &[TensorView<'_>]) -> Result<()> {
        self.has_run = false;
        let own = |(name, size): (&String, &usize)| (name.clone(), *size);
        let shapes: Vec<_> = given.iter().map(TensorView::shape).collect();
        let mut symbols = bind_symbols(&head.entry, &shapes, &HashMap::new())?;
        for index in 0..self.stages.len() {
            let (stages, rest) = self.stages.split_at_mut(index);
            let (sized, call) = self.sized.split_at_mut(index);
            let (Some(stage), Some(call)) = (rest.first_mut(), call.first_mut()) else { break };
            let made = Made { head, stages, sized, constants: &self.constants };
            let staged = row_major(given, &call.feeds)?;
            let inputs: Vec<_> = given.iter().zip(&staged).map(|(input, own)| own.view(input)).collect();
            let inputs = made.views(&call.feeds, &inputs)?;
            call.run(&inputs, &mut symbols)?;
            let made = Made { head, stages, sized: &self.sized[..=index], constants: &self.constants };
            let told = &mut stage.session.told;
            if stage.symbols.iter().any(|name| told.get(name) != symbols.get(name)) {
                *told = symbols.iter().filter(|(name, _)| stage.symbols.contains(*name)).map(own).collect();
            }
            stage.session.run(&made.views(&stage.feeds, given)?)?;
        }
        self.has_run = true;
        Ok(())
    }

    /// An output of the last run.
    pub(super) fn output<'a>(&'a self, head: &'a Session, index: usize) -> Result<TensorView<'a>> {
        let none = || Diagnostic::new(Code::UnknownName, format!("there is no output {index}"));
        let (_, place) = self.outputs.get(index).ok_or_else(none)?;
        if !self.has_run {
            return Err(Diagnostic::new(Code::RunFailed, "the entry did not run yet"));
        }
        Made { head, stages: &self.stages, sized: &self.sized, constants: &self.constants }.view(*place, &[])
    }
}

/// A row-major copy of an input that a call reads, where the caller's is not.
struct RowMajor(Option<(Buffer, Vec<i64>)>);

impl RowMajor {
    fn view<'a>(&'a self, input: &TensorView<'a>) -> TensorView<'a> {
        let Some((block, strides)) = &self.0 else { return *input };
        // SAFETY: the block was made for this input.
        unsafe { TensorView::from_raw(block.as_ptr(), input.dtype(), input.shape(), strides) }
    }
}

fn row_major(given: &[TensorView<'_>], feeds: &[Place]) -> Result<Vec<RowMajor>> {
    let own = |(index, input): (usize, &TensorView<'_>)| {
        if !feeds.contains(&Place::Input(index)) || !needs_staging(input) {
            return Ok(RowMajor(None));
        }
        let mut block = Buffer::new(input.len() * input.dtype().size())
            .map_err(|shortage| shortage.diagnostic(Code::RunFailed, "a row-major copy of an input"))?;
        // SAFETY: the block was made for an input of this shape and type.
        unsafe { copy(input, block.as_mut_ptr()) };
        Ok(RowMajor(Some((block, contiguous_strides(input.shape())))))
    };
    given.iter().enumerate().map(own).collect()
}
