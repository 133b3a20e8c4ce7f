//! Fast f32 kernels for the CPU: pure functions over slices without knowledge of graphs.
//!
//! No kernel allocates: scratch is passed in, and a function beside each kernel says how much. Results depend on the
//! shapes, the instruction set and the number of threads only.

mod activation;
mod affine;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod bf16;
mod choose;
mod conv;
mod convert;
mod cuts;
mod elementwise;
mod exchange;
mod gemm;
mod grid_sample;
pub mod integer;
mod interpolate;
mod isa;
mod layout;
mod lrn;
mod math;
pub mod nbits;
mod nearest;
mod norm;
mod pad;
mod parallel;
mod pool;
mod precision;
mod recurrent;
mod reduce;
pub(crate) mod scale_filters;
mod scatter;
mod simd;
mod sizes;
mod softmax;
mod sync;
mod thread_pool;
mod top_k;
mod transpose;
mod unrolled;
mod weights;

pub use activation::{Activation, Unary, unary, unary_inplace};
pub use affine::affine;
pub use attention::{AttentionParams, attention, attention_scratch_len};
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use bf16::Unit;
pub use choose::{Choice, ChooseParams, choose};
pub use conv::{
    ConvFilters, ConvKind, ConvParams, INT8_FILTERS_LAYOUT, conv, conv_int8, conv_int8_is_on_amx,
    conv_int8_scratch_len, int8_filters_known, int8_filters_len, round_filters,
};
pub(crate) use convert::{Narrow, narrow, widen};
pub use elementwise::{Binary, Broadcast, binary, binary_inplace};
pub(crate) use gemm::packed_b_column;
pub use gemm::{
    Bias, Epilogue, GemmParams, INT8_LAYOUT, Int8, Int8Columns, Int8Known, PACKED_B_LAYOUT, fits_int8, gemm, gemm_int8,
    gemm_packed, gemm_scratch_len, int8_is_on_amx, int8_len, int8_scratch_len, pack_b, packed_b_len, round_b,
};
pub use grid_sample::{Beyond, GridSampleParams, Sampling, grid_sample};
pub use interpolate::{InterpolateParams, WeighedAxis, interpolate, interpolate_scratch_len};
pub use isa::Isa;
pub use layout::{BLOCK, blocked_len, from_blocked, to_blocked};
pub use lrn::{LrnParams, MAX_BLOCKED_LRN, lrn};
pub use nearest::{NearestAxis, NearestParams, OUTSIDE, nearest};
pub use norm::{NormParams, layer_norm};
pub use pad::{MAX_PAD_RANK, pad};
pub use parallel::Threads;
pub use pool::{Layout, PoolKind, PoolParams, global_pool, pool2d};
pub use precision::Math;
pub use recurrent::{
    Cell, GATES_LAYOUT, RecurrentInputs, RecurrentOutputs, RecurrentParams, pack_gates, packed_gates_len, recurrent,
};
pub use reduce::{Reduce, reduce};
pub use scatter::{ScatterParams, copy, scatter};
pub(crate) use sizes::product;
pub use softmax::softmax;
pub use top_k::{TopKParams, top_k, top_k_scratch_len};
pub use transpose::{copy_strided, transpose};
pub use weights::PackedWeights;
