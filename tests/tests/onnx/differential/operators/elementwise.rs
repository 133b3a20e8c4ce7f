//! Operators that work element by element.

use byoc_core::ops::cast::to_onnx;
use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Value, broadcast};
use super::super::values::{self, Mood};

/// Ranks of data.
const RANKS: (usize, usize) = (0, 4);

/// A function of one float, with its parameters.
pub(crate) fn function(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let mut attributes = Vec::new();
    let parameters: &[&'static str] = match op {
        "Celu" | "Elu" | "LeakyRelu" | "Swish" => &["alpha"],
        "Selu" => &["alpha", "gamma"],
        "HardSigmoid" => &["alpha", "beta"],
        _ => &[],
    };
    for &name in parameters {
        if builder.random.chance(60) {
            attributes.push((name, Attribute::Float(builder.random.of(&[0.0, 0.25, 1.0, 1.5, 0.1, -0.5]))));
        }
    }
    if op == "Gelu" && builder.random.chance(60) {
        attributes.push(("approximate", Attribute::String(builder.random.of(&["none", "tanh"]).into())));
    }
    builder.node(op, &[&x.name], attributes, x.dtype, x.dims);
    Some(())
}

/// A function of one operand that rounds nothing.
pub(crate) fn exact_function(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let y = builder.node(op, &[&x.name], vec![], x.dtype, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

/// Ceil, Floor and Round, of what was not rounded before: a number just beside an integer may become either neighbour.
pub(crate) fn rounding(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let y = builder.node(op, &[&x.name], vec![], x.dtype, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

/// Shrink and ThresholdedRelu, which leap: of what was not rounded before.
pub(crate) fn threshold(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let names: &[&'static str] = if op == "Shrink" { &["bias", "lambd"] } else { &["alpha"] };
    let attributes = names.iter().map(|&name| (name, Attribute::Float(builder.random.of(&[0.0, 0.5, 1.0, 2.0]))));
    let attributes = attributes.collect();
    builder.node(op, &[&x.name], attributes, x.dtype, x.dims);
    Some(())
}

/// Functions with an end, beyond which they are NaN and near which they are steep: of what was not rounded before.
pub(crate) fn bounded(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    builder.node(op, &[&x.name], vec![], x.dtype, x.dims);
    Some(())
}

/// PRelu, whose slope broadcasts to the shape of its operand.
pub(crate) fn p_relu(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let slope = builder.fresh_partner(&x, x.dtype, Mood::Tame);
    builder.node(op, &[&x.name, &slope.name], vec![], x.dtype, x.dims);
    Some(())
}

/// BitShift, by less than a number has bits.
pub(crate) fn shift(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let by = builder.fresh_partner(&x, x.dtype, Mood::Exponent);
    let dims = broadcast(&x.dims, &by.dims)?;
    let direction = Attribute::String(builder.random.of(&["LEFT", "RIGHT"]).into());
    let y = builder.node(op, &[&x.name, &by.name], vec![("direction", direction)], x.dtype, dims);
    builder.exact(&y, true);
    Some(())
}

/// BitCast to another type of as many bits.
pub(crate) fn bit_cast(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let same: Vec<_> = types.iter().copied().filter(|to| to.unpacked_bytes() == x.dtype.unpacked_bytes()).collect();
    let to = builder.random.of(&same);
    let y = builder.node(op, &[&x.name], vec![("to", Attribute::Int(to_onnx(to)))], to, x.dims);
    builder.exact(&y, true);
    Some(())
}

/// CastLike, to the type of another leaf.
pub(crate) fn cast_like(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact && x.tame);
    let like = builder.dtype(types);
    if !like.is_float() && x.dtype.is_float() {
        return None;
    }
    let like = builder.leaf(like, &[], Mood::Tame);
    let y = builder.node(op, &[&x.name, &like.name], vec![], like.dtype, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

/// Sign, of what was not rounded before.
pub(crate) fn sign(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let y = builder.node(op, &[&x.name], vec![], x.dtype, x.dims.clone());
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn is_nan(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let y = builder.node(op, &[&x.name], vec![], DType::Bool, x.dims);
    builder.exact(&y, true);
    Some(())
}

fn two(builder: &mut Builder, x: &Value, y: &Value) -> (Value, Value) {
    if builder.random.chance(40) { (y.clone(), x.clone()) } else { (x.clone(), y.clone()) }
}

/// Add, Sub and Mul.
pub(crate) fn arithmetic(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let y = builder.partner(&x, x.dtype, |_| true);
    let (a, b) = two(builder, &x, &y);
    let dims = broadcast(&a.dims, &b.dims)?;
    let y = builder.node(op, &[&a.name, &b.name], vec![], a.dtype, dims);
    builder.exact(&y, !a.dtype.is_float());
    Some(())
}

/// Div. Integers are divided by what no processor stops at.
pub(crate) fn quotient(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let y = match x.dtype.is_float() {
        true => builder.partner(&x, x.dtype, |_| true),
        false => builder.fresh_partner(&x, x.dtype, Mood::Divisor),
    };
    let dims = broadcast(&x.dims, &y.dims)?;
    let q = builder.node(op, &[&x.name, &y.name], vec![], x.dtype, dims);
    builder.exact(&q, !x.dtype.is_float());
    Some(())
}

pub(crate) fn modulo(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let y = builder.fresh_partner(&x, x.dtype, Mood::Divisor);
    let fmod = x.dtype.is_float() || builder.random.chance(40);
    let attributes = if fmod { vec![("fmod", Attribute::Int(1))] } else { vec![] };
    let dims = broadcast(&x.dims, &y.dims)?;
    let rest = builder.node(op, &[&x.name, &y.name], attributes, x.dtype, dims);
    builder.exact(&rest, true);
    Some(())
}

/// Pow. The exponent may have another type.
pub(crate) fn power(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.tame);
    let exponents = [DType::F32, DType::F64, DType::I32, DType::I64];
    let dtype = match x.dtype {
        DType::F16 => DType::F16,
        dtype if builder.random.chance(60) => dtype,
        _ => builder.random.of(&exponents),
    };
    if !x.dtype.is_float() && dtype.is_float() {
        return None;
    }
    let y = builder.fresh_partner(&x, dtype, Mood::Exponent);
    let dims = broadcast(&x.dims, &y.dims)?;
    let z = builder.node(op, &[&x.name, &y.name], vec![], x.dtype, dims);
    builder.exact(&z, !x.dtype.is_float());
    Some(())
}

/// Max, Min and Sum, of one to four operands.
pub(crate) fn variadic(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let mut all = vec![builder.pick(types, RANKS, |_| true)];
    let mut dims = all[0].dims.clone();
    for _ in 0..builder.random.below(4) {
        let so_far = Value { dims: dims.clone(), ..all[0].clone() };
        let next = builder.partner(&so_far, all[0].dtype, |_| true);
        dims = broadcast(&dims, &next.dims)?;
        all.push(next);
    }
    let names: Vec<_> = all.iter().map(|value| value.name.as_str()).collect();
    let y = builder.node(op, &names, vec![], all[0].dtype, dims);
    if !matches!(op, "Sum" | "Mean") {
        builder.keeps(&y, &all.iter().collect::<Vec<_>>());
    }
    Some(())
}

/// Comparisons, and And.
pub(crate) fn compare(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |x| x.exact);
    let y = builder.partner(&x, x.dtype, |y| y.exact);
    let dims = broadcast(&x.dims, &y.dims)?;
    let z = builder.node(op, &[&x.name, &y.name], vec![], DType::Bool, dims);
    builder.exact(&z, true);
    Some(())
}

pub(crate) fn select(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let y = builder.partner(&x, x.dtype, |_| true);
    let both = Value { dims: broadcast(&x.dims, &y.dims)?, ..x.clone() };
    let condition = builder.partner(&both, DType::Bool, |_| true);
    let dims = broadcast(&both.dims, &condition.dims)?;
    let z = builder.node(op, &[&condition.name, &x.name, &y.name], vec![], x.dtype, dims);
    builder.keeps(&z, &[&x, &y]);
    Some(())
}

/// Clip between constants or inputs, either of which may be absent, infinite, or on the wrong side.
pub(crate) fn clip(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let mut bounds = Vec::new();
    for low in [true, false] {
        bounds.push(match builder.random.below(10) {
            0..3 => String::new(),
            3..8 => {
                let value: f64 = builder.random.of(&[0.0, 1.0, 2.0, 3.0]) - if low { 1.5 } else { 0.0 };
                let value = if x.dtype.is_float() { value } else { f64::max(value.trunc(), 0.0) };
                builder.structural(values::scalar(x.dtype, value))
            }
            8 if x.dtype.is_float() => {
                let value = builder.random.of(&[f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]);
                builder.structural(values::scalar(x.dtype, value))
            }
            _ => builder.leaf(x.dtype, &[], Mood::Ties).name,
        });
    }
    let y = builder.node(op, &[&x.name, &bounds[0], &bounds[1]], vec![], x.dtype, x.dims.clone());
    builder.keeps(&y, &[&x]);
    Some(())
}

/// Cast. What is cut to an integer was not rounded before, and fits.
pub(crate) fn cast(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, RANKS, |_| true);
    let to = if builder.random.chance(8) { DType::BF16 } else { builder.dtype(types) };
    let unsigned = [DType::U8, DType::U16, DType::U32, DType::U64].contains(&to);
    if x.dtype.is_float() && !to.is_float() && (!x.exact || !x.tame || unsigned && builder.random.chance(80)) {
        return None;
    }
    let y = builder.node(op, &[&x.name], vec![("to", Attribute::Int(to_onnx(to)))], to, x.dims.clone());
    // An integer that a float does not hold is rounded by both sides alike.
    builder.keeps(&y, &[&x]);
    Some(())
}
