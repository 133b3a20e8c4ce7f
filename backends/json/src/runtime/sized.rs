//! Regions with outputs of sizes that only their computation tells: one node, by its reference kernel, which computes the shape
//! itself.

use byoc_plugin_api::{DType, Error, SizedOutputs, TensorView, contiguous_strides};

use super::Loaded;
use super::bind::Bound;
use crate::program::{Step, Value};
use crate::reference::{self, Array};

impl Loaded<'_> {
    /// Runs the one node of the program.
    pub(super) fn compute_sized(&self, inputs: &[TensorView<'_>], outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        let program = &self.program;
        if inputs.len() != program.inputs.len() {
            return Err(Error::new(format!("{} inputs for {}", inputs.len(), program.inputs.len())));
        }
        let node = |step: &Step| Some((step.node()?, step.outputs.clone()));
        let [(node, made)] = program.steps.iter().filter_map(node).collect::<Vec<_>>().try_into().map_err(|_| {
            Error::new("damaged code: sizes that are told come of one node").hint("Compile the model again")
        })?;
        let constants = program.constants.iter().zip(&self.constants);
        let constants: Vec<_> = constants
            .map(|(constant, bound)| (constant.value, Shaped::of(bound, &program.values[constant.value])))
            .collect();
        let view = |value: usize| match program.inputs.iter().position(|input| *input == value) {
            Some(input) => Ok(inputs[input]),
            None => match constants.iter().find(|(constant, _)| *constant == value) {
                Some((_, constant)) => constant.view(),
                None => Err(Error::new(format!("value {value} is not there"))),
            },
        };
        let views: Vec<_> =
            node.inputs.iter().map(|value| value.map(view).transpose()).collect::<Result<_, Error>>()?;
        let arrays = views.iter().map(|view| view.as_ref().map(Array::from_view).transpose());
        let dtypes: Vec<_> = made.iter().map(|value| value.map(|value| program.values[value].dtype)).collect();
        let results =
            reference::compute_with(&node, arrays.collect::<Result<_, _>>()?, &dtypes, self.texts.as_deref())?;
        for (index, value) in program.outputs.iter().enumerate() {
            let place = made.iter().position(|made| *made == Some(*value));
            let array = place.and_then(|place| results.get(place));
            let array = array.ok_or_else(|| Error::new(format!("output {index} is not computed")))?;
            let shape: Vec<i64> = array.shape().iter().map(|&size| size as i64).collect();
            array.store(&mut outputs.allocate(index, &shape)?)?;
        }
        Ok(())
    }
}

/// A constant with what a view of it borrows.
struct Shaped<'a> {
    bound: &'a Bound<'a>,
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl<'a> Shaped<'a> {
    fn of(bound: &'a Bound<'a>, value: &Value) -> Shaped<'a> {
        let shape: Vec<i64> = value.shape.iter().map(|size| size.fixed().unwrap_or(0) as i64).collect();
        Shaped { bound, dtype: value.dtype, strides: contiguous_strides(&shape), shape }
    }

    fn view(&self) -> Result<TensorView<'_>, Error> {
        match self.bound {
            Bound::View(view) => Ok(*view),
            Bound::Owned { memory, offset, bytes } => {
                let bytes = &memory.as_bytes()[*offset..][..*bytes];
                TensorView::from_bytes(bytes, self.dtype, &self.shape, &self.strides)
            }
        }
    }
}
