//! Calls of products and convolutions of 8 bits.

use std::cell::OnceCell;

use byoc_plugin_api::{DType, Error};

use super::super::memory::{Inputs, Io};
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::integer::{self, Byte, Epilogue, Image, Out, PanelStats, Plain, Right, Shape};
use crate::kernels::{Activation, product as count};
use crate::program::integer::product::{A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, BIAS, Y_SCALE, Y_ZERO};
use crate::program::{IntegerConv, IntegerGemm, IntegerPool, Value};

/// A type of 8 bits; an error for another one.
pub(super) fn byte(value: Option<&Value>) -> Result<Byte, Error> {
    match value.map(|value| value.dtype) {
        Some(DType::U8) => Ok(Byte::U8),
        Some(DType::I8) => Ok(Byte::I8),
        other => Err(Error::new(format!("an operand of {other:?} for a kernel of 8 bits"))),
    }
}

/// The zero point at an input; 0 where it is absent.
pub(super) fn zero(inputs: &Inputs<'_>, index: usize, byte: Byte) -> Result<i32, Error> {
    if !inputs.has(index) {
        return Ok(0);
    }
    match inputs.bytes(index)? {
        &[zero] => Ok(byte.number(zero)),
        zeros => Err(Error::new(format!("{} zero points for one tensor", zeros.len()))),
    }
}

/// The scale at an input; 1 where it is absent.
pub(super) fn scale(inputs: &Inputs<'_>, index: usize) -> Result<f32, Error> {
    match inputs.optional(index)? {
        None => Ok(1.0),
        Some(&[scale]) => Ok(scale),
        Some(scales) => Err(Error::new(format!("{} scales for one tensor", scales.len()))),
    }
}

/// What follows the sums: types, and the number of columns.
struct Tail {
    columns: usize,
    a: Byte,
    b: Byte,
    y: Option<Byte>,
    /// Whether the bias is of i32.
    integer_bias: bool,
    clamp: (f32, f32),
}

/// The ends of a clamp: one that is not a number is none.
pub(super) fn ends((lo, hi): (f32, f32)) -> (f32, f32) {
    (if lo.is_nan() { f32::NEG_INFINITY } else { lo }, if hi.is_nan() { f32::INFINITY } else { hi })
}

/// Numbers of scratch for the lists of an epilogue.
const LISTS: usize = 3;

impl Tail {
    fn new(signature: &Signature<'_>, columns: usize, b: Byte, act: Activation) -> Result<Tail, Error> {
        let y = signature.output_value(0).map(|value| value.dtype);
        let y = match y {
            Some(DType::I32 | DType::F32) => None,
            _ => Some(byte(signature.output_value(0))?),
        };
        let clamp = act.as_clamp().map(ends);
        let clamp = clamp.ok_or_else(|| Error::new("a kernel of 8 bits with another activation than a clamp"))?;
        for index in [B_ZERO, B_SCALE, BIAS] {
            if signature.step.input(index).is_none() {
                continue;
            }
            let len: usize = signature.input(index)?.iter().product();
            if len != columns && (len != 1 || index == BIAS) {
                return Err(bad_shapes(signature));
            }
        }
        let integer_bias = signature.input_value(BIAS).is_some_and(|value| value.dtype == DType::I32);
        Ok(Tail { columns, a: byte(signature.input_value(A))?, b, y, integer_bias, clamp })
    }

    /// Fills `lists` and calls `run` with the epilogue and where its results go.
    fn with(
        &self,
        io: &mut Io<'_, '_>,
        run: impl FnOnce(&mut Io<'_, '_>, &Epilogue<'_>, Out<'_>, &mut [f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scratch = std::mem::take(&mut io.scratch);
        let result = self.fill(io, scratch, run);
        io.scratch = scratch;
        result
    }

    fn fill(
        &self,
        io: &mut Io<'_, '_>,
        scratch: &mut [f32],
        run: impl FnOnce(&mut Io<'_, '_>, &Epilogue<'_>, Out<'_>, &mut [f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let inputs = io.inputs;
        let n = self.columns;
        let (lists, rest) = scratch.split_at_mut(LISTS * n);
        let (factors, lists) = lists.split_at_mut(n);
        let (offsets, zeros) = lists.split_at_mut(n);
        let zeros = super::super::buffer::as_integers(zeros);
        // As packed, B is of i8.
        let shift = if self.b == Byte::U8 { 128 } else { 0 };
        let b_zeros = if inputs.has(B_ZERO) { inputs.bytes(B_ZERO)? } else { &[0] };
        zeros.iter_mut().zip(b_zeros).for_each(|(zero, &given)| *zero = self.b.number(given) - shift);
        let by_column = b_zeros.len() == n && n > 1 && zeros.iter().any(|&zero| zero != zeros[0]);
        let mut e = Epilogue { zero: zeros.first().copied().unwrap_or(0), clamp: self.clamp, ..Epilogue::default() };
        if by_column {
            e.zeros = zeros;
        }
        let y_scale = scale(&inputs, Y_SCALE)?;
        if self.y.is_some() {
            e.clamp = ends((self.clamp.0 / y_scale, self.clamp.1 / y_scale));
        }
        if inputs.has(A_SCALE) || inputs.has(B_SCALE) {
            let a_scale = scale(&inputs, A_SCALE)?;
            let b_scales = inputs.optional(B_SCALE)?.unwrap_or(&[1.0]);
            let by_scale = b_scales.iter().cycle();
            factors.iter_mut().zip(by_scale).for_each(|(factor, b)| *factor = a_scale * b / y_scale);
            e.factors = factors;
        }
        if inputs.has(BIAS) && self.integer_bias {
            e.bias = inputs.slice(BIAS)?;
        } else if inputs.has(BIAS) {
            let bias = inputs.slice::<f32>(BIAS)?;
            offsets.iter_mut().zip(bias).for_each(|(offset, bias)| *offset = bias / y_scale);
            e.offsets = offsets;
        }
        let out = match self.y {
            Some(byte) => Out::Bytes(io.outputs.take_bytes(0)?, byte, zero(&inputs, Y_ZERO, byte)?),
            None if e.factors.is_empty() => Out::Sums(io.outputs.take(0)?),
            None => Out::Real(io.outputs.take(0)?),
        };
        run(io, &e, out, rest)
    }
}

/// What is known of packed weights: found out when they are first multiplied, since they need not be in memory before.
#[derive(Default)]
struct Known(OnceCell<Vec<PanelStats>>);

impl Known {
    /// The right side of a product with so many rows.
    fn packed<'a>(&'a self, io: &Io<'a, '_>, shape: Shape) -> Result<Right<'a>, Error> {
        let weights = io.inputs.slice(B)?;
        if !io.inputs.is_constant(B) || !integer::wants_stats(io.threads, shape.m) {
            return Ok(Right::Packed(weights, &[]));
        }
        Ok(Right::Packed(weights, self.0.get_or_init(|| integer::stats(io.threads.isa(), weights, shape.k))))
    }
}

struct Gemm {
    tail: Tail,
    shape: Shape,
    on_amx: bool,
    packed: bool,
    known: Known,
    /// Row and column stride of B.
    strides: [usize; 2],
    /// Products, and elements from one A and B to the next.
    batch: usize,
    steps: [usize; 2],
}

pub(super) fn gemm(signature: &Signature<'_>, gemm: &IntegerGemm) -> Result<Ready, Error> {
    let (a, out) = (signature.input(A)?, signature.output(0)?);
    let bad = || bad_shapes(signature);
    let ([lead @ .., m, k], [out_lead @ .., out_m, n]) = (a, out) else { return Err(bad()) };
    if lead != out_lead || m != out_m {
        return Err(bad());
    }
    let batch: usize = lead.iter().product();
    let mut shape = Shape { m: *m, n: *n, k: *k };
    let mut this = |batch, steps, strides, b| -> Result<Ready, Error> {
        if batch == 1 || steps == [0, 0] {
            shape.m = lead.iter().product::<usize>() * m;
        }
        let tail = Tail::new(signature, *n, b, gemm.act)?;
        let packed = gemm.packed.is_some();
        let scratch = integer::scratch_len(signature.threads, &shape, packed);
        let scratch = scratch.and_then(|len| len.checked_add(n.checked_mul(LISTS)?)).ok_or_else(bad)?;
        let batch = if steps == [0, 0] { 1 } else { batch };
        let on_amx = integer::is_on_amx(signature.threads, &shape);
        Ok(Ready {
            scratch,
            ..Ready::new(Gemm { tail, shape, on_amx, packed, known: Known::default(), strides, batch, steps })
        })
    };
    if let Some([rows, columns]) = gemm.packed {
        let packed = integer::packed_len(rows, columns);
        if rows != *k || columns != *n || packed.is_none_or(|len| signature.input(B).ok() != Some(&[len])) {
            return Err(bad());
        }
        let byte = if gemm.unsigned { Byte::U8 } else { Byte::I8 };
        return this(1, [0, 0], [0, 0], byte);
    }
    let [b_lead @ .., rows, columns] = signature.input(B)? else { return Err(bad()) };
    let (strides, rows, columns) =
        if gemm.trans_b { ([1, *columns], columns, rows) } else { ([*columns, 1], rows, columns) };
    if rows != k || columns != n {
        return Err(bad());
    }
    let byte = byte(signature.input_value(B))?;
    match b_lead.iter().all(|&size| size == 1) {
        true => this(1, [0, 0], strides, byte),
        false if b_lead == lead => this(batch, [m * k, k * n], strides, byte),
        false => Err(bad()),
    }
}

/// What products of bytes are computed as, in profiles.
fn computed_as(on_amx: bool) -> Option<&'static str> {
    on_amx.then_some("amx")
}

impl Call for Gemm {
    fn computed_as(&self) -> Option<&'static str> {
        computed_as(self.on_amx)
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let Gemm { tail, shape, packed, known, strides, batch, steps, .. } = self;
        tail.with(io, |io, e, mut out, scratch| {
            let (a, zero) = (io.inputs.bytes(A)?, zero(&io.inputs, A_ZERO, tail.a)?);
            for index in 0..*batch {
                let a = Plain { bytes: &a[index * steps[0]..], byte: tail.a, zero, columns: shape.k };
                let b = match packed {
                    true => known.packed(io, *shape)?,
                    false => Right::Strided(&io.inputs.bytes(B)?[index * steps[1]..], *strides, tail.b),
                };
                let each = shape.m * shape.n;
                let out = if *batch == 1 { out.all() } else { out.part(index * each, each) };
                integer::product(io.threads, *shape, &a, b, out, e, scratch);
            }
            Ok(())
        })
    }
}

struct Conv {
    tail: Tail,
    /// Without elements.
    image: Image<'static>,
    /// Of all images.
    windows: usize,
    depthwise: bool,
    on_amx: bool,
    known: Known,
}

/// The images at input 0 and at output 0: numbers, sizes and channels.
fn images(signature: &Signature<'_>) -> Result<([usize; 4], [usize; 4]), Error> {
    let (x, y): (Result<[usize; 4], _>, Result<[usize; 4], _>) =
        (signature.input(A)?.try_into(), signature.output(0)?.try_into());
    match (x, y) {
        (Ok(x), Ok(y)) if x[0] == y[0] => Ok((x, y)),
        _ => Err(bad_shapes(signature)),
    }
}

pub(super) fn conv(signature: &Signature<'_>, conv: &IntegerConv) -> Result<Ready, Error> {
    let ([n, h, w, channels], [_, oh, ow, filters]) = images(signature)?;
    let IntegerConv { depthwise, unsigned, kernel, strides, pads, dilations, act } = *conv;
    let bad = || bad_shapes(signature);
    let byte = byte(signature.input_value(A))?;
    let (size, out) = ([h, w], [oh, ow]);
    let image = Image { bytes: &[], byte, zero: 0, size, channels, out, kernel, strides, pads, dilations };
    let windows = count(&[n, oh, ow]).ok_or_else(bad)?;
    let taps = count(&kernel).ok_or_else(bad)?;
    let tail = Tail::new(signature, filters, if unsigned { Byte::U8 } else { Byte::I8 }, act)?;
    let (len, scratch, on_amx) = if depthwise {
        let fits = filters == channels && taps <= integer::MAX_TAPS;
        (count(&[channels, taps]).filter(|_| fits), integer::depthwise_scratch_len(channels, taps), false)
    } else {
        let k = integer::window_len(kernel, channels).ok_or_else(bad)?;
        let shape = Shape { m: windows, n: filters, k };
        let scratch = integer::scratch_len(signature.threads, &shape, true);
        (integer::packed_len(k, filters), scratch, integer::is_on_amx(signature.threads, &shape))
    };
    if len.is_none_or(|len| signature.input(B).ok() != Some(&[len])) {
        return Err(bad());
    }
    let scratch = scratch.and_then(|len| len.checked_add(filters.checked_mul(LISTS)?)).ok_or_else(bad)?;
    Ok(Ready { scratch, ..Ready::new(Conv { tail, image, windows, depthwise, on_amx, known: Known::default() }) })
}

impl Call for Conv {
    fn computed_as(&self) -> Option<&'static str> {
        computed_as(self.on_amx)
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let Conv { tail, image, windows, depthwise, known, .. } = self;
        tail.with(io, |io, e, mut out, scratch| {
            let zero = zero(&io.inputs, A_ZERO, tail.a)?;
            let image = Image { bytes: io.inputs.bytes(A)?, zero, ..*image };
            if *depthwise {
                let weights = io.inputs.slice(B)?;
                integer::depthwise(io.threads, *windows, &image, weights, out.all(), e, scratch);
            } else {
                let k = integer::window_len(image.kernel, image.channels).unwrap_or(0);
                let shape = Shape { m: *windows, n: tail.columns, k };
                let weights = known.packed(io, shape)?;
                integer::product(io.threads, shape, &image, weights, out.all(), e, scratch);
            }
            Ok(())
        })
    }
}

struct Pool {
    /// Without elements.
    image: Image<'static>,
    /// Of all images.
    windows: usize,
}

pub(super) fn pool(signature: &Signature<'_>, pool: &IntegerPool) -> Result<Ready, Error> {
    let same = signature.output_value(0).map(|value| value.dtype) == signature.input_value(A).map(|value| value.dtype);
    let (image, windows) = pooled(signature, pool)?;
    if same { Ok(Ready::new(Pool { image, windows })) } else { Err(bad_shapes(signature)) }
}

/// The images that are pooled, without elements, and the windows of all of them.
pub(super) fn pooled(signature: &Signature<'_>, pool: &IntegerPool) -> Result<(Image<'static>, usize), Error> {
    let ([n, h, w, channels], [_, oh, ow, out]) = images(signature)?;
    let IntegerPool { kernel, strides, pads, dilations } = *pool;
    let byte = byte(signature.input_value(A))?;
    let windows = count(&[n, oh, ow]).filter(|_| out == channels).ok_or_else(|| bad_shapes(signature))?;
    let (size, out) = ([h, w], [oh, ow]);
    Ok((Image { bytes: &[], byte, zero: 0, size, channels, out, kernel, strides, pads, dilations }, windows))
}

impl Call for Pool {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let image = Image { bytes: io.inputs.bytes(A)?, ..self.image };
        integer::largest(io.threads, self.windows, &image, io.outputs.take_bytes(0)?);
        Ok(())
    }
}
