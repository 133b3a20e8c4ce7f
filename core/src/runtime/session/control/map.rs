//! Runs a body for each element of sequences, and makes sequences of what it gives.

use std::sync::Arc;

use byoc_plugin_api::TensorView;

use super::ControlFlow;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::runtime::session::filling::{Filling, failed, give_number, incomplete, one};
use crate::runtime::session::tables::{Kept, List};

type Tensors = Arc<Vec<Arc<Kept>>>;

impl ControlFlow {
    pub(super) fn map(&mut self, mapped: &[bool], inputs: &[TensorView<'_>], filling: &mut Filling<'_>) -> Result<()> {
        let sequences = self.sequences(mapped, inputs)?;
        let count = sequences.iter().flatten().map(|tensors| tensors.len()).next().ok_or_else(incomplete)?;
        if let Some(other) = sequences.iter().flatten().find(|tensors| tensors.len() != count) {
            let message = format!("its sequences have {count} and {} elements", other.len());
            return Err(Diagnostic::new(Code::BadInput, message).hint("They are run over together"));
        }
        let body = self.bodies.first_mut().ok_or_else(incomplete)?;
        let mut results: Vec<Vec<Arc<Kept>>> = vec![Vec::new(); body.outputs().len()];
        let made = self.tables.lists().made();
        for index in 0..count {
            self.iterations.count()?;
            let mut given = inputs.to_vec();
            for (input, tensors) in given.iter_mut().zip(&sequences) {
                if let Some(tensors) = tensors {
                    *input = tensors[index].view();
                }
            }
            body.run(&given)?;
            for (output, results) in results.iter_mut().enumerate().filter(|(output, _)| filling.wants(*output)) {
                results.push(Kept::copy_of(&body.output(output)?).map_err(failed)?);
            }
            // What it gives are tensors.
            self.tables.lists().keep(made, &mut []);
        }
        for (output, tensors) in results.into_iter().enumerate() {
            let handle = self.tables.lists().make(List::Sequence(Arc::new(tensors)));
            give_number(filling, output, handle)?;
        }
        Ok(())
    }

    /// The sequences among the inputs, whose elements the body gets one by one.
    fn sequences(&self, mapped: &[bool], inputs: &[TensorView<'_>]) -> Result<Vec<Option<Tensors>>> {
        let sequence = |(input, mapped): (&TensorView<'_>, &bool)| {
            if !mapped {
                return Ok(None);
            }
            match self.tables.lists().get(one::<u64>(input, "handle")?) {
                Some(List::Sequence(tensors)) => Ok(Some(Arc::clone(tensors))),
                _ => Err(incomplete()),
            }
        };
        inputs.iter().zip(mapped).map(sequence).collect()
    }
}
