//! The constant table: every constant of every entry, found by content, so that equal bytes are one constant under any
//! name. A graph refers to a constant as (base bytes, [`View`]): reshaping, transposing or broadcasting one moves no
//! byte.

mod view;

use std::collections::HashMap;

use byoc_plugin_api::{DType, INLINE_BYTES};
use bytes::Bytes;

pub use self::view::View;

/// Index of a base in its [`ConstantTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseId(pub usize);

/// The bytes of a constant, stored once.
#[derive(Clone, Debug)]
pub struct Base {
    /// BLAKE3 of the bytes. With the element type it is the constant's identity. The shape is left out on purpose: it
    /// belongs to the view, so a reshaped copy is found too.
    pub digest: [u8; 32],
    /// Element type.
    pub dtype: DType,
    /// The shape under which the bytes were first seen, row-major.
    pub shape: Vec<usize>,
    /// The bytes, little-endian; usually a slice of the mapped model file, at any alignment.
    pub bytes: Bytes,
    /// Every name under which the model has it, in the order of discovery.
    pub names: Vec<String>,
    /// Those of the names under which the model has it transposed.
    pub transposed: Vec<String>,
}

/// A constant as a graph sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConstantRef {
    /// The bytes.
    pub base: BaseId,
    /// How to read them.
    pub view: View,
}

/// Every constant once.
#[derive(Clone, Debug, Default)]
pub struct ConstantTable {
    bases: Vec<Base>,
    by_content: HashMap<(DType, [u8; 32]), BaseId>,
    /// Matrices by a key that most of them differ in.
    by_corners: HashMap<Corners, Vec<BaseId>>,
}

/// What a matrix and its transpose have in common, up to the order of the sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Corners {
    dtype: DType,
    rows: usize,
    columns: usize,
    first: Bytes,
    last: Bytes,
}

impl ConstantTable {
    /// Adds a constant, or finds it: equal bytes of the same type are one base, and so are a matrix and its transpose.
    /// A constant whose elements are all equal becomes one element under a splat view. `bytes` must be `shape` elements
    /// of `dtype`. Elements that share bytes keep their places: they have no other views, and what is left of the last byte
    /// becomes zero.
    pub fn insert(&mut self, name: &str, dtype: DType, shape: &[usize], bytes: Bytes) -> ConstantRef {
        debug_assert_eq!(Some(bytes.len()), dtype.bytes_of(shape));
        if let Some(size) = dtype.element_bytes().filter(|&size| is_splat(&bytes, size)) {
            let base = self.base(name, dtype, vec![], bytes.slice(..size));
            return ConstantRef { base, view: View::splat(shape) };
        }
        let bytes = without_padding(dtype, shape, bytes);
        let digest = digest(&bytes);
        if !self.by_content.contains_key(&(dtype, digest))
            && let Some(base) = self.transposed(dtype, shape, &bytes)
        {
            let found = &mut self.bases[base.0];
            add_name(&mut found.names, name);
            add_name(&mut found.transposed, name);
            return ConstantRef { base, view: View::contiguous(&found.shape).transpose(&[1, 0]) };
        }
        let base = self.base_of(digest, name, dtype, shape.to_vec(), bytes);
        ConstantRef { base, view: View::contiguous(shape) }
    }

    /// Adds a constant whose elements are all the given one. `None` when `element` is not one element of `dtype`, or shares
    /// its byte with others.
    pub fn insert_splat(&mut self, name: &str, dtype: DType, shape: &[usize], element: Bytes) -> Option<ConstantRef> {
        if Some(element.len()) != dtype.element_bytes() {
            return None;
        }
        let base = self.base(name, dtype, vec![], element);
        Some(ConstantRef { base, view: View::splat(shape) })
    }

    fn base(&mut self, name: &str, dtype: DType, shape: Vec<usize>, bytes: Bytes) -> BaseId {
        self.base_of(digest(&bytes), name, dtype, shape, bytes)
    }

    fn base_of(&mut self, digest: [u8; 32], name: &str, dtype: DType, shape: Vec<usize>, bytes: Bytes) -> BaseId {
        let id = *self.by_content.entry((dtype, digest)).or_insert_with(|| {
            let id = BaseId(self.bases.len());
            if let Some(corners) = Corners::of(dtype, &shape, &bytes) {
                self.by_corners.entry(corners).or_default().push(id);
            }
            self.bases.push(Base { digest, dtype, shape, bytes, names: Vec::new(), transposed: Vec::new() });
            id
        });
        add_name(&mut self.bases[id.0].names, name);
        id
    }

    /// The base that holds the transpose of this matrix.
    fn transposed(&self, dtype: DType, shape: &[usize], bytes: &Bytes) -> Option<BaseId> {
        let corners = Corners::of(dtype, shape, bytes)?;
        let (rows, columns) = (corners.rows, corners.columns);
        let candidates = self.by_corners.get(&Corners { rows: columns, columns: rows, ..corners })?;
        let size = dtype.element_bytes()?;
        let found = candidates.iter().find(|id| is_transpose(bytes, columns, &self.get(**id).bytes, size));
        found.copied()
    }

    /// Adds a constant of another table, which this one does not have yet.
    #[cfg(feature = "compiler")]
    pub(crate) fn take_over(&mut self, base: &Base) -> BaseId {
        let id = BaseId(self.bases.len());
        self.by_content.insert((base.dtype, base.digest), id);
        self.bases.push(base.clone());
        id
    }

    /// The base of that id.
    pub fn get(&self, id: BaseId) -> &Base {
        &self.bases[id.0]
    }

    /// Every base with its id.
    pub fn iter(&self) -> impl Iterator<Item = (BaseId, &Base)> {
        self.bases.iter().enumerate().map(|(index, base)| (BaseId(index), base))
    }

    /// A copy of the elements of `constant` in row-major order.
    pub fn materialize(&self, constant: &ConstantRef) -> Vec<u8> {
        let base = self.get(constant.base);
        let mut bytes = Vec::with_capacity(constant.view.bytes(base.dtype));
        constant.view.append_to(&mut bytes, &base.bytes, base.dtype);
        bytes
    }
}

/// BLAKE3 of a constant's bytes: what is written into the artifact as its section's digest as well.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

impl Corners {
    /// Of a matrix of more than one row and column, if it is large enough to be worth finding.
    fn of(dtype: DType, shape: &[usize], bytes: &Bytes) -> Option<Corners> {
        let &[rows, columns] = shape else { return None };
        if rows < 2 || columns < 2 || bytes.len() <= INLINE_BYTES {
            return None;
        }
        let size = dtype.element_bytes()?;
        let (first, last) = (bytes.slice(..size), bytes.slice(bytes.len() - size..));
        Some(Corners { dtype, rows, columns, first, last })
    }
}

/// The bytes with zeros where the last one holds no element, so that equal elements are equal bytes.
fn without_padding(dtype: DType, shape: &[usize], bytes: Bytes) -> Bytes {
    let used = shape.iter().product::<usize>() % 8 * dtype.bits() % 8;
    let Some(&last) = bytes.last().filter(|&&last| used > 0 && last >> used != 0) else { return bytes };
    let mut own = bytes.to_vec();
    own.pop();
    own.push(last & ((1 << used) - 1));
    own.into()
}

fn add_name(names: &mut Vec<String>, name: &str) {
    if !name.is_empty() && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

/// Whether `matrix`, of so many columns and elements of `size` bytes, is the transpose of `other`.
fn is_transpose(matrix: &[u8], columns: usize, other: &[u8], size: usize) -> bool {
    match size {
        1 => is_transpose_of::<1>(matrix, columns, other),
        2 => is_transpose_of::<2>(matrix, columns, other),
        4 => is_transpose_of::<4>(matrix, columns, other),
        8 => is_transpose_of::<8>(matrix, columns, other),
        _ => false,
    }
}

/// Compares in tiles, so that both matrices are read a cache line at a time. Most matrices that are not transposes differ
/// in the first row.
fn is_transpose_of<const SIZE: usize>(matrix: &[u8], columns: usize, other: &[u8]) -> bool {
    const TILE: usize = 32;
    let (matrix, other) = (matrix.as_chunks::<SIZE>().0, other.as_chunks::<SIZE>().0);
    let rows = matrix.len() / columns;
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for row in top..rows.min(top + TILE) {
                for column in left..columns.min(left + TILE) {
                    if matrix[row * columns + column] != other[column * rows + row] {
                        return false;
                    }
                }
            }
        }
    }
    true
}

/// Whether more than one element is there and all are equal: the bytes then equal themselves shifted by one element.
fn is_splat(bytes: &[u8], size: usize) -> bool {
    bytes.len() > size && bytes[size..] == bytes[..bytes.len() - size]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_one_base_whatever_name_or_shape() {
        let mut table = ConstantTable::default();
        let a = table.insert("a", DType::U8, &[2, 2], Bytes::from_static(&[1, 2, 3, 4]));
        let b = table.insert("b", DType::U8, &[4], Bytes::from_static(&[1, 2, 3, 4]));
        let c = table.insert("c", DType::I8, &[4], Bytes::from_static(&[1, 2, 3, 4]));
        assert_eq!(a.base, b.base);
        assert_ne!(a.base, c.base);
        assert_eq!(table.get(a.base).names, ["a", "b"]);
    }

    #[test]
    fn a_matrix_and_its_transpose_are_one_base() {
        let (rows, columns) = (37, 70);
        let element = |row: usize, column: usize| ((row * 31 + column * 7) as f32).to_le_bytes();
        let matrix: Vec<u8> = (0..rows * columns).flat_map(|i| element(i / columns, i % columns)).collect();
        let turned: Vec<u8> = (0..rows * columns).flat_map(|i| element(i % rows, i / rows)).collect();
        let mut close = turned.clone();
        close[500] ^= 1;
        let mut table = ConstantTable::default();
        let a = table.insert("a", DType::F32, &[rows, columns], matrix.clone().into());
        let b = table.insert("b", DType::F32, &[columns, rows], turned.clone().into());
        assert_eq!(a.base, b.base);
        assert_eq!(
            (table.get(a.base).names.as_slice(), table.get(a.base).transposed.as_slice()),
            (&["a".to_owned(), "b".into()][..], &["b".to_owned()][..])
        );
        assert_eq!((table.materialize(&a), table.materialize(&b)), (matrix, turned.clone()));
        // Not of another type or shape, not with other elements, and not as anything but a matrix.
        for (dtype, shape, bytes) in [
            (DType::I32, vec![columns, rows], turned.clone()),
            (DType::F32, vec![rows, columns], turned.iter().rev().copied().collect()),
            (DType::F32, vec![columns, rows], close),
            (DType::F32, vec![columns, rows, 1], turned),
        ] {
            let other = table.insert("c", dtype, &shape, bytes.into());
            assert_ne!(other.base, a.base, "{dtype} {shape:?}");
        }
    }

    #[test]
    fn splats_store_one_element() {
        let mut table = ConstantTable::default();
        let zeros = table.insert("z", DType::F32, &[8, 8], Bytes::from(vec![0; 256]));
        assert_eq!(table.get(zeros.base).bytes.len(), 4);
        assert!(zeros.view.is_splat());
        assert_eq!(table.materialize(&zeros), vec![0; 256]);
    }

    #[test]
    fn elements_that_share_bytes_are_one_base_whatever_pads_them() {
        let mut table = ConstantTable::default();
        let a = table.insert("a", DType::I4, &[3], Bytes::from_static(&[0x21, 0xf3]));
        let b = table.insert("b", DType::I4, &[3, 1], Bytes::from_static(&[0x21, 0x03]));
        let c = table.insert("c", DType::I4, &[4], Bytes::from_static(&[0x21, 0xf3]));
        assert_eq!((a.base == b.base, a.base == c.base), (true, false));
        assert_eq!((table.materialize(&a), table.materialize(&c)), (vec![0x21, 0x03], vec![0x21, 0xf3]));
        // No view but that of all elements: not one element for all, and not the transpose.
        let equal = table.insert("d", DType::I4, &[2, 4], Bytes::from_static(&[0x11; 4]));
        assert_eq!((table.get(equal.base).bytes.len(), equal.view.suits(DType::I4)), (4, true));
        assert_eq!(table.insert_splat("e", DType::I4, &[9], Bytes::from_static(&[1])), None);
        let odd: Vec<u8> = (0..400u16).map(|i| i as u8).collect();
        let turned = odd.iter().rev().copied().collect::<Vec<_>>();
        let f = table.insert("f", DType::U4, &[20, 40], odd.into());
        let g = table.insert("g", DType::U4, &[40, 20], turned.into());
        assert!(f.view.suits(DType::U4) && g.view.suits(DType::U4) && f.base != g.base);
    }

    #[test]
    fn materialize_follows_strides() {
        let mut table = ConstantTable::default();
        let a = table.insert("a", DType::U8, &[2, 3], Bytes::from_static(&[1, 2, 3, 4, 5, 6]));
        let t = ConstantRef { base: a.base, view: a.view.transpose(&[1, 0]) };
        assert_eq!(table.materialize(&t), [1, 4, 2, 5, 3, 6]);
        let b = ConstantRef { base: a.base, view: View::contiguous(&[1]).broadcast(&[3]).expect("broadcast") };
        assert_eq!(table.materialize(&b), [1, 1, 1]);
    }
}
