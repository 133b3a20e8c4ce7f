//! The `.npy` format of NumPy, for arrays whose type is known only at run time:
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::{self, Read, Write};
use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};
use byoc_plugin_api::DType;

use crate::file;
use crate::tensor::Tensor;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The header is padded so that the data starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// Most bytes of a header; those that NumPy writes take hundreds.
const MOST_HEADER: u64 = 1 << 20;

/// What is read goes into a buffer that starts no larger than this, and grows by what there is and not by what a header
/// claims.
const FIRST_BUFFER: u64 = 1 << 20;

/// An array of a file, converted to row-major and little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// NumPy's name of the element type without byte order, such as `f4`.
    pub kind: String,
    /// Size of each dimension.
    pub shape: Vec<i64>,
    /// The elements.
    pub bytes: Vec<u8>,
}

/// The types by NumPy's name. It has none for `bf16`: its bits travel as `u2`, or as `V2` when `ml_dtypes` wrote them. Types
/// of 8 bits and less that it has not travel as `u1`, or as `V1`: the code of each element in the low bits of a byte.
const KINDS: [(&str, DType); 16] = [
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("f2", DType::F16),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("b1", DType::Bool),
    ("c8", DType::C64),
    ("c16", DType::C128),
    ("u2", DType::BF16),
    ("V2", DType::BF16),
];

impl Array {
    /// The array as a tensor of `dtype`, or the name of what it holds in its place.
    pub fn into_tensor(self, dtype: DType) -> Result<Tensor, String> {
        let found = self.type_name();
        if let Some(unit) = text_unit(&self.kind) {
            let texts = if dtype == DType::String { texts(&self.bytes, &self.kind, unit) } else { None };
            return texts.and_then(|texts| Tensor::of_texts(self.shape, &texts)).ok_or(found);
        }
        if dtype.is_asked_for() && ["u1", "V1"].contains(&self.kind.as_str()) {
            return Tensor::new(dtype, self.shape, dtype.pack(&self.bytes)).ok_or(found);
        }
        if !KINDS.contains(&(self.kind.as_str(), dtype)) {
            return Err(found);
        }
        Tensor::new(dtype, self.shape, self.bytes).ok_or(found)
    }

    /// The array as a tensor of `dtype`, or, where that is `None` or another type, of its own.
    pub fn into_tensor_like(self, dtype: Option<DType>) -> Result<Tensor, String> {
        if text_unit(&self.kind).is_some() {
            return self.into_tensor(DType::String);
        }
        if let Some(small) = dtype.filter(|dtype| dtype.is_asked_for() && ["u1", "V1"].contains(&self.kind.as_str())) {
            return self.into_tensor(small);
        }
        let fits = |&(kind, known): &(&str, DType)| kind == self.kind && dtype == Some(known);
        let own = || KINDS.iter().find(|(kind, _)| *kind == self.kind);
        match KINDS.iter().find(|&row| fits(row)).or_else(own) {
            Some(&(_, dtype)) => self.into_tensor(dtype),
            None => Err(self.type_name()),
        }
    }

    /// The element type in our words, or in NumPy's where we have none.
    fn type_name(&self) -> String {
        if text_unit(&self.kind).is_some() {
            return DType::String.to_string();
        }
        let known = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        known.map_or_else(|| format!("of NumPy's type '{}'", self.kind), |(_, dtype)| dtype.to_string())
    }
}

/// Types by the names that NumPy has for them, and behind [`OTHERS`] of them the package `ml_dtypes`, where an element has a byte of its own.
pub const NAMES: [(&str, DType); 25] = [
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("float16", DType::F16),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("bool", DType::Bool),
    ("complex64", DType::C64),
    ("complex128", DType::C128),
    ("bfloat16", DType::BF16),
    ("float8_e4m3fn", DType::F8E4M3FN),
    ("float8_e4m3fnuz", DType::F8E4M3FNUZ),
    ("float8_e5m2", DType::F8E5M2),
    ("float8_e5m2fnuz", DType::F8E5M2FNUZ),
    ("float8_e8m0fnu", DType::F8E8M0),
    ("float4_e2m1fn", DType::F4E2M1),
    ("int4", DType::I4),
    ("uint4", DType::U4),
    ("int2", DType::I2),
    ("uint2", DType::U2),
];

/// How many of [`NAMES`] are NumPy's own.
const OTHERS: usize = 14;

/// The name of a type; `None` for texts.
pub fn name(dtype: DType) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
}

/// Whether NumPy itself has the type.
pub fn is_numpys(dtype: DType) -> bool {
    NAMES[..OTHERS].iter().any(|(_, known)| *known == dtype)
}

/// How an array of elements that are called `found` becomes one of `wanted`.
pub fn conversion(found: &str, wanted: DType) -> String {
    let name = match wanted {
        DType::BF16 => return "Convert it with astype('bfloat16') of the package ml_dtypes".into(),
        small if small != DType::String && !is_numpys(small) => {
            return format!("Give the code of each {wanted} as uint8");
        }
        wanted => name(wanted).unwrap_or("U"),
    };
    let is_fraction = found.trim_start_matches('b').starts_with('f');
    let cuts = is_fraction && wanted != DType::Bool && wanted.is_number() && !wanted.is_float();
    match cuts {
        true => format!(
            "Is it the right array? Fractions are lost where NumPy's astype('{name}') makes whole numbers of it"
        ),
        false => format!("Convert it with NumPy's astype('{name}')"),
    }
}

/// Bytes of a character where the type is one of texts: Unicode (`U5`), or bytes (`S5`).
fn text_unit(kind: &str) -> Option<usize> {
    match kind.as_bytes() {
        [b'U', ..] => Some(4),
        [b'S', ..] => Some(1),
        _ => None,
    }
}

/// The texts of an array, without the zeros behind each of them; `None` where some are not Unicode.
fn texts(bytes: &[u8], kind: &str, unit: usize) -> Option<Vec<String>> {
    let characters: usize = kind.get(1..)?.parse().ok()?;
    let text = |bytes: &[u8]| {
        let bytes = &bytes
            [..bytes.chunks(unit).rposition(|unit| unit.iter().any(|&byte| byte != 0)).map_or(0, |at| (at + 1) * unit)];
        match unit {
            4 => bytes.as_chunks().0.iter().map(|unit| char::from_u32(u32::from_le_bytes(*unit))).collect(),
            _ => String::from_utf8(bytes.to_vec()).ok(),
        }
    };
    bytes.chunks_exact(characters * unit).map(text).collect()
}

/// Writes texts as NumPy does: each with as many characters as the longest.
fn write_texts(tensor: &Tensor, out: &mut impl Write) -> io::Result<()> {
    let texts = tensor.texts();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    write_header(&format!("<U{width}"), tensor.shape(), out)?;
    for text in texts {
        let characters = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
        characters.map(u32::to_le_bytes).try_for_each(|unit| out.write_all(&unit))?;
    }
    Ok(())
}

/// Reads the `.npy` file at `path`.
pub fn open(path: &Path) -> Result<Array, Diagnostic> {
    let bad = |cause: String| Diagnostic::new(Code::BadInput, format!("'{}': {cause}", path.display()));
    let file = file::open(path)?;
    match FileKind::of_file(path)? {
        FileKind::Npy | FileKind::Unknown => read_from(&mut io::BufReader::new(file)).map_err(bad),
        kind => Err(mistaken_for(path, kind, Wanted::Npy)),
    }
}

/// Reads a whole `.npy` file.
pub fn read(mut file: &[u8]) -> Result<Array, String> {
    read_from(&mut file)
}

/// Reads a `.npy` file to the end of its data, and no further.
pub fn read_from(file: &mut impl Read) -> Result<Array, String> {
    let magic = take(file, MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err("it is no .npy file".into());
    }
    let length = match take(file, 2)?[..] {
        [1, _] => number(&exactly(file, 2)?),
        [2 | 3, _] => number(&exactly(file, 4)?),
        _ => return Err("its .npy version is not 1 to 3".into()),
    };
    if length > MOST_HEADER {
        return Err("its header is damaged".into());
    }
    let header = exactly(file, length)?;
    let header = Header::parse(std::str::from_utf8(&header).map_err(|_| "its header is damaged")?)?;
    let elements =
        header.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?));
    let bytes = elements.and_then(|elements| elements.checked_mul(header.size)).ok_or(CUT)?;
    let mut bytes = exactly(file, bytes as u64)?;
    if header.fortran {
        bytes = to_row_major(&bytes, &header)?;
    }
    if header.big_endian {
        bytes.chunks_exact_mut(header.number()).for_each(<[u8]>::reverse);
    }
    Ok(Array { kind: header.kind, shape: header.shape, bytes })
}

/// The error for a truncated file.
const CUT: &str = "it is cut short";

/// The next `length` bytes, all of them.
fn exactly(file: &mut impl Read, length: u64) -> Result<Vec<u8>, String> {
    let bytes = take(file, length)?;
    if (bytes.len() as u64) < length { Err(CUT.into()) } else { Ok(bytes) }
}

/// The next `length` bytes, or as many as there are.
fn take(file: &mut impl Read, length: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(length.min(FIRST_BUFFER) as usize);
    file.take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A little-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Writes a tensor as a `.npy` file.
pub fn write(tensor: &Tensor, out: &mut impl Write) -> io::Result<()> {
    if tensor.dtype() == DType::String {
        return write_texts(tensor, out);
    }
    let kind = KINDS.iter().find(|(_, dtype)| *dtype == tensor.dtype()).map_or("u1", |(kind, _)| kind);
    let order = if tensor.dtype().unpacked_bytes() == 1 { '|' } else { '<' };
    write_header(&format!("{order}{kind}"), tensor.shape(), out)?;
    match tensor.dtype().shares_bytes() {
        true => out.write_all(&tensor.dtype().unpack(tensor.bytes(), tensor.elements()).unwrap_or_default()),
        false => out.write_all(tensor.bytes()),
    }
}

fn write_header(descr: &str, sizes: &[i64], out: &mut impl Write) -> io::Result<()> {
    let shape: String = sizes.iter().map(|size| format!("{size}, ")).collect();
    let shape = if sizes.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + header.len() + 1).next_multiple_of(ALIGNMENT) - start;
    header = format!("{header:<width$}\n", width = padded - 1);
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&(padded as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

/// The Python dictionary at the start of a file.
struct Header {
    kind: String,
    size: usize,
    big_endian: bool,
    fortran: bool,
    shape: Vec<i64>,
}

impl Header {
    /// Bytes of each number, or character, of an element.
    fn number(&self) -> usize {
        match self.kind.as_bytes() {
            [b'c', ..] => (self.size / 2).max(1),
            _ => text_unit(&self.kind).unwrap_or(self.size),
        }
    }

    fn parse(text: &str) -> Result<Header, String> {
        let descr = value(text, "descr")?;
        let descr = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let (descr, _) = descr.ok_or("it holds records, not numbers")?;
        let kind = descr.trim_start_matches(['<', '>', '|', '=']);
        let size = kind.get(1..).and_then(|digits| digits.parse().ok()).filter(|&size| size > 0);
        let size: usize = size.ok_or_else(|| match kind {
            "O" => "it holds Python objects: save texts with NumPy's astype('U')".to_owned(),
            _ => format!("it holds values of NumPy's type '{descr}', which are not numbers"),
        })?;
        let size = size.checked_mul(text_unit(kind).unwrap_or(1)).ok_or(CUT)?;
        let shape = value(text, "shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (shape, _) = shape.ok_or("its header is damaged")?;
        let sizes = shape.split(',').map(str::trim).filter(|part| !part.is_empty());
        let shape = sizes.map(str::parse).collect::<Result<Vec<i64>, _>>().map_err(|_| "its header is damaged")?;
        Ok(Header {
            kind: kind.to_owned(),
            size,
            big_endian: descr.starts_with('>'),
            fortran: value(text, "fortran_order")?.starts_with("True"),
            shape,
        })
    }
}

/// The text after a key of the dictionary.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let rest = text.split_once(&format!("'{key}'")).and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| "its header is damaged".to_owned())
}

/// Reorders column-major elements.
fn to_row_major(data: &[u8], header: &Header) -> Result<Vec<u8>, String> {
    let mut strides = vec![1usize; header.shape.len()];
    for axis in 1..strides.len() {
        strides[axis] = strides[axis - 1] * header.shape[axis - 1] as usize;
    }
    let mut out = Vec::new();
    out.try_reserve_exact(data.len()).map_err(|error| error.to_string())?;
    let mut index = vec![0i64; header.shape.len()];
    for _ in 0..data.len() / header.size {
        let at: usize = index.iter().zip(&strides).map(|(&position, stride)| position as usize * stride).sum();
        out.extend_from_slice(&data[at * header.size..(at + 1) * header.size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < header.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn what_is_written_reads_back() {
        for dtype in DType::all().filter(|dtype| *dtype != DType::String) {
            for shape in [vec![], vec![3], vec![2, 0], vec![2, 3]] {
                let bytes = crate::tensor::byte_length(dtype, &shape).expect("small");
                let tensor = Tensor::new(dtype, shape, (0..bytes).map(|byte| byte as u8).collect()).expect("a tensor");
                let mut file = Vec::new();
                write(&tensor, &mut file).expect("to memory");
                assert_eq!((file.len() - tensor.elements() * dtype.unpacked_bytes()) % ALIGNMENT, 0);
                assert_eq!(read(&file).expect("valid").into_tensor(dtype), Ok(tensor), "{dtype}");
            }
        }
    }

    #[test]
    fn texts_are_those_of_numpy() {
        for (shape, texts) in [(vec![2], &["a", "d\u{e9}j\u{e0}"][..]), (vec![], &[""]), (vec![0, 2], &[])] {
            let tensor = Tensor::of_texts(shape, texts).expect("a tensor");
            let mut file = Vec::new();
            write(&tensor, &mut file).expect("to memory");
            assert_eq!(read(&file).expect("valid").into_tensor_like(None), Ok(tensor));
        }
        let array = |kind: &str, bytes: &[u8]| Array { kind: kind.into(), shape: vec![2], bytes: bytes.to_vec() };
        let tensor = array("S2", b"ab\0c").into_tensor(DType::String).expect("bytes of UTF-8");
        assert_eq!(tensor.texts(), ["ab", "\0c"]);
        assert_eq!(array("S1", &[0xff, 0]).into_tensor(DType::String), Err("string".into()));
        assert_eq!(array("U1", &[0, 0, 0x11, 0, 0, 0, 0, 0]).into_tensor(DType::String), Err("string".into()));
        assert_eq!(array("U1", &[0; 8]).into_tensor(DType::F32), Err("string".into()));
        let header = "{'descr': '>U1', 'fortran_order': False, 'shape': (2,), }\n";
        let array = read(&file(header, &[0, 0, 0, 0x61, 0, 0, 0, 0x62])).expect("valid");
        assert_eq!(array.into_tensor(DType::String).map(|tensor| tensor.texts().concat()), Ok("ab".into()));
    }

    #[test]
    fn the_header_is_numpys_own() {
        let tensor = Tensor::new(DType::F16, vec![1], vec![0, 0x3c]).expect("a tensor");
        let mut file = Vec::new();
        write(&tensor, &mut file).expect("to memory");
        let header = std::str::from_utf8(&file[10..128]).expect("text");
        assert_eq!(header.trim_end(), "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }");
    }

    #[test]
    fn byte_order_and_column_major_order_are_undone() {
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let array = read(&file(header, &[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6])).expect("valid");
        assert_eq!((array.kind.as_str(), array.shape.as_slice()), ("i2", &[2i64, 3][..]));
        assert_eq!(array.bytes, [1, 0, 3, 0, 5, 0, 2, 0, 4, 0, 6, 0]);
    }

    #[test]
    fn bits_of_bf16_come_as_u2_or_v2_and_other_types_do_not_convert() {
        let array = |kind: &str| Array { kind: kind.into(), shape: vec![], bytes: vec![0x80, 0x3f] };
        for kind in ["u2", "V2"] {
            assert!(array(kind).into_tensor(DType::BF16).is_ok());
        }
        assert_eq!(array("u2").into_tensor(DType::F16), Err("u16".into()));
        let codes = |kind: &str| Array { kind: kind.into(), shape: vec![3], bytes: vec![0xff, 1, 0xf8] };
        for kind in ["u1", "V1"] {
            let tensor = Tensor::new(DType::I4, vec![3], vec![0x1f, 8]).expect("a tensor");
            assert_eq!(codes(kind).into_tensor_like(Some(DType::I4)), Ok(tensor));
        }
        assert_eq!(codes("i1").into_tensor(DType::I4), Err("i8".into()));
        assert_eq!(codes("V1").into_tensor_like(Some(DType::U8)), Err("of NumPy's type 'V1'".into()));
        assert_eq!(array("S2").into_tensor(DType::F16), Err("string".into()));
    }

    #[test]
    fn conversions_say_what_is_lost() {
        let texts = [
            ("f64", DType::F32, "Convert it with NumPy's astype('float32')"),
            ("i32", DType::I64, "Convert it with NumPy's astype('int64')"),
            ("string", DType::F16, "Convert it with NumPy's astype('float16')"),
            (
                "bf16",
                DType::I64,
                "Is it the right array? Fractions are lost where NumPy's astype('int64') makes whole numbers of it",
            ),
            ("f32", DType::Bool, "Convert it with NumPy's astype('bool')"),
            ("f32", DType::BF16, "Convert it with astype('bfloat16') of the package ml_dtypes"),
            ("i8", DType::I4, "Give the code of each i4 as uint8"),
        ];
        for (found, wanted, text) in texts {
            assert_eq!(conversion(found, wanted), text);
        }
    }

    #[test]
    fn damage_is_told() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        assert_eq!(read(b"PK"), Err("it is no .npy file".into()));
        assert_eq!(read(b""), Err("it is no .npy file".into()));
        assert_eq!(read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), Err("its header is damaged".into()));
        assert_eq!(read(b"\x93NUMPY\x09\x00"), Err("its .npy version is not 1 to 3".into()));
        assert_eq!(read(&file(good, &[0; 7])), Err("it is cut short".into()));
        assert_eq!(read(&file(good, &[])[..20]), Err("it is cut short".into()));
        let cases = [
            ("{}", "its header is damaged"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "it holds records, not numbers"),
            (
                "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
                "it holds Python objects: save texts with NumPy's astype('U')",
            ),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", "its header is damaged"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "it is cut short"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,2)}", "it is cut short"),
            // 4 EiB, and 16 TiB, which no memory would have.
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,)}", "it is cut short"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (2097152,2097152)}", "it is cut short"),
            ("{'descr': '<f9223372036854775807', 'fortran_order': False, 'shape': (1,)}", "it is cut short"),
        ];
        for (header, cause) in cases {
            assert_eq!(read(&file(header, &[0; 8])), Err(cause.into()), "{header}");
        }
    }
}
