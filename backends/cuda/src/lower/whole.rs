//! Nodes that a kernel of their own computes, from memory to memory.

use byoc_nvidia::program::{self, Place};
use byoc_plugin_api::{Refusal, contiguous_strides};

use super::Lowering;
use crate::ir::{Def, Id};
use crate::kernels::Whole;

/// What a kernel of its own computes, of values.
#[derive(Debug)]
pub(crate) struct Call {
    /// What the region has of it.
    pub(crate) whole: Whole,
    /// What it reads, contiguous.
    pub(crate) inputs: Vec<Id>,
    /// What it writes.
    pub(crate) output: Id,
}

impl Lowering<'_> {
    /// Notes what a kernel of its own computes.
    pub(super) fn whole(&mut self, whole: &Whole) -> Result<(), Refusal> {
        let inputs = whole.inputs.iter().map(|&value| self.contiguous(value)).collect::<Result<_, _>>()?;
        let tensor = &self.region.values[whole.output];
        let output = self.push(tensor.dtype, tensor.shape.clone(), Def::Whole(self.graph.calls.len()));
        self.graph.known.insert(whole.output, output);
        self.graph.decided.extend(&whole.numbers);
        self.graph.calls.push(Call { whole: whole.clone(), inputs, output });
        Ok(())
    }

    /// A value whose elements lie one after another. A constant that lies otherwise is laid out anew at load.
    fn contiguous(&mut self, value: usize) -> Result<Id, Refusal> {
        let id = self.value(value)?;
        let Def::Memory(Place::Constant(at), strides) = &self.graph.values[id].def else { return Ok(id) };
        let constant = self.graph.constants[*at].clone();
        let sizes: Vec<_> = constant.shape.iter().map(|&size| size as i64).collect();
        let own = contiguous_strides(&sizes);
        if own == *strides {
            return Ok(id);
        }
        let place = Place::Constant(self.graph.constants.len());
        self.graph.constants.push(program::Constant { strides: own.clone(), ..constant });
        let tensor = &self.region.values[value];
        Ok(self.push(tensor.dtype, tensor.shape.clone(), Def::Memory(place, own)))
    }
}
