//! The three DLPack structs that carry tensors across the border, declared here so that their layout is frozen with
//! the ABI. Layout: <https://dmlc.github.io/dlpack/latest/c_api.html> (version 1.x), checked by a test below.

use std::ffi::c_void;

use abi_stable::StableAbi;

/// Where a tensor's memory is: `device_type` 1 is the CPU, 2 CUDA, 12 an accelerator of another kind.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// DLPack's device type number.
    pub device_type: i32,
    /// Which device of that type.
    pub device_id: i32,
}

/// An element type: `code` 0 int, 1 uint, 2 float, 3 handle of a text, 4 bfloat, 5 complex, 6 bool, 10 to 14 and 17 floats of 8 and of 4 bits; `lanes` is 1.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// DLPack's type code.
    pub code: u8,
    /// Bits an element.
    pub bits: u8,
    /// Vector lanes; always 1 here.
    pub lanes: u16,
}

/// A borrowed tensor. `strides` are in elements and never null when `ndim > 0`; `byte_offset` is added to `data`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct DLTensor {
    /// Start of the allocation, or a device handle.
    pub data: *mut c_void,
    /// Where `data` is.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// `ndim` sizes.
    pub shape: *const i64,
    /// `ndim` strides, in elements.
    pub strides: *const i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// The CPU.
pub const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layout_is_dlpack_1() {
        assert_eq!(size_of::<DLTensor>(), 48);
        let offsets = [
            offset_of!(DLTensor, data),
            offset_of!(DLTensor, device),
            offset_of!(DLTensor, ndim),
            offset_of!(DLTensor, dtype),
            offset_of!(DLTensor, shape),
            offset_of!(DLTensor, strides),
            offset_of!(DLTensor, byte_offset),
        ];
        assert_eq!(offsets, [0, 8, 16, 20, 24, 32, 40]);
    }
}
