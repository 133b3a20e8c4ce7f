//! Numpy's `.npz`: a zip archive of arrays. Reads and writes what `tests/python` and the command line write: stored,
//! not compressed, row-major. ndarray-npy cannot read half-precision arrays, which many node cases have.

use std::path::Path;

use byoc_plugin_api::DType;

use crate::places;
use crate::tensor::Tensor;

/// Numpy's name of each element type. There is none for bf16: such arrays are stored as `u2`.
const NAMES: [(&str, DType); 12] = [
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<f2", DType::F16),
    ("|i1", DType::I8),
    ("<i2", DType::I16),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("|b1", DType::Bool),
];

const ARRAY: &[u8] = b"\x93NUMPY\x01\x00";
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// The arrays of the file, by name, in its order.
pub fn read(path: &Path) -> Vec<(String, Tensor)> {
    parse(&places::read(path)).unwrap_or_else(|| panic!("{} is no archive of plain arrays", path.display()))
}

/// The array of a file that has one and no name for it, `.npy`.
pub fn read_one(path: &Path) -> Tensor {
    parse_array(&places::read(path)).unwrap_or_else(|| panic!("{} is no plain array", path.display()))
}

/// The array of that name.
pub fn find(arrays: &[(String, Tensor)], name: &str) -> Tensor {
    let found = arrays.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("there is no array '{name}'")).1.clone()
}

/// Writes arrays under their names.
pub fn write(path: &Path, arrays: &[(&str, &Tensor)]) {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, tensor) in arrays {
        let (name, content) = (format!("{name}.npy"), array(tensor));
        let mut common = vec![0u8; 10];
        common.extend(crc32(&content).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u32).to_le_bytes());
        directory.extend(CENTRAL.to_le_bytes());
        directory.extend([0; 2]);
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((file.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        file.extend(LOCAL.to_le_bytes());
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(content);
    }
    let (start, count) = (file.len() as u32, arrays.len() as u16);
    file.extend(&directory);
    file.extend(END.to_le_bytes());
    file.extend([0; 4]);
    file.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    std::fs::write(path, file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn parse(file: &[u8]) -> Option<Vec<(String, Tensor)>> {
    // The end record has no comment, so it is the last 22 bytes.
    let end = file.len().checked_sub(22)?;
    if number(file, end, 4)? != u64::from(END) {
        return None;
    }
    let (count, mut at) = (number(file, end + 10, 2)?, number(file, end + 16, 4)? as usize);
    let mut arrays = Vec::new();
    for _ in 0..count {
        let stored = number(file, at + 10, 2)? == 0;
        let size = number(file, at + 20, 4)? as usize;
        let lengths = [number(file, at + 28, 2)?, number(file, at + 30, 2)?, number(file, at + 32, 2)?];
        let local = number(file, at + 42, 4)? as usize;
        let name = std::str::from_utf8(file.get(at + 46..at + 46 + lengths[0] as usize)?).ok()?;
        let data = local + 30 + (number(file, local + 26, 2)? + number(file, local + 28, 2)?) as usize;
        let tensor = parse_array(file.get(data..data + size).filter(|_| stored)?)?;
        arrays.push((name.strip_suffix(".npy")?.to_owned(), tensor));
        at += 46 + lengths.iter().sum::<u64>() as usize;
    }
    Some(arrays)
}

/// An array file: magic, length of the header, the header as a Python literal, the elements.
fn parse_array(file: &[u8]) -> Option<Tensor> {
    let rest = file.strip_prefix(ARRAY)?;
    let (header, bytes) = rest.get(2..)?.split_at_checked(number(rest, 0, 2)? as usize)?;
    let header = std::str::from_utf8(header).ok()?;
    let after = |key: &str| header.split_once(key).map(|(_, value)| value);
    let name = after("'descr': '")?.split('\'').next()?;
    let dtype = NAMES.iter().find(|(known, _)| *known == name)?.1;
    after("'fortran_order': ")?.strip_prefix("False")?;
    let shape = after("'shape': (")?.split(')').next()?;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<i64> = sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?;
    Some(Tensor::new(dtype, shape, bytes.to_vec()))
}

fn array(tensor: &Tensor) -> Vec<u8> {
    let name = NAMES.iter().find(|(_, dtype)| *dtype == tensor.dtype).expect("a type that numpy has").0;
    let shape: String = tensor.shape.iter().map(|size| format!("{size},")).collect();
    let mut header = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    let length = (ARRAY.len() + 2 + header.len() + 1).next_multiple_of(64) - ARRAY.len() - 2;
    header += &" ".repeat(length - 1 - header.len());
    header.push('\n');
    [ARRAY, &(length as u16).to_le_bytes(), header.as_bytes(), &tensor.bytes].concat()
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    Some(bytes.get(at..at.checked_add(size)?)?.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = places::temporary();
        let path = folder.path().join("arrays.npz");
        let matrix = Tensor::f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let scalar = Tensor::new(DType::F16, vec![], vec![0, 60]);
        write(&path, &[("matrix", &matrix), ("a/b", &scalar)]);
        assert_eq!(read(&path), [("matrix".to_owned(), matrix), ("a/b".to_owned(), scalar)]);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_lone_array_is_read() {
        let folder = places::temporary();
        let matrix = Tensor::f32(&[2, 1], &[1.0, -2.5]);
        assert_eq!(read_one(&places::write(folder.path(), "array.npy", array(&matrix))), matrix);
    }
}
