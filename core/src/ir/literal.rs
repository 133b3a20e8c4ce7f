//! Elements of small constants as numbers in a text: `1 2 -3`, `0.5 1e-5 inf`.

use byoc_plugin_api::DType;
use half::{bf16, f16};

/// The elements as numbers that read back to the same bytes; `None` where one of them is not a number.
pub(super) fn numbers(dtype: DType, bytes: &[u8]) -> Option<String> {
    let texts: Option<Vec<String>> = bytes.chunks_exact(dtype.size()).map(|element| number(dtype, element)).collect();
    Some(texts?.join(" "))
}

/// The bytes of elements that are written as numbers.
pub fn elements(dtype: DType, text: &str) -> Option<Vec<u8>> {
    let elements: Option<Vec<_>> = text.split_whitespace().map(|number| element(dtype, number)).collect();
    Some(elements?.concat())
}

macro_rules! by_type {
    ($dtype:expr, $what:ident, $($argument:expr)*) => {
        match $dtype {
            DType::F32 => $what::<f32, 4>($($argument)*, f32::from_le_bytes, f32::to_le_bytes),
            DType::F64 => $what::<f64, 8>($($argument)*, f64::from_le_bytes, f64::to_le_bytes),
            DType::F16 => $what::<f16, 2>($($argument)*, f16::from_le_bytes, f16::to_le_bytes),
            DType::BF16 => $what::<bf16, 2>($($argument)*, bf16::from_le_bytes, bf16::to_le_bytes),
            DType::I8 => $what::<i8, 1>($($argument)*, i8::from_le_bytes, i8::to_le_bytes),
            DType::I16 => $what::<i16, 2>($($argument)*, i16::from_le_bytes, i16::to_le_bytes),
            DType::I32 => $what::<i32, 4>($($argument)*, i32::from_le_bytes, i32::to_le_bytes),
            DType::I64 => $what::<i64, 8>($($argument)*, i64::from_le_bytes, i64::to_le_bytes),
            DType::U8 | DType::Bool => $what::<u8, 1>($($argument)*, u8::from_le_bytes, u8::to_le_bytes),
            DType::U16 => $what::<u16, 2>($($argument)*, u16::from_le_bytes, u16::to_le_bytes),
            DType::U32 => $what::<u32, 4>($($argument)*, u32::from_le_bytes, u32::to_le_bytes),
            DType::U64 => $what::<u64, 8>($($argument)*, u64::from_le_bytes, u64::to_le_bytes),
        }
    };
}

fn number(dtype: DType, element: &[u8]) -> Option<String> {
    by_type!(dtype, show, element)
}

fn element(dtype: DType, number: &str) -> Option<Vec<u8>> {
    by_type!(dtype, parse, number)
}

/// The text of an element, if it reads back to the same bytes: a NaN may have others.
fn show<T: std::fmt::Display + std::str::FromStr, const SIZE: usize>(
    element: &[u8],
    read: fn([u8; SIZE]) -> T,
    write: fn(T) -> [u8; SIZE],
) -> Option<String> {
    let text = read(element.try_into().ok()?).to_string();
    (parse(&text, read, write)? == element).then_some(text)
}

fn parse<T: std::str::FromStr, const SIZE: usize>(
    text: &str,
    _: fn([u8; SIZE]) -> T,
    write: fn(T) -> [u8; SIZE],
) -> Option<Vec<u8>> {
    text.parse().ok().map(|value| write(value).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_to_the_same_bytes() {
        let cases: [(DType, &[u8], &str); 6] = [
            (DType::I64, &[255; 8], "-1"),
            (DType::U64, &[255; 8], "18446744073709551615"),
            (DType::F32, &[0, 0, 0, 63, 0, 0, 0, 128, 0, 0, 128, 127], "0.5 -0 inf"),
            (DType::F16, &[0, 60, 1, 0], "1 0.000000059604645"),
            (DType::Bool, &[1, 0, 7], "1 0 7"),
            (DType::I8, &[], ""),
        ];
        for (dtype, bytes, text) in cases {
            assert_eq!(numbers(dtype, bytes).as_deref(), Some(text));
            assert_eq!(elements(dtype, text).as_deref(), Some(bytes));
        }
        assert_eq!(numbers(DType::F32, &[1, 0, 192, 127]), None, "a NaN with a payload");
        assert_eq!(elements(DType::I8, "128"), None);
    }
}
