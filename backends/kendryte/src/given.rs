//! What a model that is quantised says of its tensors: scales and zero points. They are read off its `QuantizeLinear` and
//! `DequantizeLinear` nodes one by one, since constants of equal bytes are one value of a region, whatever they stand for.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode, Region};

use crate::quantize::Quantization;

/// What the bit patterns of `i8` become by this, in arithmetic modulo 256, are the bytes of the chip: all numbers and zero
/// points are greater by 128, and stand for the same.
pub(crate) const SIGN: u8 = 0x80;

/// Whether a node quantises or dequantises.
pub(crate) fn is_conversion(node: &Node) -> bool {
    node.domain.is_empty() && matches!(node.op.as_str(), "QuantizeLinear" | "DequantizeLinear")
}

/// The integer tensor of a node that quantises or dequantises.
pub(crate) fn integers(node: &Node) -> Option<usize> {
    if node.op == "QuantizeLinear" { node.output(0) } else { node.input(0) }
}

/// What the bytes of a computed tensor stand for, by a node that quantises or dequantises it.
pub(crate) fn activation(region: &Region, node: &Node) -> Result<Quantization, Refusal> {
    let tensor = integers(node).ok_or_else(|| refused(RefusalCode::Shape, "it has no tensor of integers"))?;
    let name = &region.values[tensor].name;
    let shift = match region.values[tensor].dtype {
        DType::U8 => 0,
        DType::I8 => i64::from(SIGN),
        other => return Err(refused(RefusalCode::Type, format!("'{name}' is {other}, only u8 and i8 have code"))),
    };
    let ends = [node.input(0), node.output(0)].into_iter().flatten().filter(|&end| end != tensor);
    if let Some(float) = ends.map(|end| &region.values[end]).find(|value| value.dtype != DType::F32) {
        return Err(refused(RefusalCode::Type, format!("'{}' is {}, only f32 is quantised", float.name, float.dtype)));
    }
    check_precision(node)?;
    let scales = Scales::of(region, node, tensor)?;
    if scales.count != 1 {
        return Err(refused(
            RefusalCode::Attribute,
            format!("'{name}' has {}, only one for all of it has code", scales.many()),
        ));
    }
    let constant =
        |what: &str| refused(RefusalCode::ConstantNeeded, format!("the {what} of '{name}' must be constant"));
    let scale = region.constant_floats(scales.value).and_then(|all| all.first().copied());
    let scale = scale.ok_or_else(|| constant("scale"))?;
    check_step(name, scale)?;
    let zero = match scales.zero_point {
        None => 0,
        Some(zero) => {
            let zero = region.constant_ints(zero).and_then(|all| all.first().copied());
            zero.ok_or_else(|| constant("zero point"))?
        }
    };
    Ok(Quantization { scale: scale as f32, zero_point: (zero + shift) as u8 })
}

/// The scales of a tensor, as a node has them.
struct Scales {
    /// Their tensor.
    value: usize,
    count: usize,
    zero_point: Option<usize>,
    axis: i64,
    block_size: i64,
}

impl Scales {
    fn of(region: &Region, node: &Node, tensor: usize) -> Result<Scales, Refusal> {
        let name = &region.values[tensor].name;
        let value = node.input(1).ok_or_else(|| refused(RefusalCode::Shape, format!("'{name}' has no scale")))?;
        let shape = region.values[value].fixed_shape().unwrap_or_default();
        let block_size = node.int("block_size", 0);
        let count = if block_size == 0 { shape.iter().product() } else { 0 };
        Ok(Scales { value, count, zero_point: node.input(2), axis: node.int("axis", 1), block_size })
    }

    /// That there is more than one, in words.
    fn many(&self) -> String {
        match self.block_size {
            0 => format!("{} scales along axis {}", self.count, self.axis),
            size => format!("a scale for each block of {size} elements along axis {}", self.axis),
        }
    }
}

/// A constant of the region, or what a node makes of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'r> {
    /// The constant.
    pub(crate) value: usize,
    /// The node that dequantises it.
    pub(crate) node: Option<&'r Node>,
}

/// What stands in the model for a value, if that is a constant, as it is or dequantised.
pub(crate) fn stored(region: &Region, value: usize) -> Option<Stored<'_>> {
    if region.constant(value).is_some() {
        return Some(Stored { value, node: None });
    }
    let node = region.nodes.iter().find(|node| node.output(0) == Some(value))?;
    let constant = node.input(0).filter(|_| is_conversion(node) && node.op == "DequantizeLinear")?;
    region.constant(constant).map(|_| Stored { value: constant, node: Some(node) })
}

/// Whether weights or biases that are quantised have scales that a layer can take: one for all, or one for each output channel,
/// which they have along `axis`. What is too large to be seen here, code generation looks at.
pub(crate) fn check_stored(region: &Region, value: usize, axis: usize, dtypes: &[DType]) -> Result<(), Refusal> {
    let Some(Stored { value: tensor, node: Some(node) }) = stored(region, value) else { return Ok(()) };
    let (name, dtype) = (&region.values[tensor].name, region.values[tensor].dtype);
    if !dtypes.contains(&dtype) {
        let names: Vec<_> = dtypes.iter().map(DType::to_string).collect();
        return Err(refused(RefusalCode::Type, format!("'{name}' is {dtype}, only {} have code", names.join(" and "))));
    }
    if region.values[value].dtype != DType::F32 {
        return Err(refused(
            RefusalCode::Type,
            format!("'{name}' becomes {}, only f32 has code", region.values[value].dtype),
        ));
    }
    let scales = Scales::of(region, node, tensor)?;
    if scales.count != 1 && (scales.block_size != 0 || usize::try_from(scales.axis) != Ok(axis)) {
        let message =
            format!("'{name}' has {}, only one for all or one for each output channel has code", scales.many());
        return Err(refused(RefusalCode::Attribute, message));
    }
    if let Some(seen) = region.constant_floats(scales.value) {
        seen.iter().try_for_each(|&step| check_step(name, step))?;
    }
    Ok(())
}

/// The same for weights, which have one zero point as well.
pub(crate) fn check_weights(region: &Region, value: usize, axis: usize) -> Result<(), Refusal> {
    check_stored(region, value, axis, &[DType::I8, DType::U8])?;
    let Some(Stored { value: tensor, node: Some(node) }) = stored(region, value) else { return Ok(()) };
    let zeros = node.input(2).and_then(|zeros| region.constant_ints(zeros)).unwrap_or_default();
    one_zero(&region.values[tensor].name, &zeros).map(drop)
}

/// One zero point for all, which a layer has for its weights.
pub(crate) fn one_zero(name: &str, zeros: &[i64]) -> Result<i64, Refusal> {
    let first = zeros.first().copied().unwrap_or(0);
    match zeros.iter().position(|&zero| zero != first) {
        None => Ok(first),
        Some(channel) => {
            let message = format!(
                "'{name}' has the zero points {first} and, for output channel {channel}, {}: a layer has one",
                zeros[channel]
            );
            Err(refused(RefusalCode::Attribute, message))
        }
    }
}

/// A step that has an inverse.
pub(crate) fn check_step(name: &str, step: f64) -> Result<(), Refusal> {
    if step.is_finite() && step >= f64::from(f32::MIN_POSITIVE) {
        return Ok(());
    }
    Err(refused(
        RefusalCode::Attribute,
        format!("'{name}' has the scale {step}, only normal positive numbers have code"),
    ))
}

/// That a node divides by the scale in `f32`.
fn check_precision(node: &Node) -> Result<(), Refusal> {
    /// `FLOAT` of ONNX's element types, and 0 for that of the input.
    const F32: [i64; 2] = [0, 1];
    let precision = node.int("precision", 0);
    if node.op != "QuantizeLinear" || F32.contains(&precision) {
        return Ok(());
    }
    Err(refused(RefusalCode::Attribute, format!("precision {precision}, only f32 has code")))
}

fn refused(code: RefusalCode, message: impl Into<String>) -> Refusal {
    Refusal::new(code, message)
}
