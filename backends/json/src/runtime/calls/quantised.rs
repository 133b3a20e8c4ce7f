//! Calls between numbers and 8 bits, and of functions of tensors of 8 bits.

use byoc_plugin_api::{DType, Error, from_hex};

use super::super::memory::Io;
use super::integer::{byte, ends, pooled, scale, zero};
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::Activation;
use crate::kernels::integer::{self, Byte, Grid, Image, Scaled};
use crate::program;
use crate::program::integer::affine;
use crate::program::integer::combine::{A, B, Y_SCALE};

struct Quantise(Byte);

pub(super) fn quantise(signature: &Signature<'_>) -> Result<Ready, Error> {
    same_shape(signature)?;
    Ok(Ready::new(Quantise(byte(signature.output_value(0))?)))
}

/// Whether input 0 and output 0 have one shape.
fn same_shape(signature: &Signature<'_>) -> Result<(), Error> {
    if signature.input(0)? == signature.output(0)? { Ok(()) } else { Err(bad_shapes(signature)) }
}

impl Call for Quantise {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (scale, zero) = (scale(&io.inputs, 1)?, zero(&io.inputs, 2, self.0)?);
        integer::quantise(io.threads, io.inputs.slice(0)?, io.outputs.take_bytes(0)?, self.0, scale, zero);
        Ok(())
    }
}

/// What is dequantised.
#[derive(Clone, Copy)]
enum From {
    Bytes(Byte),
    Integers,
}

struct Dequantise {
    from: From,
    /// Elements before the axis, along it and behind it.
    around: [usize; 3],
}

pub(super) fn dequantise(signature: &Signature<'_>, axis: Option<usize>) -> Result<Ready, Error> {
    same_shape(signature)?;
    let shape = signature.input(0)?;
    let around = match axis {
        None => [1, 1, shape.iter().product()],
        Some(axis) if axis < shape.len() => {
            [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
        }
        Some(_) => return Err(bad_shapes(signature)),
    };
    for index in [1, 2] {
        let given = signature.step.input(index).map(|_| signature.input(index)).transpose()?;
        if given.is_some_and(|shape| shape.iter().product::<usize>() != around[1]) {
            return Err(bad_shapes(signature));
        }
    }
    let from = match signature.input_value(0).map(|value| value.dtype) {
        Some(DType::I32) => From::Integers,
        _ => From::Bytes(byte(signature.input_value(0))?),
    };
    Ok(Ready::new(Dequantise { from, around }))
}

impl Call for Dequantise {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [outer, size, inner] = self.around;
        let (scales, y) = (io.inputs.slice::<f32>(1)?, io.outputs.take::<f32>(0)?);
        let places = || (0..outer * size).map(|row| (row % size, row * inner..(row + 1) * inner));
        match self.from {
            From::Bytes(byte) => {
                let x = io.inputs.bytes(0)?;
                let zeros = if io.inputs.has(2) { Some(io.inputs.bytes(2)?) } else { None };
                for (of, range) in places() {
                    let zero = zeros.map_or(0, |zeros| byte.number(zeros[of]));
                    let (x, y) = (&x[range.clone()], &mut y[range]);
                    match inner {
                        1 => y[0] = (byte.number(x[0]) - zero) as f32 * scales[of],
                        _ => integer::dequantise(io.threads, x, y, byte, scales[of], zero),
                    }
                }
            }
            From::Integers => {
                let x = io.inputs.slice::<i32>(0)?;
                let zeros = if io.inputs.has(2) { Some(io.inputs.slice::<i32>(2)?) } else { None };
                for (of, range) in places() {
                    let zero = zeros.map_or(0, |zeros| i64::from(zeros[of]));
                    let pairs = y[range.clone()].iter_mut().zip(&x[range]);
                    pairs.for_each(|(y, &x)| *y = (i64::from(x) - zero) as f32 * scales[of]);
                }
            }
        }
        Ok(())
    }
}

struct Dynamic;

pub(super) fn dynamic(signature: &Signature<'_>) -> Result<Ready, Error> {
    same_shape(signature)?;
    let one = |index: usize| -> Result<bool, Error> {
        match signature.step.output(index) {
            Some(_) => Ok(signature.output(index)?.is_empty()),
            None => Ok(true),
        }
    };
    if byte(signature.output_value(0))? != Byte::U8 || !one(1)? || !one(2)? {
        return Err(bad_shapes(signature));
    }
    Ok(Ready { scratch: 2 * signature.threads.count(), ..Ready::new(Dynamic) })
}

impl Call for Dynamic {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let x = io.inputs.slice::<f32>(0)?;
        let (scale, zero) = integer::dynamic_range(integer::range(io.threads, x, io.scratch));
        integer::quantise(io.threads, x, io.outputs.take_bytes(0)?, Byte::U8, scale, i32::from(zero));
        if io.outputs.wanted(1) {
            io.outputs.take::<f32>(1)?.fill(scale);
        }
        if io.outputs.wanted(2) {
            io.outputs.take_bytes(2)?.fill(zero);
        }
        Ok(())
    }
}

struct Lookup(Box<[u8; 256]>);

pub(super) fn lookup(signature: &Signature<'_>, table: &str) -> Result<Ready, Error> {
    same_shape(signature)?;
    byte(signature.input_value(0))?;
    byte(signature.output_value(0))?;
    let table = from_hex(table).and_then(|table| table.try_into().ok());
    Ok(Ready::new(Lookup(Box::new(table.ok_or_else(|| Error::new("a table that is not 256 bytes"))?))))
}

impl Call for Lookup {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        integer::lookup(io.threads, &self.0, io.inputs.bytes(0)?, io.outputs.take_bytes(0)?);
        Ok(())
    }
}

struct Combine {
    params: program::Combine,
    a: Byte,
    b: Byte,
    y: Byte,
    clamp: (f32, f32),
}

pub(super) fn combine(signature: &Signature<'_>, params: &program::Combine) -> Result<Ready, Error> {
    same_shape(signature)?;
    let clamp = params.act.as_clamp().filter(|_| integer::combines(params.function));
    let clamp = clamp.filter(|_| signature.input(B).ok() == signature.output(0).ok());
    Ok(Ready::new(Combine {
        params: params.clone(),
        a: byte(signature.input_value(A))?,
        b: byte(signature.input_value(B))?,
        y: byte(signature.output_value(0))?,
        clamp: clamp.ok_or_else(|| bad_shapes(signature))?,
    }))
}

/// The operand at an input, with its scale and zero point behind it.
fn scaled<'r>(io: &Io<'_, 'r>, index: usize, byte: Byte) -> Result<Scaled<'r>, Error> {
    let (scale, zero) = (scale(&io.inputs, index + 1)?, zero(&io.inputs, index + 2, byte)?);
    Ok(Scaled { bytes: io.inputs.bytes(index)?, byte, scale, zero })
}

/// The grid of the result, from inputs.
fn grid(io: &Io<'_, '_>, index: usize, byte: Byte) -> Result<Grid, Error> {
    Ok(Grid { byte, scale: scale(&io.inputs, index)?, zero: zero(&io.inputs, index + 1, byte)? })
}

impl Call for Combine {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let operands = (scaled(io, A, self.a)?, scaled(io, B, self.b)?);
        let grid = grid(io, Y_SCALE, self.y)?;
        integer::combine(io.threads, self.params.function, operands, (io.outputs.take_bytes(0)?, grid), self.clamp);
        Ok(())
    }
}

struct Affine {
    x: Byte,
    y: Byte,
    images: usize,
    channels: usize,
    clamp: (f32, f32),
}

pub(super) fn affine(signature: &Signature<'_>, act: Activation) -> Result<Ready, Error> {
    same_shape(signature)?;
    let bad = || bad_shapes(signature);
    let &[images, .., channels] = signature.input(affine::X)? else { return Err(bad()) };
    let mut alike = true;
    for index in [affine::FACTORS, affine::OFFSETS] {
        if signature.step.input(index).is_some() {
            let given: usize = signature.input(index)?.iter().product();
            let fits = given == channels || Some(given) == images.checked_mul(channels);
            fits.then_some(()).ok_or_else(bad)?;
            alike &= given == channels;
        }
    }
    let images = if alike { 1 } else { images };
    let (x, y) = (byte(signature.input_value(affine::X))?, byte(signature.output_value(0))?);
    let clamp = act.as_clamp().map(ends).ok_or_else(bad)?;
    let scratch = channels.checked_mul(2).ok_or_else(bad)?;
    Ok(Ready { scratch, ..Ready::new(Affine { x, y, images, channels, clamp }) })
}

impl Call for Affine {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, grid) = (scaled(io, affine::X, self.x)?, grid(io, affine::Y_SCALE, self.y)?);
        let (all_factors, all_offsets) = (io.inputs.optional(affine::FACTORS)?, io.inputs.optional(affine::OFFSETS)?);
        let (factors, offsets) = io.scratch[..2 * self.channels].split_at_mut(self.channels);
        let clamp = ends((self.clamp.0 / grid.scale, self.clamp.1 / grid.scale));
        let y = io.outputs.take_bytes(0)?;
        let each = x.bytes.len() / self.images.max(1);
        for image in 0..self.images {
            // One for each channel of this image, or of all of them.
            let of_image = |all: Option<&'_ [f32]>, channel: usize| {
                all.map(|all| all[if all.len() == self.channels { 0 } else { image * self.channels } + channel])
            };
            for channel in 0..self.channels {
                factors[channel] = x.scale * of_image(all_factors, channel).unwrap_or(1.0) / grid.scale;
                offsets[channel] = of_image(all_offsets, channel).unwrap_or(0.0) / grid.scale;
            }
            let x = Scaled { bytes: &x.bytes[image * each..][..each], ..x };
            let y = &mut y[image * each..][..each];
            integer::affine(io.threads, x, (factors, offsets), (y, grid), clamp);
        }
        Ok(())
    }
}

struct Average {
    y: Byte,
    /// Without elements.
    image: Image<'static>,
    /// Of all images.
    windows: usize,
    counted: Option<[usize; 2]>,
}

pub(super) fn average(signature: &Signature<'_>, average: &program::IntegerAverage) -> Result<Ready, Error> {
    let (image, windows) = pooled(signature, &average.pool)?;
    let y = byte(signature.output_value(0))?;
    Ok(Ready::new(Average { y, image, windows, counted: average.counted }))
}

impl Call for Average {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, grid) = (scaled(io, 0, self.image.byte)?, grid(io, 3, self.y)?);
        let image = Image { bytes: x.bytes, zero: x.zero, ..self.image };
        integer::average(io.threads, self.windows, (&image, x.scale), self.counted, (io.outputs.take_bytes(0)?, grid));
        Ok(())
    }
}

struct Mean {
    x: Byte,
    y: Byte,
    /// Images, and elements of each.
    images: usize,
    each: usize,
    channels: usize,
}

pub(super) fn mean(signature: &Signature<'_>) -> Result<Ready, Error> {
    let (x, y) = (signature.input(0)?, signature.output(0)?);
    let bad = || bad_shapes(signature);
    let ([images, .., channels], [out, rest @ .., last]) = (x, y) else { return Err(bad()) };
    let pixels: usize = x[1..x.len() - 1].iter().product();
    // More pixels would overflow the sums.
    if images != out
        || channels != last
        || rest.iter().any(|&size| size != 1)
        || pixels == 0
        || pixels > integer::MAX_PIXELS
    {
        return Err(bad());
    }
    let (images, channels) = (*images, *channels);
    let (x, y) = (byte(signature.input_value(0))?, byte(signature.output_value(0))?);
    Ok(Ready::new(Mean { x, y, images, each: pixels * channels, channels }))
}

impl Call for Mean {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, grid) = (scaled(io, 0, self.x)?, grid(io, 3, self.y)?);
        let y = io.outputs.take_bytes(0)?;
        for image in 0..self.images {
            let x = Scaled { bytes: &x.bytes[image * self.each..][..self.each], ..x };
            let y = &mut y[image * self.channels..][..self.channels];
            integer::mean(io.threads, x, (y, grid));
        }
        Ok(())
    }
}
