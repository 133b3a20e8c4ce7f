//! Elements put at places that indices name along one axis.

use super::activation::parts_of;
use super::parallel::{SharedMut, Threads, part};
use super::sizes::product;

/// Shapes of the data and of the indices, which are those of the updates too.
#[derive(Clone, Copy, Debug)]
pub struct ScatterParams<'a> {
    /// Of the data and of the result.
    pub data: &'a [usize],
    /// Of the indices: along each axis but that of the indices no more than the data.
    pub indices: &'a [usize],
    /// The axis of the indices.
    pub axis: usize,
}

impl ScatterParams<'_> {
    /// Whether the shapes go together.
    pub fn is_valid(&self) -> bool {
        let same = self.data.len() == self.indices.len() && self.axis < self.data.len();
        let others = self.data.iter().zip(self.indices).enumerate().filter(|(axis, _)| *axis != self.axis);
        same && others.into_iter().all(|(_, (data, indices))| indices <= data)
    }

    /// The place of the first element of a row of indices, where its index is 0.
    fn start(&self, mut row: usize) -> usize {
        let (mut start, mut stride) = (0, self.data[self.data.len() - 1]);
        for axis in (0..self.data.len() - 1).rev() {
            if axis != self.axis {
                start += row % self.indices[axis] * stride;
            }
            row /= self.indices[axis];
            stride *= self.data[axis];
        }
        start
    }
}

/// Copies a tensor.
///
/// # Panics
/// If the lengths differ.
pub fn copy<T: Copy + Send + Sync>(threads: &Threads, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len());
    let (len, parts) = (x.len(), parts_of(threads, x.len()));
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |task| {
        let range = part(len, parts, task);
        // SAFETY: the parts are disjoint.
        unsafe { out.slice(range.start, range.len()) }.copy_from_slice(&x[range]);
    });
}

/// Puts the updates in `y`, which holds the data, one after another: of several for one place the last one stays. An index counts
/// from the back if it is negative.
///
/// # Errors
/// The first index that is out of range; the updates before it are there then.
///
/// # Panics
/// If the shapes do not go together or a length is wrong.
pub fn scatter<T: Copy, I: Copy + Into<i64>>(
    p: &ScatterParams<'_>,
    indices: &[I],
    updates: &[T],
    y: &mut [T],
) -> Result<(), i64> {
    assert!(p.is_valid() && Some(y.len()) == product(p.data));
    assert!(Some(indices.len()) == product(p.indices) && updates.len() == indices.len());
    if indices.is_empty() {
        return Ok(());
    }
    let (size, last) = (p.data[p.axis], p.data.len() - 1);
    let (width, stride) = (p.indices[last], p.data[p.axis + 1..].iter().product::<usize>());
    let rows = indices.chunks_exact(width).zip(updates.chunks_exact(width));
    for (row, (indices, updates)) in rows.enumerate() {
        let start = p.start(row);
        let first: i64 = indices[0].into();
        if p.axis != last && all_are(indices, first) {
            let place = start + inside(first, size)? * stride;
            y[place..][..width].copy_from_slice(updates);
            continue;
        }
        let step = usize::from(p.axis != last);
        for (column, (&index, &update)) in indices.iter().zip(updates).enumerate() {
            y[start + column * step + inside(index.into(), size)? * stride] = update;
        }
    }
    Ok(())
}

fn all_are<I: Copy + Into<i64>>(indices: &[I], value: i64) -> bool {
    indices.iter().all(|&index| index.into() == value)
}

fn inside(index: i64, size: usize) -> Result<usize, i64> {
    let from_front = if index < 0 { index.saturating_add(size as i64) } else { index };
    usize::try_from(from_front).ok().filter(|&place| place < size).ok_or(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of data and indices, an axis, and the indices.
    type Case<'a> = (&'a [usize], &'a [usize], usize, &'a [i64]);

    /// Rows of one index, of several, and along the last axis, in tensors that are longer than the indices.
    #[test]
    fn updates_go_where_their_indices_say() {
        let cases: [Case<'_>; 6] = [
            (&[2, 3, 2], &[2, 1, 2], 1, &[2, 2, -3, -3]),
            (&[2, 3, 2], &[1, 2, 2], 1, &[0, 2, 1, 1]),
            (&[2, 3], &[2, 2], 1, &[2, 0, 1, 1]),
            (&[4], &[5], 0, &[3, -4, 0, 1, 3]),
            (&[3, 2], &[2, 1], 0, &[2, 2]),
            (&[0, 2], &[0, 1], 1, &[]),
        ];
        for (data, indices_shape, axis, indices) in cases {
            let len: usize = data.iter().product();
            let mut want: Vec<usize> = (0..len).collect();
            let updates: Vec<usize> = (0..indices.len()).map(|i| 1000 + i).collect();
            for (i, &index) in indices.iter().enumerate() {
                let (mut rest, mut place, mut stride) = (i, 0, 1);
                for d in (0..data.len()).rev() {
                    let own = rest % indices_shape[d];
                    rest /= indices_shape[d];
                    let named = index.rem_euclid(data[d].max(1) as i64) as usize;
                    place += stride * if d == axis { named } else { own };
                    stride *= data[d];
                }
                want[place] = updates[i];
            }
            let p = ScatterParams { data, indices: indices_shape, axis };
            let mut y: Vec<usize> = (0..len).collect();
            scatter(&p, indices, &updates, &mut y).expect("in range");
            assert_eq!(y, want, "{data:?} {indices_shape:?}");
            let short: Vec<i32> = indices.iter().map(|&index| index as i32).collect();
            scatter(&p, &short, &updates, &mut y).expect("in range");
            assert_eq!(y, want);
        }
    }

    #[test]
    fn an_index_beyond_the_axis_is_named() {
        let p = ScatterParams { data: &[3, 2], indices: &[1, 2], axis: 0 };
        for wrong in [3, -4, i64::MIN, i64::MAX] {
            assert_eq!(scatter(&p, &[wrong, wrong], &[1, 2], &mut [0; 6]), Err(wrong));
            assert_eq!(scatter(&p, &[0, wrong], &[1, 2], &mut [0; 6]), Err(wrong));
        }
        for (data, indices, axis) in [(&[3][..], &[1, 1][..], 0), (&[3], &[3], 1), (&[2, 2], &[3, 1], 1), (&[], &[], 0)]
        {
            assert!(!ScatterParams { data, indices, axis }.is_valid());
        }
    }

    #[test]
    fn copies_of_any_length() {
        for len in [0, 1, 50_000] {
            let x: Vec<u32> = (0..len).collect();
            let mut y = vec![7; x.len()];
            copy(&Threads::new(2), &x, &mut y);
            assert_eq!(x, y);
        }
    }
}
