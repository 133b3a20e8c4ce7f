//! Kernel arguments: binds addresses and sizes to what `cuLaunchKernelEx` takes, and launches.

use std::ffi::c_void;

use byoc_plugin_api::{DType, DeviceTensor, Error};
use cudarc::driver::sys::{
    self, CUlaunchAttribute, CUlaunchAttributeID_enum as LaunchAttribute, CUlaunchAttributeValue, CUlaunchConfig,
    CUtensorMap, CUtensorMapDataType_enum as Type, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as Swizzle,
};

use super::constants::BoundConstant;
use super::modules::{Kernel, Kernels};
use super::sizes::{Map, SizedLaunch, Sizes, Value};
use crate::attached_domain::AttachedDomain;
use crate::device_buffer::DeviceBuffer;
use crate::program::BufferRef;

/// A unit of argument storage. Each argument begins at one: no type needs more alignment.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Chunk([u8; 128]);

/// The addresses of all buffers of a program.
pub(super) struct Addresses<'a> {
    pub(super) inputs: &'a [DeviceTensor<'a>],
    pub(super) outputs: &'a [DeviceTensor<'a>],
    pub(super) constants: &'a [BoundConstant],
    pub(super) scratch: u64,
    pub(super) offsets: &'a [u64],
}

impl Addresses<'_> {
    /// The address of a buffer, which the program was checked to have.
    fn of(&self, place: BufferRef) -> u64 {
        match place {
            BufferRef::Input(at) => self.inputs[at].address,
            BufferRef::Output(at) => self.outputs[at].address,
            BufferRef::Constant(at) => self.constants[at].address,
            BufferRef::Scratch(at) => self.scratch + self.offsets[at],
        }
    }
}

/// The arguments of a launch, as the driver takes them.
struct Arguments {
    chunks: Vec<Chunk>,
    /// The address of each argument, in `chunks`.
    pointers: Vec<*mut c_void>,
}

// SAFETY: the pointers are into the memory of its own.
unsafe impl Send for Arguments {}

impl Arguments {
    fn new(values: &[Vec<u8>]) -> Arguments {
        let mut chunks = Vec::new();
        let mut starts = Vec::with_capacity(values.len());
        for value in values {
            starts.push(chunks.len());
            for part in value.chunks(size_of::<Chunk>()) {
                let mut chunk = Chunk([0; size_of::<Chunk>()]);
                chunk.0[..part.len()].copy_from_slice(part);
                chunks.push(chunk);
            }
        }
        // An argument of no bytes needs an address, too.
        chunks.push(Chunk([0; size_of::<Chunk>()]));
        let pointers = starts.iter().map(|&start| (&raw mut chunks[start]).cast()).collect();
        Arguments { chunks, pointers }
    }
}

/// A launch with its arguments bound.
pub(super) struct PreparedLaunch {
    kernel: Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// Whether it may begin before what is in front of it has ended.
    overlaps: bool,
    arguments: Arguments,
}

impl PreparedLaunch {
    fn new(kernel: &Kernel, work: &SizedLaunch, overlaps: bool, values: &[Vec<u8>]) -> PreparedLaunch {
        let SizedLaunch { grid, block, shared, .. } = *work;
        PreparedLaunch { kernel: kernel.clone(), grid, block, shared, overlaps, arguments: Arguments::new(values) }
    }

    /// Queues it.
    pub(super) fn launch(&mut self, attached: &AttachedDomain) -> Result<(), Error> {
        let ([x, y, z], [a, b, c]) = (self.grid, self.block);
        debug_assert!(!self.arguments.chunks.is_empty(), "the pointers are into them");
        let pointers = self.arguments.pointers.as_mut_ptr();
        let mut overlap = CUlaunchAttribute {
            id: LaunchAttribute::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: a,
            blockDimY: b,
            blockDimZ: c,
            sharedMemBytes: self.shared,
            hStream: attached.stream(),
            attrs: &raw mut overlap,
            numAttrs: self.overlaps.into(),
        };
        // SAFETY: the function's module lives as long as the kernel, the stream is the domain's, and there is one attribute or
        // none. The code is trusted to name the kernel's parameters, as it is with what the kernel does.
        let queued =
            unsafe { sys::cuLaunchKernelEx(&raw const config, self.kernel.function, pointers, std::ptr::null_mut()) };
        queued.result().map_err(|cause| {
            let (name, shared) = (&self.kernel.name, self.shared);
            let what = format!(
                "launch kernel {name} with {x} x {y} x {z} blocks of {a} x {b} x {c} threads and {shared} bytes"
            );
            attached.device().failed(&what, cause)
        })
    }
}

/// Prepares all launches. Runs the kernels that make arguments, and waits for them.
pub(super) fn ready(
    sizes: &Sizes,
    addresses: &Addresses<'_>,
    kernels: &Kernels,
    attached: &AttachedDomain,
) -> Result<Vec<PreparedLaunch>, Error> {
    let mut made = make(sizes, addresses, kernels, attached)?.into_iter();
    let mut launches = Vec::with_capacity(sizes.work.len());
    for work in &sizes.work {
        let kernel = &kernels.0[work.launch].kernel;
        let named = |error: Error| Error { message: format!("kernel {}: {}", kernel.name, error.message), ..error };
        let values = work.arguments.iter().map(|value| match value {
            Value::Made { .. } => Ok(made.next().unwrap_or_default()),
            value => bytes(value, addresses, attached).map_err(named),
        });
        launches.push(PreparedLaunch::new(
            kernel,
            work,
            kernels.0[work.launch].overlaps,
            &values.collect::<Result<Vec<_>, Error>>()?,
        ));
    }
    Ok(launches)
}

/// Runs the kernels that make arguments; their bytes, in the order of use.
fn make(
    sizes: &Sizes,
    addresses: &Addresses<'_>,
    kernels: &Kernels,
    attached: &AttachedDomain,
) -> Result<Vec<Vec<u8>>, Error> {
    const APART: usize = 256;
    let mut calls = Vec::new();
    let mut end = 0;
    for work in &sizes.work {
        for (value, maker) in work.arguments.iter().zip(&kernels.0[work.launch].makers) {
            if let (Value::Made { arguments, bytes }, Some(maker)) = (value, maker) {
                let length = *bytes as usize;
                calls.push((maker, arguments, end..end + length));
                end += length.next_multiple_of(APART);
            }
        }
    }
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let memory = DeviceBuffer::of(end, "make arguments", attached)?;
    for (maker, arguments, range) in &calls {
        let mut values =
            arguments.iter().map(|value| bytes(value, addresses, attached)).collect::<Result<Vec<_>, Error>>()?;
        values.push((memory.address() + range.start as u64).to_ne_bytes().to_vec());
        let one = SizedLaunch { launch: 0, grid: [1; 3], block: [1; 3], shared: 0, arguments: Vec::new() };
        PreparedLaunch::new(maker, &one, false, &values).launch(attached)?;
    }
    let all = memory.read("make arguments", attached)?;
    Ok(calls.into_iter().map(|(.., range)| all[range].to_vec()).collect())
}

/// The bytes of an argument that is not made by a kernel.
fn bytes(value: &Value, addresses: &Addresses<'_>, attached: &AttachedDomain) -> Result<Vec<u8>, Error> {
    match value {
        Value::Pointer(place) => Ok(addresses.of(*place).to_ne_bytes().to_vec()),
        Value::Size(size) => Ok(size.to_ne_bytes().to_vec()),
        Value::Map(map) => encode(map, addresses.of(map.at), attached),
        Value::Made { .. } => Err(Error::new("damaged code: a kernel that makes an argument takes one that is made")),
    }
}

/// Encodes a tensor map for TMA.
fn encode(map: &Map, address: u64, attached: &AttachedDomain) -> Result<Vec<u8>, Error> {
    let rank = map.sizes.len();
    let swizzle = match map.swizzle {
        0 => Some(Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE),
        32 => Some(Swizzle::CU_TENSOR_MAP_SWIZZLE_32B),
        64 => Some(Swizzle::CU_TENSOR_MAP_SWIZZLE_64B),
        128 => Some(Swizzle::CU_TENSOR_MAP_SWIZZLE_128B),
        _ => None,
    };
    let dtype = match map.dtype {
        DType::F16 => Some(Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
        DType::BF16 => Some(Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
        DType::F32 => Some(Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32),
        _ => None,
    };
    let damaged = || Error::new("damaged code: an invalid tensor map");
    let (Some(swizzle), Some(dtype), 1..=5) = (swizzle, dtype, rank) else { return Err(damaged()) };
    if map.strides.len() != rank - 1 || map.block.len() != rank {
        return Err(damaged());
    }
    let mut made = CUtensorMap { opaque: [0; 16] };
    // SAFETY: `made` is what is written; there are as many sizes and steps as the rank, and a stride less.
    let encoded = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut made,
            dtype,
            rank as u32,
            std::ptr::with_exposed_provenance_mut(address as usize),
            map.sizes.as_ptr(),
            map.strides.as_ptr(),
            map.block.as_ptr(),
            [1; 5].as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    let Map { sizes, strides, block, .. } = map;
    let what = || format!("map a tensor of sizes {sizes:?}, strides {strides:?} and blocks {block:?}");
    encoded.result().map_err(|cause| attached.device().failed(&what(), cause))?;
    Ok(made.opaque.iter().flat_map(|word| word.to_ne_bytes()).collect())
}
