//! Resizing by weighted sums, along one axis or along two that are side by side: first the columns of a row, then rows. Sums
//! are those of one axis after another, to the bit.

use super::activation::parts_of;
use super::isa::{Isa, Kernel, dispatch};
use super::nearest::OUTSIDE;
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// One axis: what each position of the output is the sum of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeighedAxis {
    input: usize,
    /// Positions of the input, and their weights, of all positions of the output one after another.
    taps: Vec<(usize, f32)>,
    /// Where those of each position end.
    ends: Vec<usize>,
    /// Rows that are looked at together: from the first one of a position to the last.
    reach: usize,
    /// The taps of each position, where all have two.
    pairs: Vec<Pair>,
}

/// Two positions of the input, and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    at: [u32; 2],
    weights: [f32; 2],
}

impl WeighedAxis {
    /// An axis without positions yet.
    pub fn new(input: usize) -> Self {
        WeighedAxis { input, ..WeighedAxis::default() }
    }

    /// Adds a position; `None` is one that is outside of the input. Gives whether all taps are within the axis.
    #[must_use]
    pub fn push(&mut self, taps: Option<&[(usize, f32)]>) -> bool {
        let outside = [(OUTSIDE, 0.0)];
        let list = taps.unwrap_or(&outside);
        self.taps.extend_from_slice(list);
        if let &[(i, a), (j, b)] = list
            && self.pairs.len() == self.ends.len()
            && i.max(j) < u32::MAX as usize
        {
            self.pairs.push(Pair { at: [i as u32, j as u32], weights: [a, b] });
        }
        self.ends.push(self.taps.len());
        let Some(taps) = taps.filter(|taps| !taps.is_empty()) else { return true };
        let (mut first, mut last) = (usize::MAX, 0);
        for &(index, _) in taps {
            (first, last) = (first.min(index), last.max(index));
        }
        self.reach = self.reach.max(last.saturating_sub(first).saturating_add(1));
        last < self.input
    }

    /// Positions of the output.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the output has no position.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn at(&self, position: usize) -> &[(usize, f32)] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.taps[start..self.ends[position]]
    }
}

/// Tensors [outer, rows, columns, inner].
#[derive(Clone, Debug, PartialEq)]
pub struct InterpolateParams {
    /// Images.
    pub outer: usize,
    /// The rows, where they are resized.
    pub rows: Option<WeighedAxis>,
    /// The columns.
    pub columns: WeighedAxis,
    /// Elements of a column.
    pub inner: usize,
    /// What is outside of the input.
    pub fill: f32,
}

impl InterpolateParams {
    fn row_len(&self) -> Option<usize> {
        self.columns.len().checked_mul(self.inner)
    }

    /// Rows of the input and of the output.
    fn rows(&self) -> (usize, usize) {
        self.rows.as_ref().map_or((1, 1), |rows| (rows.input, rows.len()))
    }

    /// Elements of the input and of the output.
    fn lens(&self) -> Option<[usize; 2]> {
        let (input, output) = self.rows();
        if input >= u32::MAX as usize {
            return None;
        }
        let from = product(&[self.outer, input, self.columns.input, self.inner])?;
        Some([from, product(&[self.outer, output, self.row_len()?])?])
    }

    /// Rows that are kept, each with its number.
    fn scratch_each(&self) -> Option<usize> {
        let kept = self.rows.as_ref().map_or(0, |rows| rows.reach);
        self.row_len()?.checked_add(1)?.checked_mul(kept)
    }
}

/// f32 values of scratch that [`interpolate`] needs on this many threads; `None` if they cannot be counted.
pub fn interpolate_scratch_len(p: &InterpolateParams, threads: usize) -> Option<usize> {
    p.scratch_each()?.checked_mul(threads)
}

/// Resizes x.
///
/// # Panics
/// If a length is wrong, or the scratch is too short.
pub fn interpolate(threads: &Threads, p: &InterpolateParams, x: &[f32], y: &mut [f32], scratch: &mut [f32]) {
    assert!(p.lens() == Some([x.len(), y.len()]));
    let (Some(each), Some(len)) = (p.scratch_each(), interpolate_scratch_len(p, threads.count())) else {
        panic!("the scratch cannot be counted");
    };
    assert!(scratch.len() >= len, "the scratch is too short");
    let width = p.columns.len() * p.inner;
    if y.is_empty() {
        return;
    }
    let total = y.len() / width;
    let parts = parts_of(threads, y.len()).min(total);
    let (out, scratch) = (SharedMut::new(y), SharedMut::new(scratch));
    threads.parallel_for(parts, |task| {
        let range = part(total, parts, task);
        // SAFETY: one part of the scratch for each task, and rows are disjoint.
        let (scratch, y) =
            unsafe { (scratch.slice(task * each, each), out.slice(range.start * width, range.len() * width)) };
        match &p.rows {
            None => {
                let width = p.columns.input * p.inner;
                for (y, row) in y.chunks_exact_mut(p.columns.len() * p.inner).zip(range) {
                    p.sum_columns(&x[row * width..][..width], y);
                }
            }
            Some(rows) => p.sum_rows(threads.isa(), rows, range.start, x, y, scratch),
        }
    });
}

impl InterpolateParams {
    /// The columns of one row.
    fn sum_columns(&self, x: &[f32], y: &mut [f32]) {
        let inner = self.inner;
        if inner == 1 && self.columns.pairs.len() == y.len() {
            for (y, pair) in y.iter_mut().zip(&self.columns.pairs) {
                let ([i, j], [a, b]) = (pair.at, pair.weights);
                *y = a * x[i as usize] + b * x[j as usize];
            }
            return;
        }
        for (position, y) in y.chunks_exact_mut(inner).enumerate() {
            match (self.columns.at(position), &mut *y) {
                (&[(OUTSIDE, _)], y) => y.fill(self.fill),
                (&[(i, a), (j, b)], [y]) => *y = a * x[i] + b * x[j],
                (taps, [y]) => {
                    *y = 0.0;
                    for &(index, weight) in taps {
                        *y += weight * x[index];
                    }
                }
                (&[(i, a), (j, b)], y) => {
                    let (first, second) = (&x[i * inner..][..inner], &x[j * inner..][..inner]);
                    for (y, (&x, &z)) in y.iter_mut().zip(first.iter().zip(second)) {
                        *y = a * x + b * z;
                    }
                }
                (taps, y) => {
                    y.fill(0.0);
                    for &(index, weight) in taps {
                        let row = &x[index * inner..][..inner];
                        y.iter_mut().zip(row).for_each(|(y, &x)| *y += weight * x);
                    }
                }
            }
        }
    }

    /// Rows of the output from `first` on, of rows whose columns are summed and kept while they are needed.
    fn sum_rows(&self, isa: Isa, rows: &WeighedAxis, first: usize, x: &[f32], y: &mut [f32], scratch: &mut [f32]) {
        let (width, from) = (self.columns.len() * self.inner, self.columns.input * self.inner);
        let (numbers, kept) = scratch.split_at_mut(rows.reach);
        let mut image = None;
        for (row, y) in (first..).zip(y.chunks_exact_mut(width)) {
            let (at, row) = (row / rows.len(), row % rows.len());
            if image != Some(at) {
                numbers.fill(NONE);
                image = Some(at);
            }
            let taps = rows.at(row);
            if let [(OUTSIDE, _)] = taps {
                y.fill(self.fill);
                continue;
            }
            for &(index, _) in taps {
                // The rows of one position are within `reach` of each other, so each has a place of its own.
                let slot = index % rows.reach;
                if numbers[slot].to_bits() != index as u32 {
                    let input = &x[(at * rows.input + index) * from..][..from];
                    self.sum_columns(input, &mut kept[slot * width..][..width]);
                    numbers[slot] = f32::from_bits(index as u32);
                }
            }
            let row = |index: usize| &kept[index % rows.reach * width..][..width];
            if let &[(i, a), (j, b)] = taps {
                dispatch(isa, SumOfTwo { factors: [a, b], rows: [row(i), row(j)], y });
                continue;
            }
            y.fill(0.0);
            for &(index, weight) in taps {
                y.iter_mut().zip(row(index)).for_each(|(y, &x)| *y += weight * x);
            }
        }
    }
}

/// No row. There are fewer of them than this: each has an element.
const NONE: f32 = f32::from_bits(u32::MAX);

/// y = a * s + b * t, each product rounded.
struct SumOfTwo<'a> {
    factors: [f32; 2],
    rows: [&'a [f32]; 2],
    y: &'a mut [f32],
}

impl Kernel for SumOfTwo<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let SumOfTwo { factors: [a, b], rows: [s, t], y } = self;
        assert!(s.len() == y.len() && t.len() == y.len());
        // SAFETY: `dispatch` checked the features, and `count` elements from `at` are in each row.
        unsafe {
            let (a, b) = (V::splat(a), V::splat(b));
            for at in (0..y.len()).step_by(16) {
                let count = y.len() - at;
                let s = V::load_up_to(s.as_ptr().add(at), count).mul(a);
                let t = V::load_up_to(t.as_ptr().add(at), count).mul(b);
                s.add(t).store_up_to(y.as_mut_ptr().add(at), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::noise;

    type Taps = Option<Vec<(usize, f32)>>;

    fn axis(input: usize, taps: &[Taps]) -> WeighedAxis {
        let mut axis = WeighedAxis::new(input);
        assert!(taps.iter().all(|taps| axis.push(taps.as_deref())));
        axis
    }

    /// As many positions, each of up to `most` elements, and some outside.
    fn taps(input: usize, output: usize, most: usize, seed: u64) -> Vec<Taps> {
        let numbers = noise(output * (most + 1), seed);
        let index = |x: f32, size: usize| ((x + 1.0) / 2.0 * size as f32) as usize % size;
        let position = |list: &[f32]| {
            let count = if most == 2 { 2 } else { index(list[0], most + 1) };
            let tap = |&x: &f32| (index(x, input), x);
            (list[0] < 0.9 || most == 2).then(|| list[1..=count].iter().map(tap).collect())
        };
        numbers.chunks_exact(most + 1).map(position).collect()
    }

    /// One axis of [outer, size, inner] after another, from the last one on.
    fn along(x: &[f32], taps: &[Taps], size: usize, inner: usize) -> Vec<f32> {
        let mut y = Vec::new();
        for part in x.chunks_exact(size * inner) {
            for taps in taps {
                for i in 0..inner {
                    let term = |&(index, weight): &(usize, f32)| weight * part[index * inner + i];
                    y.push(match taps.as_deref() {
                        None => 7.0,
                        Some([a, b]) => term(a) + term(b),
                        Some(taps) => taps.iter().map(term).fold(0.0, |sum, term| sum + term),
                    });
                }
            }
        }
        y
    }

    #[test]
    fn sums_of_both_axes_are_those_of_one_after_the_other() {
        for (outer, rows, columns, inner, most) in [
            (1, Some((5, 9)), (6, 11), 1, 2),
            (3, Some((40, 70)), (33, 50), 1, 2),
            (2, Some((9, 4)), (7, 20), 3, 4),
            (2, Some((7, 5)), (9, 20), 1, 5),
            (4, None, (6, 11), 1, 2),
            (4, None, (6, 3), 5, 3),
            (0, Some((3, 4)), (2, 2), 1, 2),
            (2, Some((3, 0)), (2, 2), 1, 2),
        ] {
            let width = taps(columns.0, columns.1, most, 1);
            let height = rows.map(|(input, output)| (input, taps(input, output, most, 2)));
            let p = InterpolateParams {
                outer,
                rows: height.as_ref().map(|(input, taps)| axis(*input, taps)),
                columns: axis(columns.0, &width),
                inner,
                fill: 7.0,
            };
            let x = noise(outer * rows.map_or(1, |rows| rows.0) * columns.0 * inner, 3);
            let mut want = along(&x, &width, columns.0, inner);
            if let Some((input, taps)) = &height {
                want = along(&want, taps, *input, columns.1 * inner);
            }
            for &isa in Isa::available() {
                for count in [1, 2] {
                    let mut y = vec![f32::NAN; want.len()];
                    let mut scratch = vec![0.0; interpolate_scratch_len(&p, count).expect("countable")];
                    interpolate(&Threads::with_isa(count, isa), &p, &x, &mut y, &mut scratch);
                    assert_eq!(y, want, "{isa:?} {outer} {rows:?} {columns:?} {inner}");
                }
            }
        }
    }

    #[test]
    fn positions_beyond_the_axis_are_refused() {
        assert!(!WeighedAxis::new(3).push(Some(&[(0, 0.5), (3, 0.5)])));
        assert!(!WeighedAxis::new(0).push(Some(&[(0, 1.0)])) && WeighedAxis::new(0).push(None));
        assert!(!WeighedAxis::new(3).push(Some(&[(OUTSIDE, 1.0)])));
    }
}
