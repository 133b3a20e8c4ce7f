//! The code of a region of kernels: the launches in order with their arguments, for each architecture, and the compressed
//! cubins.
//!
//! It has no addresses and no elements of constants. Sizes that are unknown at compile time are symbolic expressions,
//! which [`byoc_plugin_api::DeviceExecutable::plan`] evaluates. Constants are named by their ids, which count from 0 in
//! each region: regions that compute the same have the same code.

mod file;

pub use file::Cubins;

use byoc_plugin_api::{ConstantId, DType, Dim, Region};
use serde::{Deserialize, Serialize};

/// The kernels of a region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its name for messages. Not the name of a node, since regions share code.
    pub title: String,
    /// The inputs of the region. All symbols occur in their shapes.
    pub inputs: Vec<Tensor>,
    /// The outputs of the region.
    pub outputs: Vec<Tensor>,
    /// The constants that kernels read.
    pub constants: Vec<Constant>,
    /// Limits of the kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The same work for several architectures, each with kernels of its own.
    pub variants: Vec<Variant>,
    /// What the backend needs to generate other kernels for the same work, in its own format; `None` if it has only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<serde_json::Value>,
}

/// An input or an output: row-major and contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

/// A limit of a size, checked when symbols are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The thing that is limited, for messages: "an image of 8 channels".
    pub of: String,
    /// Its elements.
    pub elements: Dim,
    /// The most elements.
    pub most: u64,
}

/// A constant as the kernels read it, aligned to 16 bytes. One that is bound differently is repacked at load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constant {
    /// The id by which it was claimed.
    pub id: ConstantId,
    /// The layout by which it was claimed as packed; none for the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Stride of each dimension, in elements.
    pub strides: Vec<i64>,
}

/// The launches for one architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The architecture, such as `sm_90a`.
    pub arch: String,
    /// Bytes of each scratch buffer. A buffer is aligned to 256 bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch: Vec<Dim>,
    /// The launches, in order.
    pub launches: Vec<Launch>,
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The index of its cubin.
    pub cubin: usize,
    /// The symbol of the kernel.
    pub kernel: String,
    /// The grid: blocks along x, y and z. If one is 0, nothing is launched.
    pub grid: [Dim; 3],
    /// Whether the kernel is persistent: its blocks take tiles until none is left, and along x no more are launched than the
    /// device has multiprocessors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub persistent: bool,
    /// Whether the kernel itself waits for those before it, so that it may be launched before they have ended: programmatic
    /// dependent launch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// The block: threads along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    #[serde(default)]
    pub shared: u32,
    /// The arguments, in the order of the parameters.
    pub arguments: Vec<Argument>,
    /// The nodes that it computes, in full or in part: their positions in the region, since regions share code. For profiles only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<usize>,
    /// The sizes for which it is launched, if others do the same work for other sizes. Who does not know of it launches all of
    /// them, which is slower and as right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<SizeRange>,
}

/// A range of a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The size.
    pub of: Dim,
    /// The least of the range.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// An address.
    Pointer(BufferRef),
    /// A size: `long long` in the source.
    Size(Dim),
    /// A tensor map for TMA: a `CUtensorMap` by value, 128 bytes, aligned to 64 bytes.
    TensorMap(TensorMap),
    /// Bytes by value that a kernel of one thread (`<<<1, 1>>>`) makes once addresses are known: CUTLASS lowers its arguments
    /// in its own code.
    Made(Made),
}

/// A buffer that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferRef {
    /// The input of that index.
    Input(usize),
    /// The output of that index.
    Output(usize),
    /// The entry of [`Program::constants`] of that index.
    Constant(usize),
    /// The entry of [`Variant::scratch`] of that index.
    Scratch(usize),
}

/// A tensor that TMA copies: the arguments of `cuTensorMapEncodeTiled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The buffer.
    pub at: BufferRef,
    /// Element type: f16, bf16 or f32 (which is read as TF32).
    pub dtype: DType,
    /// Size of each dimension, the innermost first.
    pub sizes: Vec<Dim>,
    /// Strides in bytes of each dimension but the innermost, whose elements are contiguous. Each is a multiple of 16.
    pub strides: Vec<Dim>,
    /// Elements of one copy along each dimension.
    pub block: Vec<u32>,
    /// Bytes of the swizzle in shared memory: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// An argument that a kernel makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The kernel, in the same cubin as the launch.
    pub kernel: String,
    /// Its arguments but the last, which is the address to which it writes the bytes.
    pub arguments: Vec<Argument>,
    /// How many bytes there are.
    pub bytes: u32,
}

/// The tensors of these values of a region.
pub fn tensors(region: &Region, values: &[usize]) -> Vec<Tensor> {
    let tensor = |&value: &usize| {
        let value = &region.values[value];
        Tensor { dtype: value.dtype, shape: value.shape.clone() }
    };
    values.iter().map(tensor).collect()
}

/// Whether strides are dense: each element of one piece of memory once, in any order of dimensions.
pub fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    let mut order: Vec<_> = strides.iter().zip(shape).filter(|&(_, &size)| size != 1).collect();
    order.sort_unstable();
    let mut next = 1i64;
    order.into_iter().all(|(&stride, &size)| {
        let fits = stride == next;
        next = next.saturating_mul(size);
        fits
    })
}

impl Program {
    /// Checks every index, so that later code need not. The cause, if one is wrong.
    fn check(&self, cubins: usize) -> Result<(), String> {
        for variant in &self.variants {
            let within = |place: &BufferRef| match *place {
                BufferRef::Input(at) => at < self.inputs.len(),
                BufferRef::Output(at) => at < self.outputs.len(),
                BufferRef::Constant(at) => at < self.constants.len(),
                BufferRef::Scratch(at) => at < variant.scratch.len(),
            };
            for launch in &variant.launches {
                if launch.cubin >= cubins {
                    return Err(format!("'{}' is in cubin {} of {cubins}", launch.kernel, launch.cubin));
                }
                if let Some(place) = launch.places().iter().find(|place| !within(place)) {
                    return Err(format!("'{}' is given {place:?}, which does not exist", launch.kernel));
                }
            }
        }
        Ok(())
    }
}

impl Launch {
    /// The buffers among its arguments, once for each use.
    pub fn places(&self) -> Vec<BufferRef> {
        let mut places = Vec::new();
        self.arguments.iter().for_each(|argument| argument.places(&mut places));
        places
    }
}

impl Argument {
    fn places(&self, places: &mut Vec<BufferRef>) {
        match self {
            Argument::Pointer(place) => places.push(*place),
            Argument::Size(_) => {}
            Argument::TensorMap(map) => places.push(map.at),
            Argument::Made(made) => made.arguments.iter().for_each(|argument| argument.places(places)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_dense;

    #[test]
    fn strides_are_dense() {
        assert!(is_dense(&[2, 3], &[3, 1]) && is_dense(&[2, 3], &[1, 2]) && is_dense(&[2, 1, 3], &[3, 99, 1]));
        assert!(is_dense(&[], &[]) && !is_dense(&[2, 3], &[6, 1]) && !is_dense(&[2, 3], &[0, 1]));
        assert!(!is_dense(&[3], &[2]) && !is_dense(&[3], &[-1]));
    }
}
