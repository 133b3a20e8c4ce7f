//! `BitCast`: the bits of one type seen as those of another.

use byoc_plugin_api::{DType, Error};
use half::{bf16, f16};

use super::array::{Array, Item};
use super::call::{Call, Outputs};
use super::{ALL, Kernel, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("BitCast", bit_cast, &[ALL])];

/// `BitCast`. A boolean is true where any bit is set.
pub(crate) fn bit_cast(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let to = call.output_type(0).ok_or_else(|| Error::new("BitCast needs the type of its output"))?;
    if to.bits() != x.dtype().bits() {
        return Err(Error::new(format!("BitCast of {} to {to}, which has other bits", x.dtype())));
    }
    let unfit = || Error::new(format!("BitCast of {} to {to}, which is not between numbers", x.dtype()));
    let bits = match x {
        Array::F32(x) => x.mapv(|x| u64::from(x.to_bits())),
        Array::F64(x) => x.mapv(f64::to_bits),
        Array::F16(x) => x.mapv(|x| u64::from(x.to_bits())),
        Array::BF16(x) => x.mapv(|x| u64::from(x.to_bits())),
        Array::I8(x) => x.mapv(|x| u64::from(x as u8)),
        Array::I16(x) => x.mapv(|x| u64::from(x as u16)),
        Array::I32(x) => x.mapv(|x| u64::from(x as u32)),
        Array::I64(x) => x.mapv(|x| x as u64),
        Array::U8(x) => x.mapv(u64::from),
        Array::U16(x) => x.mapv(u64::from),
        Array::U32(x) => x.mapv(u64::from),
        Array::U64(x) => x.to_owned(),
        Array::Bool(x) => x.mapv(u64::from),
        Array::Small(_, codes) => codes.mapv(u64::from),
        Array::C64(_) | Array::C128(_) | Array::String(_) => return Err(unfit()),
    };
    Ok(vec![match to {
        DType::F32 => Item::wrap(bits.mapv(|bits| f32::from_bits(bits as u32))),
        DType::F64 => Item::wrap(bits.mapv(f64::from_bits)),
        DType::F16 => Item::wrap(bits.mapv(|bits| f16::from_bits(bits as u16))),
        DType::BF16 => Item::wrap(bits.mapv(|bits| bf16::from_bits(bits as u16))),
        DType::I8 => Item::wrap(bits.mapv(|bits| bits as i8)),
        DType::I16 => Item::wrap(bits.mapv(|bits| bits as i16)),
        DType::I32 => Item::wrap(bits.mapv(|bits| bits as i32)),
        DType::I64 => Item::wrap(bits.mapv(|bits| bits as i64)),
        DType::U8 => Item::wrap(bits.mapv(|bits| bits as u8)),
        DType::U16 => Item::wrap(bits.mapv(|bits| bits as u16)),
        DType::U32 => Item::wrap(bits.mapv(|bits| bits as u32)),
        DType::U64 => Item::wrap(bits),
        DType::Bool => Item::wrap(bits.mapv(|bits| bits != 0)),
        DType::C64 | DType::C128 | DType::String => return Err(unfit()),
        other => Array::Small(other, bits.mapv(|bits| bits as u8).into()),
    }])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::super::testing::{node, tensor};
    use super::super::{Array, compute};

    fn cast(x: Option<Array<'static>>, to: DType) -> Result<Array<'static>, String> {
        let found = compute(&node("BitCast", 1, &[]), vec![x], &[Some(to)]);
        found.map(|mut outputs| outputs.remove(0)).map_err(|error| error.message)
    }

    #[test]
    fn bits_stay_as_they_are() {
        let back_and_forth = |x: Option<Array<'static>>, to: DType, expected: &[f64]| {
            let from = x.as_ref().expect("a tensor").dtype();
            let there = cast(x.clone(), to).expect("as many bits");
            assert_eq!((there.dtype(), there.to_f64().as_slice()), (to, Some(expected)));
            let back = cast(Some(there), from).expect("as many bits");
            assert_eq!(back.to_f64(), x.expect("a tensor").to_f64());
        };
        back_and_forth(tensor(&[2], &[1f32, -2.0]), DType::I32, &[1_065_353_216.0, -1_073_741_824.0]);
        back_and_forth(tensor(&[2], &[-1i8, 1]), DType::U8, &[255.0, 1.0]);
        back_and_forth(tensor(&[1], &[1f64]), DType::U64, &[4_607_182_418_800_017_408.0]);
        back_and_forth(tensor(&[1], &[0x3f80u16]), DType::BF16, &[1.0]);
        back_and_forth(tensor(&[1], &[0x3c00i16]), DType::F16, &[1.0]);
        back_and_forth(tensor(&[2], &[true, false]), DType::U8, &[1.0, 0.0]);
        back_and_forth(tensor(&[1], &[0x38u8]), DType::F8E4M3FN, &[1.0]);
        let error = cast(tensor(&[1], &[1f32]), DType::I64).expect_err("more bits");
        assert_eq!(error, "BitCast of f32 to i64, which has other bits");
    }
}
