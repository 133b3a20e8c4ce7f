//! The code of a region: the region itself without names, where each constant is, and the planted bug. It is interpreted
//! node by node.

use std::sync::Arc;

use byoc_plugin_api::{
    BoundConstants, ConstantId, DType, Error, Executable, Region, TensorView, TensorViewMut, from_hex, to_hex,
};
use serde::{Deserialize, Serialize};

use crate::call::{Bugs, Call, State};
use crate::panels;
use crate::tensor::{Tensor, sizes};

/// Where a constant is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Place {
    /// With the host, as the model has it.
    Host,
    /// In panels of columns.
    Packed,
    /// In the code: bytes in hex.
    Embedded(String),
}

/// The code.
#[derive(Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) bug: String,
    pub(crate) region: Region,
    /// Parallel to the constants of the region.
    pub(crate) places: Vec<Place>,
}

/// Computes the outputs of a node.
pub(crate) type Kernel = fn(&mut Call<'_>) -> Result<Vec<Tensor>, Error>;

impl Program {
    /// Reads code, of which nothing is believed.
    pub(crate) fn read(code: &[u8], bugs: Bugs) -> Result<Program, Error> {
        let program: Program = serde_json::from_slice(code)?;
        program.region.validate()?;
        if !bugs.iter().any(|(name, _)| *name == program.bug) {
            return Err(Error::new(format!("damaged code: there is no bug '{}'", program.bug)));
        }
        if program.places.len() != program.region.constants.len() {
            return Err(Error::new("damaged code: not every constant has a place"));
        }
        Ok(program)
    }

    /// The region without what does not matter to the code: equal computations have equal code.
    pub(crate) fn nameless(region: &Region) -> Region {
        let mut region = Region { symbol: String::new(), observed: Vec::new(), covers_entry: false, ..region.clone() };
        region.values.iter_mut().for_each(|value| value.name.clear());
        region.nodes.iter_mut().for_each(|node| node.name.clear());
        for constant in &mut region.constants {
            (constant.inline, constant.shared) = (None, false);
        }
        region
    }
}

/// A constant of `f32` as it is written into the code.
pub(crate) fn embedded(view: &TensorView<'_>) -> Result<Place, Error> {
    let values = view.to_vec::<f32>()?;
    Ok(Place::Embedded(to_hex(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())))
}

/// A region that is ready to run.
pub(crate) struct Loaded {
    program: Program,
    kernel: Kernel,
    /// The constants, by value.
    constants: Vec<(usize, Arc<Tensor>)>,
    /// Parallel to the nodes.
    states: Vec<State>,
}

impl Loaded {
    pub(crate) fn new(program: Program, kernel: Kernel, bound: &BoundConstants<'_>) -> Result<Loaded, Error> {
        let mut constants = Vec::new();
        for (constant, place) in program.region.constants.iter().zip(&program.places) {
            let shape = program.region.values[constant.value].fixed_shape();
            let shape = shape.ok_or_else(|| Error::new("damaged code: a constant has no fixed size"))?;
            let tensor = constant_tensor(&program.bug, constant.id, &shape, place, bound)?;
            if tensor.shape() != shape {
                return Err(Error::new(format!(
                    "constant {} has shape {:?}, not {shape:?}",
                    constant.id,
                    tensor.shape()
                )));
            }
            constants.push((constant.value, Arc::new(tensor)));
        }
        let states = program.region.nodes.iter().map(|_| State::default()).collect();
        Ok(Loaded { program, kernel, constants, states })
    }
}

fn constant_tensor(
    bug: &str,
    id: ConstantId,
    shape: &[usize],
    place: &Place,
    bound: &BoundConstants<'_>,
) -> Result<Tensor, Error> {
    match place {
        Place::Host if bug == "strided-constant" => Tensor::copy_as_it_lies(&bound.host(id)?),
        Place::Host if bug == "shared-as-panels" => panels::misread(&bound.host(id)?),
        Place::Host => Tensor::copy(&bound.host(id)?),
        Place::Packed => panels::unpack(&bound.packed(id, panels::LAYOUT)?, shape),
        Place::Embedded(hex) => {
            let bytes = from_hex(hex).ok_or_else(|| Error::new("damaged code: a constant is not in hex"))?;
            let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
            Tensor::copy(&TensorView::from_bytes(
                &bytes,
                DType::F32,
                &shape,
                &byoc_plugin_api::contiguous_strides(&shape),
            )?)
        }
    }
}

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let region = &self.program.region;
        let mut values: Vec<Option<Arc<Tensor>>> = vec![None; region.values.len()];
        for (value, tensor) in &self.constants {
            values[*value] = Some(tensor.clone());
        }
        if inputs.len() != region.inputs.len() || outputs.len() != region.outputs.len() {
            return Err(Error::new("the region has another number of inputs or outputs"));
        }
        for (&value, input) in region.inputs.iter().zip(inputs) {
            values[value] = Some(Arc::new(Tensor::copy(input)?));
        }
        for (node, state) in region.nodes.iter().zip(&mut self.states) {
            let read = |input: &Option<usize>| match input {
                Some(value) => values[*value].clone().map(Some).ok_or_else(|| Error::new("a value is read too early")),
                None => Ok(None),
            };
            let operands = node.inputs.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
            let output = node.output(0).and_then(|value| region.outputs.iter().position(|&output| output == value));
            let results = (self.kernel)(&mut Call {
                node,
                inputs: operands.iter().map(Option::as_deref).collect(),
                constants: node
                    .inputs
                    .iter()
                    .map(|input| input.is_some_and(|it| region.constant(it).is_some()))
                    .collect(),
                wanted: output.map(|output| sizes(outputs[output].shape())),
                bug: &self.program.bug,
                state,
            })?;
            for (value, result) in node.outputs.iter().zip(results) {
                if let Some(value) = value {
                    values[*value] = Some(Arc::new(result));
                }
            }
        }
        for (&value, output) in region.outputs.iter().zip(outputs) {
            values[value].as_ref().ok_or_else(|| Error::new("an output is not computed"))?.write(output)?;
        }
        Ok(())
    }
}
