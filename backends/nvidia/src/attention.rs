//! `softmax(scale Q K' + mask) V` as one kernel, for every backend that generates CUDA C++: what it computes, and how its
//! text and launch are made. No matrix of all scores is in memory: a block has some queries and goes over the keys in
//! tiles, with the sums so far adjusted to the largest score so far.
//!
//! [`read`] finds attention in a region, and [`patterns`] are what to ask for. f16 and bf16 are multiplied on tensor cores
//! (`tensor.cuh`), f32 by the units for f32 (`plain.cuh`), and all sums and weights are f32.

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
    /// How many problems there are that share nothing but the mask.
    pub batch: Dim,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K and V, of which each serves as many neighbouring heads of Q.
    pub kv_heads: usize,
    /// Rows of Q.
    pub queries: Dim,
    /// Rows of K and V.
    pub keys: Dim,
    /// Columns of Q and K.
    pub size: usize,
    /// Columns of V and the result.
    pub value_size: usize,
    /// What products of rows are multiplied by.
    pub scale: f32,
    /// If not 0, scores `s` become `softcap tanh(s / softcap)`.
    pub softcap: f32,
    /// Whether query `i` sees no key behind key `i`.
    pub causal: bool,
    /// What else decides which keys a query sees.
    pub mask: Option<Mask>,
    /// Where Q lies.
    pub q: Layout,
    /// Where K lies.
    pub k: Layout,
    /// Where V lies.
    pub v: Layout,
    /// Where the result goes.
    pub y: Layout,
}

/// Where rows of heads lie. The elements of a row of a head are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[batch, heads, rows, size]`.
    HeadsFirst,
    /// `[batch, rows, width]`, with all heads beside each other from `start` on.
    RowsFirst {
        /// Elements of a row of all heads, and of what else lies in it.
        width: usize,
        /// Where the first head begins.
        start: usize,
    },
}

/// A tensor that the scores meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// What it does.
    pub effect: Effect,
    /// Sizes along batch, heads, queries and keys: 1, or the one that it has in the scores; the last one may be less.
    pub shape: [Dim; 4],
    /// Whether a last size of less than the keys hides the others.
    pub short: bool,
}

/// What a mask does to scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// It is added. Its type is f32, f16 or bf16.
    Added(DType),
    /// It is of booleans, and scores at which it is `hides` become `fill`.
    Fills {
        /// The boolean that hides.
        hides: bool,
        /// The score of what is hidden.
        fill: f32,
    },
}
