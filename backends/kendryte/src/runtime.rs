//! Loads code, which is a kmodel, as an executable that runs in the simulator.

use byoc_plugin_api::{
    BoundConstants, DType, Environment, Error, Executable, HostRuntime, StepTime, TensorView, TensorViewMut,
};

use crate::KendryteBackend;
use crate::given::SIGN;
use crate::kmodel::Kmodel;
use crate::simulator::{Input, Simulator};
use crate::trailer::{self, Trailer};

/// A loaded kmodel.
struct Loaded {
    simulator: Simulator,
    /// What the input's bytes mean and what the outputs are, where a trailer says so.
    trailer: Option<Trailer>,
    /// The input as bytes.
    bytes: Vec<u8>,
}

/// Makes the bytes of a kmodel ready to run on `threads` threads, the caller's included. The executable takes the
/// kmodel's own input (bytes in CHW order, or `f32` where its first layer is fully connected); behind a trailer that
/// says what the bytes mean it takes what the model takes in their place. Outputs are returned as they are in main memory, but
/// for bytes that are `i8` by the trailer.
pub fn load(code: &[u8], threads: usize) -> Result<Box<dyn Executable>, Error> {
    let (file, trailer) = Trailer::split(code)?;
    let simulator = Simulator::new(Kmodel::parse(file)?, threads)?;
    if let Some(trailer) = &trailer {
        check_channels(&trailer.input, simulator.input())?;
    }
    Ok(Box::new(Loaded { simulator, trailer, bytes: Vec::new() }))
}

/// That there is one scale, or one for each channel of an image.
fn check_channels(named: &trailer::Input, input: Input) -> Result<(), Error> {
    let Input::Bytes { channels, .. } = input else { return Ok(()) };
    let scales = named.channels.len();
    if named.scale.is_some() || scales == channels {
        return Ok(());
    }
    Err(Error::new(format!("damaged code: its trailer has scales for {scales} channels, the image has {channels}")))
}

impl HostRuntime for KendryteBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        _: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        load(code, environment.threads)
    }
}

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let [input] = inputs else {
            return Err(Error::new(format!("a kmodel takes one input, not {}", inputs.len())));
        };
        self.compute(input)?;
        let expected = self.simulator.kmodel().outputs.len();
        if outputs.len() != expected {
            return Err(Error::new(format!("the kmodel has {expected} outputs, not {}", outputs.len())));
        }
        for (index, output) in outputs.iter_mut().enumerate() {
            let result = self.simulator.output(index).unwrap_or_default();
            let target = output.as_mut_bytes().filter(|target| target.len() == result.len());
            let target =
                target.ok_or_else(|| Error::new(format!("output {index} of the kmodel has {} bytes", result.len())))?;
            target.copy_from_slice(result);
            let named = self.trailer.as_ref().and_then(|trailer| trailer.outputs.get(index));
            if named.is_some_and(|named| named.dtype == DType::I8) {
                target.iter_mut().for_each(|byte| *byte ^= SIGN);
            }
        }
        Ok(())
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.simulator.time_layers(on);
        Ok(())
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        Ok(self.simulator.layer_times())
    }
}

impl Loaded {
    fn compute(&mut self, input: &TensorView<'_>) -> Result<(), Error> {
        let own = match self.simulator.input() {
            Input::Bytes { .. } => DType::U8,
            Input::Floats(_) => DType::F32,
        };
        if let (DType::U8, Some(Trailer { input: by_trailer, .. })) = (own, &self.trailer) {
            self.bytes.clear();
            if let Some(floats) = input.as_slice::<f32>() {
                by_trailer.bytes(floats, &mut self.bytes);
                return self.simulator.run(&self.bytes);
            }
            if let Some(integers) = input.as_slice::<i8>() {
                self.bytes.extend(integers.iter().map(|&integer| integer as u8 ^ SIGN));
                return self.simulator.run(&self.bytes);
            }
        }
        let bytes = input.as_bytes().filter(|_| input.dtype() == own);
        let bytes = bytes.ok_or_else(|| Error::new(format!("the kmodel takes {own}, not {}", input.dtype())))?;
        self.simulator.run(bytes)
    }
}
