//! Converts values between the forms that layers need.

use byoc_plugin_api::Refusal;

use super::{Lowering, read};
use crate::kmodel::bodies::Shape;
use crate::net::{Form, TensorId, Work};

impl Lowering<'_> {
    /// The value as maps in KPU RAM.
    pub(super) fn kpu(&mut self, value: usize) -> Result<TensorId, Refusal> {
        let (source, shape) = (self.computed(value)?, self.map(value)?);
        if let Some((tensor, _)) = self.known[source].kpu
            && self.net.tensors[tensor].shape == shape
        {
            return Ok(tensor);
        }
        if self.is_outside(source) {
            let tensor = self.outside(Form::Kpu, shape, source);
            self.known[source].kpu = Some((tensor, None));
            return Ok(tensor);
        }
        let bytes = self.bytes(value)?;
        let tensor = self.net.step(Work::Upload, vec![bytes], read::tensor(Form::Kpu, shape, source));
        self.known[source].kpu = Some((tensor, None));
        Ok(tensor)
    }

    /// The value as bytes in main memory.
    pub(super) fn bytes(&mut self, value: usize) -> Result<TensorId, Refusal> {
        let source = self.computed(value)?;
        if let Some(tensor) = self.known[source].bytes {
            return Ok(tensor);
        }
        let known = self.known[source].clone();
        let shape = self.lying(source)?;
        let tensor = match known {
            super::ValueForms { kpu: Some((tensor, Some(step))), .. } => self.copy_out(tensor, step),
            super::ValueForms { doubled: Some((tensor, step)), .. } => {
                let full = self.copy_out(tensor, step);
                let work = Work::Resize(self.net.tensors[full].shape);
                self.net.step(work, vec![full], read::tensor(Form::Bytes, shape, source))
            }
            super::ValueForms { floats: Some(tensor), .. } => {
                self.net.step(Work::Quantize, vec![tensor], read::tensor(Form::Bytes, shape, source))
            }
            _ => self.outside(Form::Bytes, shape, source),
        };
        self.known[source].bytes = Some(tensor);
        Ok(tensor)
    }

    /// The value as `f32` in main memory.
    pub(super) fn floats(&mut self, value: usize) -> Result<TensorId, Refusal> {
        let source = self.computed(value)?;
        if let Some(tensor) = self.known[source].floats {
            return Ok(tensor);
        }
        let shape = self.lying(source)?;
        let tensor = if self.is_outside(source) {
            self.outside(Form::Floats, shape, source)
        } else {
            let bytes = self.bytes(value)?;
            self.net.step(Work::Dequantize, vec![bytes], read::tensor(Form::Floats, shape, source))
        };
        self.known[source].floats = Some(tensor);
        Ok(tensor)
    }

    /// Whether the value is there only as `f32`, or not at all yet.
    pub(super) fn is_float(&self, value: usize) -> bool {
        let known = &self.known[self.alias[value]];
        known.floats.is_some() && known.bytes.is_none() && known.kpu.is_none() && known.doubled.is_none()
    }

    fn is_outside(&self, value: usize) -> bool {
        self.region.inputs.contains(&value)
    }

    /// A value that is there before the first step.
    fn outside(&mut self, form: Form, shape: Shape, value: usize) -> TensorId {
        let tensor = self.net.tensor(form, shape, value);
        self.net.inputs.push(tensor);
        tensor
    }

    /// Has a convolution write its result to main memory, too.
    pub(super) fn copy_out(&mut self, tensor: TensorId, step: usize) -> TensorId {
        if let Some(&copy) = self.net.steps[step].outputs.get(1) {
            return copy;
        }
        let made = &self.net.tensors[tensor];
        let (shape, value) = (made.shape, made.value);
        let copy = self.net.tensor(Form::Bytes, shape, value);
        self.net.steps[step].outputs.push(copy);
        copy
    }
}
