//! Computes at compile time: compiles a region for a host backend, loads it and runs it. Core has no kernels, so folding
//! and calibration both use this.

use byoc_plugin_api::{
    Backend, BoundConstant, BoundConstants, Environment, Error, Executable, Job, TensorView, TensorViewMut, Value,
    contiguous_strides,
};

use crate::buffer::Buffer;
use crate::codegen::{self, ConstantViews, PackedConstant, RecordedClaim, RegionConstant};
use crate::constants::ConstantTable;
use crate::diagnostic::{Diagnostic, Result};
use crate::ir::TensorType;
use crate::memory::{Shortage, titled};
use crate::partition::RegionPlan;
use crate::plugin::Selected;
use crate::spool::Spool;

/// A region with its code and its constants, as a run would find them in an artifact.
pub(crate) struct Compiled<'a> {
    host: &'a Selected,
    views: ConstantViews<'a>,
    code: Vec<u8>,
    /// In the order of the views.
    constants: Vec<Bound>,
}

impl<'a> Compiled<'a> {
    /// Generates the code of a region for `host`. What it packs goes to `spool`; `failed` wraps the backend's errors.
    pub(crate) fn new(
        table: &'a ConstantTable,
        plan: &RegionPlan,
        host: &'a Selected,
        spool: &mut Spool,
        failed: &dyn Fn(Error) -> Diagnostic,
    ) -> Result<Compiled<'a>> {
        let backend = &host.registered.backend;
        let views = ConstantViews::new(table, plan, true);
        let constants = views.constants();
        let mut code = Vec::new();
        let job = Job::new(&plan.region, &constants, &host.options);
        let generated = backend.codegen(&job, &mut code).map_err(failed)?;
        let claimed = codegen::claimed(plan, &job, (&code, &generated.learnt), host, spool, failed)?;
        let bound = claimed.into_iter().map(|constant| Bound::of(constant, spool, failed)).collect::<Result<_>>()?;
        drop(constants);
        Ok(Compiled { host, views, code, constants: bound })
    }

    /// Loads it for one thread: a sum over several threads may be rounded otherwise, and the result must not depend on
    /// the number of cores.
    pub(crate) fn load(&self) -> std::result::Result<Box<dyn Executable + '_>, Error> {
        let environment = Environment { threads: 1, options: self.host.options.clone() };
        let runtime = self.host.registered.backend.runtime().host()?;
        runtime.load(&self.code, &BoundConstants::new(self.bound()), &environment)
    }

    /// The constants that are bound at load.
    fn bound(&self) -> Vec<BoundConstant<'_>> {
        let bound = self.views.iter().zip(&self.constants).filter_map(|((id, view), bound)| match bound {
            Bound::Original => Some(BoundConstant { id, layout: None, view }),
            Bound::Nothing => None,
            Bound::Packed(packed) => {
                let PackedBytes { packed, bytes, shape, strides } = packed.as_ref();
                // SAFETY: the recorder checked that the bytes are as many as shape and type say.
                let view = unsafe { TensorView::from_raw(bytes.as_ptr(), packed.form.dtype, shape, strides) };
                Some(BoundConstant { id, layout: Some(&packed.form.layout), view })
            }
        });
        bound.collect()
    }
}

/// The constant that a claim binds at load.
enum Bound {
    Original,
    Nothing,
    Packed(Box<PackedBytes>),
}

/// The bytes of a packed claim, with what a view of them borrows.
struct PackedBytes {
    packed: PackedConstant,
    bytes: Buffer,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Bound {
    fn of(constant: RegionConstant, spool: &Spool, failed: &dyn Fn(Error) -> Diagnostic) -> Result<Bound> {
        let packed = match constant.claim {
            RecordedClaim::Host => return Ok(Bound::Original),
            RecordedClaim::Embedded | RecordedClaim::Unused => return Ok(Bound::Nothing),
            RecordedClaim::Packed(packed) => packed,
        };
        let shape: Vec<_> = packed.form.shape.iter().map(|&size| size as i64).collect();
        // Aligned as in a mapped artifact.
        let bytes = Buffer::copy_of(&spool.bytes(packed.bytes)?)
            .map_err(|shortage| failed(shortage.error("a packed constant")))?;
        Ok(Bound::Packed(Box::new(PackedBytes { packed, bytes, strides: contiguous_strides(&shape), shape })))
    }
}

/// A tensor of fixed shape that a region reads or writes, row-major.
pub(crate) struct Tensor {
    /// The name in the model.
    pub(crate) name: String,
    /// Type and shape.
    pub(crate) ty: TensorType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    buffer: Buffer,
    size: usize,
}

impl Tensor {
    /// Zeros of the type and shape of `value`. An error where its shape is not fixed, or does not fit in memory.
    pub(crate) fn zeros(value: &Value) -> std::result::Result<Tensor, Error> {
        let shape = value.fixed_shape().ok_or_else(|| Error::new(format!("'{}' has no fixed shape", value.name)))?;
        let size = value.dtype.bytes_of(&shape).filter(|&size| isize::try_from(size).is_ok());
        let size = size.ok_or_else(|| Error::new(format!("'{}' does not fit in memory", value.name)))?;
        let shape: Vec<_> = shape.iter().map(|&size| size as i64).collect();
        let ty = TensorType { dtype: value.dtype, shape: value.shape.clone() };
        let strides = contiguous_strides(&shape);
        let short = |shortage: Shortage| shortage.error(titled(&value.name, ty.dtype, &ty.shape));
        let buffer = Buffer::new(size).map_err(short)?;
        Ok(Tensor { name: value.name.clone(), ty, shape, strides, buffer, size })
    }

    /// Replaces the contents; false if the length differs.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() == self.size;
        if fits {
            self.buffer.as_mut()[..self.size].copy_from_slice(bytes);
        }
        fits
    }

    /// The memory of the elements, and their length in bytes.
    pub(crate) fn into_buffer(self) -> (Buffer, usize) {
        (self.buffer, self.size)
    }

    /// For reading.
    pub(crate) fn view(&self) -> TensorView<'_> {
        // SAFETY: the block is as large as the shape says, and is not written while the view borrows it.
        unsafe { TensorView::from_raw(self.buffer.as_ptr(), self.ty.dtype, &self.shape, &self.strides) }
    }

    /// For writing.
    pub(crate) fn view_mut(&mut self) -> TensorViewMut<'_> {
        // SAFETY: the block is as large as the shape says, and is written through this one view only.
        unsafe { TensorViewMut::from_raw(self.buffer.as_mut_ptr(), self.ty.dtype, &self.shape, &self.strides) }
    }
}
