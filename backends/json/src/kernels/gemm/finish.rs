//! The epilogue of a register tile: what C held, bias, residual and clamp, for any number of rows and columns.

use crate::kernels::isa::Kernel;
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;

/// The largest tile: 14 x 2, 7 x 4 or 6 x 1 vectors.
pub(super) const LARGEST: usize = 28 * BLOCK;

/// Where a tile is finished. Null pointers mean: none.
pub(crate) struct Finish {
    pub(crate) sums: *const f32,
    pub(crate) sums_row: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_row: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Factor of what C holds; 0 does not read it.
    pub(crate) beta: f32,
    pub(crate) bias_row: *const f32,
    pub(crate) bias_column: *const f32,
    pub(crate) residual: *const f32,
    pub(crate) clamp: (f32, f32),
}

/// 16 values, or as many as there are: the first is faster.
///
/// # Safety
/// As [`V16::load_up_to`]; `whole` only if there are 16.
#[inline(always)]
unsafe fn load<V: V16>(from: *const f32, width: usize, whole: bool) -> V {
    // SAFETY: the caller vouches for it.
    unsafe { if whole { V::load(from) } else { V::load_up_to(from, width) } }
}

/// 16 columns, which there are: what is to be done is known before the first row, which takes 1 to 5 % from products of bf16.
struct Columns {
    /// Where they start, and from row to row.
    sums: (*const f32, usize),
    c: (*mut f32, usize),
    residual: *const f32,
    rows: usize,
}

impl Columns {
    /// As [`Finish::run`], without a bias for rows.
    ///
    /// # Safety
    /// As [`Finish::run`]; there is a residual if it is to be added.
    #[inline(always)]
    unsafe fn run<V: V16, const BETA: bool, const RESIDUAL: bool>(self, [beta, bias, lo, hi]: [V; 4]) {
        let Columns { sums, c, residual, rows } = self;
        for i in 0..rows {
            // SAFETY: the caller vouches for the rows.
            unsafe {
                let at = i * c.1;
                let mut v = V::load(sums.0.add(i * sums.1)).add(bias);
                if BETA {
                    v = V::load(c.0.add(at)).fma(beta, v);
                }
                if RESIDUAL {
                    v = v.add(V::load(residual.add(at)));
                }
                hi.min(lo.max(v)).store(c.0.add(at));
            }
        }
    }
}

impl Kernel for Finish {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // SAFETY: the makers of a `Finish` vouch for its pointers, `dispatch` for the features; only `width` columns of
        // what is not padded are touched.
        unsafe {
            let (lo, hi, beta) = (V::splat(self.clamp.0), V::splat(self.clamp.1), V::splat(self.beta));
            for j in (0..self.columns).step_by(BLOCK) {
                let width = self.columns - j;
                let whole = width >= BLOCK;
                let mut bias = V::splat(0.0);
                if !self.bias_column.is_null() {
                    bias = V::load_up_to(self.bias_column.add(j), width);
                }
                if whole && self.bias_row.is_null() {
                    let (start, step) = (self.sums.add(j), self.sums_row);
                    let c = self.c.add(j);
                    let residual = if self.residual.is_null() { self.residual } else { self.residual.add(j) };
                    let rows = Columns { sums: (start, step), c: (c, self.c_row), residual, rows: self.rows };
                    match (self.beta != 0.0, residual.is_null()) {
                        (false, true) => rows.run::<V, false, false>([beta, bias, lo, hi]),
                        (false, false) => rows.run::<V, false, true>([beta, bias, lo, hi]),
                        (true, true) => rows.run::<V, true, false>([beta, bias, lo, hi]),
                        (true, false) => rows.run::<V, true, true>([beta, bias, lo, hi]),
                    }
                    continue;
                }
                for i in 0..self.rows {
                    let at = i * self.c_row + j;
                    let mut v = V::load(self.sums.add(i * self.sums_row + j)).add(bias);
                    if self.beta != 0.0 {
                        v = load::<V>(self.c.add(at), width, whole).fma(beta, v);
                    }
                    if !self.bias_row.is_null() {
                        v = v.add(V::splat(*self.bias_row.add(i)));
                    }
                    if !self.residual.is_null() {
                        v = v.add(load::<V>(self.residual.add(at), width, whole));
                    }
                    let v = hi.min(lo.max(v));
                    if whole { v.store(self.c.add(at)) } else { v.store_up_to(self.c.add(at), width) }
                }
            }
        }
    }
}
