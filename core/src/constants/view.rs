//! Views: how the elements of a tensor are found among others, without moving a byte.

use byoc_plugin_api::DType;

/// How the elements of a tensor are found in a base: element `index` is at `offset + sum(index * strides)`, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Stride of each dimension; 0 repeats an element.
    pub strides: Vec<i64>,
    /// The first element.
    pub offset: usize,
}

impl View {
    /// The row-major view of a whole base.
    pub fn contiguous(shape: &[usize]) -> View {
        let mut strides = vec![1i64; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1) as i64;
        }
        View { shape: shape.to_vec(), strides, offset: 0 }
    }

    /// One element seen everywhere.
    pub fn splat(shape: &[usize]) -> View {
        View { shape: shape.to_vec(), strides: vec![0; shape.len()], offset: 0 }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of its elements, one after another.
    pub fn bytes(&self, dtype: DType) -> usize {
        dtype.bytes_for(self.elements()).unwrap_or(usize::MAX)
    }

    /// The byte of the base at which its first element begins.
    pub fn first_byte(&self, dtype: DType) -> usize {
        dtype.bytes_for(self.offset).unwrap_or(usize::MAX)
    }

    /// Whether elements of that type can be seen so: those that share bytes are seen one after another, the first one first.
    pub fn suits(&self, dtype: DType) -> bool {
        !dtype.shares_bytes() || self.offset == 0 && self.is_contiguous()
    }

    /// Whether the elements follow each other in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected = i64::saturating_mul(expected, size as i64);
            fits
        }) || self.elements() == 0
    }

    /// Whether every element is the same one.
    pub fn is_splat(&self) -> bool {
        self.shape.iter().zip(&self.strides).all(|(&size, &stride)| size == 1 || stride == 0)
    }

    /// The view with its dimensions permuted: dimension `i` of the result is dimension `perm[i]` of this one.
    pub fn transpose(&self, perm: &[usize]) -> View {
        View {
            shape: perm.iter().map(|&axis| self.shape[axis]).collect(),
            strides: perm.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// The view with another shape of as many elements, if no byte has to move for it.
    pub fn reshape(&self, shape: &[usize]) -> Option<View> {
        if shape.iter().product::<usize>() != self.elements() {
            return None;
        }
        if self.is_contiguous() {
            return Some(View { offset: self.offset, ..View::contiguous(shape) });
        }
        if self.is_splat() {
            return Some(View { offset: self.offset, ..View::splat(shape) });
        }
        self.reshape_strided(shape)
    }

    /// Groups dimensions of both shapes into runs of equal products; each run of the old shape must be contiguous in
    /// itself (stride of a dimension = stride x size of the next).
    fn reshape_strided(&self, shape: &[usize]) -> Option<View> {
        if self.elements() == 0 {
            return None;
        }
        let mut strides = vec![0i64; shape.len()];
        let (mut old, mut new) = (0, 0);
        while old < self.shape.len() || new < shape.len() {
            let (old_start, new_start) = (old, new);
            let (mut old_size, mut new_size) = (1, 1);
            loop {
                if old_size == new_size && (old > old_start || new > new_start) {
                    break;
                }
                if old_size <= new_size && old < self.shape.len() {
                    old_size *= self.shape[old];
                    old += 1;
                } else if new < shape.len() {
                    new_size *= shape[new];
                    new += 1;
                } else {
                    return None;
                }
            }
            let mut dims = (old_start..old).filter(|&i| self.shape[i] != 1).collect::<Vec<_>>();
            let inner = dims.last().map_or(1, |&i| self.strides[i]);
            for pair in dims.windows(2) {
                if self.strides[pair[0]] != self.strides[pair[1]] * self.shape[pair[1]] as i64 {
                    return None;
                }
            }
            dims.clear();
            let mut stride = inner;
            for i in (new_start..new).rev() {
                strides[i] = stride;
                stride *= shape[i] as i64;
            }
        }
        Some(View { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// The view broadcast to `shape` by ONNX's rules, if it can be.
    pub fn broadcast(&self, shape: &[usize]) -> Option<View> {
        let lead = shape.len().checked_sub(self.shape.len())?;
        let mut strides = vec![0; shape.len()];
        for (i, (&size, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match size {
                _ if size == shape[lead + i] => strides[lead + i] = stride,
                1 => {}
                _ => return None,
            }
        }
        Some(View { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// Number of elements, unless that is more than can be counted: a view that a file holds may say anything.
    pub fn checked_elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64))
    }

    /// Whether the view reads nothing outside a base of that many elements.
    pub fn fits(&self, elements: u64) -> bool {
        self.reach().is_some_and(|(lowest, end)| lowest >= 0 && end as u64 <= elements)
    }

    /// The lowest element that is read, and the one after the highest.
    fn reach(&self) -> Option<(i64, i64)> {
        if self.shape.len() != self.strides.len() {
            return None;
        }
        let first = i64::try_from(self.offset).ok()?;
        if self.checked_elements()? == 0 {
            return Some((first, first));
        }
        let (mut lowest, mut highest) = (first, first);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let span = i64::try_from(size - 1).ok()?.checked_mul(stride)?;
            let end = if span < 0 { &mut lowest } else { &mut highest };
            *end = end.checked_add(span)?;
        }
        Some((lowest, highest.checked_add(1)?))
    }

    /// Whether the elements are those of a base of `shape` from the first to the last, in row-major order.
    pub fn is_identity(&self, shape: &[usize]) -> bool {
        let elements = shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
        self.offset == 0 && self.checked_elements() == elements && self.is_contiguous()
    }

    /// Appends the elements, which are of that type, to `out` in row-major order. The view must fit `base` and suit the type.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>, base: &[u8], dtype: DType) {
        if self.elements() == 0 {
            return;
        }
        if self.is_contiguous() {
            return out.extend_from_slice(&base[self.first_byte(dtype)..][..self.bytes(dtype)]);
        }
        let size = dtype.unpacked_bytes();
        // Rows are copied at once where the last dimension allows.
        let rank = self.shape.len();
        let rows = self.strides.last() == Some(&1);
        let outer = if rows { rank - 1 } else { rank };
        let run = if rows { self.shape[outer] } else { 1 } * size;
        let mut index = vec![0usize; outer];
        let mut element = self.offset as i64;
        loop {
            let start = element as usize * size;
            out.extend_from_slice(&base[start..start + run]);
            let mut axis = outer;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                element += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                element -= self.strides[axis] * self.shape[axis] as i64;
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[i64], offset: usize) -> View {
        View { shape: shape.to_vec(), strides: strides.to_vec(), offset }
    }

    #[test]
    fn views_that_leave_their_base_are_found() {
        let cases = [
            (view(&[2, 3], &[3, 1], 0), true),
            (view(&[3, 2], &[1, 3], 0), true),
            (view(&[6], &[-1], 5), true),
            (view(&[6], &[-1], 4), false),
            (view(&[2, 3], &[3, 1], 1), false),
            (view(&[], &[], 5), true),
            (view(&[], &[], 6), false),
            (view(&[1000], &[0], 5), true),
            (view(&[0, 9], &[9, 1], 6), true),
            (view(&[0, 9], &[9, 1], 7), false),
            (view(&[2], &[], 0), false),
            (view(&[2], &[i64::MAX], 1), false),
            (view(&[usize::MAX, 2], &[0, 0], 0), false),
            (view(&[usize::MAX], &[i64::MIN], 0), false),
            (view(&[1], &[1], usize::MAX), false),
        ];
        for (view, expected) in cases {
            assert_eq!(view.fits(6), expected, "{view:?}");
        }
    }

    #[test]
    fn views_reshape_only_where_no_byte_moves() {
        let view = View::contiguous(&[2, 3, 4]);
        let swapped = view.transpose(&[2, 0, 1]);
        let cases: [(&[usize], Option<&[i64]>); 5] = [
            (&[4, 6], Some(&[1, 4])),
            (&[4, 2, 3], Some(&[1, 12, 4])),
            (&[2, 2, 6], Some(&[2, 1, 4])),
            (&[1, 4, 6, 1], Some(&[4, 1, 4, 4])),
            (&[24], None),
        ];
        for (shape, strides) in cases {
            let found = swapped.reshape(shape);
            match strides {
                None => assert_eq!(found, None),
                Some(expected) => {
                    let found = found.expect("a view");
                    for (axis, (&size, &stride)) in shape.iter().zip(expected).enumerate() {
                        assert!(size == 1 || found.strides[axis] == stride, "{shape:?}: {:?}", found.strides);
                    }
                }
            }
        }
    }

    #[test]
    fn elements_that_share_bytes_are_seen_as_they_lie() {
        let cases = [
            (view(&[2, 3], &[3, 1], 0), true),
            (view(&[2, 1, 3], &[3, 9, 1], 0), true),
            (view(&[3, 2], &[1, 3], 0), false),
            (view(&[3], &[1], 2), false),
            (view(&[4], &[0], 0), false),
        ];
        for (view, suits) in cases {
            assert_eq!((view.suits(DType::I4), view.suits(DType::F8E5M2)), (suits, true), "{view:?}");
        }
        let mut found = Vec::new();
        view(&[3], &[1], 0).append_to(&mut found, &[0x21, 0x03], DType::U4);
        assert_eq!(found, [0x21, 0x03]);
    }

    #[test]
    fn elements_are_copied_in_row_major_order() {
        let rows = 50;
        let base: Vec<u8> = (0..rows * 3 * 2).map(|i| (i * 7 % 251) as u8).collect();
        let cases = [
            view(&[rows, 3], &[3, 1], 0),
            view(&[3, rows], &[1, 3], 0),
            view(&[rows], &[-3], (rows - 1) * 3),
            view(&[2, rows], &[0, 1], 5),
            view(&[], &[], 4),
            view(&[0], &[1], 0),
        ];
        for view in cases {
            let mut expected = vec![0; 3];
            let mut index = vec![0i64; view.shape.len()];
            for _ in 0..view.elements() {
                let at = view.offset as i64 + index.iter().zip(&view.strides).map(|(i, s)| i * s).sum::<i64>();
                expected.extend_from_slice(&base[at as usize * 2..at as usize * 2 + 2]);
                for axis in (0..index.len()).rev() {
                    index[axis] += 1;
                    if index[axis] < view.shape[axis] as i64 {
                        break;
                    }
                    index[axis] = 0;
                }
            }
            let mut found = vec![0; 3];
            view.append_to(&mut found, &base, DType::F16);
            assert_eq!(found, expected, "{view:?}");
        }
    }
}
