//! What follows the first stage of an entry that has sizes known only at run time, or control flow: what tells sizes, each with
//! the stage behind it, a session of its own.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{DType, TensorView, contiguous_strides};
use bytes::Bytes;

use super::Session;
use super::introspect::PortInfo;
use super::iterations::Iterations;
use super::sized::SizedCall;
use super::state::{copy, needs_staging};
use crate::artifact::manifest::ValueType;
use crate::buffer::Buffer;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::runtime::plan::bind_symbols;
use crate::runtime::stages::Place;

/// The stages behind the first one.
pub(super) struct Later {
    /// The outputs of the whole entry.
    pub(super) outputs: Vec<(PortInfo, Place)>,
    /// What is behind each stage but the last.
    pub(super) sized: Vec<SizedCall>,
    /// The second stage and those behind it.
    pub(super) stages: Vec<LaterStage>,
    /// Constants that what is between stages reads, and those that are outputs.
    pub(super) constants: HashMap<usize, Constant>,
    /// Whether the last run went well.
    pub(super) has_run: bool,
    /// The iterations of a run, which all bodies count.
    pub(super) iterations: Iterations,
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
            Place::Sized { stage, output } => self.sized.get(stage).and_then(|call| call.output(output)),
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
        let mut symbols = bind_symbols(&head.entry, &shapes, &head.told)?;
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
            stage.session.run_within(&made.views(&stage.feeds, given)?)?;
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
        let mut block = Buffer::new(input.byte_len())
            .map_err(|shortage| shortage.diagnostic(Code::RunFailed, "a row-major copy of an input"))?;
        // SAFETY: the block was made for an input of this shape and type.
        unsafe { copy(input, block.as_mut_ptr()) };
        Ok(RowMajor(Some((block, contiguous_strides(input.shape())))))
    };
    given.iter().enumerate().map(own).collect()
}
