//! Several tensors under one claim: weights of 8 bits with their scales, a matrix with its sums. To a host they are the bytes of
//! one packed constant, so every host of the ABI takes them; what is in it is told for people.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::constants::{BoundConstants, Claims, Packed};
use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::region::ConstantId;
use crate::tensor::elements_of;

/// Each part begins at a multiple of this, from the first one on; the bytes between are zero.
pub const PART_ALIGNMENT: usize = 64;

/// One of the tensors of a group, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<usize>,
}

impl Part {
    /// A part of that type and shape.
    pub fn new(dtype: DType, shape: &[usize]) -> Part {
        Part { dtype, shape: shape.to_vec() }
    }
}

/// Where each part begins, and how many bytes there are. `None` where they cannot be counted.
pub fn part_offsets(parts: &[Part]) -> Option<(Vec<usize>, usize)> {
    let mut end = 0usize;
    let mut offsets = Vec::with_capacity(parts.len());
    for part in parts {
        let start = end.checked_next_multiple_of(PART_ALIGNMENT)?;
        offsets.push(start);
        end = start.checked_add(part.dtype.bytes_of(&part.shape)?)?;
    }
    Some((offsets, end))
}

impl Packed {
    /// A layout of several tensors. Errors where they have more bytes than can be counted.
    pub fn group(layout: impl Into<String>, parts: &[Part]) -> Result<Packed, Error> {
        let (_, bytes) = part_offsets(parts).ok_or_else(|| Error::new("a group has more bytes than can be counted"))?;
        let packed = Packed::new(layout, DType::U8, &[bytes]).aligned(PART_ALIGNMENT as u64);
        Ok(Packed { parts: parts.to_vec(), ..packed })
    }
}

impl Claims<'_> {
    /// Claims [`Claim::Packed`](crate::Claim::Packed) for a [group](Packed::group), with the bytes of each of its parts. Errors
    /// where a part has another number of bytes than its type and shape say.
    pub fn packed_group(&mut self, id: ConstantId, packed: Packed, bytes: &[&[u8]]) -> Result<(), Error> {
        let counts: Option<Vec<usize>> = packed.parts.iter().map(|part| part.dtype.bytes_of(&part.shape)).collect();
        if counts.as_deref() != Some(&bytes.iter().map(|bytes| bytes.len()).collect::<Vec<_>>()) {
            return Err(Error::new(format!("the parts of constant {id} have other sizes than their types and shapes")));
        }
        let mut writer = self.packed(id, packed)?;
        let mut written = 0usize;
        for part in bytes {
            let gap = written.next_multiple_of(PART_ALIGNMENT) - written;
            writer.write_all(&[0; PART_ALIGNMENT][..gap])?;
            writer.write_all(part)?;
            written += gap + part.len();
        }
        Ok(())
    }
}

/// A part of a group at load.
#[derive(Clone, Copy, Debug)]
pub struct BoundPart<'a> {
    /// Its bytes, aligned to [`PART_ALIGNMENT`].
    pub bytes: &'a [u8],
    dtype: DType,
}

impl<'a> BoundPart<'a> {
    /// The elements, if they are of that type.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        (T::DTYPE == self.dtype).then(|| elements_of(self.bytes)).flatten()
    }
}

impl<'a> BoundConstants<'a> {
    /// The parts of a constant that was claimed as a [group](Packed::group) of this layout, with these types and shapes.
    pub fn packed_group(&self, id: ConstantId, layout: &str, parts: &[Part]) -> Result<Vec<BoundPart<'a>>, Error> {
        let bytes = self.packed(id, layout)?.as_bytes().unwrap_or_default();
        let (offsets, end) = part_offsets(parts).unwrap_or_default();
        if bytes.len() != end || offsets.len() != parts.len() {
            return Err(Error::new(format!("constant {id} has {} bytes, and its parts have {end}", bytes.len())));
        }
        let part = |(part, start): (&Part, usize)| {
            let length = part.dtype.bytes_of(&part.shape).unwrap_or_default();
            BoundPart { bytes: &bytes[start..start + length], dtype: part.dtype }
        };
        Ok(parts.iter().zip(offsets).map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{BoundConstant, Claim, ClaimSink};
    use crate::tensor::TensorView;

    /// Keeps the last claim and its bytes.
    #[derive(Default)]
    struct Kept(Option<Packed>, Vec<u8>);

    impl ClaimSink for Kept {
        fn claim(&mut self, _: ConstantId, claim: &Claim) -> Result<(), Error> {
            if let Claim::Packed(packed) = claim {
                self.0 = Some(packed.clone());
            }
            Ok(())
        }

        fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
            self.1.extend_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn a_group_comes_back_as_it_was_packed() {
        let parts = [Part::new(DType::I8, &[3, 2]), Part::new(DType::F32, &[2]), Part::new(DType::F32, &[0])];
        let scales: Vec<u8> = [0.5f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut kept = Kept::default();
        let group = Packed::group("acme-i8/1", &parts).expect("few bytes");
        assert_eq!((group.dtype, group.shape.as_slice(), group.alignment), (DType::U8, &[128][..], 64));
        let weights = [1u8, 2, 3, 255, 254, 253];
        let given = [&weights[..], &scales, &[]];
        Claims::new(&mut kept).packed_group(ConstantId(7), group.clone(), &given).expect("as declared");
        assert_eq!(kept.0.as_ref(), Some(&group));
        #[repr(align(64))]
        struct Aligned([u8; 128]);
        let bytes = Aligned(kept.1.try_into().expect("128 bytes"));
        let (shape, strides) = ([128], [1]);
        let view = TensorView::from_slice(&bytes.0, &shape, &strides).expect("a list");
        let bound = BoundConstants::new(vec![BoundConstant { id: ConstantId(7), layout: Some("acme-i8/1"), view }]);
        let found = bound.packed_group(ConstantId(7), "acme-i8/1", &parts).expect("it is there");
        assert_eq!(found[0].as_slice::<i8>(), Some(&[1, 2, 3, -1, -2, -3][..]));
        assert_eq!(found[1].as_slice::<f32>(), Some(&[0.5, 2.0][..]));
        assert_eq!(found[2].as_slice::<f32>(), Some(&[][..]));
        assert_eq!(found[1].as_slice::<i8>(), None);
        let other = bound.packed_group(ConstantId(7), "acme-i8/1", &parts[..2]).map(drop);
        assert_eq!(
            other.err().map(|error| error.message).as_deref(),
            Some("constant 7 has 128 bytes, and its parts have 72")
        );
    }

    #[test]
    fn parts_of_other_sizes_are_an_error() {
        let parts = [Part::new(DType::I8, &[3])];
        let group = Packed::group("acme-i8/1", &parts).expect("few bytes");
        let error = Claims::new(&mut Kept::default()).packed_group(ConstantId(1), group, &[&[1, 2]]).err();
        let message = "the parts of constant 1 have other sizes than their types and shapes";
        assert_eq!(error.map(|error| error.message).as_deref(), Some(message));
        let huge = Packed::group("acme-i8/1", &[Part::new(DType::F64, &[usize::MAX])]).err();
        assert_eq!(huge.map(|error| error.message).as_deref(), Some("a group has more bytes than can be counted"));
    }
}
