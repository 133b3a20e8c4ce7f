//! Calls on images: convolution, pooling, affine, response normalisation, layouts.

use std::cell::OnceCell;

use byoc_plugin_api::{DType, Error};

use super::super::memory::Io;
use super::{Call, Ready, Signature, bad_shapes};
use crate::kernels::{
    self, Activation, ConvFilters, ConvKind, ConvParams, Int8, Int8Known, Layout, LrnParams, MAX_BLOCKED_LRN, Math,
    PoolKind, PoolParams, Reduce, from_blocked, product, to_blocked,
};
use crate::program::{Conv, Pool};

/// The shape of an image tensor.
fn image(shape: &[usize]) -> Result<[usize; 4], Error> {
    shape.try_into().map_err(|_| Error::new(format!("{shape:?} is not an image tensor")))
}

fn layout(signature: &Signature<'_>) -> Result<Layout, Error> {
    let blocked = |value: Option<&crate::program::Value>| value.is_some_and(|value| value.blocked);
    match (blocked(signature.input_value(0)), blocked(signature.output_value(0))) {
        (true, true) => Ok(Layout::Blocked),
        (false, false) => Ok(Layout::Nchw),
        _ => Err(Error::new("input and output have different layouts")),
    }
}

struct Convolution {
    kind: ConvKind,
    params: ConvParams,
}

pub(super) fn conv(signature: &Signature<'_>, conv: &Conv) -> Result<Ready, Error> {
    let (x, y) = (image(signature.input(0)?)?, image(signature.output(0)?)?);
    let mut params = conv.params(&x, &y);
    // Windows lie on what comes in, or, of a transposed convolution, on what comes out: there may be more of those than nothing.
    let nothing = conv.kind != ConvKind::Transposed && x.contains(&0) && !y.contains(&0);
    if x[0] != y[0] || nothing {
        return Err(bad_shapes(signature));
    }
    let bias = signature.step.input(2).is_none_or(|_| signature.input(2).is_ok_and(|shape| *shape == [y[1]]));
    let residual = signature.step.input(3).is_none_or(|_| signature.input(3).is_ok_and(|shape| *shape == y));
    let blocked = |value: Option<&crate::program::Value>| value.is_some_and(|value| value.blocked);
    let layouts = blocked(signature.input_value(0)) == conv.kind.input_blocked()
        && blocked(signature.output_value(0)) == conv.kind.output_blocked()
        && !blocked(signature.input_value(1))
        && signature.input_value(3).is_none_or(|value| value.blocked == conv.kind.output_blocked());
    let len = match conv.rounded {
        true if conv.group == 1 && conv.kind.packing() == ConvKind::Blocked && conv.kind.supports(&params) => {
            kernels::int8_filters_len([params.oc, params.ic, params.kh, params.kw])
        }
        true => None,
        false => conv.kind.packed_len(&params),
    };
    let weights = product(signature.input(1)?) == Some(len.ok_or_else(|| bad_shapes(signature))?);
    if !weights || !bias || !residual || !layouts {
        return Err(bad_shapes(signature));
    }
    let narrow = signature.input_value(1).is_some_and(|value| matches!(value.dtype, DType::F16 | DType::BF16));
    let factors = match signature.step.input(4) {
        None => true,
        Some(_) => narrow && signature.input(4)? == [y[1]],
    };
    if !factors || narrow && (conv.rounded || !conv.kind.takes_narrow()) {
        return Err(bad_shapes(signature));
    }
    params.narrow = narrow;
    if conv.rounded {
        let scratch = kernels::conv_int8_scratch_len(signature.threads, &params);
        let scratch = scratch.ok_or_else(|| bad_shapes(signature))?;
        let on_amx = kernels::conv_int8_is_on_amx(signature.threads, &params);
        return Ok(Ready { scratch, ..Ready::new(Rounded { params, on_amx, known: OnceCell::new() }) });
    }
    if !conv.kind.is_on_units(&params, signature.threads) {
        params.math = Math::F32;
    }
    let scratch = conv.kind.scratch_len(&params, signature.threads.count()).ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready { scratch, ..Ready::new(Convolution { kind: conv.kind, params }) })
}

impl Call for Convolution {
    fn computed_as(&self) -> Option<&'static str> {
        self.params.math.on_units()
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let x = io.inputs.slice(0)?;
        let filters = ConvFilters { packed: io.inputs.weights(1)?, factors: io.inputs.optional(4)? };
        let (bias, residual) = (io.inputs.optional(2)?, io.inputs.optional(3)?);
        let y = io.outputs.take(0)?;
        kernels::conv(io.threads, self.kind, &self.params, x, filters, bias, residual, y, io.scratch);
        Ok(())
    }
}

/// A convolution with filters of 8 bits.
struct Rounded {
    params: ConvParams,
    on_amx: bool,
    /// What is known of the filters: found out when they are first multiplied.
    known: OnceCell<Int8Known>,
}

impl Call for Rounded {
    fn computed_as(&self) -> Option<&'static str> {
        Some(if self.on_amx { "int8 amx" } else { "int8" })
    }

    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, packed) = (io.inputs.slice(0)?, io.inputs.slice(1)?);
        let (bias, residual) = (io.inputs.optional(2)?, io.inputs.optional(3)?);
        let known = self.known.get_or_init(|| kernels::int8_filters_known(io.threads, &self.params, packed));
        let filters = Int8 { packed, known };
        kernels::conv_int8(io.threads, &self.params, x, filters, bias, residual, io.outputs.take(0)?, io.scratch);
        Ok(())
    }
}

struct Pooling {
    kind: PoolKind,
    layout: Layout,
    params: PoolParams,
}

pub(super) fn pool(signature: &Signature<'_>, pool: &Pool) -> Result<Ready, Error> {
    let (x, y) = (image(signature.input(0)?)?, image(signature.output(0)?)?);
    if x[..2] != y[..2] || (x.contains(&0) && !y.contains(&0)) {
        return Err(bad_shapes(signature));
    }
    let kind = match pool.max {
        true => PoolKind::Max,
        false => PoolKind::Avg { count_include_pad: pool.count_include_pad },
    };
    let params = PoolParams {
        n: x[0],
        c: x[1],
        ih: x[2],
        iw: x[3],
        oh: y[2],
        ow: y[3],
        kernel: pool.kernel,
        stride: pool.strides,
        pad: pool.pads,
        dilation: pool.dilations,
    };
    if !params.is_valid() {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Pooling { kind, layout: layout(signature)?, params }))
}

impl Call for Pooling {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        kernels::pool2d(io.threads, self.kind, self.layout, &self.params, io.inputs.slice(0)?, io.outputs.take(0)?);
        Ok(())
    }
}

struct GlobalPooling {
    kind: Reduce,
    layout: Layout,
    shape: [usize; 4],
}

pub(super) fn global_pool(signature: &Signature<'_>, max: bool) -> Result<Ready, Error> {
    let (shape, y) = (image(signature.input(0)?)?, image(signature.output(0)?)?);
    if y != [shape[0], shape[1], 1, 1] {
        return Err(bad_shapes(signature));
    }
    let kind = if max { Reduce::Max } else { Reduce::Mean };
    Ok(Ready::new(GlobalPooling { kind, layout: layout(signature)?, shape }))
}

impl Call for GlobalPooling {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [n, c, h, w] = self.shape;
        let (x, y) = (io.inputs.slice(0)?, io.outputs.take(0)?);
        kernels::global_pool(io.threads, self.kind, self.layout, n, c, h * w, x, y);
        Ok(())
    }
}

/// Between NCHW and NCHW16c.
struct Convert {
    blocked: bool,
    shape: [usize; 4],
}

pub(super) fn convert(signature: &Signature<'_>, blocked: bool) -> Result<Ready, Error> {
    let shape = image(signature.input(0)?)?;
    let layouts = signature.output_value(0).is_some_and(|value| value.blocked == blocked)
        && signature.input_value(0).is_some_and(|value| value.blocked != blocked);
    if signature.output(0)? != shape || !layouts {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Convert { blocked, shape }))
}

impl Call for Convert {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [n, c, h, w] = self.shape;
        let (x, y) = (io.inputs.slice(0)?, io.outputs.take(0)?);
        let kernel = if self.blocked { to_blocked } else { from_blocked };
        kernel(io.threads, n, c, h * w, x, y);
        Ok(())
    }
}

/// A factor and an offset for each channel.
struct Affine {
    layout: Layout,
    shape: [usize; 4],
    act: Activation,
}

pub(super) fn affine(signature: &Signature<'_>, act: Activation) -> Result<Ready, Error> {
    let shape = image(signature.input(0)?)?;
    let vectors = [1, 2].iter().all(|&index| signature.input(index).is_ok_and(|vector| *vector == [shape[1]]));
    if signature.output(0)? != shape || !vectors {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Affine { layout: layout(signature)?, shape, act }))
}

impl Call for Affine {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let [n, c, h, w] = self.shape;
        let (x, y) = (io.inputs.slice::<f32>(0)?, io.outputs.take::<f32>(0)?);
        let (scale, shift) = (io.inputs.slice::<f32>(1)?, io.inputs.slice::<f32>(2)?);
        kernels::affine(io.threads, self.layout, n, c, h * w, x, scale, shift, self.act, y);
        Ok(())
    }
}

/// Local response normalisation.
struct Lrn {
    layout: Layout,
    params: LrnParams,
}

pub(super) fn lrn(signature: &Signature<'_>, size: usize, alpha: f32, beta: f32, bias: f32) -> Result<Ready, Error> {
    let [n, c, h, w] = image(signature.input(0)?)?;
    let layout = layout(signature)?;
    let narrow = size <= MAX_BLOCKED_LRN || layout == Layout::Nchw;
    if signature.output(0)? != [n, c, h, w] || size == 0 || !narrow {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Lrn { layout, params: LrnParams { n, c, hw: h * w, size, alpha, beta, bias } }))
}

impl Call for Lrn {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        kernels::lrn(io.threads, self.layout, &self.params, io.inputs.slice(0)?, io.outputs.take(0)?);
        Ok(())
    }
}
