//! Operators that make a tensor from a few numbers: `ConstantOfShape`, `EyeLike`, `Range`.

use byoc_plugin_api::{Attribute, DType, Error, from_hex};
use ndarray::{Array1, ArrayD, IxDyn};

use super::array::{Array, Item, count, dims, each, shaped};
use super::call::{Call, Outputs};
use super::unary::from_onnx;
use super::{ANY, I64, Kernel, SAME, SIGNED, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ConstantOfShape", constant_of_shape, &[I64]),
    kernel("EyeLike", eye_like, &[ANY]),
    kernel("Range", range, &[SIGNED, SAME]),
];

/// The tensor of an attribute.
pub(crate) fn tensor(dtype: DType, shape: &[usize], hex: &str) -> Result<Array<'static>, Error> {
    fn read<T: Item>(shape: &[usize], bytes: &[u8]) -> Result<Array<'static>, Error> {
        let items: Option<Vec<T>> = bytes.chunks(T::DTYPE.unpacked_bytes()).map(T::from_le).collect();
        Ok(T::wrap(shaped(shape, items.ok_or_else(|| Error::new("a tensor attribute is cut off"))?)?))
    }
    let bytes = from_hex(hex).ok_or_else(|| Error::new("a tensor attribute is not hex text"))?;
    match dtype {
        DType::F32 => read::<f32>(shape, &bytes),
        DType::F64 => read::<f64>(shape, &bytes),
        DType::F16 => read::<half::f16>(shape, &bytes),
        DType::BF16 => read::<half::bf16>(shape, &bytes),
        DType::I8 => read::<i8>(shape, &bytes),
        DType::I16 => read::<i16>(shape, &bytes),
        DType::I32 => read::<i32>(shape, &bytes),
        DType::I64 => read::<i64>(shape, &bytes),
        DType::U8 => read::<u8>(shape, &bytes),
        DType::U16 => read::<u16>(shape, &bytes),
        DType::U32 => read::<u32>(shape, &bytes),
        DType::U64 => read::<u64>(shape, &bytes),
        DType::Bool => read::<bool>(shape, &bytes),
        small => {
            let codes = small.unpack(&bytes, count(shape)?).filter(|_| small.bytes_of(shape) == Some(bytes.len()));
            let codes = codes.ok_or_else(|| Error::new("a tensor attribute is cut off"))?;
            Ok(Array::Small(small, shaped(shape, codes)?.into()))
        }
    }
}

/// `ConstantOfShape`.
pub(crate) fn constant_of_shape(call: &Call<'_, '_>) -> Outputs {
    let shape = dims(&call.input(0)?.to_ints())?;
    call.count(&shape)?;
    let value = match call.node.attributes.get("value") {
        Some(Attribute::Tensor { dtype, shape, hex }) => tensor(*dtype, shape, hex)?,
        _ => Item::wrap(ArrayD::from_elem(IxDyn(&[]), 0f32)),
    };
    let dtype = value.dtype();
    each!(value, value => {
        let first = *value.first().ok_or_else(|| Error::new("the value of ConstantOfShape has no element"))?;
        Ok(vec![Array::into_typed(Item::wrap(ArrayD::from_elem(IxDyn(&shape), first)), dtype)])
    })
}

/// `EyeLike`: ones on the diagonal that is `k` above the main one.
pub(crate) fn eye_like(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let &[rows, columns] = x.shape() else {
        return Err(Error::new(format!("EyeLike needs a matrix, not a tensor of shape {:?}", x.shape())));
    };
    let dtype = match (call.output_type(0), call.node.int("dtype", 0)) {
        (Some(dtype), _) => dtype,
        (None, 0) => x.dtype(),
        (None, code) => from_onnx(code)?,
    };
    let k = i128::from(call.node.int("k", 0));
    let one = |at: &IxDyn| at[1] as i128 - at[0] as i128 == k;
    let ones = ArrayD::from_shape_fn(IxDyn(&[rows, columns]), |at| if one(&at) { 1.0 } else { 0.0 });
    Ok(vec![Array::from_f64(dtype, ones)])
}

/// `Range`: `start + i * delta`, each element rounded once.
pub(crate) fn range(call: &Call<'_, '_>) -> Outputs {
    let first = |index: usize| -> Result<(f64, i128), Error> {
        each!(call.input(index)?, x => {
            let value = *x.first().ok_or_else(|| Error::new("an input of Range has no element"))?;
            Ok((Item::to_f64(value), Item::to_int(value)))
        })
    };
    let ((start, start_int), (limit, limit_int), (delta, delta_int)) = (first(0)?, first(1)?, first(2)?);
    let dtype = call.input(0)?.dtype();
    if delta == 0.0 {
        return Err(Error::new("the step of Range is 0"));
    }
    if dtype.is_float() {
        let length = length(call, ((limit - start) / delta).ceil())?;
        return call.rounded(Array1::from_shape_fn(length, |i| start + i as f64 * delta).into_dyn());
    }
    let span = limit_int - start_int;
    let steps = if (span > 0) == (delta_int > 0) { span.unsigned_abs().div_ceil(delta_int.unsigned_abs()) } else { 0 };
    let length = length(call, steps as f64)?;
    let item = |i: usize| start_int + i as i128 * delta_int;
    each!(call.input(0)?, x => {
        fn typed<T: Item, S>(_: &ndarray::ArrayRef<T, S>, length: usize, item: impl Fn(usize) -> i128) -> Outputs {
            Ok(vec![T::wrap(Array1::from_shape_fn(length, |i| T::from_int(item(i))).into_dyn())])
        }
        typed(x, length, item)
    })
}

fn length(call: &Call<'_, '_>, value: f64) -> Result<usize, Error> {
    call.count(&[value.max(0.0) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_become_tensors_of_their_type() {
        let array = tensor(DType::I16, &[2], "0100ffff").expect("tensor");
        assert_eq!((array.dtype(), array.to_ints()), (DType::I16, vec![1, -1]));
        assert!(tensor(DType::I16, &[2], "0100ff").is_err());
        assert!(tensor(DType::I16, &[3], "0100ffff").is_err());
        assert_eq!(tensor(DType::Bool, &[], "02").expect("tensor").to_ints(), [1]);
    }

    #[test]
    fn ones_are_on_a_diagonal() {
        use super::super::testing::{all, counting};
        let eye = |k: i64, shape: &[usize]| {
            let attributes = [("k", Attribute::Int(k)), ("dtype", Attribute::Int(6))];
            all("EyeLike", &attributes, vec![counting(shape)]).map(|y| (y[0].dtype(), y[0].to_ints()))
        };
        assert_eq!(eye(1, &[2, 3]).expect("matrix"), (DType::I32, vec![0, 1, 0, 0, 0, 1]));
        assert_eq!(eye(-1, &[2, 3]).expect("matrix").1, [0, 0, 0, 1, 0, 0]);
        for k in [i64::MIN, i64::MAX] {
            assert_eq!(eye(k, &[1, 1]).expect("matrix").1, [0]);
        }
        let error = "EyeLike needs a matrix, not a tensor of shape [2]";
        assert_eq!(eye(0, &[2]).expect_err("a vector").message, error);
    }
}
