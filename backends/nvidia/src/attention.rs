//! Fused attention, `softmax(scale Q K' + mask) V`, as one kernel for every backend that generates CUDA C++. The scores are
//! never in global memory: a block has some queries, iterates over tiles of keys and rescales its partial sums to the
//! largest score so far (online softmax).
//!
//! [`read`] matches a region to attention; [`patterns`] are what a backend asks the partitioner for. f16 and bf16 use tensor
//! cores (`tensor.cuh`), f32 the f32 units (`plain.cuh`); all sums and weights are f32.

mod match_attention;
mod matcher;
mod operands;
mod patterns;
mod text;

use byoc_plugin_api::{DType, Dim};

pub use match_attention::{MatchedAttention, read, read_at};
pub use patterns::patterns;
pub use text::generate;

/// Head sizes are multiples of this, as rows are copied in pieces of 16 bytes.
pub const STEP: usize = 8;
/// The largest head size: registers hold the sums of a row for all of it.
pub const MOST: usize = 256;

/// What is computed. Q is `[batch, heads, queries, size]`, K `[batch, kv_heads, keys, size]`, V `[batch, kv_heads, keys,
/// value_size]`, each where its [`Layout`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The type of Q, K, V and the result: f32, f16 or bf16.
    pub dtype: DType,
    /// Batch size. Problems of a batch share the mask at most.
    pub batch: Dim,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K and V, each shared by `heads / kv_heads` neighbouring heads of Q.
    pub kv_heads: usize,
    /// Rows of Q.
    pub queries: Dim,
    /// Rows of K and V.
    pub keys: Dim,
    /// Columns of Q and K.
    pub size: usize,
    /// Columns of V and the result.
    pub value_size: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// If not 0, scores `s` become `softcap tanh(s / softcap)`.
    pub softcap: f32,
    /// Whether query `i` attends to keys up to `i` only.
    pub causal: bool,
    /// The mask, if there is one.
    pub mask: Option<Mask>,
    /// The layout of Q.
    pub q: Layout,
    /// The layout of K.
    pub k: Layout,
    /// The layout of V.
    pub v: Layout,
    /// The layout of the result.
    pub y: Layout,
}

/// The layout of heads in memory. The elements of a row of a head are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[batch, heads, rows, size]`.
    HeadsFirst,
    /// `[batch, rows, width]`, with the heads of a row contiguous from column `start` on.
    RowsFirst {
        /// Elements of a row: of all heads, and of other tensors that share the row.
        width: usize,
        /// The first column of the first head.
        start: usize,
    },
}

/// A mask of the scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// What it does.
    pub effect: Effect,
    /// Sizes along batch, heads, queries and keys: 1, or the size of the scores; the last one may be smaller.
    pub shape: [Dim; 4],
    /// Whether the last size is smaller than the number of keys, which hides the other keys.
    pub short: bool,
}

/// What a mask does to scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// It is added. Its type is f32, f16 or bf16.
    Added(DType),
    /// A boolean mask: scores where it equals `hides` become `fill`.
    Fills {
        /// The value that hides a score.
        hides: bool,
        /// The hidden score.
        fill: f32,
    },
}
