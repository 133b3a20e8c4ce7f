//! A data set of made-up samples, for backends that choose ranges from one.

use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::diagnostic::{Diagnostic, Result};

use crate::bench::Source;
use crate::data::random;

/// Samples; more would show nothing new.
const COUNT: usize = 2;

/// Samples of a model's inputs.
pub(crate) struct MadeUp(pub(crate) Source);

struct Drawn<'a> {
    source: &'a Source,
    inputs: Vec<Input>,
}

impl Dataset for MadeUp {
    fn name(&self) -> String {
        "made-up samples".into()
    }

    fn open(&self, inputs: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        Ok(Box::new(Drawn { source: &self.0, inputs: inputs.to_vec() }))
    }
}

impl Samples for Drawn<'_> {
    fn count(&self) -> usize {
        COUNT
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    fn load(&self, sample: usize) -> Result<Vec<Vec<u8>>> {
        let draw = |input: &Input| {
            let shape: Vec<_> = input.shape.iter().map(|&size| size as i64).collect();
            random(input.dtype, &shape, self.source.fill(&input.name), &format!("{} {sample}", input.name)).bytes
        };
        Ok(self.inputs.iter().map(draw).collect())
    }
}
