//! The shape of every value: symbols learned from the inputs, dimensions evaluated.

use std::collections::HashMap;

use byoc_dim::{DimError, bind, eval_shape};
use byoc_plugin_api::{Dim, Error, TensorView};

use crate::program::Program;

/// The shapes of all values, for inputs of some shapes.
pub(super) struct Shapes {
    inputs: Vec<Vec<usize>>,
    all: Vec<Vec<usize>>,
}

impl Shapes {
    /// Every shape.
    pub(super) fn all(&self) -> &[Vec<usize>] {
        &self.all
    }

    /// Whether inputs are of the shapes that these are for.
    pub(super) fn are_of(&self, inputs: &[TensorView<'_>]) -> bool {
        let same = |(shape, view): (&Vec<usize>, &TensorView<'_>)| {
            shape.iter().map(|&size| size as i64).eq(view.shape().iter().copied())
        };
        self.inputs.len() == inputs.len() && self.inputs.iter().zip(inputs).all(same)
    }
}

/// The dimensions of all values, as the program has them.
pub(super) struct Dims(Vec<Vec<Dim>>);

impl Dims {
    pub(super) fn new(program: &Program) -> Self {
        Dims(program.values.iter().map(|value| value.shape.clone()).collect())
    }

    /// All shapes, where none depends on the inputs.
    pub(super) fn fixed(&self, program: &Program) -> Result<Option<Shapes>, Error> {
        if self.0.iter().flatten().any(|dim| dim.fixed().is_none()) {
            return Ok(None);
        }
        self.evaluate(program, &HashMap::new()).map(Some)
    }

    /// All shapes for these inputs.
    pub(super) fn shapes(&self, program: &Program, inputs: &[TensorView<'_>]) -> Result<Shapes, Error> {
        if inputs.len() != program.inputs.len() {
            return Err(Error::new(format!("{} inputs for {}", inputs.len(), program.inputs.len())));
        }
        let mut symbols = HashMap::new();
        let mut pending = Vec::new();
        for (position, (&value, view)) in program.inputs.iter().zip(inputs).enumerate() {
            let dims = &self.0[value];
            if dims.len() != view.shape().len() {
                return Err(Error::new(format!(
                    "input {position} has rank {}, not {}",
                    view.shape().len(),
                    dims.len()
                )));
            }
            pending.extend(dims.iter().zip(view.shape()).map(|(dim, &size)| (position, dim, size)));
        }
        learn(pending, &mut symbols)?;
        self.evaluate(program, &symbols)
    }

    fn evaluate(&self, program: &Program, symbols: &HashMap<String, usize>) -> Result<Shapes, Error> {
        let shape = |dims: &Vec<Dim>| eval_shape(dims, symbols).map_err(dim_error);
        let all = self.0.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
        Ok(Shapes { inputs: program.inputs.iter().map(|&value| all[value].clone()).collect(), all })
    }
}

/// Learns symbols from sizes of inputs. A dimension that cannot be solved yet waits for the others.
fn learn(mut pending: Vec<(usize, &Dim, i64)>, symbols: &mut HashMap<String, usize>) -> Result<(), Error> {
    loop {
        let before = pending.len();
        let mut waiting = Vec::new();
        for (position, dim, found) in pending {
            let found = usize::try_from(found).map_err(|_| Error::new("negative size"))?;
            match dim {
                Dim::Fixed(size) if *size == found => {}
                Dim::Fixed(size) => {
                    return Err(Error::new(format!("input {position} has the size {found} where {size} is expected")));
                }
                Dim::Symbolic(text) => {
                    if !bind(text, found, symbols).map_err(dim_error)? {
                        waiting.push((position, dim, found as i64));
                    }
                }
            }
        }
        if waiting.is_empty() || waiting.len() == before {
            return Ok(());
        }
        pending = waiting;
    }
}

fn dim_error(error: DimError) -> Error {
    Error::new(error.to_string())
}
