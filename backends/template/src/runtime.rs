//! Loads code and constants as an executable.

use byoc_plugin_api::{BoundConstants, Environment, Error, Executable, HostRuntime, TensorView, TensorViewMut};

use crate::TemplateBackend;
use crate::codegen::{Operand, Program};

/// An operand, ready to be read.
enum Source<'a> {
    Input(usize),
    Constant(TensorView<'a>),
}

struct Add<'a> {
    operands: [Source<'a>; 2],
}

impl HostRuntime for TemplateBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let program: Program = serde_json::from_slice(code)?;
        let bind = |operand: &Operand| match *operand {
            Operand::Input(position) => Ok(Source::Input(position)),
            Operand::Constant(id) => constants.host(id).map(Source::Constant),
        };
        let operands = program.operands.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let operands = operands.try_into().map_err(|_| Error::new("damaged code: Add takes two operands"))?;
        Ok(Box::new(Add { operands }))
    }
}

impl Executable for Add<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let [a, b] = &self.operands;
        let output = outputs.first_mut().and_then(|view| view.as_mut_slice::<f32>());
        let Some(output) = output else { return Err(Error::new("expected one output of f32")) };
        write(output, source(a, inputs)?, |_, x| x)?;
        write(output, source(b, inputs)?, |sum, y| sum + y)
    }
}

fn source<'a>(source: &Source<'a>, inputs: &[TensorView<'a>]) -> Result<TensorView<'a>, Error> {
    match source {
        Source::Input(position) => {
            inputs.get(*position).copied().ok_or_else(|| Error::new(format!("input {position} is missing")))
        }
        Source::Constant(view) => Ok(*view),
    }
}

/// Combines each element of `output` with the one of `view`. A constant may have any strides, so the slow way stays.
fn write(output: &mut [f32], view: TensorView<'_>, combine: impl Fn(f32, f32) -> f32) -> Result<(), Error> {
    if view.len() != output.len() {
        return Err(Error::new(format!("{} elements for {}", view.len(), output.len())));
    }
    if let Some(slice) = view.as_slice::<f32>() {
        output.iter_mut().zip(slice).for_each(|(out, x)| *out = combine(*out, *x));
        return Ok(());
    }
    let mut elements = output.iter_mut();
    view.for_each_element(|bytes| {
        if let (Some(out), Ok(bytes)) = (elements.next(), bytes.try_into()) {
            *out = combine(*out, f32::from_le_bytes(bytes));
        }
    });
    Ok(())
}
