//! Binds the constants of a program on the device.
//!
//! A constant with the strides and the alignment that the kernels expect is read in place. Others, among them some parts of
//! larger constants, are repacked into memory that the region owns; the file has them once all the same.

use byoc_plugin_api::{DeviceConstant, DeviceConstants, Error, TensorView};

use crate::attached_domain::AttachedDomain;
use crate::device_buffer::{DeviceBuffer, row_major_bytes};
use crate::program::{Constant, is_dense};

/// Alignment that kernels assume of a constant, so that they may load 16 bytes at once.
const ALIGNMENT: u64 = 16;

/// A constant on the device.
pub(super) struct BoundConstant {
    pub(super) address: u64,
    /// The memory at that address, if the region owns it.
    _own: Option<DeviceBuffer>,
}

impl BoundConstant {
    /// All constants, in the order of the program.
    pub(super) fn all(
        expected: &[Constant],
        found: &DeviceConstants<'_>,
        attached: &AttachedDomain,
    ) -> Result<Vec<BoundConstant>, Error> {
        expected.iter().map(|constant| BoundConstant::new(constant, found, attached)).collect()
    }

    fn new(
        expected: &Constant,
        found: &DeviceConstants<'_>,
        attached: &AttachedDomain,
    ) -> Result<BoundConstant, Error> {
        let id = expected.id;
        let DeviceConstant { bound, address } = match &expected.layout {
            None => found.host(id),
            Some(layout) => found.packed(id, layout),
        }?;
        let view = bound.view;
        let shape = sizes(&expected.shape).filter(|_| expected.strides.len() == expected.shape.len());
        let shape = shape.ok_or_else(|| Error::new(format!("damaged code: constant {id} has an invalid shape")))?;
        if view.dtype() != expected.dtype || view.shape() != shape {
            let (dtype, found) = (view.dtype(), view.shape());
            return Err(Error::new(format!("constant {id} is {dtype} {found:?}, not {} {shape:?}", expected.dtype)));
        }
        if view.is_empty() || (same(&shape, view.strides(), &expected.strides) && address.is_multiple_of(ALIGNMENT)) {
            return Ok(BoundConstant { address, _own: None });
        }
        let bytes = laid_out(&view, &shape, &expected.strides)?.ok_or_else(|| {
            let (found, strides) = (view.strides(), &expected.strides);
            let error = Error::new(format!("constant {id} has strides {found:?}, but its kernels read {strides:?}"));
            error.hint("Compile the model again")
        })?;
        let own = DeviceBuffer::holding(&bytes, &format!("repack constant {id}"), attached)?;
        Ok(BoundConstant { address: own.address(), _own: Some(own) })
    }
}

fn sizes(shape: &[usize]) -> Option<Vec<i64>> {
    shape.iter().map(|&size| i64::try_from(size).ok()).collect()
}

/// Whether the strides are equal. The stride of a dimension of size 1 does not matter.
fn same(shape: &[i64], strides: &[i64], others: &[i64]) -> bool {
    shape.iter().zip(strides.iter().zip(others)).all(|(&size, (stride, other))| size == 1 || stride == other)
}

/// The bytes of a constant repacked to other strides; `None` unless these are dense, in any order of dimensions, or its own,
/// which may have gaps. Others have strides of 0, for which the bound constant need not have equal elements, or sizes that
/// only damaged code gives.
fn laid_out(view: &TensorView<'_>, shape: &[i64], strides: &[i64]) -> Result<Option<Vec<u8>>, Error> {
    let own = same(shape, view.strides(), strides) && strides.iter().all(|&stride| stride >= 0);
    if !own && !is_dense(shape, strides) {
        return Ok(None);
    }
    let (elements, size) = (row_major_bytes(view)?, view.dtype().unpacked_bytes());
    // The view is of bytes that exist, so its own last index is one that can be counted.
    let last: i64 =
        shape.iter().zip(strides).filter(|(size, _)| **size > 1).map(|(size, stride)| (size - 1) * stride).sum();
    let mut bytes = vec![0; (usize::try_from(last).unwrap_or_default() + 1) * size];
    let mut index = vec![0i64; shape.len()];
    for element in elements.chunks_exact(size) {
        let at: i64 = index.iter().zip(strides).map(|(&index, &stride)| index * stride).sum();
        let at = usize::try_from(at).unwrap_or_default() * size;
        bytes[at..at + size].copy_from_slice(element);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;

    fn bytes(found: &[i64], wanted: &[i64]) -> Option<Vec<u8>> {
        let data: Vec<u8> = (0..6).collect();
        let shape = [2, 1, 3];
        // SAFETY: all strides of these tests stay within the 6 elements.
        let view = unsafe { TensorView::from_raw(data.as_ptr(), DType::U8, &shape, found) };
        laid_out(&view, &shape, wanted).expect("it has elements")
    }

    #[test]
    fn other_strides() {
        assert_eq!(bytes(&[3, 3, 1], &[1, 77, 2]), Some(vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(bytes(&[1, 2, 2], &[3, -9, 1]), Some(vec![0, 2, 4, 1, 3, 5]));
        assert_eq!(bytes(&[0, 0, 1], &[3, 3, 1]), Some(vec![0, 1, 2, 0, 1, 2]));
    }

    #[test]
    fn a_part_of_a_larger_constant_keeps_its_gaps() {
        assert_eq!(bytes(&[2, 9, 1], &[2, 9, 1]), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(bytes(&[1, 9, 2], &[1, 9, 2]), Some(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(bytes(&[0, 0, 2], &[0, 0, 2]), Some(vec![0, 0, 2, 0, 4]));
    }

    #[test]
    fn strides_of_no_whole_piece() {
        for wanted in [[0, 3, 1], [4, 3, 1], [-3, 3, 1], [1, 3, 1], [i64::MAX, 3, 1]] {
            assert_eq!(bytes(&[3, 3, 1], &wanted), None, "{wanted:?}");
        }
    }
}
