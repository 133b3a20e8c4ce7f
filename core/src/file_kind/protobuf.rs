//! ONNX's messages, which have no signature: they are told by the numbers and the wire types of their fields.

use super::FileKind;

/// Numbers of fields by wire type, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    varint: u32,
    bytes: u32,
    fixed32: u32,
    fixed64: u32,
}

/// How a walk over the fields of a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the file.
    Complete,
    /// The file ends within the field of that number; 0 where it is not known.
    Cut(u32),
    /// Not a message, or one with fields that ONNX does not have.
    Malformed,
}

const fn set(numbers: &[u32]) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < numbers.len() {
        bits |= 1 << numbers[index];
        index += 1;
    }
    bits
}

/// The highest number of a field.
const HIGHEST: u32 = 31;

const GRAPH: u32 = 7;

/// The fields of a `ModelProto`; those behind 26 are not taken yet.
const MODEL: Fields = Fields {
    varint: set(&[1, 5, 27, 28, 29, 30, 31]),
    bytes: set(&[2, 3, 4, 6, 7, 8, 14, 20, 25, 26, 27, 28, 29, 30, 31]),
    fixed32: 0,
    fixed64: 0,
};

/// The fields of a `TensorProto`. Segments (3) are not used by anybody.
const TENSOR: Fields = Fields {
    varint: set(&[1, 2, 5, 7, 11, 14]),
    bytes: set(&[1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16]),
    fixed32: set(&[4]),
    fixed64: set(&[10]),
};

/// The fields of a `SequenceProto`: name, type of element, and its elements.
const SEQUENCE: Fields = Fields { varint: set(&[2]), bytes: set(&[1, 3, 4, 5, 6, 7]), fixed32: 0, fixed64: 0 };

impl Fields {
    fn are_of(self, message: Fields) -> bool {
        let within = |own: u32, all: u32| own & !all == 0;
        within(self.varint, message.varint)
            && within(self.bytes, message.bytes)
            && within(self.fixed32, message.fixed32)
            && within(self.fixed64, message.fixed64)
    }
}

/// A model, a tensor or a sequence of ONNX.
pub(super) fn kind(bytes: &[u8]) -> Option<FileKind> {
    let (fields, end) = walk(bytes);
    if is_model(fields, end) {
        return Some(FileKind::Model);
    }
    let has_type = fields.varint & set(&[2]) != 0;
    match end {
        End::Complete if has_type && fields.are_of(TENSOR) => Some(FileKind::Tensor),
        End::Complete if has_type && fields.are_of(SEQUENCE) => Some(FileKind::Sequence),
        _ => None,
    }
}

/// Where a model ends too early.
pub(super) fn model_cut(bytes: &[u8]) -> Option<&'static str> {
    match walk(bytes) {
        (fields, end @ End::Cut(number)) if is_model(fields, end) => Some(match number {
            GRAPH => "within its graph",
            _ if fields.bytes & set(&[GRAPH]) == 0 => "before its graph",
            _ => "behind its graph",
        }),
        _ => None,
    }
}

fn is_model(fields: Fields, end: End) -> bool {
    let has_version = fields.varint & set(&[1]) != 0 || fields.bytes & set(&[8]) != 0;
    let has_graph = match end {
        End::Complete => fields.bytes & set(&[GRAPH]) != 0,
        // It may end before.
        End::Cut(number) => number == GRAPH || fields.bytes & set(&[2, 3, GRAPH, 8]) != 0,
        End::Malformed => false,
    };
    has_version && has_graph && fields.are_of(MODEL)
}

/// The fields of the top level.
fn walk(mut rest: &[u8]) -> (Fields, End) {
    let mut fields = Fields::default();
    while !rest.is_empty() {
        let Some(key) = varint(&mut rest) else { return (fields, End::Cut(0)) };
        let Some(number) = u32::try_from(key >> 3).ok().filter(|number| (1..=HIGHEST).contains(number)) else {
            return (fields, End::Malformed);
        };
        let bit = 1 << number;
        let (seen, length) = match key & 7 {
            0 => match varint(&mut rest) {
                Some(_) => (&mut fields.varint, Some(0)),
                None => (&mut fields.varint, None),
            },
            1 => (&mut fields.fixed64, Some(8)),
            2 => (&mut fields.bytes, varint(&mut rest)),
            5 => (&mut fields.fixed32, Some(4)),
            _ => return (fields, End::Malformed),
        };
        let behind = length.and_then(|length| rest.get(usize::try_from(length).ok()?..));
        match behind {
            Some(behind) => {
                *seen |= bit;
                rest = behind;
            }
            None => return (fields, End::Cut(number)),
        }
    }
    (fields, End::Complete)
}

/// The next number of variable length; `None` where the bytes end before it, or where it is longer than any.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ir_version` 8, a producer, a graph with a name, an opset.
    const SMALL: &[u8] = b"\x08\x08\x12\x02me\x3a\x05\x12\x03abc\x42\x02\x10\x11";

    #[test]
    fn messages_are_told_apart() {
        let tensor = b"\x08\x02\x08\x03\x10\x01\x42\x01x\x4a\x04\0\0\0\0";
        let cases: [(&[u8], Option<FileKind>); 9] = [
            (SMALL, Some(FileKind::Model)),
            (tensor, Some(FileKind::Tensor)),
            (b"\x0a\x01s\x10\x01\x1a\x02\x10\x01", Some(FileKind::Sequence)),
            // No graph, or a field of another type.
            (b"\x08\x08\x12\x02me", None),
            (b"\x08\x08\x3a\x02me\x2a\x01x", None),
            (b"\x08", None),
            (b"\x3a\x01x", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (&tensor[..tensor.len() - 1], None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(kind(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_model_tells_where_it_ends() {
        let cut = |length: usize| model_cut(&SMALL[..length]);
        assert_eq!(
            [cut(3), cut(7), cut(9), cut(SMALL.len())],
            [None, Some("within its graph"), Some("within its graph"), None]
        );
        assert_eq!(cut(SMALL.len() - 1), Some("behind its graph"));
        assert_eq!(model_cut(b"\x08\x08\x12\x02me\x42\x05\x10"), Some("before its graph"));
    }
}
