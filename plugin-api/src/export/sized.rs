//! The functions of the ability `byoc.sized`: outputs whose memory is asked for when their sizes are known.

use std::ffi::c_void;

use super::{Loaded, guard, tensors};
use crate::abi::{self, Sink, TensorList};
use crate::dlpack::{CPU, DLDataType, DLTensor};
use crate::error::Error;
use crate::runtime::SizedOutputs;
use crate::sized_table::{OutputAllocator, SizedTable};
use crate::tensor::{TensorView, TensorViewMut};

pub(super) const TABLE: &SizedTable = &SizedTable { struct_size: size_of::<SizedTable>(), run_sized };

/// The outputs of the run that is under way.
struct Outputs(OutputAllocator);

impl SizedOutputs for Outputs {
    fn allocate(&mut self, output: usize, shape: &[i64]) -> Result<TensorViewMut<'_>, Error> {
        let mut tensor = DLTensor {
            data: std::ptr::null_mut(),
            device: CPU,
            ndim: 0,
            dtype: DLDataType { code: 0, bits: 0, lanes: 0 },
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            byte_offset: 0,
        };
        match (self.0.allocate)(self.0.context, output, shape.as_ptr(), shape.len(), &mut tensor) {
            // SAFETY: the host lends the memory, which is nobody else's, until the run ends.
            abi::OK => unsafe { TensorViewMut::from_dlpack(&tensor) },
            _ => Err(Error::new(format!("the host takes no output {output} of shape {shape:?}"))),
        }
    }
}

extern "C" fn run_sized(executable: *mut c_void, inputs: TensorList, outputs: OutputAllocator, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the handle came from `load`, is not freed yet, and the host makes one call at a time.
        let loaded = unsafe { &mut *executable.cast::<Loaded>() };
        loaded.inputs.clear();
        // SAFETY: the host lends the tensors for the length of the call; the views are cleared before it ends, and at
        // the start of the next call if a panic cut this one short.
        unsafe {
            for tensor in tensors(&inputs) {
                loaded.inputs.push(TensorView::from_dlpack(tensor)?);
            }
        }
        let result = loaded.executable.call(|executable| executable.run_sized(&loaded.inputs, &mut Outputs(outputs)));
        loaded.inputs.clear();
        result
    })
}
