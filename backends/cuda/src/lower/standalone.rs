//! Nodes that a standalone kernel computes, which reads its operands from memory and is not fused with others.

use byoc_nvidia::program::{self, BufferRef};
use byoc_plugin_api::{Refusal, contiguous_strides};

use super::Lowering;
use crate::ir::{Def, Id};
use crate::kernels::StandaloneKernel;

/// A call of a standalone kernel.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kernel: StandaloneKernel,
    /// Its operands, which are contiguous.
    pub(crate) inputs: Vec<Id>,
    /// Its result.
    pub(crate) output: Id,
}

impl Lowering<'_> {
    /// Adds a call of a standalone kernel.
    pub(super) fn standalone(&mut self, kernel: &StandaloneKernel) -> Result<(), Refusal> {
        let inputs = kernel.inputs.iter().map(|&value| self.contiguous(value)).collect::<Result<_, _>>()?;
        let tensor = &self.region.values[kernel.output];
        let output = self.push(tensor.dtype, tensor.shape.clone(), Def::Standalone(self.graph.calls.len()));
        self.graph.known.insert(kernel.output, output);
        self.graph.decided.extend(&kernel.numbers);
        self.graph.calls.push(Call { kernel: kernel.clone(), inputs, output });
        Ok(())
    }

    /// A contiguous value. A constant with other strides is repacked at load.
    fn contiguous(&mut self, value: usize) -> Result<Id, Refusal> {
        let id = self.value(value)?;
        let Def::Memory(BufferRef::Constant(at), strides) = &self.graph.values[id].def else { return Ok(id) };
        let constant = self.graph.constants[*at].clone();
        let sizes: Vec<_> = constant.shape.iter().map(|&size| size as i64).collect();
        let own = contiguous_strides(&sizes);
        if own == *strides {
            return Ok(id);
        }
        let place = BufferRef::Constant(self.graph.constants.len());
        self.graph.constants.push(program::Constant { strides: own.clone(), ..constant });
        let tensor = &self.region.values[value];
        Ok(self.push(tensor.dtype, tensor.shape.clone(), Def::Memory(place, own)))
    }
}
