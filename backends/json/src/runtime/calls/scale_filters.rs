//! Calls of filters of a 1x1 convolution times factors for its input channels.

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::scale_filters;

struct ScaleFilters {
    filters: usize,
}

pub(super) fn scale(signature: &Signature<'_>, filters: usize) -> Result<Ready, Error> {
    let &[1, channels, 1, 1] = signature.input(1)? else { return Err(bad_shapes(signature)) };
    let values = [signature.input_value(1), signature.output_value(0)];
    let plain = values.iter().flatten().all(|value| value.dtype == DType::F32 && !value.blocked);
    let (&[len], true) = (signature.input(0)?, plain) else { return Err(bad_shapes(signature)) };
    if signature.output(0)? != [len] || !scale_filters::fits([channels, filters], len) {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(ScaleFilters { filters }))
}

impl Call for ScaleFilters {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (w, factors) = (io.inputs.weights(0)?, io.inputs.slice(1)?);
        scale_filters::scale(io.threads, self.filters, w, factors, io.outputs.take(0)?);
        Ok(())
    }
}
