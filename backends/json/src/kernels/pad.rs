//! A tensor that is surrounded by one value, or cut.

use super::activation::parts_of;
use super::parallel::{SharedMut, Threads, part};
use super::scatter::copy;
use super::sizes::product;

/// Most dimensions.
pub const MAX_PAD_RANK: usize = 12;

/// Where the elements of one axis are in the output.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    input: usize,
    output: usize,
    /// The first element of the output that is one of the input, and behind the last one.
    from: usize,
    to: usize,
    /// The element of the input that comes first.
    first: usize,
}

impl Span {
    fn new(input: usize, output: usize, before: i64) -> Self {
        let inside = |at: i128| at.clamp(0, output as i128) as usize;
        let before = i128::from(before);
        let from = inside(before);
        let to = inside(before + input as i128).max(from);
        let first = if from < to { (from as i128 - before) as usize } else { 0 };
        Span { input, output, from, to, first }
    }
}

/// y = x with `before[i]` elements in front of axis i, or that many fewer where it is negative. What is not in x is `fill`.
///
/// # Panics
/// If a length is wrong, or there are more than [`MAX_PAD_RANK`] axes.
pub fn pad<T: Copy + Send + Sync>(
    threads: &Threads,
    [input, output]: [&[usize]; 2],
    before: &[i64],
    fill: T,
    x: &[T],
    y: &mut [T],
) {
    assert!(input.len() == output.len() && input.len() == before.len() && input.len() <= MAX_PAD_RANK);
    assert!(product(input) == Some(x.len()) && product(output) == Some(y.len()));
    if y.is_empty() {
        return;
    }
    let mut spans = [Span::default(); MAX_PAD_RANK];
    for (axis, span) in spans.iter_mut().enumerate().take(input.len()) {
        *span = Span::new(input[axis], output[axis], before[axis]);
    }
    let changed = |axis: &usize| before[*axis] != 0 || input[*axis] != output[*axis];
    let Some(last) = (0..input.len()).rev().find(changed) else { return copy(threads, x, y) };
    let inner: usize = output[last + 1..].iter().product();
    let (outer, span) = (&spans[..last], spans[last]);
    let (rows, width) = (output[..last].iter().product::<usize>(), span.output * inner);
    let parts = parts_of(threads, y.len()).min(rows);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |task| {
        for row in part(rows, parts, task) {
            // SAFETY: rows are disjoint.
            let y = unsafe { out.slice(row * width, width) };
            let Some(source) = source(outer, row).filter(|_| span.from < span.to) else {
                y.fill(fill);
                continue;
            };
            let (front, rest) = y.split_at_mut(span.from * inner);
            let (middle, behind) = rest.split_at_mut((span.to - span.from) * inner);
            front.fill(fill);
            middle.copy_from_slice(&x[(source * span.input + span.first) * inner..][..middle.len()]);
            behind.fill(fill);
        }
    });
}

/// The row of the input that is in a row of the output.
fn source(outer: &[Span], mut row: usize) -> Option<usize> {
    let (mut source, mut stride) = (0, 1);
    for span in outer.iter().rev() {
        let at = row % span.output;
        if !(span.from..span.to).contains(&at) {
            return None;
        }
        source += (at - span.from + span.first) * stride;
        stride *= span.input;
        row /= span.output;
    }
    Some(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::noise;

    #[test]
    fn elements_are_surrounded_and_cut() {
        let cases: [(&[usize], &[usize], &[i64]); 11] = [
            (&[], &[], &[]),
            (&[3], &[6], &[2]),
            (&[4, 3], &[4, 3], &[0, 0]),
            (&[2, 3, 4], &[3, 3, 4], &[1, 0, 0]),
            (&[2, 3, 4], &[2, 6, 4], &[0, 0, 0]),
            (&[2, 3, 4], &[4, 2, 5], &[1, -1, -2]),
            (&[3, 3], &[2, 2], &[-1, -1]),
            (&[3], &[3], &[i64::MAX]),
            (&[3, 2], &[3, 2], &[i64::MIN, 0]),
            (&[0, 2], &[2, 3], &[1, 1]),
            (&[8, 40, 100], &[8, 50, 100], &[0, 4, 0]),
        ];
        for (input, output, before) in cases {
            let x = noise(input.iter().product(), 1);
            let len: usize = output.iter().product();
            let want: Vec<f32> = (0..len)
                .map(|mut at| {
                    let (mut place, mut stride) = (Some(0), 1);
                    for axis in (0..output.len()).rev() {
                        let from = (at % output[axis]) as i128 - i128::from(before[axis]);
                        at /= output[axis];
                        let inside = (0..input[axis] as i128).contains(&from);
                        place = place.filter(|_| inside).map(|place| place + from as usize * stride);
                        stride *= input[axis];
                    }
                    place.map_or(9.0, |place| x[place])
                })
                .collect();
            for count in [1, 2] {
                let mut y = vec![f32::NAN; len];
                pad(&Threads::new(count), [input, output], before, 9.0, &x, &mut y);
                assert_eq!(y, want, "{input:?} {output:?} {before:?}");
            }
        }
    }
}
