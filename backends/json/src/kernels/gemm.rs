//! Matrix product with fused bias, residual and activation: parameters, split over threads, entry points.
//!
//! Own tiles rather than a library: one thread is about equal, but a library's split over threads loses up to 2x on
//! skinny shapes, and constant weights are packed once, at compile time.

#[cfg(target_arch = "x86_64")]
mod bf16;
mod block;
mod few;
pub(crate) mod finish;
mod gemv;
mod int8;
mod pack;
mod parts;
#[cfg(test)]
mod tests;
pub(crate) mod tile;

use super::activation::Activation;
use super::isa::Isa;
use super::layout::BLOCK;
use super::parallel::Threads;
use super::precision::Math;
use super::sizes::reach;
use super::weights::PackedWeights;
pub(crate) use block::scratch_len as block_scratch_len;
use block::{Panels, Source};
pub use int8::{
    INT8_LAYOUT, Int8, Int8Columns, Int8Known, fits_int8, gemm_int8, int8_is_on_amx, int8_len, int8_scratch_len,
    round_b,
};
pub(super) use int8::{ZERO, inverse, magnitude, scale_of};
pub(crate) use pack::packed_b_column;
pub(crate) use pack::panels;
pub use pack::{pack_b, packed_b_len};
use parts::run;

/// Names the layout of [`pack_b`]: [ceil(N / 16)][K][16], columns past N zero.
pub const PACKED_B_LAYOUT: &str = "gemm/n16k/1";

/// The shape of C[m, n] = A[m, k] B[k, n], for a grid of matrices. Strides count f32 values.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmParams {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Row and column stride of A.
    pub a: [usize; 2],
    /// Row and column stride of B.
    pub b: [usize; 2],
    /// Row stride of C, whose columns are contiguous.
    pub c_row: usize,
    /// Two batch dimensions, outer and inner.
    pub batch: [usize; 2],
    /// Batch strides of A; 0 broadcasts.
    pub a_batch: [usize; 2],
    /// Batch strides of B; 0 broadcasts.
    pub b_batch: [usize; 2],
    /// Batch strides of C.
    pub c_batch: [usize; 2],
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of what C held before; 0 does not read it.
    pub beta: f32,
    /// How exactly it is computed, with a packed B.
    pub math: Math,
}

/// Most rows of a product for which B is read as it is given: it is not put into panels of f32 first.
pub(crate) const FEW_ROWS: usize = 4;

impl GemmParams {
    /// One product of contiguous row-major matrices.
    pub fn dense(m: usize, n: usize, k: usize) -> Self {
        GemmParams {
            m,
            n,
            k,
            a: [k, 1],
            b: [n, 1],
            c_row: n,
            batch: [1, 1],
            a_batch: [0, 0],
            b_batch: [0, 0],
            c_batch: [0, 0],
            alpha: 1.0,
            beta: 0.0,
            math: Math::F32,
        }
    }

    /// A is stored transposed, as contiguous [k, m].
    pub fn trans_a(mut self) -> Self {
        self.a = [1, self.m];
        self
    }

    /// B is stored transposed, as contiguous [n, k].
    pub fn trans_b(mut self) -> Self {
        self.b = [1, self.k];
        self
    }

    /// The smallest slice length that holds rows x columns with these strides over the batch.
    fn extent(&self, [rows, columns]: [usize; 2], strides: [usize; 2], batch: [usize; 2]) -> Option<usize> {
        let counts = [rows, columns, self.batch[0], self.batch[1]];
        reach(&counts, &[strides[0], strides[1], batch[0], batch[1]])
    }

    fn fits(&self, len: usize, sizes: [usize; 2], strides: [usize; 2], batch: [usize; 2]) -> bool {
        self.extent(sizes, strides, batch).is_some_and(|extent| extent <= len)
    }

    /// Multiply-adds; saturates.
    fn work(&self) -> usize {
        let matrices = self.batch[0].saturating_mul(self.batch[1]);
        matrices.saturating_mul(self.m).saturating_mul(self.n).saturating_mul(self.k.max(1))
    }

    /// Whether products of bf16 compute it, if its B is packed.
    pub fn is_on_units(&self, threads: &Threads) -> bool {
        #[cfg(target_arch = "x86_64")]
        let takes = bf16::unit(threads, self).is_some();
        #[cfg(not(target_arch = "x86_64"))]
        let (takes, _) = (false, threads);
        takes
    }

    fn small(&self) -> bool {
        self.m <= FEW_ROWS
    }
}

/// A bias added to the product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Bias<'a> {
    /// Nothing.
    #[default]
    None,
    /// One value for each row of C.
    PerRow(&'a [f32]),
    /// One value for each column of C.
    PerCol(&'a [f32]),
}

/// What happens to the product before it is stored: C = act(product + bias + residual).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue<'a> {
    /// Bias.
    pub bias: Bias<'a>,
    /// A matrix with C's strides and length.
    pub residual: Option<&'a [f32]>,
    /// Applied last.
    pub act: Activation,
}

/// f32 values of scratch that [`gemm`] and [`gemm_packed`] need on this many threads; `None` if they cannot be counted.
pub fn gemm_scratch_len(p: &GemmParams, threads: usize) -> Option<usize> {
    scratch_of_one(p)?.checked_mul(threads)
}

/// f32 values of scratch of one thread.
fn scratch_of_one(p: &GemmParams) -> Option<usize> {
    let vectors = block_scratch_len(p.m, p.n, p.k)?;
    #[cfg(target_arch = "x86_64")]
    let vectors = vectors.max(bf16::scratch_len(p)?);
    Some(vectors)
}

/// C = act(alpha A B + beta C + bias + residual).
///
/// # Panics
/// If a slice is shorter than the strides reach.
pub fn gemm(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    assert!(p.fits(b.len(), [p.k, p.n], p.b, p.b_batch));
    if p.small() && gemv::supports(p) {
        check(p, a, c, e);
        gemv::run(threads, p, a, b, c, e);
    } else {
        run(threads, p, a, Source::Strided(b.as_ptr(), p.b), c, e, scratch);
    }
}

/// As [`gemm`] with one constant B, packed by [`pack_b`]; `p.b` and `p.b_batch` are ignored.
///
/// # Panics
/// If a slice is shorter than the strides reach.
pub fn gemm_packed(
    threads: &Threads,
    p: &GemmParams,
    a: &[f32],
    packed_b: PackedWeights<'_>,
    c: &mut [f32],
    e: &Epilogue<'_>,
    scratch: &mut [f32],
) {
    assert_eq!(Some(packed_b.len()), packed_b_len(p.k, p.n));
    if !p.small() {
        return run(threads, p, a, Source::of(packed_b, p.k), c, e, scratch);
    }
    check(p, a, c, e);
    match packed_b {
        PackedWeights::F32(b) => few::run(threads, p, a, b, c, e),
        PackedWeights::F16(b) => few::run(threads, p, a, b, c, e),
        PackedWeights::BF16(b) => few::run(threads, p, a, b, c, e),
    }
}

fn check(p: &GemmParams, a: &[f32], c: &[f32], e: &Epilogue<'_>) {
    assert!(p.fits(a.len(), [p.m, p.k], p.a, p.a_batch));
    assert!(p.fits(c.len(), [p.m, p.n], [p.c_row, 1], p.c_batch));
    assert!(p.c_row >= p.n || p.m <= 1, "rows of C overlap");
    assert!(p.c_batch.iter().zip(p.batch).all(|(s, n)| n <= 1 || *s > 0), "matrices of C overlap");
    assert!(e.residual.is_none_or(|r| r.len() >= c.len()));
    assert!(match e.bias {
        Bias::None => true,
        Bias::PerRow(b) => b.len() == p.m,
        Bias::PerCol(b) => b.len() == p.n,
    });
}

/// One product with a packed B on the calling thread, for kernels that split the work themselves.
pub(crate) struct BlockProduct<'a> {
    pub(crate) isa: Isa,
    /// Without batch.
    pub(crate) p: &'a GemmParams,
    pub(crate) a: &'a [f32],
    pub(crate) packed: &'a [f32],
    /// Whether rows of C have room for whole blocks of 16 columns, in which anything may be written: that saves work.
    pub(crate) padded: bool,
}

impl BlockProduct<'_> {
    /// # Safety
    /// `c` is valid for the rows and columns of C, padded if they are, and is not accessed by anything else.
    pub(crate) unsafe fn run(&self, c: *mut f32, scratch: &mut [f32]) {
        let BlockProduct { isa, p, a, packed, padded } = *self;
        assert!(!padded || p.c_row >= p.n.next_multiple_of(BLOCK));
        assert!(p.fits(a.len(), [p.m, p.k], p.a, [0, 0]) && packed_b_len(p.k, p.n) == Some(packed.len()));
        assert!(block_scratch_len(p.m, p.n, p.k).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
        let b = Source::Packed(packed.as_ptr(), p.k);
        // SAFETY: the assertion covers A and B, the caller vouches for C.
        unsafe { product_of(isa, p, a, b, c, padded).run(scratch) };
    }
}

/// One product on the calling thread whose A was put into panels by its maker, row by row.
pub(crate) struct PanelProduct<'a> {
    pub(crate) isa: Isa,
    /// Without batch; its strides of A and its factor are of no effect.
    pub(crate) p: &'a GemmParams,
    /// As [`PanelProduct::rows`] says.
    pub(crate) a: &'a [f32],
    /// A packed B with as many rows, or a strided one and no number.
    pub(crate) b: &'a [f32],
    pub(crate) packed_rows: Option<usize>,
}

impl PanelProduct<'_> {
    /// f32 values of the panels of A for `rows` rows; no more than [`block_scratch_len`] counts for rows that are packed together.
    pub(crate) fn len(rows: usize, k: usize) -> usize {
        pack::panel_a_len(rows, k)
    }

    /// Of each of `rows` rows where its first 16 values are, and how far the next 16 are from them.
    pub(crate) fn rows(isa: Isa, rows: usize, k: usize) -> impl Iterator<Item = (usize, usize)> {
        let panels = Panels::of(isa, rows).into_iter().flat_map(|panels| panels.iter());
        panels.flat_map(move |(start, count)| {
            (0..count).map(move |index| (pack::panel_a_len(start, k) + index * BLOCK, count * BLOCK))
        })
    }

    /// # Safety
    /// `c` is valid for the rows and columns of C, and is not accessed by anything else.
    pub(crate) unsafe fn run(&self, c: *mut f32, scratch: &mut [f32]) {
        let PanelProduct { isa, p, a, b, packed_rows } = *self;
        let (Some(panels), true) = (Panels::of(isa, p.m), a.len() >= pack::panel_a_len(p.m, p.k)) else {
            panic!("the panels of A are too short")
        };
        let source = match packed_rows {
            Some(rows) => {
                assert!(rows >= p.k && packed_b_len(rows, p.n).is_some_and(|len| b.len() >= len));
                Source::Packed(b.as_ptr(), rows)
            }
            None => {
                assert!(p.fits(b.len(), [p.k, p.n], p.b, [0, 0]));
                assert!(
                    block_scratch_len(0, p.n, p.k).is_some_and(|len| scratch.len() >= len),
                    "the scratch is too short"
                );
                Source::Strided(b.as_ptr(), p.b)
            }
        };
        // SAFETY: the assertions cover A and B, the caller vouches for C.
        unsafe { product_of(isa, p, &[], source, c, false).panels(&panels, a, scratch) };
    }
}

/// All of one product.
fn product_of<'a>(isa: Isa, p: &'a GemmParams, a: &[f32], b: Source, c: *mut f32, padded: bool) -> block::Block<'a> {
    let (rows, columns, a) = (0..p.m, 0..p.n, a.as_ptr());
    let (bias, act) = (Bias::None, Activation::None);
    block::Block { p, isa, rows, columns, a, b, c, residual: None, bias, act, padded }
}

/// One product without batch or epilogue on the calling thread, for kernels that split the work themselves.
pub(crate) struct PlainProduct<'a> {
    pub(crate) isa: Isa,
    pub(crate) p: &'a GemmParams,
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    /// As that of [`BlockProduct`].
    pub(crate) padded: bool,
}

impl PlainProduct<'_> {
    /// # Safety
    /// As [`BlockProduct::run`].
    pub(crate) unsafe fn run(&self, c: *mut f32, scratch: &mut [f32]) {
        let PlainProduct { isa, p, a, b, padded } = *self;
        assert!(p.fits(a.len(), [p.m, p.k], p.a, [0, 0]) && p.fits(b.len(), [p.k, p.n], p.b, [0, 0]));
        assert!(block_scratch_len(p.m, p.n, p.k).is_some_and(|len| scratch.len() >= len), "the scratch is too short");
        assert!(!padded || p.c_row >= p.n.next_multiple_of(BLOCK));
        if p.small() && gemv::supports(p) {
            // SAFETY: the caller vouches for C.
            return unsafe { gemv::on_this_thread(isa, p, a, b, c) };
        }
        let block = product_of(isa, p, a, Source::Strided(b.as_ptr(), p.b), c, padded);
        // SAFETY: the assertion covers A and B, the caller vouches for C.
        unsafe { block.run(scratch) };
    }
}
