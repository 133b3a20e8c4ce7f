//! The code of a region that is kernels: which are launched in which order, with what, for each architecture; and the
//! machine code of all of them, compressed.
//!
//! No address and no element of a constant is in it. Sizes that are not known when the model is compiled stand in it as the
//! texts that they are in the region, and are numbers by the time of [`byoc_plugin_api::DeviceExecutable::plan`].
//! Constants are named by their ids, which count from 0 in each region: regions that compute the same have the same code.

mod file;

pub use file::Cubins;

use byoc_plugin_api::{ConstantId, DType, Dim};
use serde::{Deserialize, Serialize};

/// What a region runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What it is called in messages: the name of a node of the region is not, since regions share code.
    pub title: String,
    /// The inputs of the region. Their symbols are what other sizes are made of.
    pub inputs: Vec<Tensor>,
    /// The outputs of the region.
    pub outputs: Vec<Tensor>,
    /// The constants that kernels read.
    pub constants: Vec<Constant>,
    /// What kernels do not count beyond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The same work for several architectures, each with kernels of its own.
    pub variants: Vec<Variant>,
    /// What the backend needs to make the same work of other kernels, in its own words; none where it has only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<serde_json::Value>,
}

/// A tensor that comes or goes: row-major and contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<Dim>,
}

/// The most that a size may be when symbols are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What has the size, as in messages: "an image of 8 channels".
    pub of: String,
    /// Its elements.
    pub elements: Dim,
    /// How many they may be.
    pub most: u64,
}

/// A constant as the kernels read it: from a multiple of 16 bytes on. One that is bound otherwise is laid out anew at load.
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
    /// Distance from one element to the next along each dimension, in elements.
    pub strides: Vec<i64>,
}

/// The work, for one architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The architecture, such as `sm_90a`.
    pub arch: String,
    /// Bytes of each piece of scratch memory. A piece begins at a multiple of 256 bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch: Vec<Dim>,
    /// What is launched, in this order.
    pub launches: Vec<Launch>,
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The machine code that has it: an index into the cubins of the file.
    pub cubin: usize,
    /// The symbol of the kernel.
    pub kernel: String,
    /// How many blocks there are along x, y and z. Where one is 0 nothing is launched.
    pub grid: [Dim; 3],
    /// Whether blocks take work in turn until there is none: along x, no more are launched than the device has
    /// multiprocessors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub persistent: bool,
    /// How many threads of a block there are along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    #[serde(default)]
    pub shared: u32,
    /// What the kernel is given, in the order of its parameters.
    pub arguments: Vec<Argument>,
}

/// What a kernel is given for a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// An address.
    Pointer(BufferRef),
    /// A size: `long long` in the source.
    Size(Dim),
    /// What the driver makes of the description of a tensor: 128 bytes, a `CUtensorMap` by value, aligned to 64 bytes.
    TensorMap(TensorMap),
    /// Bytes by value that a kernel of one thread makes when addresses are known (`<<<1, 1>>>`): as CUTLASS lowers its
    /// arguments, in its own code.
    Made(Made),
}

/// Where memory begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferRef {
    /// The input of that position.
    Input(usize),
    /// The output of that position.
    Output(usize),
    /// The entry of [`Program::constants`] of that position.
    Constant(usize),
    /// The piece of [`Variant::scratch`] of that position.
    Scratch(usize),
}

/// A part of memory that the TMA unit reads: the arguments of `cuTensorMapEncodeTiled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorMap {
    /// Where it begins.
    pub at: BufferRef,
    /// Element type: f16, bf16 or f32 (which is read as TF32).
    pub dtype: DType,
    /// Size of each dimension, the innermost first.
    pub sizes: Vec<Dim>,
    /// Bytes from one element to the next along each dimension but the innermost, whose elements lie together. Each a
    /// multiple of 16.
    pub strides: Vec<Dim>,
    /// How many elements one copy takes along each dimension.
    pub block: Vec<u32>,
    /// Bytes within which the copy in shared memory is swizzled: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// Bytes that a kernel makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The kernel, in the same cubin as the launch.
    pub kernel: String,
    /// What it is given before its last parameter, which is the address to which it writes the bytes.
    pub arguments: Vec<Argument>,
    /// How many bytes there are.
    pub bytes: u32,
}

impl Program {
    /// Checks every index, so that later code may index without asking. The cause, if something is wrong.
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
    /// The memory that it is given, once for each mention.
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
