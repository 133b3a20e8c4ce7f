//! Numbers as elements of any type, and back: the real parts of complex ones, and handles of texts. Elements of less than 8 bits share
//! bytes.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::small::{self, Round};

/// Numbers as elements, little-endian. Those of integers are cut off behind the point.
pub fn encode(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    let element = |&number: &f64| -> [u8; 16] {
        let mut bytes = [0; 16];
        if let Some(code) = small::encode(dtype, number, true, Round::Nearest) {
            bytes[0] = code;
            return bytes;
        }
        match dtype {
            DType::F32 | DType::C64 => bytes[..4].copy_from_slice(&(number as f32).to_le_bytes()),
            DType::F64 | DType::C128 => bytes[..8].copy_from_slice(&number.to_le_bytes()),
            DType::F16 => bytes[..2].copy_from_slice(&f16::from_f64(number).to_le_bytes()),
            DType::BF16 => bytes[..2].copy_from_slice(&bf16::from_f64(number).to_le_bytes()),
            DType::U64 | DType::String => bytes[..8].copy_from_slice(&(number as u64).to_le_bytes()),
            _ => bytes[..8].copy_from_slice(&(number as i64).to_le_bytes()),
        }
        bytes
    };
    let loose: Vec<u8> =
        numbers.iter().flat_map(|number| element(number).into_iter().take(dtype.unpacked_bytes())).collect();
    dtype.pack(&loose)
}

/// Elements as numbers, which are exact but for integers beyond 2^53. Where elements share bytes, all that the bytes hold.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let number = |element: &[u8]| {
        let mut wide = [0; 8];
        let real = element.len().min(wide.len());
        wide[..real].copy_from_slice(&element[..real]);
        let bits = u64::from_le_bytes(wide);
        match dtype {
            DType::F32 | DType::C64 => f32::from_bits(bits as u32).into(),
            DType::F64 | DType::C128 => f64::from_bits(bits),
            DType::F16 => f16::from_bits(bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
            DType::I8 => f64::from(bits as i8),
            DType::I16 => f64::from(bits as i16),
            DType::I32 => f64::from(bits as i32),
            DType::I64 => bits as i64 as f64,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool | DType::String => bits as f64,
            _ => small::decode(dtype, bits as u8).unwrap_or(f64::NAN),
        }
    };
    let loose = dtype.unpack(bytes, 8 * bytes.len() / dtype.bits()).unwrap_or_default();
    loose.chunks_exact(dtype.unpacked_bytes()).map(number).collect()
}

/// What an element of that type holds of a number.
pub fn rounded(dtype: DType, number: f64) -> f64 {
    decode(dtype, &encode(dtype, &[number]))[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_the_type_holds_them() {
        for dtype in DType::all() {
            assert_eq!(Some(encode(dtype, &[1.0, 0.0]).len()), dtype.bytes_for(2));
            let back = decode(dtype, &encode(dtype, &[1.0, 0.0]));
            // The type of powers of two has no zero.
            let zero = if dtype == DType::F8E8M0 { 2f64.powi(-127) } else { 0.0 };
            assert_eq!(back[..2], [1.0, zero], "{dtype}");
        }
        for dtype in [DType::I8, DType::I16, DType::I32, DType::I64] {
            assert_eq!(rounded(dtype, -7.5), -7.0, "{dtype}");
        }
        assert_eq!(rounded(DType::BF16, 1.001), 1.0);
    }
}
