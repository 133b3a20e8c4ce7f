//! Moving values: permutation of dimensions, and copies between strided places.

use super::activation::parts_of;
#[cfg(target_arch = "x86_64")]
use super::exchange;
use super::exchange::Exchange;
use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// Dimensions left after joining neighbours that stay together.
const MAX_DIMS: usize = 12;

/// Side of the square tiles in which two dimensions are exchanged: 16 rows of 16 f32 are 16 cache lines on each side.
const TILE: usize = 16;

/// The output's dimensions, outermost first, with the input stride of each.
struct Walk {
    dims: [usize; MAX_DIMS],
    strides: [usize; MAX_DIMS],
    count: usize,
}

impl Walk {
    fn new(shape: &[usize], perm: &[usize]) -> Walk {
        let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let mut walk = Walk { dims: [1; MAX_DIMS], strides: [0; MAX_DIMS], count: 0 };
        for &axis in perm {
            let last = walk.count.wrapping_sub(1);
            if shape[axis] == 1 {
                continue;
            }
            if walk.count > 0 && walk.strides[last] == stride(axis) * shape[axis] {
                walk.dims[last] *= shape[axis];
                walk.strides[last] = stride(axis);
            } else {
                assert!(walk.count < MAX_DIMS, "too many dimensions");
                (walk.dims[walk.count], walk.strides[walk.count]) = (shape[axis], stride(axis));
                walk.count += 1;
            }
        }
        walk
    }
}

/// y = x with its dimensions permuted: y.shape[i] = shape[perm[i]].
///
/// # Panics
/// If a length is wrong, `perm` is not a permutation, or more than 12 dimensions are left after joining neighbours.
pub fn transpose<T: Copy + Send + Sync>(threads: &Threads, shape: &[usize], perm: &[usize], x: &[T], y: &mut [T]) {
    let len = product(shape);
    assert!(len == Some(x.len()) && len == Some(y.len()) && shape.len() == perm.len());
    assert!((0..perm.len()).all(|axis| perm.contains(&axis)), "not a permutation");
    if x.is_empty() {
        return;
    }
    let walk = Walk::new(shape, perm);
    let last = walk.count.wrapping_sub(1);
    if walk.count == 0 || walk.strides[last] == 1 {
        return copy_rows(threads, &walk, x, y);
    }
    let side_by_side = last > 0 && walk.strides[last - 1] == 1;
    match walk.dims[last] {
        2 if side_by_side => interleave::<T, 2>(threads, &walk, x, y),
        3 if side_by_side => interleave::<T, 3>(threads, &walk, x, y),
        4 if side_by_side => interleave::<T, 4>(threads, &walk, x, y),
        _ => exchange(threads, &walk, x, y),
    }
}

/// Elements of each row that one task interleaves at least.
const STRIP: usize = 4096;

/// Rows of `x` become the columns of `y`, such as the channels of images: as often as there are rows of `y`, each `next` elements further.
struct Interleave<'a, T, const N: usize> {
    x: &'a [T],
    /// From one row to the next.
    row: usize,
    next: usize,
    /// Elements of a row.
    count: usize,
    y: &'a mut [T],
}

/// Elements that are interleaved at a time.
const LANES: usize = 32;

impl<T: Copy, const N: usize> Kernel for Interleave<'_, T, N> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Interleave { x, row, next, count, y } = self;
        for (index, y) in y.chunks_exact_mut(count * N).enumerate() {
            let mut at = 0;
            while at < count {
                // The last elements go with some before them.
                let start = at.min(count.saturating_sub(LANES));
                let (x, y) = (&x[index * next + start..], &mut y[start * N..]);
                match count < LANES {
                    true => Self::few(x, row, count, y),
                    false => Self::many(x, row, y),
                }
                at += LANES;
            }
        }
    }
}

impl<T: Copy, const N: usize> Interleave<'_, T, N> {
    /// [`LANES`] elements of each row.
    #[inline(always)]
    fn many(x: &[T], row: usize, y: &mut [T]) {
        let mut rows = [x; N];
        for column in 0..N {
            rows[column] = &x[column * row..][..LANES];
        }
        // No closure: in builds without link-time optimisation it is a call for each element.
        let y = &mut y[..LANES * N];
        for lane in 0..LANES {
            for column in 0..N {
                y[lane * N + column] = rows[column][lane];
            }
        }
    }

    #[inline(always)]
    fn few(x: &[T], row: usize, count: usize, y: &mut [T]) {
        for lane in 0..count {
            for column in 0..N {
                y[lane * N + column] = x[column * row + lane];
            }
        }
    }
}

/// The innermost dimension of the output has `N` elements, and the one before it is the innermost one of the input.
fn interleave<T: Copy + Send + Sync, const N: usize>(threads: &Threads, walk: &Walk, x: &[T], y: &mut [T]) {
    let outer = walk.count - 2;
    let (rows, row) = (walk.dims[outer], walk.strides[outer + 1]);
    let strips = rows.div_ceil(STRIP);
    let total = y.len() / rows / N * strips;
    // Rows that lie `next` elements further each are interleaved together.
    let (alike, next) = match outer.checked_sub(1).filter(|_| strips == 1) {
        Some(last) => (walk.dims[last], walk.strides[last]),
        None => (1, 0),
    };
    let parts = parts_of(threads, y.len()).min(total);
    let (isa, out) = (threads.isa(), SharedMut::new(y));
    threads.parallel_for(parts, |task| {
        let range = part(total, parts, task);
        let mut at = range.start;
        while at < range.end {
            let together = (alike - at % alike).min(range.end - at);
            let first = at % strips * STRIP;
            let (from, count) = (offset(walk, outer, at / strips) + first, STRIP.min(rows - first));
            // SAFETY: the strips are disjoint.
            let y = unsafe { out.slice((at / strips * rows + first) * N, together * count * N) };
            dispatch(isa, Interleave::<T, N> { x: &x[from..], row, next, count, y });
            at += together;
        }
    });
}

/// The innermost dimension stays: copies of rows.
fn copy_rows<T: Copy + Send + Sync>(threads: &Threads, walk: &Walk, x: &[T], y: &mut [T]) {
    let outer = walk.count.saturating_sub(1);
    let row = if walk.count == 0 { 1 } else { walk.dims[outer] };
    let rows = y.len() / row;
    let parts = parts_of(threads, y.len()).min(rows);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        let range = part(rows, parts, i);
        // SAFETY: the parts are disjoint.
        let y = unsafe { out.slice(range.start * row, range.len() * row) };
        for (to, at) in y.chunks_exact_mut(row).zip(range) {
            let from = offset(walk, outer, at);
            to.copy_from_slice(&x[from..from + row]);
        }
    });
}

/// The input offset of flat index `at` over the first `count` dimensions.
fn offset(walk: &Walk, count: usize, mut at: usize) -> usize {
    let mut sum = 0;
    for d in (0..count).rev() {
        sum += at % walk.dims[d] * walk.strides[d];
        at /= walk.dims[d];
    }
    sum
}

/// The input's innermost dimension goes elsewhere: tiles of it and of the output's innermost dimension.
fn exchange<T: Copy + Send + Sync>(threads: &Threads, walk: &Walk, x: &[T], y: &mut [T]) {
    let inner = walk.count - 1;
    let Some(moved) = (0..walk.count).find(|d| walk.strides[*d] == 1) else {
        return;
    };
    let (rows, columns) = (walk.dims[moved], walk.dims[inner]);
    let y_stride = |d: usize| walk.dims[d + 1..walk.count].iter().product::<usize>();
    let row_stride = y_stride(moved);
    let strips = rows.div_ceil(TILE);
    let outer = y.len() / rows / columns;
    let parts = parts_of(threads, y.len()).min(outer * strips);
    let (isa, out) = (threads.isa(), SharedMut::new(y));
    threads.parallel_for(parts, |i| {
        for at in part(outer * strips, parts, i) {
            let (strip, mut rest) = (at % strips, at / strips);
            let (mut from, mut to) = (0, 0);
            for d in (0..inner).rev().filter(|d| *d != moved) {
                from += rest % walk.dims[d] * walk.strides[d];
                to += rest % walk.dims[d] * y_stride(d);
                rest /= walk.dims[d];
            }
            let first = strip * TILE;
            let count = TILE.min(rows - first);
            if size_of::<T>() == size_of::<f32>() && align_of::<T>() == align_of::<f32>() {
                let source = from + first;
                assert!(source + count + (columns - 1) * walk.strides[inner] <= x.len());
                // Every coordinate of the target is within its dimension; each task has its own outer index and strip of rows.
                let (from, to) =
                    (x[source..].as_ptr().cast(), out.as_ptr().wrapping_add(to + first * row_stride).cast());
                let from_row = walk.strides[inner];
                dispatch(isa, Exchange { from, from_row, rows: columns, columns: count, to, to_row: row_stride });
                continue;
            }
            #[cfg(target_arch = "x86_64")]
            if size_of::<T>() == 1 && count == TILE && columns >= TILE {
                let source = from + first;
                assert!(source + count + (columns - 1) * walk.strides[inner] <= x.len());
                let (from, to) =
                    (x[source..].as_ptr().cast(), out.as_ptr().wrapping_add(to + first * row_stride).cast());
                // SAFETY: the rows are in the source; as above of the target.
                unsafe { exchange::bytes(from, walk.strides[inner], columns, to, row_stride) };
                continue;
            }
            for j0 in (0..columns).step_by(TILE) {
                for i in first..first + count {
                    for j in j0..(j0 + TILE).min(columns) {
                        let source = from + i + j * walk.strides[inner];
                        debug_assert!(source < x.len());
                        // SAFETY: every coordinate is within its dimension, so both indices are in bounds; each task
                        // has its own outer index and strip of rows.
                        unsafe { *out.as_ptr().add(to + i * row_stride + j) = *x.get_unchecked(source) };
                    }
                }
            }
        }
    });
}

/// Copies a strided box of elements of `elem` bytes: for each index of `shape` the element at
/// `src_offset + index * src_strides` goes to `dst_offset + index * dst_strides`. Offsets and strides are in bytes.
/// This is slice, concatenation, padding, expansion and reversal for elements of any type.
///
/// # Panics
/// If the box reaches outside a slice, or it has more than 12 dimensions.
#[expect(clippy::too_many_arguments, reason = "two strided places")]
pub fn copy_strided(
    threads: &Threads,
    elem: usize,
    shape: &[usize],
    src: &[u8],
    src_offset: usize,
    src_strides: &[isize],
    dst: &mut [u8],
    dst_offset: usize,
    dst_strides: &[isize],
) {
    assert!(shape.len() <= MAX_DIMS && src_strides.len() == shape.len() && dst_strides.len() == shape.len());
    if shape.contains(&0) || elem == 0 {
        return;
    }
    check_reach(elem, shape, src_offset, src_strides, src.len());
    check_reach(elem, shape, dst_offset, dst_strides, dst.len());
    let mut copy = CopyBox { elem, dims: [(1, 0, 0); MAX_DIMS], count: 0 };
    for i in 0..shape.len() {
        copy.push(shape[i], src_strides[i], dst_strides[i]);
    }
    let rows = copy.rows();
    let parts = if copy.overlaps() { 1 } else { parts_of(threads, copy.len().saturating_mul(elem) / 4).min(rows) };
    let out = SharedMut::new(dst);
    threads.parallel_for(parts, |i| {
        for at in part(rows, parts, i) {
            let (s, d) = copy.offsets(at);
            // SAFETY: `check_reach` covered every element; tasks write different elements, or there is one task.
            unsafe {
                let from = src.as_ptr().offset(src_offset as isize + s);
                copy.row(from, out.as_ptr().offset(dst_offset as isize + d));
            }
        }
    });
}

/// Whether every element of the box is in a slice of `len` bytes. Sums saturate far beyond any slice.
fn check_reach(elem: usize, shape: &[usize], offset: usize, strides: &[isize], len: usize) {
    let ends = shape.iter().zip(strides).map(|(&n, &s)| (n as i128 - 1).saturating_mul(s as i128));
    let (low, high) = ends.fold((offset as i128, offset as i128), |(low, high), end| {
        (low.saturating_add(end.min(0)), high.saturating_add(end.max(0)))
    });
    assert!(low >= 0 && high.saturating_add(elem as i128) <= len as i128, "the box reaches outside the slice");
}

/// A box to copy: (size, source stride, destination stride), neighbours joined.
struct CopyBox {
    elem: usize,
    dims: [(usize, isize, isize); MAX_DIMS],
    count: usize,
}

impl CopyBox {
    fn push(&mut self, n: usize, s: isize, d: isize) {
        if n == 1 {
            return;
        }
        if let Some(last) = self.dims[..self.count].last_mut()
            && last.1 == s * n as isize
            && last.2 == d * n as isize
        {
            *last = (last.0 * n, s, d);
            return;
        }
        self.dims[self.count] = (n, s, d);
        self.count += 1;
    }

    /// Elements; saturates.
    fn len(&self) -> usize {
        self.dims[..self.count].iter().fold(1, |len, dim| len.saturating_mul(dim.0))
    }

    fn rows(&self) -> usize {
        self.dims[..self.count.saturating_sub(1)].iter().map(|d| d.0).product()
    }

    /// Whether two indices may write the same byte.
    fn overlaps(&self) -> bool {
        let mut places = [(0, 1); MAX_DIMS];
        for (place, d) in places.iter_mut().zip(&self.dims[..self.count]) {
            *place = (d.2.unsigned_abs(), d.0);
        }
        places.sort_unstable();
        let mut taken = self.elem;
        for (stride, n) in places.into_iter().filter(|p| p.1 > 1) {
            if stride < taken {
                return true;
            }
            taken += stride * (n - 1);
        }
        false
    }

    fn offsets(&self, mut at: usize) -> (isize, isize) {
        let (mut s, mut d) = (0, 0);
        for dim in self.dims[..self.count.saturating_sub(1)].iter().rev() {
            let i = (at % dim.0) as isize;
            (s, d, at) = (s + i * dim.1, d + i * dim.2, at / dim.0);
        }
        (s, d)
    }

    /// The innermost dimension.
    ///
    /// # Safety
    /// Both places are valid for it.
    unsafe fn row(&self, from: *const u8, to: *mut u8) {
        let (n, s, d) = if self.count == 0 { (1, 0, 0) } else { self.dims[self.count - 1] };
        // SAFETY: the caller vouches for the places.
        unsafe {
            if s == self.elem as isize && d == s {
                std::ptr::copy_nonoverlapping(from, to, n * self.elem);
                return;
            }
            match self.elem {
                1 => each::<1>(n, from, s, to, d),
                2 => each::<2>(n, from, s, to, d),
                4 => each::<4>(n, from, s, to, d),
                8 => each::<8>(n, from, s, to, d),
                elem => {
                    for i in 0..n as isize {
                        std::ptr::copy_nonoverlapping(from.offset(i * s), to.offset(i * d), elem);
                    }
                }
            }
        }
    }
}

/// # Safety
/// Both places are valid for `n` elements of `E` bytes with these strides.
unsafe fn each<const E: usize>(n: usize, from: *const u8, s: isize, to: *mut u8, d: isize) {
    for i in 0..n as isize {
        // SAFETY: the caller vouches for the places; bytes need no alignment.
        unsafe { *to.offset(i * d).cast::<[u8; E]>() = *from.offset(i * s).cast::<[u8; E]>() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    #[test]
    fn permutations() {
        for (shape, perm) in [
            (&[][..], &[][..]),
            (&[5], &[0]),
            (&[3, 4], &[1, 0]),
            (&[100, 333], &[1, 0]),
            (&[2, 3, 40], &[0, 2, 1]),
            (&[2, 3, 4, 5], &[0, 2, 1, 3]),
            (&[2, 30, 4, 50], &[3, 1, 0, 2]),
            (&[1, 20, 1, 50], &[0, 3, 2, 1]),
            (&[2, 3, 2, 3, 2], &[4, 3, 2, 1, 0]),
            (&[2, 0, 3], &[2, 1, 0]),
            (&[64, 12, 64], &[1, 0, 2]),
            (&[2, 3, 5000], &[0, 2, 1]),
            (&[3, 2, 4, 70, 90], &[1, 0, 3, 4, 2]),
            (&[2, 9000], &[1, 0]),
        ] {
            let len: usize = shape.iter().product();
            let places: Vec<u32> = (0..len as u32).collect();
            let mut y = vec![0; len];
            for &isa in Isa::available() {
                y.fill(u32::MAX);
                transpose(&Threads::with_isa(2, isa), shape, perm, &places, &mut y);
                let bytes: Vec<u8> = places.iter().map(|&place| place as u8).collect();
                let mut moved = vec![0; len];
                transpose(&Threads::with_isa(2, isa), shape, perm, &bytes, &mut moved);
                assert!(moved.iter().zip(&y).all(|(byte, place)| *byte == *place as u8), "{shape:?} {perm:?}");
            }
            for (at, got) in y.iter().enumerate() {
                let (mut rest, mut index) = (at, vec![0; shape.len()]);
                for i in (0..perm.len()).rev() {
                    index[perm[i]] = rest % shape[perm[i]];
                    rest /= shape[perm[i]];
                }
                let want = index.iter().zip(shape).fold(0, |sum, (i, n)| sum * n + i);
                assert_eq!(*got as usize, want, "{shape:?} {perm:?}");
            }
        }
    }

    #[test]
    fn strided_copies() {
        let threads = Threads::new(2);
        let src: Vec<u8> = (0..=255).cycle().take(40_000).collect();
        for elem in [1, 2, 3, 4, 8] {
            // A reversed, spread copy of a slice.
            let (shape, n) = ([7, 5], elem as isize);
            let mut dst = vec![0u8; 7 * 10 * elem];
            copy_strided(&threads, elem, &shape, &src, 4 * elem, &[20 * n, -n], &mut dst, elem, &[10 * n, 2 * n]);
            for i in 0..7 {
                for j in 0..5 {
                    let (from, to) = ((20 * i + 4 - j) * elem, (10 * i + 2 * j + 1) * elem);
                    assert_eq!(src[from..from + elem], dst[to..to + elem]);
                }
            }
        }
        // Expansion, large enough for two threads.
        let mut dst = vec![0u8; 200 * 400 * 4];
        copy_strided(&threads, 4, &[200, 400], &src, 8, &[0, 4], &mut dst, 0, &[1600, 4]);
        assert!(dst.chunks_exact(1600).all(|row| row == &src[8..1608]));
        // Writing everything to one place is allowed, and done by one thread.
        copy_strided(&threads, 4, &[200, 400], &dst.clone(), 0, &[1600, 4], &mut dst, 0, &[0, 4]);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn boxes_are_checked() {
        copy_strided(&Threads::new(1), 4, &[3], &[0; 8], 0, &[4], &mut [0; 12], 0, &[4]);
    }
}
