//! Resizing by the nearest element: rows are gathered, and repeated where the next one is of the same place.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// In place of an index: the element is outside of the input.
pub const OUTSIDE: usize = usize::MAX;

/// One axis: for each position of the output the one of the input, or [`OUTSIDE`].
#[derive(Clone, Debug, PartialEq)]
pub struct NearestAxis {
    /// Size of the input.
    pub input: usize,
    /// As many as the output has positions.
    pub sources: Vec<usize>,
}

/// A tensor to resize.
#[derive(Clone, Debug, PartialEq)]
pub struct NearestParams {
    /// The axes in front of the columns.
    rows: Vec<NearestAxis>,
    /// The last axis that changes.
    columns: NearestAxis,
    /// Elements of a column: of the axes behind.
    inner: usize,
    /// How often each column comes, where all come equally often and in order.
    repeat: Option<usize>,
    input: usize,
    output: usize,
}

impl NearestAxis {
    fn same(size: usize) -> Self {
        NearestAxis { input: size, sources: (0..size).collect() }
    }

    fn is_same(&self) -> bool {
        self.input == self.sources.len() && self.sources.iter().enumerate().all(|(at, &source)| at == source)
    }

    fn is_valid(&self) -> bool {
        self.sources.iter().all(|&source| source < self.input || source == OUTSIDE)
    }

    fn repeat(&self) -> Option<usize> {
        let times = self.sources.len().checked_div(self.input)?;
        let exact = times > 0 && self.input.checked_mul(times) == Some(self.sources.len());
        (exact && self.sources.iter().enumerate().all(|(at, &source)| source == at / times)).then_some(times)
    }
}

impl NearestParams {
    /// `None` where a source is beyond its axis, or the elements cannot be counted.
    pub fn new(mut axes: Vec<NearestAxis>) -> Option<Self> {
        if !axes.iter().all(NearestAxis::is_valid) {
            return None;
        }
        let input = product(&axes.iter().map(|axis| axis.input).collect::<Vec<_>>())?;
        let output = product(&axes.iter().map(|axis| axis.sources.len()).collect::<Vec<_>>())?;
        let mut inner = 1;
        while let Some(same) = axes.pop_if(|axis| axis.is_same()) {
            inner *= same.input;
        }
        let columns = axes.pop().unwrap_or(NearestAxis { input: 1, sources: vec![0] });
        let mut rows: Vec<NearestAxis> = Vec::new();
        for axis in axes {
            match rows.last_mut().filter(|last| last.is_same() && axis.is_same()) {
                Some(last) => *last = NearestAxis::same(last.input * axis.input),
                None => rows.push(axis),
            }
        }
        Some(NearestParams { repeat: columns.repeat(), rows, columns, inner, input, output })
    }

    /// Where the part of the input begins that is in a part of the output, which has a row for each position of the last axis of rows.
    fn part(&self, mut part: usize) -> usize {
        let Some((last, outer)) = self.rows.split_last() else { return 0 };
        let (mut place, mut stride) = (0, last.input * self.columns.input * self.inner);
        for axis in outer.iter().rev() {
            let source = axis.sources[part % axis.sources.len()];
            if source == OUTSIDE {
                return OUTSIDE;
            }
            place += source * stride;
            part /= axis.sources.len();
            stride *= axis.input;
        }
        place
    }

    #[inline(always)]
    fn gather(&self, x: &[f32], fill: f32, y: &mut [f32]) {
        match (self.inner, self.repeat) {
            (1, Some(1)) => y.copy_from_slice(x),
            (1, Some(2)) => repeat::<2>(x, y),
            (1, Some(3)) => repeat::<3>(x, y),
            (1, Some(4)) => repeat::<4>(x, y),
            (1, _) => {
                for (y, &source) in y.iter_mut().zip(&self.columns.sources) {
                    *y = x.get(source).copied().unwrap_or(fill);
                }
            }
            (inner, _) => {
                for (y, &source) in y.chunks_exact_mut(inner).zip(&self.columns.sources) {
                    match source {
                        OUTSIDE => y.fill(fill),
                        _ => y.copy_from_slice(&x[source * inner..][..inner]),
                    }
                }
            }
        }
    }
}

/// Each element N times.
#[inline(always)]
fn repeat<const N: usize>(x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.as_chunks_mut::<N>().0.iter_mut().zip(x) {
        *y = [x; N];
    }
}

/// Some rows of the output.
struct Rows<'a> {
    p: &'a NearestParams,
    fill: f32,
    x: &'a [f32],
    y: &'a mut [f32],
    first: usize,
}

impl Kernel for Rows<'_> {
    type Out = ();

    /// Written without vectors of our own: elements are repeated by what there is.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Rows { p, fill, x, y, first } = self;
        let (from, to) = (p.columns.input * p.inner, p.columns.sources.len() * p.inner);
        let positions = p.rows.last().map_or(&[0][..], |axis| &axis.sources);
        let (mut part, mut position) = (first / positions.len(), first % positions.len());
        let (mut start, mut before) = (p.part(part), None);
        for at in 0..y.len() / to {
            if position == positions.len() {
                (part, position) = (part + 1, 0);
                start = p.part(part);
            }
            let source = match positions[position] {
                OUTSIDE => OUTSIDE,
                _ if start == OUTSIDE => OUTSIDE,
                source => start + source * from,
            };
            let (done, rest) = y.split_at_mut(at * to);
            let row = &mut rest[..to];
            match source {
                OUTSIDE => row.fill(fill),
                _ if before == Some(source) => row.copy_from_slice(&done[(at - 1) * to..]),
                _ => p.gather(&x[source..][..from], fill, row),
            }
            (before, position) = (Some(source), position + 1);
        }
    }
}

/// Resizes x; what is outside is `fill`.
///
/// # Panics
/// If a length is wrong.
pub fn nearest(threads: &Threads, p: &NearestParams, fill: f32, x: &[f32], y: &mut [f32]) {
    assert!(x.len() == p.input && y.len() == p.output);
    if y.is_empty() {
        return;
    }
    let to = p.columns.sources.len() * p.inner;
    let rows = y.len() / to;
    let parts = parts_of(threads, y.len()).min(rows);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |task| {
        let range = part(rows, parts, task);
        // SAFETY: the parts are disjoint.
        let y = unsafe { out.slice(range.start * to, range.len() * to) };
        dispatch(threads.isa(), Rows { p, fill, x, y, first: range.start });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::tests::harness::noise;

    #[test]
    fn every_element_is_that_of_its_sources() {
        let times = |input: usize, times: usize| NearestAxis {
            input,
            sources: (0..input * times).map(|at| at / times).collect(),
        };
        let list = |input: usize, sources: &[usize]| NearestAxis { input, sources: sources.to_vec() };
        let cases = [
            vec![],
            vec![times(7, 1)],
            vec![times(2, 1), times(3, 2), times(30, 2)],
            vec![times(3, 3), times(5, 3)],
            vec![times(3, 2), times(5, 5)],
            vec![times(3, 2), times(5, 4), times(2, 1), times(3, 1)],
            vec![list(4, &[0, 3, 3, OUTSIDE]), list(5, &[OUTSIDE, 4, 4, 0])],
            vec![list(4, &[3, 1]), times(1, 1), list(5, &[OUTSIDE, 4, 0]), times(3, 1)],
            vec![times(40, 2), times(8, 1), times(50, 2)],
            vec![list(3, &[]), times(2, 2)],
            vec![list(0, &[]), times(2, 1)],
            vec![list(0, &[OUTSIDE, OUTSIDE]), times(2, 1)],
        ];
        for axes in cases {
            let x = noise(axes.iter().map(|axis| axis.input).product(), 1);
            let len: usize = axes.iter().map(|axis| axis.sources.len()).product();
            let want: Vec<f32> = (0..len)
                .map(|mut at| {
                    let (mut place, mut stride) = (Some(0), 1);
                    for axis in axes.iter().rev() {
                        let source = axis.sources[at % axis.sources.len()];
                        at /= axis.sources.len();
                        place = place.filter(|_| source != OUTSIDE).map(|place| place + source * stride);
                        stride *= axis.input;
                    }
                    place.map_or(9.0, |place| x[place])
                })
                .collect();
            let params = NearestParams::new(axes.clone()).expect("sources within the axes");
            for &isa in Isa::available() {
                for count in [1, 2] {
                    let mut y = vec![f32::NAN; len];
                    nearest(&Threads::with_isa(count, isa), &params, 9.0, &x, &mut y);
                    assert_eq!(y, want, "{isa:?} {axes:?}");
                }
            }
        }
        assert_eq!(NearestParams::new(vec![list(3, &[3])]), None);
        assert_eq!(NearestParams::new(vec![list(0, &[0])]), None);
    }
}
