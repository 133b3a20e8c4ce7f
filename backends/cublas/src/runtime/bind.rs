//! Binds operands: inputs by index, constants by their address on the device.
//!
//! A constant is read in place, also transposed or as part of a larger one. Only if cublasLt does not support its strides
//! (equal elements are stored once, with strides of 0), it is repacked into memory that the region owns; the file has it
//! once all the same.

use byoc_nvidia::attached_domain::AttachedDomain;
use byoc_nvidia::device_buffer::{DeviceBuffer, row_major_bytes};
use byoc_nvidia::matmul::{self, View};
use byoc_nvidia::product::{Factor, Product};
use byoc_plugin_api::{
    ConstantId, DType, DeviceConstant, DeviceConstants, DeviceTensor, Dim, Error, contiguous_strides,
};

use crate::codegen::Source;
use crate::problem::{Matrices, Tensor, problem};

/// The longest vector to which a scalar bias is broadcast. No row of a call is longer.
const MOST_TIMES: usize = i32::MAX as usize;

/// An operand.
pub(super) enum Operand {
    /// The input of that index.
    Input(usize),
    /// A constant.
    Constant {
        address: u64,
        elements: i64,
        /// Its view as a batch of matrices, if it is multiplied.
        matrices: Option<Matrices>,
        /// The memory at that address, if the region owns it.
        _own: Option<DeviceBuffer>,
    },
}

/// All operands of a product.
pub(super) struct Operands {
    pub(super) x: Operand,
    pub(super) w: Operand,
    pub(super) c: Option<Operand>,
    pub(super) bias: Option<Operand>,
}

/// The addresses of the operands of a product.
pub(super) struct Addresses {
    pub(super) x: u64,
    pub(super) w: u64,
    pub(super) y: u64,
    /// The address of the result if nothing is added.
    pub(super) c: u64,
    pub(super) bias: Option<u64>,
}

impl Operands {
    /// Binds the constants, whose types and shapes must be those in the code.
    pub(super) fn bind(
        product: &Product<Source>,
        constants: &DeviceConstants<'_>,
        attached: &AttachedDomain,
    ) -> Result<Operands, Error> {
        let constant = |id: ConstantId| typed(constants.host(id)?, product.dtype);
        let factor = |factor: &Factor<Source>, multiplies: &dyn Fn(&Matrices) -> bool| match factor.from {
            Source::Input(position) => Ok(Operand::Input(position)),
            Source::Constant(id) => Operand::factor(constant(id)?, factor, multiplies, attached),
        };
        let x = factor(&product.x, &|x| plans(product, x, &beside(x.columns, 1)))?;
        let w = factor(&product.w, &|w| plans(product, &beside(1, w.rows), w))?;
        let added = |source: Source, length: Option<usize>| match source {
            Source::Input(position) => Ok(Operand::Input(position)),
            Source::Constant(id) => Operand::added(constant(id)?, length, attached),
        };
        let c = product.c.as_ref().map(|c| added(c.from, None)).transpose()?;
        let bias = product.bias.map(|bias| added(bias, product.n())).transpose()?;
        Ok(Operands { x, w, c, bias })
    }

    /// The addresses, with these inputs and the result at `y`.
    pub(super) fn addresses(&self, inputs: &[DeviceTensor<'_>], y: u64) -> Result<Addresses, Error> {
        let at = |operand: &Operand| match *operand {
            Operand::Constant { address, .. } => Ok(address),
            Operand::Input(position) => input(inputs, position).map(|tensor| tensor.address),
        };
        let c = self.c.as_ref().map_or(Ok(y), at)?;
        let bias = self.bias.as_ref().map(at).transpose()?;
        Ok(Addresses { x: at(&self.x)?, w: at(&self.w)?, y, c, bias })
    }
}

impl Operand {
    /// A constant that is multiplied, in place if possible.
    fn factor(
        constant: DeviceConstant<'_>,
        factor: &Factor<Source>,
        multiplies: &dyn Fn(&Matrices) -> bool,
        attached: &AttachedDomain,
    ) -> Result<Operand, Error> {
        let view = constant.bound.view;
        let named = |cause| Error::new(format!("constant {} {cause}", constant.bound.id));
        fits(&factor.shape, view.shape()).map_err(named)?;
        let as_it_lies = Matrices::read(factor.read, Tensor { shape: view.shape(), strides: view.strides() });
        let as_it_lies = as_it_lies.filter(|matrices| is_aligned(&constant) && multiplies(matrices));
        if let Some(matrices) = as_it_lies {
            return Ok(Operand::constant(constant.address, view.len(), Some(matrices), None));
        }
        let strides = contiguous_strides(view.shape());
        let matrices = Matrices::read(factor.read, Tensor { shape: view.shape(), strides: &strides });
        let matrices = matrices.ok_or_else(|| Error::new("damaged code: a factor is not a matrix"))?;
        let own = own(constant.bound.id, &row_major_bytes(&view)?, attached)?;
        Ok(Operand::constant(own.address(), view.len(), Some(matrices), Some(own)))
    }

    /// A constant that is added, contiguous; a scalar is broadcast to the length.
    fn added(constant: DeviceConstant<'_>, length: Option<usize>, attached: &AttachedDomain) -> Result<Operand, Error> {
        let view = constant.bound.view;
        let times = length.filter(|_| view.len() == 1).unwrap_or(1);
        if times == 1 && view.is_contiguous() && is_aligned(&constant) {
            return Ok(Operand::constant(constant.address, view.len(), None, None));
        }
        let own = own(constant.bound.id, &repeated(&row_major_bytes(&view)?, times)?, attached)?;
        Ok(Operand::constant(own.address(), view.len() * times, None, Some(own)))
    }

    fn constant(address: u64, elements: usize, matrices: Option<Matrices>, own: Option<DeviceBuffer>) -> Operand {
        Operand::Constant { address, elements: elements as i64, matrices, _own: own }
    }

    /// The operand as matrices, for inputs of these shapes.
    pub(super) fn matrices(
        &self,
        factor: &Factor<Source>,
        dtype: DType,
        inputs: &[DeviceTensor<'_>],
    ) -> Result<Matrices, Error> {
        match self {
            Operand::Constant { matrices: Some(matrices), .. } => Ok(matrices.clone()),
            Operand::Constant { .. } => Err(Error::new("damaged code: a factor is not a matrix")),
            Operand::Input(position) => {
                let tensor = input(inputs, *position)?;
                let name = format!("input {position}");
                same_type(&tensor, dtype, &name)?;
                fits(&factor.shape, tensor.shape).map_err(|cause| Error::new(format!("{name} {cause}")))?;
                let strides = contiguous_strides(tensor.shape);
                let matrices = Matrices::read(factor.read, Tensor { shape: tensor.shape, strides: &strides });
                matrices.ok_or_else(|| Error::new(format!("damaged code: {name} is not a matrix")))
            }
        }
    }

    /// How many elements it has.
    pub(super) fn elements(&self, dtype: DType, inputs: &[DeviceTensor<'_>]) -> Result<i64, Error> {
        match self {
            Operand::Constant { elements, .. } => Ok(*elements),
            Operand::Input(position) => {
                let tensor = input(inputs, *position)?;
                same_type(&tensor, dtype, &format!("input {position}"))?;
                Ok(elements(tensor.shape))
            }
        }
    }

    /// The address of a constant; 0, which has any alignment, for an input.
    pub(super) fn known_address(&self) -> u64 {
        match self {
            Operand::Constant { address, .. } => *address,
            Operand::Input(_) => 0,
        }
    }
}

/// Bytes repeated as often as the code says, which may be damaged.
fn repeated(bytes: &[u8], times: usize) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    let length = bytes.len().checked_mul(times).filter(|_| times <= MOST_TIMES);
    let room = length.filter(|&length| all.try_reserve_exact(length).is_ok());
    room.ok_or_else(|| Error::new(format!("damaged code: a row of {times} elements")))?;
    (0..times).for_each(|_| all.extend_from_slice(bytes));
    Ok(all)
}

/// A contiguous matrix, to try another one with.
fn beside(rows: i64, columns: i64) -> Matrices {
    Matrices { batch: vec![], rows, columns, view: View { row: columns, column: 1 } }
}

/// Whether cublasLt supports matrices with these strides.
fn plans(product: &Product<Source>, x: &Matrices, w: &Matrices) -> bool {
    problem(product, x, w).is_ok_and(|problem| matmul::plan(&problem).is_ok())
}

fn typed(constant: DeviceConstant<'_>, dtype: DType) -> Result<DeviceConstant<'_>, Error> {
    let found = constant.bound.view.dtype();
    if found == dtype {
        return Ok(constant);
    }
    Err(Error::new(format!("constant {} is {found}, not {dtype}", constant.bound.id)))
}

/// A copy of a constant in these bytes, on the device.
fn own(constant: ConstantId, bytes: &[u8], attached: &AttachedDomain) -> Result<DeviceBuffer, Error> {
    DeviceBuffer::holding(bytes, &format!("repack constant {constant}"), attached)
}

fn is_aligned(constant: &DeviceConstant<'_>) -> bool {
    constant.address.is_multiple_of(constant.bound.view.dtype().unpacked_bytes() as u64)
}

fn input<'t>(inputs: &[DeviceTensor<'t>], position: usize) -> Result<DeviceTensor<'t>, Error> {
    inputs.get(position).copied().ok_or_else(|| Error::new(format!("input {position} is missing")))
}

pub(super) fn same_type(tensor: &DeviceTensor<'_>, dtype: DType, name: &str) -> Result<(), Error> {
    if tensor.dtype == dtype {
        return Ok(());
    }
    Err(Error::new(format!("{name} is {}, not {dtype}", tensor.dtype)))
}

/// How many elements a tensor of that shape has.
pub(super) fn elements(shape: &[i64]) -> i64 {
    shape.iter().fold(1i64, |count, &size| count.saturating_mul(size))
}

/// Whether an actual shape is what the code expects.
fn fits(expected: &[Dim], found: &[i64]) -> Result<(), String> {
    let same = |(dim, &size): (&Dim, &i64)| dim.fixed().is_none_or(|fixed| i64::try_from(fixed) == Ok(size));
    if expected.len() == found.len() && expected.iter().zip(found).all(same) {
        return Ok(());
    }
    Err(format!("is {found:?}, not {}", byoc_nvidia::match_product::shape_text(expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_no_call_has() {
        assert_eq!(repeated(&[1, 2], 3), Ok(vec![1, 2, 1, 2, 1, 2]));
        for times in [MOST_TIMES + 1, usize::MAX / 2, usize::MAX] {
            let said = repeated(&[0; 8], times).expect_err("too many").message;
            assert_eq!(said, format!("damaged code: a row of {times} elements"));
        }
    }

    /// Sizes of tensors without elements may be any.
    #[test]
    fn elements_that_cannot_be_counted() {
        assert_eq!(elements(&[1 << 40, 1 << 40, 0]), 0);
        assert_eq!(elements(&[1 << 40, 1 << 40]), i64::MAX);
    }
}
