//! Where the bytes of a section come from, handed out in pieces so that nothing large is ever copied as a whole.

use std::io;

use byoc_plugin_api::DType;
use bytes::Bytes;

use super::manifest::ConstantView;
use crate::memory::{Shortage, room};

/// Size of a piece: large enough for the disk, small enough to be hashed and written while it is in the cache.
pub(super) const PIECE: usize = 256 * 1024;

/// Bytes, or a view of bytes that is laid out in row-major order while it is written.
#[derive(Clone, Debug)]
pub enum Source {
    /// The bytes as they are.
    Bytes(Bytes),
    /// Elements of `base` in the order of the view.
    View {
        /// What the view reads, elements of `dtype`.
        base: Bytes,
        /// Element type.
        dtype: DType,
        /// The elements.
        view: ConstantView,
    },
}

impl ConstantView {
    /// Number of elements, unless that is more than can be counted.
    pub fn elements(&self) -> Option<u64> {
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
        if self.elements()? == 0 {
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

    /// Whether the elements are those of `shape` from the first to the last, in row-major order.
    pub fn is_whole(&self, shape: &[usize]) -> bool {
        self.offset == 0
            && self.elements() == shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64))
            && crate::constants::View::from(self).is_contiguous()
    }
}

impl Source {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::View { dtype, view, .. } => view.elements().unwrap_or(u64::MAX).saturating_mul(dtype.size() as u64),
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a view stays inside its base.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Source::Bytes(_) => true,
            Source::View { base, dtype, view } => view.fits((base.len() / dtype.size()) as u64),
        }
    }

    /// The bytes in order: without a copy where they already stand so. The source must be sound.
    pub(super) fn to_bytes(&self) -> Result<Bytes, Shortage> {
        Ok(match self {
            Source::Bytes(bytes) => bytes.clone(),
            Source::View { base, dtype, view } if crate::constants::View::from(view).is_contiguous() => {
                let start = view.offset * dtype.size();
                base.slice(start..start + self.len() as usize)
            }
            Source::View { base, dtype, view } => {
                let mut bytes = room(usize::try_from(self.len()).unwrap_or(usize::MAX))?;
                // `gather` fails only where its visitor does.
                let _ = gather(base, dtype.size(), view, |run| {
                    bytes.extend_from_slice(run);
                    Ok(())
                });
                Bytes::from(bytes)
            }
        })
    }

    /// Hands out every byte in order, in pieces of at most [`PIECE`] bytes (or one element's run). The source must be
    /// sound.
    pub(super) fn for_each_piece(&self, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Source::Bytes(bytes) => bytes.chunks(PIECE).try_for_each(visit),
            Source::View { base, dtype, view } => {
                let mut piece = Vec::with_capacity(PIECE);
                gather(base, dtype.size(), view, |run| {
                    if piece.len() + run.len() > PIECE {
                        visit(&piece)?;
                        piece.clear();
                    }
                    piece.extend_from_slice(run);
                    Ok(())
                })?;
                visit(&piece)
            }
        }
    }
}

/// Calls `visit` with the bytes of a view in row-major order: whole rows where the last dimension allows, cut to
/// pieces, and single elements elsewhere.
fn gather(
    base: &[u8],
    size: usize,
    view: &ConstantView,
    mut visit: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if view.elements() == Some(0) {
        return Ok(());
    }
    let rank = view.shape.len();
    let rows = rank > 0 && view.strides[rank - 1] == 1;
    let outer = if rows { rank - 1 } else { rank };
    let run = if rows { view.shape[rank - 1] * size } else { size };
    let mut index = vec![0usize; outer];
    let mut offset = view.offset as i64;
    loop {
        let start = offset as usize * size;
        base[start..start + run].chunks(PIECE).try_for_each(&mut visit)?;
        let mut axis = outer;
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            index[axis] += 1;
            offset += view.strides[axis];
            if index[axis] < view.shape[axis] {
                break;
            }
            offset -= view.strides[axis] * view.shape[axis] as i64;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[i64], offset: usize) -> ConstantView {
        ConstantView { shape: shape.to_vec(), strides: strides.to_vec(), offset }
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
    fn pieces_of_a_view_are_its_elements_in_order() {
        let rows = 2 * PIECE;
        let base: Bytes = (0..rows * 3 * 2).map(|i| (i * 7 % 251) as u8).collect::<Vec<_>>().into();
        let cases = [
            view(&[rows, 3], &[3, 1], 0),
            view(&[3, rows], &[1, 3], 0),
            view(&[rows], &[-3], (rows - 1) * 3),
            view(&[2, rows], &[0, 1], 5),
            view(&[], &[], 4),
            view(&[0], &[1], 0),
        ];
        for view in cases {
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let mut index = vec![0i64; view.shape.len()];
            for _ in 0..view.elements().expect("few") {
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
            let source = Source::View { base: base.clone(), dtype: DType::F16, view };
            assert!(source.is_sound());
            let result = source.for_each_piece(|piece| {
                assert!(piece.len() <= PIECE);
                found.extend_from_slice(piece);
                Ok(())
            });
            result.expect("no error");
            assert_eq!(source.len(), found.len() as u64);
            assert!(found == expected, "{source:?}");
        }
    }
}
