//! Quantisation and integer products: an element stands for `(element - zero point) * scale`.

use byoc_plugin_api::small::Round;
use byoc_plugin_api::{DType, Error};
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, each_number, elements, shaped};
use super::binary::broadcast;
use super::call::{Call, Outputs, around};
use super::conv::convolve;
use super::matmul::{dot, product};
use super::types::Types;
use super::{BYTE, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ConvInteger", conv_integer, &[BYTE, BYTE, SAME, BYTE]),
    kernel("DequantizeLinear", dequantize, &[QUANTISED.or(I32), SCALE, SAME]),
    kernel("DynamicQuantizeLinear", dynamic, &[Types::of(&[DType::F32])]),
    kernel("MatMulInteger", matmul_integer, &[BYTE, BYTE, SAME, BYTE]),
    kernel("QLinearConv", linear_conv, &[BYTE, REAL, BYTE, BYTE, REAL, BYTE, REAL, BYTE, I32]),
    kernel("QLinearMatMul", linear_matmul, &[BYTE, REAL, BYTE, BYTE, REAL, BYTE, REAL, BYTE]),
    kernel("QuantizeLinear", quantize, &[REAL.or(I32), SCALE.or(I32), QUANTISED]),
];

const I32: Types = Types::of(&[DType::I32]);
const QUANTISED: Types =
    Types::of(&[DType::I8, DType::U8, DType::I16, DType::U16]).or(Types::SMALL.without(DType::F8E8M0));
/// Types of scales.
const SCALE: Types = REAL.or(Types::of(&[DType::F8E8M0]));
const REAL: Types = Types::of(&[DType::F32, DType::F16, DType::BF16]);

/// Which scale and zero point each element of a tensor has.
struct Grid {
    outer: usize,
    size: usize,
    inner: usize,
    kind: Kind,
}

enum Kind {
    /// One for all.
    One,
    /// One for each index of the axis.
    Axis,
    /// One for this many elements along the axis.
    Blocks(usize),
}

impl Grid {
    /// The grid of a tensor of that shape, whose scales are an input of the call.
    fn new(call: &Call<'_, '_>, shape: &[usize], scales: &Array<'_>) -> Result<Grid, Error> {
        let block = call.node.int("block_size", 0);
        if block <= 0 && scales.len() == 1 {
            return Ok(Grid { outer: 1, size: 1, inner: shape.iter().product(), kind: Kind::One });
        }
        let axis = call.axis("axis", 1, shape.len())?;
        let (outer, size, inner) = around(shape, axis);
        let (kind, expected) = match usize::try_from(block) {
            Ok(block) if block > 0 => (Kind::Blocks(block), outer * size.div_ceil(block) * inner),
            _ => (Kind::Axis, size),
        };
        if scales.len() != expected {
            return Err(Error::new(format!("{} scales for a tensor of shape {shape:?}", scales.len())));
        }
        Ok(Grid { outer, size, inner, kind })
    }

    /// Calls `each` with every element's place and that of its scale.
    fn for_each(&self, mut each: impl FnMut(usize, usize)) {
        let Grid { outer, size, inner, ref kind } = *self;
        for (row, (o, i)) in (0..outer).flat_map(|o| (0..size).map(move |i| (o, i))).enumerate() {
            let first = match kind {
                Kind::One => 0,
                Kind::Axis => i,
                Kind::Blocks(block) => (o * size.div_ceil(*block) + i / block) * inner,
            };
            let step = usize::from(matches!(kind, Kind::Blocks(_)));
            (0..inner).for_each(|n| each(row * inner + n, first + n * step));
        }
    }
}

/// The elements of an input; as many zeros as there are scales where it is absent.
fn zero_points(call: &Call<'_, '_>, index: usize, scales: usize) -> Result<Vec<f64>, Error> {
    let elements = call.optional(index).map(|zeros| zeros.to_f64().into_raw_vec_and_offset().0);
    let zeros = elements.unwrap_or_else(|| vec![0.0; scales]);
    match zeros.len() == scales {
        true => Ok(zeros),
        false => Err(Error::new(format!("{} zero points for {scales} scales", zeros.len()))),
    }
}

fn reals(array: &Array<'_>) -> Vec<f32> {
    array.to_f64().iter().map(|&value| value as f32).collect()
}

/// An array of a type of floats, each element rounded once.
fn rounded(dtype: DType, shape: &[usize], values: Vec<f32>) -> Outputs {
    let values = shaped(shape, values)?;
    Ok(vec![match dtype {
        DType::F32 => f32::wrap(values),
        other => Array::from_f64(other, values.mapv(f64::from)),
    }])
}

/// `DequantizeLinear`: `(x - zero point) * scale`.
pub(crate) fn dequantize(call: &Call<'_, '_>) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let grid = Grid::new(call, x.shape(), scale)?;
    let (scales, zeros) = (reals(scale), zero_points(call, 2, scale.len())?);
    let mut y = vec![0.0; x.len()];
    if let Array::Small(..) = x {
        let x = x.to_f64();
        let x = x.view();
        let x = elements(&x);
        grid.for_each(|at, of| y[at] = (x[at] - zeros[of]) as f32 * scales[of]);
    } else {
        each_number!(x, x => {
            let x = x.view();
            let x = elements(&x);
            grid.for_each(|at, of| y[at] = (x[at].to_f64() - zeros[of]) as f32 * scales[of]);
            Ok::<_, Error>(())
        })?;
    }
    rounded(call.output_type(0).unwrap_or(scale.dtype()), x.shape(), y)
}

/// `QuantizeLinear`: `round(x / scale) + zero point`, to the nearest even number and within the range of the type; to a type
/// of floats `x / scale + zero point`, rounded to it. The quotient is rounded to the type of the scale, or that of the
/// attribute `precision`; where the scale is a power of two in `f8e8m0`, to the type of `x`.
pub(crate) fn quantize(call: &Call<'_, '_>) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let grid = Grid::new(call, x.shape(), scale)?;
    let zeros = zero_points(call, 2, scale.len())?;
    let dtype = call.optional(2).map(Array::dtype).or(call.output_type(0)).unwrap_or(DType::U8);
    let precision = match call.node.int("precision", 0) {
        0 if scale.dtype() == DType::F8E8M0 => x.dtype(),
        0 => scale.dtype(),
        1 => DType::F32,
        10 => DType::F16,
        16 => DType::BF16,
        other => return Err(Error::new(format!("the precision of QuantizeLinear is of the unknown type {other}"))),
    };
    let (values, scales) = (x.to_f64(), scale.to_f64());
    let mut quotients = vec![0.0; x.len()];
    let (values, scales) = (values.view(), scales.view());
    let (values, scales) = (elements(&values), elements(&scales));
    grid.for_each(|at, of| quotients[at] = values[at] / scales[of]);
    let quotients = shaped(x.shape(), quotients)?;
    let quotients = match precision.is_float() {
        true => Array::from_f64(precision, quotients).to_f64(),
        false => quotients,
    };
    let mut places = vec![0.0; x.len()];
    grid.for_each(|at, of| places[at] = zeros[of]);
    let pairs = quotients.iter().zip(places);
    if dtype.is_small_float() {
        let numbers = shaped(x.shape(), pairs.map(|(&quotient, zero)| quotient + zero).collect())?;
        return Ok(vec![Array::cast(dtype, numbers, call.node.int("saturate", 1) != 0, Round::Up)]);
    }
    let numbers = pairs.map(|(&quotient, zero)| quotient.round_ties_even() + zero);
    saturated(dtype, x.shape(), numbers.collect())
}

/// Numbers within the range of a type; those beyond it are its ends.
fn saturated(dtype: DType, shape: &[usize], numbers: Vec<f64>) -> Outputs {
    // `from_f64` saturates.
    Ok(vec![Array::from_f64(dtype, shaped(shape, numbers)?)])
}

/// How floats are quantised by their own range: that of them and 0 is that of `u8`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Levels {
    /// The scale.
    pub(super) scale: f32,
    /// The zero point, a whole number from 0 to 255.
    pub(super) zero: f32,
}

impl Levels {
    /// Those of these values.
    pub(super) fn of(values: impl Iterator<Item = f32>) -> Levels {
        let (least, most) = values.fold((0f32, 0f32), |(least, most), value| (least.min(value), most.max(value)));
        let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
        Levels { scale, zero: (-least / scale).clamp(0.0, 255.0).round_ties_even() }
    }

    /// The number of a value, from 0 to 255.
    pub(super) fn number(self, value: f32) -> f64 {
        f64::from((value / self.scale).round_ties_even() + self.zero).clamp(0.0, 255.0)
    }
}

/// `DynamicQuantizeLinear`: the range of the elements and 0 is that of `u8`.
pub(crate) fn dynamic(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let values = reals(x);
    let levels = Levels::of(values.iter().copied());
    let numbers = values.iter().map(|&value| levels.number(value)).collect();
    let mut outputs = saturated(DType::U8, x.shape(), numbers)?;
    outputs.push(f32::wrap(shaped(&[], vec![levels.scale])?));
    outputs.push(u8::wrap(shaped(&[], vec![levels.zero as u8])?));
    Ok(outputs)
}

/// A factor without its zero point: `list` is the shape that a list of them stands for.
fn centred(x: &Array<'_>, zero: Option<&Array<'_>>, list: &[usize]) -> Result<ArrayD<i32>, Error> {
    let narrow = |array: &Array<'_>| -> Result<ArrayD<i32>, Error> {
        shaped(array.shape(), array.to_ints().into_iter().map(|value| value as i32).collect())
    };
    let values = narrow(x)?;
    let Some(zero) = zero else { return Ok(values) };
    let zero = aligned(narrow(zero)?, list)?;
    let zero = zero.view();
    // Only as far as the values go: nothing is made that is larger.
    Ok(&values - &broadcast(&zero, values.shape())?)
}

/// A list in the shape in which it broadcasts, and one element without dimensions; what is neither stays.
fn aligned<T: Copy>(array: ArrayD<T>, list: &[usize]) -> Result<ArrayD<T>, Error> {
    match (array.len(), array.ndim()) {
        (1, _) => shaped(&[], array.iter().copied().collect()),
        (_, 1) => shaped(list, array.iter().copied().collect()),
        _ => Ok(array),
    }
}

/// The shapes that lists for the rows of one factor and for the columns of the other stand for.
fn lines(a: &Array<'_>, b: &Array<'_>) -> [Vec<usize>; 2] {
    let rows = a.shape().len().checked_sub(2).map_or(1, |at| a.shape()[at]);
    [vec![rows, 1], vec![b.shape().last().copied().unwrap_or(1)]]
}

fn integer_product(call: &Call<'_, '_>, [a, b]: [usize; 2], zeros: [usize; 2]) -> Result<ArrayD<i32>, Error> {
    let (a, b) = (call.input(a)?, call.input(b)?);
    let [rows, columns] = lines(a, b);
    let a = centred(a, call.optional(zeros[0]), &rows)?;
    let b = centred(b, call.optional(zeros[1]), &columns)?;
    // Sums of products of 8 bits are exact in `f64`, whose products are the fast ones.
    Ok(product(&a.view(), &b.view(), dot)?.mapv(|sum| sum as i64 as i32))
}

/// `MatMulInteger`.
pub(crate) fn matmul_integer(call: &Call<'_, '_>) -> Outputs {
    Ok(vec![i32::wrap(integer_product(call, [0, 1], [2, 3])?)])
}

/// `QLinearMatMul`.
pub(crate) fn linear_matmul(call: &Call<'_, '_>) -> Outputs {
    let product = integer_product(call, [0, 3], [2, 5])?;
    let [rows, columns] = lines(call.input(0)?, call.input(3)?);
    let (a, b) = (aligned(call.input(1)?.to_f64(), &rows)?, aligned(call.input(4)?.to_f64(), &columns)?);
    let of = |scale: ArrayD<f64>| scale.mapv(|value| value as f32);
    let (a, b) = (of(a), of(b));
    let (a, b) = (a.view(), b.view());
    let scales = &broadcast(&a, product.shape())? * &broadcast(&b, product.shape())?;
    requantised(call, &product.view(), &scales.view())
}

/// Sums in the type of output: `scales` times each over the scale of the output, which is input 6, with its zero point.
fn requantised(call: &Call<'_, '_>, sums: &ArrayViewD<'_, i32>, scales: &ArrayViewD<'_, f32>) -> Outputs {
    let (scale, zero) = (call.input(6)?, call.input(7)?);
    let (&[scale], &[offset]) = (reals(scale).as_slice(), zero.to_ints().as_slice()) else {
        return Err(Error::new("the output has more than one scale or zero point"));
    };
    let factors = scales.mapv(|value| value / scale);
    let factors = factors.view();
    let numbers = sums.mapv(|sum| sum as f32) * &broadcast(&factors, sums.shape())?;
    let numbers = numbers.mapv(|number| f64::from(number.round_ties_even()) + offset as f64);
    let shape = numbers.shape().to_vec();
    saturated(zero.dtype(), &shape, numbers.into_iter().collect())
}

/// The convolution of what stands at these inputs, with the zero points at others. Its sums are exact in `f64`.
fn integer_convolution(call: &Call<'_, '_>, [x, w]: [usize; 2], zeros: [usize; 2]) -> Result<ArrayD<i32>, Error> {
    let (x, w) = (call.input(x)?, call.input(w)?);
    let mut filters = vec![1; w.shape().len()];
    if let (Some(first), Some(&count)) = (filters.first_mut(), w.shape().first()) {
        *first = count;
    }
    let x = centred(x, call.optional(zeros[0]), &[])?.mapv(f64::from);
    let w = centred(w, call.optional(zeros[1]), &filters)?.mapv(f64::from);
    let bias = call.optional(8).map(|bias| bias.to_f64().into_raw_vec_and_offset().0);
    Ok(convolve(call, x, w, bias)?.mapv(|sum| sum as i64 as i32))
}

/// `ConvInteger`.
pub(crate) fn conv_integer(call: &Call<'_, '_>) -> Outputs {
    Ok(vec![i32::wrap(integer_convolution(call, [0, 1], [2, 3])?)])
}

/// `QLinearConv`.
pub(crate) fn linear_conv(call: &Call<'_, '_>) -> Outputs {
    let sums = integer_convolution(call, [0, 3], [2, 5])?;
    let (x, w) = (reals(call.input(1)?), reals(call.input(4)?));
    let &[x] = x.as_slice() else { return Err(Error::new("the input has more than one scale")) };
    let mut channels = vec![1; sums.ndim().saturating_sub(1)];
    if let Some(first) = channels.first_mut() {
        *first = w.len();
    }
    let scales = shaped(&channels, w.into_iter().map(|w| x * w).collect())?;
    requantised(call, &sums.view(), &scales.view())
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, first, tensor};
    use super::*;

    fn outputs(op: &str, attributes: &[(&str, Attribute)], inputs: Vec<Option<Array<'static>>>) -> Vec<Vec<f64>> {
        let outputs = all(op, attributes, inputs).unwrap_or_else(|error| panic!("{}", error.message));
        outputs.iter().map(|output| output.to_f64().iter().copied().collect()).collect()
    }

    #[test]
    fn elements_go_there_and_back() {
        let x = || tensor(&[2, 3], &[-1.0f32, 0.25, 0.75, 300.0, f32::INFINITY, -0.25]);
        let whole = vec![x(), tensor(&[], &[0.5f32]), tensor(&[], &[128u8])];
        assert_eq!(first("QuantizeLinear", &[], whole).1, [126.0, 128.0, 130.0, 255.0, 255.0, 128.0]);
        let rows = vec![x(), tensor(&[2], &[0.5f32, 100.0]), tensor(&[2], &[0i8, -3])];
        let axis = [("axis", Attribute::Int(0))];
        assert_eq!(first("QuantizeLinear", &axis, rows).1, [-2.0, 0.0, 2.0, 0.0, 127.0, -3.0]);
        let blocks = [("axis", Attribute::Int(1)), ("block_size", Attribute::Int(2))];
        let q = vec![tensor(&[1, 3], &[1i8, 2, 3]), tensor(&[1, 2], &[10f32, 100.0]), tensor(&[1, 2], &[1i8, 0])];
        assert_eq!(first("DequantizeLinear", &blocks, q).1, [0.0, 10.0, 300.0]);
        let wide = vec![tensor(&[1], &[i32::MIN]), tensor(&[], &[1f32])];
        assert_eq!(first("DequantizeLinear", &[], wide).1, [-2147483648.0]);
    }

    #[test]
    fn ranges_hold_zero() {
        let ranges = |x: &[f32]| outputs("DynamicQuantizeLinear", &[], vec![tensor(&[x.len()], x)]);
        assert_eq!(ranges(&[0.0, 255.0, 127.4]), [vec![0.0, 255.0, 127.0], vec![1.0], vec![0.0]]);
        assert_eq!(ranges(&[-255.0, -254.0]), [vec![0.0, 1.0], vec![1.0], vec![255.0]]);
        assert_eq!(ranges(&[0.0, 0.0]), [vec![0.0, 0.0], vec![1.0], vec![0.0]]);
    }

    #[test]
    fn products_are_exact_and_saturate() {
        let a = || tensor(&[2, 2], &[1u8, 2, 3, 255]);
        let b = || tensor(&[2, 2], &[-128i8, 1, 127, 1]);
        let plain = first("MatMulInteger", &[], vec![a(), b()]);
        assert_eq!(plain.1, [126.0, 3.0, 32001.0, 258.0]);
        let rows = vec![a(), b(), tensor(&[2], &[1u8, 3]), tensor(&[2], &[0i8, 1])];
        assert_eq!(first("MatMulInteger", &[], rows).1, [127.0, 0.0, 32004.0, 0.0]);
        let one = |value: f32| tensor(&[], &[value]);
        let inputs = vec![
            a(),
            one(0.5),
            tensor(&[], &[0u8]),
            b(),
            tensor(&[2], &[1f32, 2.0]),
            tensor(&[2], &[0i8, 0]),
            one(1.0),
            tensor(&[], &[3i8]),
        ];
        assert_eq!(first("QLinearMatMul", &[], inputs).1, [66.0, 6.0, 127.0, 127.0]);
        let x = || tensor(&[1, 1, 3], &[10u8, 11, 12]);
        let w = || tensor(&[2, 1, 2], &[1i8, 2, 3, -4]);
        let pads = [("pads", Attribute::Ints(vec![1, 0]))];
        let conv = first("ConvInteger", &pads, vec![x(), w(), tensor(&[], &[10u8]), tensor(&[2], &[0i8, 1])]);
        assert_eq!(conv, (vec![1, 2, 3], vec![0.0, 2.0, 5.0, 0.0, -5.0, -8.0]));
        let inputs = vec![
            x(),
            one(0.5),
            tensor(&[], &[10u8]),
            w(),
            tensor(&[2], &[2f32, 1.0]),
            tensor(&[2], &[0i8, 0]),
            one(1.0),
            tensor(&[], &[100u8]),
            tensor(&[2], &[1i32, -1000]),
        ];
        assert_eq!(first("QLinearConv", &[], inputs).1, [103.0, 106.0, 0.0, 0.0]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        let x = || tensor(&[2, 3], &[0f32; 6]);
        let cases = [
            ("QuantizeLinear", vec![x(), tensor(&[2], &[1f32; 2])], "2 scales for a tensor of shape [2, 3]"),
            (
                "QuantizeLinear",
                vec![x(), tensor(&[3], &[1f32; 3]), tensor(&[2], &[0u8; 2])],
                "2 zero points for 3 scales",
            ),
            (
                "MatMulInteger",
                vec![tensor(&[1, 1], &[1u8]), tensor(&[1, 1], &[1u8]), tensor(&[2, 1], &[0u8; 2])],
                "shape [2, 1] does not broadcast to [1, 1]",
            ),
        ];
        for (op, inputs, message) in cases {
            assert_eq!(all(op, &[], inputs).map(drop).map_err(|error| error.message), Err(message.to_owned()), "{op}");
        }
    }
}
