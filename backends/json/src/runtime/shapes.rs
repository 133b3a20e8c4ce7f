//! The shape of every value: symbols learned from the inputs, dimensions evaluated.

use std::collections::HashMap;

use byoc_dim::{DimError, bind, eval_shape};
use byoc_plugin_api::{Dim, Error, TensorView};

use crate::program::Program;

/// The shapes of all values, for the inputs seen last.
pub(super) struct Shapes {
    /// Shapes of the inputs that `all` was computed for.
    inputs: Vec<Vec<usize>>,
    all: Vec<Vec<usize>>,
    dims: Vec<Vec<Dim>>,
    known: bool,
}

impl Shapes {
    pub(super) fn new(program: &Program) -> Self {
        let dims = program.values.iter().map(|value| value.shape.clone()).collect();
        Shapes { inputs: Vec::new(), all: Vec::new(), dims, known: false }
    }

    /// Whether no shape depends on the inputs; then all shapes are there from now on.
    pub(super) fn fixed(&mut self) -> Result<bool, Error> {
        if self.dims.iter().flatten().any(|dim| dim.fixed().is_none()) {
            return Ok(false);
        }
        self.evaluate(&HashMap::new())?;
        Ok(true)
    }

    /// Every shape.
    pub(super) fn all(&self) -> &[Vec<usize>] {
        &self.all
    }

    /// Takes the shapes of actual inputs. Gives whether shapes have changed.
    pub(super) fn bind(&mut self, program: &Program, inputs: &[TensorView<'_>]) -> Result<bool, Error> {
        if inputs.len() != program.inputs.len() {
            return Err(Error::new(format!("{} inputs for {}", inputs.len(), program.inputs.len())));
        }
        let same = |(shape, view): (&Vec<usize>, &TensorView<'_>)| {
            shape.iter().map(|&size| size as i64).eq(view.shape().iter().copied())
        };
        if self.known && self.inputs.len() == inputs.len() && self.inputs.iter().zip(inputs).all(same) {
            return Ok(false);
        }
        let changed = !self.known || self.dims.iter().flatten().any(|dim| dim.fixed().is_none());
        let mut symbols = HashMap::new();
        let mut pending = Vec::new();
        for (position, (&value, view)) in program.inputs.iter().zip(inputs).enumerate() {
            let dims = &self.dims[value];
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
        if changed {
            self.evaluate(&symbols)?;
        }
        self.inputs = program.inputs.iter().map(|&value| self.all[value].clone()).collect();
        self.known = true;
        Ok(changed)
    }

    fn evaluate(&mut self, symbols: &HashMap<String, usize>) -> Result<(), Error> {
        let shape = |dims: &Vec<Dim>| eval_shape(dims, symbols).map_err(dim_error);
        self.all = self.dims.iter().map(shape).collect::<Result<_, _>>()?;
        Ok(())
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
