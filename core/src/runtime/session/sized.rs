//! What tells sizes while an entry runs: a region, or control flow. Its outputs get their memory when their sizes are known.

use std::collections::HashMap;
use std::time::Instant;

use byoc_plugin_api::{DType, Dim, Error, SizedOutputs, TensorView, TensorViewMut};

use super::control::ControlFlow;
use super::held::Held;
use super::lists::ListCall;
use super::work::run_failed;
use super::{LoadedCall, LoadedRegion, Session};
use crate::artifact::manifest::ValueType;
use crate::diagnostic::Result;
use crate::dim;
use crate::runtime::stages::Place;

/// A call, or control flow, with outputs of sizes that it tells.
pub(super) struct SizedCall {
    pub(super) what: What,
    /// The place of each of its inputs.
    pub(super) feeds: Vec<Place>,
    /// None for what nobody reads.
    outputs: Vec<Option<SizedOutput>>,
}

/// What tells sizes.
pub(super) enum What {
    Region(LoadedCall),
    Control(ControlFlow),
    List(ListCall),
}

/// An output with its memory.
struct SizedOutput {
    name: String,
    ty: ValueType,
    given: bool,
    held: Held,
}

impl SizedCall {
    pub(super) fn new(what: What, feeds: Vec<Place>, outputs: Vec<Option<(String, ValueType)>>) -> SizedCall {
        let output = |(name, ty)| SizedOutput { name, ty, given: false, held: Held::default() };
        SizedCall { what, feeds, outputs: outputs.into_iter().map(|named| named.map(output)).collect() }
    }

    /// The bodies of control flow.
    pub(super) fn bodies(&self) -> &[Session] {
        match &self.what {
            What::Region(_) | What::List(_) => &[],
            What::Control(control) => &control.bodies,
        }
    }

    /// Bytes of its outputs.
    pub(super) fn room(&self) -> usize {
        self.outputs.iter().flatten().map(|output| output.held.room()).sum()
    }

    /// An output of the last run.
    pub(super) fn output(&self, index: usize) -> Option<TensorView<'_>> {
        let output = self.outputs.get(index)?.as_ref()?;
        Some(output.held.view(output.ty.dtype))
    }

    pub(super) fn run(&mut self, inputs: &[TensorView<'_>], symbols: &mut HashMap<String, usize>) -> Result<()> {
        let SizedCall { what, outputs, .. } = self;
        outputs.iter_mut().flatten().for_each(|output| output.given = false);
        let mut filling = Filling { outputs, symbols, failed: None };
        match what {
            What::Control(control) => control.run(inputs, &mut filling),
            What::List(call) => call.run(inputs, &mut filling),
            What::Region(call) => run_region(call, inputs, filling),
        }
    }
}

fn run_region(call: &mut LoadedCall, inputs: &[TensorView<'_>], mut filling: Filling<'_>) -> Result<()> {
    let start = Instant::now();
    let LoadedRegion::Host(bound) = &mut call.region else { return Ok(()) };
    let done = bound.executable().run_sized(inputs, &mut filling);
    call.time += start.elapsed();
    // Whatever the backend made of it.
    let done = filling.failed.map_or(done, Err);
    let done = done.and_then(|()| match filling.outputs.iter().flatten().find(|output| !output.given) {
        Some(output) => Err(Error::new(format!("it did not give '{}'", output.name))),
        None => Ok(()),
    });
    done.map_err(|error| run_failed(call, error))
}

/// The outputs of what is running.
pub(super) struct Filling<'a> {
    outputs: &'a mut [Option<SizedOutput>],
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
        let none = || Error::new(format!("there is no output {index}"));
        let output = self.outputs[index].as_mut().ok_or_else(none)?;
        Ok(output.held.view_mut(output.ty.dtype))
    }
}

impl Filling<'_> {
    /// Whether anybody reads the output of that index.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(Option::is_some)
    }

    /// Whether the output of that index has elements of that type.
    pub(super) fn takes(&self, index: usize, dtype: DType) -> bool {
        self.outputs.get(index).is_some_and(|output| output.as_ref().is_some_and(|output| output.ty.dtype == dtype))
    }

    /// What the shape of an output is as far as it is known; sizes that are not are 0.
    pub(super) fn known_shape(&self, index: usize) -> Vec<i64> {
        let ty = self.outputs.get(index).and_then(|output| output.as_ref().map(|output| &output.ty));
        let size = |size: &Dim| match size {
            Dim::Fixed(size) => *size as i64,
            Dim::Symbolic(text) => dim::eval(text, self.symbols).map_or(0, |size| size as i64),
        };
        ty.map_or_else(Vec::new, |ty| ty.shape.iter().map(size).collect())
    }

    fn prepare(&mut self, index: usize, shape: &[i64]) -> std::result::Result<(), Error> {
        let count = self.outputs.len();
        let none = || Error::new(format!("there is no output {index} of {count}"));
        let output = self.outputs.get_mut(index).and_then(Option::as_mut).ok_or_else(none)?;
        if std::mem::replace(&mut output.given, true) {
            return Err(Error::new(format!("the memory of '{}' was asked for twice", output.name)));
        }
        output.bind(shape, self.symbols)?;
        output.held.reshape(&output.name, output.ty.dtype, shape)
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
}
