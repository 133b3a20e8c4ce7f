//! Each element from one of two tensors, as a condition says.

use super::activation::parts_of;
use super::parallel::{SharedMut, Threads, part};
use super::sizes::product;

/// Dimensions left after joining neighbours.
const MAX_DIMS: usize = 12;

/// Elements of a row that are written at a time: they stay in the first-level cache.
const PIECE: usize = 4096;

/// How a condition and two tensors are broadcast to one shape: neighbouring dimensions are joined where they may be.
#[derive(Clone, Debug, PartialEq)]
pub struct ChooseParams {
    /// Outermost first: the size, and the strides of the three, which are 0 where one is broadcast.
    dims: [(usize, [usize; 3]); MAX_DIMS],
    count: usize,
    lens: [usize; 3],
    len: usize,
}

/// A tensor that is chosen from.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a, T> {
    /// Its elements.
    Of(&'a [T]),
    /// It is in the memory of the output, element by element.
    Here,
}

/// A part of a row of one of the tensors.
#[derive(Clone, Copy)]
enum Row<'a, T> {
    One(T),
    Many(&'a [T]),
    Here,
}

impl ChooseParams {
    /// For a condition and two tensors of these shapes; `None` where one does not broadcast to the shape of the output, or where
    /// more dimensions are left than the kernel takes.
    pub fn new(operands: [&[usize]; 3], out: &[usize]) -> Option<Self> {
        let lens = [product(operands[0])?, product(operands[1])?, product(operands[2])?];
        let mut params = ChooseParams { dims: [(1, [0; 3]); MAX_DIMS], count: 0, lens, len: product(out)? };
        for (axis, &size) in out.iter().enumerate() {
            let mut strides = [0; 3];
            for (stride, shape) in strides.iter_mut().zip(operands) {
                *stride = step(shape, out, axis)?;
            }
            params.push(size, strides)?;
        }
        let longer = operands.iter().any(|shape| shape.len() > out.len());
        (!longer).then_some(params)
    }

    fn push(&mut self, size: usize, strides: [usize; 3]) -> Option<()> {
        if size == 1 {
            return Some(());
        }
        if let Some((last, outer)) = self.dims[..self.count].last_mut()
            && (0..3).all(|i| strides[i].checked_mul(size) == Some(outer[i]))
        {
            (*last, *outer) = (*last * size, strides);
            return Some(());
        }
        *self.dims.get_mut(self.count)? = (size, strides);
        self.count += 1;
        Some(())
    }

    /// Whether tensor 1 or 2 has an element for each of the output.
    pub fn is_dense(&self, operand: usize) -> bool {
        self.lens[operand] == self.len
    }

    fn offsets(&self, mut row: usize) -> [usize; 3] {
        let mut offsets = [0; 3];
        for &(size, strides) in self.dims[..self.count.saturating_sub(1)].iter().rev() {
            let at = row % size;
            row /= size;
            for i in 0..3 {
                offsets[i] += at * strides[i];
            }
        }
        offsets
    }
}

/// The stride of a tensor along an axis of the shape that it is broadcast to.
fn step(shape: &[usize], out: &[usize], axis: usize) -> Option<usize> {
    let Some(own) = (axis + shape.len()).checked_sub(out.len()) else { return Some(0) };
    match shape[own] {
        1 => Some(0),
        size if size == out[axis] => product(&shape[own + 1..]),
        _ => None,
    }
}

/// y = condition ? yes : no. A condition is true that is not 0.
///
/// # Panics
/// If a length is wrong.
pub fn choose<T: Copy + Send + Sync>(
    threads: &Threads,
    p: &ChooseParams,
    condition: &[u8],
    [yes, no]: [Choice<'_, T>; 2],
    y: &mut [T],
) {
    assert!(condition.len() == p.lens[0] && y.len() == p.len);
    for (operand, choice) in [(1, yes), (2, no)] {
        assert!(match choice {
            Choice::Of(data) => data.len() == p.lens[operand],
            Choice::Here => p.is_dense(operand),
        });
    }
    if y.is_empty() {
        return;
    }
    let (width, strides) = p.dims[..p.count].last().copied().unwrap_or((1, [0; 3]));
    let pieces = width.div_ceil(PIECE);
    let total = y.len() / width * pieces;
    let parts = parts_of(threads, y.len()).min(total);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |task| {
        for at in part(total, parts, task) {
            let (row, start) = (at / pieces, at % pieces * PIECE);
            let count = PIECE.min(width - start);
            let offsets = p.offsets(row);
            // SAFETY: the pieces of all rows are disjoint.
            let y = unsafe { out.slice(row * width + start, count) };
            let condition = Choice::Of(condition).row(offsets[0], strides[0], start, count);
            let yes = yes.row(offsets[1], strides[1], start, count);
            let no = no.row(offsets[2], strides[2], start, count);
            mix(condition, yes, no, y);
        }
    });
}

impl<'a, T: Copy> Choice<'a, T> {
    fn row(self, offset: usize, stride: usize, start: usize, count: usize) -> Row<'a, T> {
        match self {
            Choice::Here => Row::Here,
            // The innermost dimension of each tensor is contiguous, or it is broadcast.
            Choice::Of(data) if stride == 0 => Row::One(data[offset]),
            Choice::Of(data) => Row::Many(&data[offset + start..][..count]),
        }
    }
}

fn mix<T: Copy>(condition: Row<'_, u8>, yes: Row<'_, T>, no: Row<'_, T>, y: &mut [T]) {
    match (condition, no) {
        (Row::One(0), no) => no.put(y),
        (Row::One(_) | Row::Here, _) => yes.put(y),
        (Row::Many(condition), Row::Here) => yes.put_where(condition, true, y),
        (Row::Many(condition), no) => {
            yes.put(y);
            no.put_where(condition, false, y);
        }
    }
}

impl<T: Copy> Row<'_, T> {
    fn put(self, y: &mut [T]) {
        match self {
            Row::One(value) => y.fill(value),
            Row::Many(values) => y.copy_from_slice(values),
            Row::Here => {}
        }
    }

    /// Where the condition is `wanted`.
    fn put_where(self, condition: &[u8], wanted: bool, y: &mut [T]) {
        match self {
            Row::One(value) => {
                for (y, &condition) in y.iter_mut().zip(condition) {
                    *y = if (condition != 0) == wanted { value } else { *y };
                }
            }
            Row::Many(values) => {
                for ((y, &condition), &value) in y.iter_mut().zip(condition).zip(values) {
                    *y = if (condition != 0) == wanted { value } else { *y };
                }
            }
            Row::Here => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::noise;

    fn element(values: usize, shape: &[usize], out: &[usize], mut at: usize) -> usize {
        let (mut place, mut stride) = (0, 1);
        assert_eq!(values, shape.iter().product::<usize>());
        for axis in (0..out.len()).rev() {
            let index = at % out[axis];
            at /= out[axis];
            if let Some(own) = (axis + shape.len()).checked_sub(out.len()) {
                place += if shape[own] == 1 { 0 } else { index * stride };
                stride *= shape[own];
            }
        }
        place
    }

    #[test]
    fn each_element_is_of_the_tensor_that_the_condition_says() {
        let cases: [([&[usize]; 3], &[usize]); 9] = [
            ([&[], &[], &[]], &[]),
            ([&[5], &[], &[5]], &[5]),
            ([&[2, 1, 3, 1], &[2, 4, 3, 5], &[]], &[2, 4, 3, 5]),
            ([&[1, 1, 3, 1], &[2, 4, 3, 5], &[2, 4, 3, 5]], &[2, 4, 3, 5]),
            ([&[3, 1], &[1, 4], &[2, 1, 1]], &[2, 3, 4]),
            ([&[30_000], &[30_000], &[30_000]], &[30_000]),
            ([&[200, 1], &[200, 100], &[1]], &[200, 100]),
            ([&[2, 0], &[0], &[1]], &[2, 0]),
            ([&[1], &[7, 1, 2], &[3, 1]], &[7, 3, 2]),
        ];
        for (shapes, out) in cases {
            let lens = shapes.map(|shape| shape.iter().product::<usize>());
            let params = ChooseParams::new(shapes, out).expect("they broadcast");
            let condition: Vec<u8> = noise(lens[0], 1).iter().map(|&x| if x < 0.0 { 0 } else { 3 }).collect();
            let (yes, no) = (noise(lens[1], 2), noise(lens[2], 3));
            let len = out.iter().product();
            let want: Vec<f32> = (0..len)
                .map(|at| match condition[element(lens[0], shapes[0], out, at)] {
                    0 => no[element(lens[2], shapes[2], out, at)],
                    _ => yes[element(lens[1], shapes[1], out, at)],
                })
                .collect();
            for count in [1, 2] {
                let threads = Threads::new(count);
                let mut y = vec![f32::NAN; len];
                choose(&threads, &params, &condition, [Choice::Of(&yes), Choice::Of(&no)], &mut y);
                assert_eq!(y, want, "{shapes:?}");
                if params.is_dense(1) {
                    let mut y = yes.clone();
                    choose(&threads, &params, &condition, [Choice::Here, Choice::Of(&no)], &mut y);
                    assert_eq!(y, want, "{shapes:?} over the first");
                }
                if params.is_dense(2) {
                    let mut y = no.clone();
                    choose(&threads, &params, &condition, [Choice::Of(&yes), Choice::Here], &mut y);
                    assert_eq!(y, want, "{shapes:?} over the second");
                }
            }
        }
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_refused() {
        for (shapes, out) in [
            ([&[2][..], &[3], &[3]], &[3][..]),
            ([&[3], &[3], &[2, 3]], &[3]),
            ([&[3], &[1, 3], &[3]], &[3]),
            ([&[usize::MAX, 3], &[3], &[3]], &[usize::MAX, 3]),
        ] {
            assert_eq!(ChooseParams::new(shapes, out), None);
        }
    }
}
