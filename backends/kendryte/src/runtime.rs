//! Code, which is a kmodel, to an executable that runs it in the simulator.

use byoc_plugin_api::{DType, Error, Executable, TensorView, TensorViewMut};

use crate::kmodel::Kmodel;
use crate::simulator::{Input, Simulator};

/// A loaded kmodel.
struct Loaded {
    simulator: Simulator,
}

/// Makes the bytes of a kmodel ready to run on `threads` threads, the caller's included. The executable takes the
/// kmodel's own input (bytes in CHW order, or `f32` where its first layer is fully connected) and gives its outputs as
/// they lie in main memory.
pub fn load(code: &[u8], threads: usize) -> Result<Box<dyn Executable>, Error> {
    Ok(Box::new(Loaded { simulator: Simulator::new(Kmodel::parse(code)?, threads)? }))
}

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let dtype = match self.simulator.input() {
            Input::Bytes { .. } => DType::U8,
            Input::Floats(_) => DType::F32,
        };
        let [input] = inputs else {
            return Err(Error::new(format!("a kmodel takes one input, not {}", inputs.len())));
        };
        let bytes = input.as_bytes().filter(|_| input.dtype() == dtype);
        let bytes = bytes.ok_or_else(|| Error::new(format!("the kmodel takes {dtype}, not {}", input.dtype())))?;
        self.simulator.run(bytes)?;
        let expected = self.simulator.kmodel().outputs.len();
        if outputs.len() != expected {
            return Err(Error::new(format!("the kmodel has {expected} outputs, not {}", outputs.len())));
        }
        for (index, output) in outputs.iter_mut().enumerate() {
            let result = self.simulator.output(index).unwrap_or_default();
            let target = output.as_mut_bytes().filter(|target| target.len() == result.len());
            target
                .ok_or_else(|| Error::new(format!("output {index} of the kmodel has {} bytes", result.len())))?
                .copy_from_slice(result);
        }
        Ok(())
    }
}
