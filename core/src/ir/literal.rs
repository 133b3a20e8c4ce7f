//! Elements of small constants as numbers in a text: `1 2 -3`, `0.5 1e-5 inf`.

use byoc_plugin_api::DType;
use byoc_plugin_api::small::{self, Round};
use half::{bf16, f16};

/// So many elements as numbers that read back to the same bytes; `None` where one of them is not a number.
pub(super) fn numbers(dtype: DType, bytes: &[u8], elements: usize) -> Option<String> {
    let loose = dtype.unpack(bytes, elements)?;
    let texts: Option<Vec<String>> =
        loose.chunks_exact(dtype.unpacked_bytes()).map(|element| number(dtype, element)).collect();
    Some(texts?.join(" "))
}

/// The bytes of elements that are written as numbers.
pub fn elements(dtype: DType, text: &str) -> Option<Vec<u8>> {
    let elements: Option<Vec<_>> = text.split_whitespace().map(|number| element(dtype, number)).collect();
    Some(dtype.pack(&elements?.concat()))
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
            _ => None,
        }
    };
}

fn number(dtype: DType, element: &[u8]) -> Option<String> {
    match small::decode(dtype, *element.first()?) {
        // A number that the type has, and not the nearest one.
        Some(number) => Some(number.to_string()).filter(|text| self::element(dtype, text).as_deref() == Some(element)),
        None => by_type!(dtype, show, element),
    }
}

fn element(dtype: DType, number: &str) -> Option<Vec<u8>> {
    let read = |code: &u8| small::decode(dtype, *code);
    let Some(code) = small::encode(dtype, number.parse().ok()?, false, Round::Nearest) else {
        return by_type!(dtype, parse, number);
    };
    // The elements of a text are those of the type, so that nothing is rounded in silence.
    let wanted: f64 = number.parse().ok()?;
    let same = read(&code).is_some_and(|value| value == wanted || value.is_nan() && wanted.is_nan());
    same.then(|| vec![code])
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
        let cases: [(DType, &[u8], &str); 9] = [
            (DType::I4, &[0x8f, 0x07], "-1 -8 7"),
            (DType::F4E2M1, &[0x71, 0x08], "0.5 6 -0"),
            (DType::F8E5M2, &[0x3c, 0x7c, 0xfb], "1 inf -57344"),
            (DType::I64, &[255; 8], "-1"),
            (DType::U64, &[255; 8], "18446744073709551615"),
            (DType::F32, &[0, 0, 0, 63, 0, 0, 0, 128, 0, 0, 128, 127], "0.5 -0 inf"),
            (DType::F16, &[0, 60, 1, 0], "1 0.000000059604645"),
            (DType::Bool, &[1, 0, 7], "1 0 7"),
            (DType::I8, &[], ""),
        ];
        for (dtype, bytes, text) in cases {
            let count = text.split_whitespace().count();
            assert_eq!(numbers(dtype, bytes, count).as_deref(), Some(text));
            assert_eq!(elements(dtype, text).as_deref(), Some(bytes));
        }
        assert_eq!(numbers(DType::F32, &[1, 0, 192, 127], 1), None, "a NaN with a payload");
        assert_eq!(numbers(DType::F8E5M2, &[0x7f], 1), None, "a NaN with a payload");
        assert_eq!(elements(DType::F8E4M3FN, "1.01"), None);
        assert_eq!(elements(DType::I8, "128"), None);
    }
}
