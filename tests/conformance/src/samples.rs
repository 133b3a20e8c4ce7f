//! A data set of one sample, for backends that choose ranges from one: the very inputs that cases run with. Other values
//! would lie outside of the ranges.

use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::diagnostic::{Diagnostic, Result};

use crate::bench::Source;
use crate::data::random;

/// What cases give to a model's inputs.
pub(crate) struct Ordinary(pub(crate) Source);

struct Drawn<'a> {
    source: &'a Source,
    inputs: Vec<Input>,
}

impl Dataset for Ordinary {
    fn name(&self) -> String {
        "made-up inputs".into()
    }

    fn open(&self, inputs: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        Ok(Box::new(Drawn { source: &self.0, inputs: inputs.to_vec() }))
    }
}

impl Samples for Drawn<'_> {
    fn count(&self) -> usize {
        1
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    fn load(&self, _: usize) -> Result<Vec<Vec<u8>>> {
        let draw = |input: &Input| {
            let shape: Vec<_> = input.shape.iter().map(|&size| size as i64).collect();
            random(input.dtype, &shape, self.source.fill(&input.name), &input.name).bytes
        };
        Ok(self.inputs.iter().map(draw).collect())
    }
}
