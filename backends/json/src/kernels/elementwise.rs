//! Functions of two values with broadcasting.

use serde::{Deserialize, Serialize};

use super::activation::{Activation, parts_of};
use super::isa::{Isa, Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::{product, reach};

/// A function of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a b
    Mul,
    /// a / b
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// a^b
    Pow,
}

/// How two operands spread over an output of up to four dimensions, outermost first, unused ones 1.
/// Strides count f32 values; 0 repeats the operand along the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// Output size.
    pub dims: [usize; 4],
    /// Strides of the first operand.
    pub a: [usize; 4],
    /// Strides of the second operand.
    pub b: [usize; 4],
}

impl Broadcast {
    /// Both operands and the output have `len` values in the same order.
    pub fn same(len: usize) -> Self {
        Broadcast { dims: [1, 1, 1, len], a: [0, 0, 0, 1], b: [0, 0, 0, 1] }
    }

    /// Multidirectional (numpy) broadcasting of contiguous operands: shapes align at the right. Neighbouring
    /// dimensions are joined where possible; `None` if more than four are left, the shapes do not fit `out` or their values cannot be counted.
    pub fn new(out: &[usize], a: &[usize], b: &[usize]) -> Option<Self> {
        if a.len() > out.len() || b.len() > out.len() {
            return None;
        }
        let (mut dims, mut sa, mut sb) = ([1; 4], [0; 4], [0; 4]);
        // Filled from the innermost dimension outwards.
        let mut at = 4;
        let (mut step_a, mut step_b) = (1, 1);
        for i in (0..out.len()).rev() {
            let size = |s: &[usize]| (i + s.len()).checked_sub(out.len()).map_or(1, |j| s[j]);
            let (da, db) = (size(a), size(b));
            if [da, db].iter().any(|d| *d != 1 && *d != out[i]) {
                return None;
            }
            let (ta, tb) = (if da == 1 { 0 } else { step_a }, if db == 1 { 0 } else { step_b });
            step_a = usize::checked_mul(step_a, da)?;
            step_b = usize::checked_mul(step_b, db)?;
            if out[i] == 1 {
                continue;
            }
            // What cannot be counted is no stride.
            let follows = |stride: usize, step: usize| stride.checked_mul(dims[at]) == Some(step);
            if at < 4 && follows(sa[at], ta) && follows(sb[at], tb) {
                dims[at] = dims[at].checked_mul(out[i])?;
            } else {
                at = at.checked_sub(1)?;
                (dims[at], sa[at], sb[at]) = (out[i], ta, tb);
            }
        }
        if at == 4 {
            (sa[3], sb[3]) = (1, 1);
        } else {
            // The innermost dimension came first, so it already sits at the end.
            debug_assert!(dims[..at].iter().all(|d| *d == 1));
        }
        Some(Broadcast { dims, a: sa, b: sb })
    }

    /// Values of the output; saturates where they cannot be counted.
    pub fn len(&self) -> usize {
        product(&self.dims).unwrap_or(usize::MAX)
    }

    /// Whether the output is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an operand with these strides is long enough.
    fn fits(&self, operand: &[f32], strides: [usize; 4]) -> bool {
        reach(&self.dims, &strides).is_some_and(|reach| reach <= operand.len())
    }

    /// The strides of a contiguous output, 0 for dimensions of one.
    fn dense(&self) -> [usize; 4] {
        let d = self.dims;
        [d[1] * d[2] * d[3], d[2] * d[3], d[3], 1]
    }
}

/// dst = act(a op b), `dst` contiguous.
///
/// # Panics
/// If `dst` is not `bc.len()` long or an operand is shorter than its strides reach.
pub fn binary(threads: &Threads, op: Binary, bc: &Broadcast, a: &[f32], b: &[f32], dst: &mut [f32], act: Activation) {
    assert!(bc.fits(a, bc.a) && bc.fits(b, bc.b));
    run(threads, op, bc, a.as_ptr() as usize, b.as_ptr() as usize, dst, act);
}

/// dst = act(dst op b), or act(b op dst) if `swap`: the first operand of `bc` is the (contiguous) output.
///
/// # Panics
/// As [`binary`], or if the strides of the first operand are not those of a contiguous tensor.
pub fn binary_inplace(
    threads: &Threads,
    op: Binary,
    bc: &Broadcast,
    dst: &mut [f32],
    b: &[f32],
    swap: bool,
    act: Activation,
) {
    assert_eq!(dst.len(), bc.len());
    let dense = bc.dense();
    assert!((0..4).all(|i| bc.dims[i] == 1 || bc.a[i] == dense[i]), "the first operand is the output");
    assert!(bc.fits(b, bc.b));
    let (a, b) = (dst.as_ptr() as usize, b.as_ptr() as usize);
    if swap {
        run(threads, op, &Broadcast { a: bc.b, b: bc.a, ..*bc }, b, a, dst, act);
    } else {
        run(threads, op, bc, a, b, dst, act);
    }
}

/// Values of a row computed before the activation is applied to them.
const STRIP: usize = 4096;

/// `a` and `b` are addresses of operands as long as their strides reach, either of which may be `dst` itself.
fn run(threads: &Threads, op: Binary, bc: &Broadcast, a: usize, b: usize, dst: &mut [f32], act: Activation) {
    assert_eq!(dst.len(), bc.len());
    if dst.is_empty() {
        return;
    }
    let parts = parts_of(threads, dst.len());
    let (out, len, row) = (SharedMut::new(dst), bc.len(), bc.dims[3]);
    threads.parallel_for(parts, |i| {
        let range = part(len, parts, i);
        let mut at = range.start;
        while at < range.end {
            let (outer, column) = (at / row, at % row);
            let index = [outer / bc.dims[2] / bc.dims[1], outer / bc.dims[2] % bc.dims[1], outer % bc.dims[2], column];
            let offset = |s: [usize; 4]| (0..4).map(|d| index[d] * s[d]).sum::<usize>();
            // Whole rows of one plane, or a part of one.
            let whole = ((range.end - at) / row).min(bc.dims[2] - index[2]).min(STRIP / row);
            let (rows, count) = match whole {
                1.. if column == 0 => (whole, row),
                _ => (1, (row - column).min(range.end - at).min(STRIP)),
            };
            let piece = Piece {
                op,
                rows,
                a: (a as *const f32).wrapping_add(offset(bc.a)),
                b: (b as *const f32).wrapping_add(offset(bc.b)),
                a_steps: [bc.a[2], bc.a[3]],
                b_steps: [bc.b[2], bc.b[3]],
                dst: out.as_ptr().wrapping_add(at),
                len: count,
            };
            dispatch(threads.isa(), piece);
            finish(threads.isa(), act, at, rows * count, out);
            at += rows * count;
        }
    });
}

fn finish(isa: Isa, act: Activation, start: usize, len: usize, out: SharedMut<'_, f32>) {
    if act != Activation::None {
        // SAFETY: this task's own values.
        act.apply(isa, unsafe { out.slice(start, len) });
    }
}

/// Some rows, or a part of one. Steps lead from row to row and from value to value.
struct Piece {
    op: Binary,
    rows: usize,
    a: *const f32,
    b: *const f32,
    a_steps: [usize; 2],
    b_steps: [usize; 2],
    dst: *mut f32,
    len: usize,
}

impl Kernel for Piece {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let ([a_row, a_step], [b_row, b_step]) = (self.a_steps, self.b_steps);
        for row in 0..self.rows {
            let (a, b) = (self.a.wrapping_add(row * a_row), self.b.wrapping_add(row * b_row));
            let dst = self.dst.wrapping_add(row * self.len);
            // SAFETY: `run` made the piece from checked operands, every access is below `len` in one of `rows`; `dispatch` checked the
            // features.
            unsafe {
                if self.op == Binary::Pow && !(b_step == 0 && (*b == 2.0 || *b == 3.0)) {
                    powers((a, a_step), (b, b_step), dst, self.len);
                    continue;
                }
                for i in (0..self.len).step_by(16) {
                    let width = self.len - i;
                    let a = operand::<V>(a, a_step, i, width);
                    let b = operand::<V>(b, b_step, i, width);
                    value::<V>(self.op, a, b).store_up_to(dst.add(i), width);
                }
            }
        }
    }
}

/// Powers other than the constants 2 and 3, of operands with their steps.
///
/// # Safety
/// The operands and `dst` are valid for `len` values.
unsafe fn powers((a, a_step): (*const f32, usize), (b, b_step): (*const f32, usize), dst: *mut f32, len: usize) {
    for i in 0..len {
        // SAFETY: i < len.
        unsafe { *dst.add(i) = (*a.add(i * a_step)).powf(*b.add(i * b_step)) }
    }
}

/// Up to 16 values of an operand from index `i`; lanes past `width` are anything.
///
/// # Safety
/// The CPU has the features of `V`; `p` is valid for these values.
#[inline(always)]
unsafe fn operand<V: V16>(p: *const f32, step: usize, i: usize, width: usize) -> V {
    // SAFETY: the caller vouches for features and values.
    unsafe {
        match step {
            0 => V::splat(*p),
            1 => V::load_up_to(p.add(i), width),
            _ => {
                let mut values = [0.0; 16];
                for (j, v) in values.iter_mut().enumerate().take(width) {
                    *v = *p.add((i + j) * step);
                }
                V::load(values.as_ptr())
            }
        }
    }
}

/// a op b; for powers b is 2 or 3 in every lane.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn value<V: V16>(op: Binary, a: V, b: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        match op {
            Binary::Add => a.add(b),
            Binary::Sub => a.sub(b),
            Binary::Mul => a.mul(b),
            Binary::Div => a.div(b),
            // The vector operation returns b where either is NaN.
            Binary::Max => nan_of(a, a.max(b)),
            Binary::Min => nan_of(a, a.min(b)),
            Binary::Pow => a.mul(a).mul(V::select_lt(V::splat(2.5), b, a, V::splat(1.0))),
        }
    }
}

/// `a` where it is NaN, else `v`.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn nan_of<V: V16>(a: V, v: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe { V::select_lt(a, V::splat(f32::INFINITY), v, V::select_lt(V::splat(0.0), a, v, a)) }
}

#[cfg(test)]
mod tests;
