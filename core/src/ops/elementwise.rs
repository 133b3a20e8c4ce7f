//! Elementwise operators, after ONNX: BitShift 28, Bitwise* 18, Abs 13, Add/Sub/Mul/Div 14, And 7, Not 1, Equal 19, Greater/Less 13,
//! GreaterOrEqual/LessOrEqual 16, Where 16, Min/Max 13, Mod 28, Pow 15, Sum 13, Clip 13, Gelu 20, IsNaN 20, Neg 13,
//! Relu 14 and the float functions (Exp, Log, Sqrt, Erf, Tanh, Sigmoid, Swish ...).

use byoc_plugin_api::{DType, Dim};

use super::elements::{self, Scalar, checked_int, round_to};
use super::infer::{BOOL, FLOAT, FLOAT8, INTEGER, Infer, NUMERIC, SIGNED, WIDE, bad};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::{DimError, Expr};

/// One input, same type out; float.
pub(super) fn float_unary(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, FLOAT)?;
    infer.set(0, ty.dtype, ty.shape);
    Ok(())
}

/// One input, same type out; float or signed.
pub(super) fn signed_unary(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, SIGNED)?;
    infer.set(0, ty.dtype, ty.shape);
    Ok(())
}

/// One input, same type out; anything but `bool`.
pub(super) fn numeric_unary(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, NUMERIC)?;
    infer.set(0, ty.dtype, ty.shape);
    Ok(())
}

/// Neg.
pub(super) fn negate(infer: &mut Infer<'_>) -> Result<()> {
    signed_unary(infer)?;
    propagate(infer, |values, dtype| match values {
        // The integer 0 would lose the sign that a float zero gets.
        [Scalar::Int(a)] => checked_int(a.scale(-1)).filter(|_| !dtype.is_float() || a.as_constant() != Some(0)),
        [Scalar::Float(a)] => Some(Scalar::Float(-a)),
        _ => None,
    });
    Ok(())
}

/// Gelu.
pub(super) fn gelu(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("approximate", &["none", "tanh"])?;
    float_unary(infer)
}

/// IsNaN and IsInf.
pub(super) fn is_nan(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, &[FLOAT, FLOAT8].concat())?;
    infer.set(0, DType::Bool, ty.shape);
    Ok(())
}

/// Not.
pub(super) fn not(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, BOOL)?;
    infer.set(0, DType::Bool, ty.shape);
    propagate(infer, |values, _| Some(Scalar::from(values[0].as_i64()? == 0)));
    Ok(())
}

/// And, Or and Xor.
pub(super) fn logic(infer: &mut Infer<'_>) -> Result<()> {
    infer.typed(0, BOOL)?;
    infer.typed(1, BOOL)?;
    let shape = infer.broadcast(0)?;
    infer.set(0, DType::Bool, shape);
    let combine: fn(bool, bool) -> bool = match infer.node.op.as_str() {
        "And" => |a, b| a && b,
        "Or" => |a, b| a || b,
        _ => |a, b| a != b,
    };
    propagate(infer, move |values, _| Some(Scalar::from(combine(values[0].as_i64()? != 0, values[1].as_i64()? != 0))));
    Ok(())
}

/// Checks that all inputs have one type of `types` and sets the broadcast shape.
fn same_types(infer: &mut Infer<'_>, types: &[DType], result: Option<DType>) -> Result<()> {
    let first = infer.typed(0, types)?;
    for index in 1..infer.inputs.len() {
        infer.like_first(index)?;
    }
    let shape = infer.broadcast(0)?;
    infer.set(0, result.unwrap_or(first.dtype), shape);
    Ok(())
}

/// BitwiseAnd, BitwiseNot, BitwiseOr and BitwiseXor.
pub(super) fn bitwise(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, INTEGER, None)
}

/// BitShift.
pub(super) fn shift(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, INTEGER, None)?;
    if !infer.node.attributes.contains_key("direction") {
        return Err(bad("attribute 'direction' is missing"));
    }
    infer.choice("direction", &["LEFT", "RIGHT"]).map(drop)
}

/// Add, Sub, Mul and Div.
pub(super) fn arithmetic(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, NUMERIC, None)?;
    match infer.node.op.as_str() {
        "Add" => propagate(infer, |v, _| combine(&v[0], &v[1], Expr::plus, |a, b| a + b)),
        "Sub" => propagate(infer, |v, _| combine(&v[0], &v[1], Expr::minus, |a, b| a - b)),
        "Mul" => propagate(infer, |v, dtype| {
            let product = combine(&v[0], &v[1], Expr::times, |a, b| a * b)?;
            unless_minus_zero(product, v, dtype)
        }),
        _ => propagate(infer, |v, dtype| {
            if dtype.is_float() {
                unless_minus_zero(true_quotient(&v[0], &v[1])?, v, dtype)
            } else {
                quotient(&v[0], &v[1])
            }
        }),
    }
    Ok(())
}

/// Floats have a minus zero, which no [`Scalar`] can be: the product of 0 and a negative number is left unknown.
fn unless_minus_zero(result: Scalar, operands: &[Scalar], dtype: DType) -> Option<Scalar> {
    let negative = || operands.iter().any(|operand| operand.as_f64().is_some_and(|value| value < 0.0));
    let minus_zero = dtype.is_float() && result.as_i64() == Some(0) && negative();
    (!minus_zero).then_some(result)
}

/// Whole numbers by one rule, anything with a fraction by the other.
fn combine(
    a: &Scalar,
    b: &Scalar,
    exact: fn(&Expr, &Expr) -> std::result::Result<Expr, DimError>,
    float: fn(f64, f64) -> f64,
) -> Option<Scalar> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => checked_int(exact(a, b)),
        _ => Scalar::from_f64(float(a.as_f64()?, b.as_f64()?)),
    }
}

/// Integer division, which ONNX rounds towards zero. Of symbolic sizes only where that is rounding down as well.
fn quotient(a: &Scalar, b: &Scalar) -> Option<Scalar> {
    let (a, b) = (a.int()?, b.int()?);
    if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
        return a.checked_div(b).map(Scalar::from);
    }
    let positive = b.as_constant().is_some_and(|b| b > 0) || not_negative(b);
    (positive && a.lower_bound()? >= 0).then(|| checked_int(a.floor_div(b)))?
}

/// Whether a symbolic size is certain not to be negative, as a divisor must be.
fn not_negative(divisor: &Expr) -> bool {
    divisor.as_constant().is_none() && divisor.lower_bound().is_some_and(|least| least >= 0)
}

fn true_quotient(a: &Scalar, b: &Scalar) -> Option<Scalar> {
    if let (Some(x), Some(y)) = (a.int(), b.int())
        && let Ok(Some(exact)) = x.exact_div(y)
    {
        return Some(Scalar::Int(exact));
    }
    Scalar::from_f64(a.as_f64()? / b.as_f64()?)
}

/// Sum.
pub(super) fn sum(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, FLOAT, None)
}

/// Min and Max.
pub(super) fn extreme(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, NUMERIC, None)?;
    let largest = infer.node.op == "Max";
    let exact = if largest { Expr::larger } else { Expr::smaller };
    let float = if largest { f64::max } else { f64::min };
    propagate(infer, |values, _| {
        let (first, rest) = values.split_first()?;
        rest.iter().try_fold(first.clone(), |best, value| combine(&best, value, exact, float))
    });
    Ok(())
}

/// Mod: the sign of the divisor, or with `fmod` = 1 that of the dividend.
pub(super) fn modulo(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, NUMERIC, None)?;
    let fmod = match infer.int("fmod", 0)? {
        value @ (0 | 1) => value == 1,
        other => return Err(bad(format!("attribute 'fmod' is {other}, expected 0 or 1"))),
    };
    propagate(infer, |values, dtype| {
        let (a, b) = (values[0].int()?, values[1].int()?);
        if dtype.is_float() {
            return None;
        }
        match (a.as_constant(), b.as_constant()) {
            (Some(a), Some(b)) if fmod => a.checked_rem(b).map(Scalar::from),
            (_, Some(0)) => None,
            (_, None) if !not_negative(b) => None,
            _ if fmod && a.lower_bound()? < 0 => None,
            _ => checked_int(a.minus(&a.floor_div(b).ok()?.times(b).ok()?)),
        }
    });
    Ok(())
}

/// Pow: the exponent may have another type.
pub(super) fn pow(infer: &mut Infer<'_>) -> Result<()> {
    let types: Vec<_> = WIDE.iter().copied().filter(|dtype| !matches!(dtype, DType::U32 | DType::U64)).collect();
    let base = infer.typed(0, &types)?;
    infer.typed(1, NUMERIC)?;
    let shape = infer.broadcast(0)?;
    infer.set(0, base.dtype, shape);
    Ok(())
}

/// Clip with optional scalar bounds.
pub(super) fn clip(infer: &mut Infer<'_>) -> Result<()> {
    let ty = infer.typed(0, NUMERIC)?;
    for index in 1..3 {
        // A bound of one element under another rank does no harm, and exporters write it.
        if infer.has(index)
            && infer.like_first(index)?.shape.iter().any(|dim| dim.fixed().is_some_and(|size| size != 1))
        {
            return Err(super::infer::mismatch(format!(
                "input {index} is {}, expected one element",
                infer.input(index)?
            )));
        }
    }
    infer.set(0, ty.dtype, ty.shape);
    Ok(())
}

/// Equal.
pub(super) fn equal(infer: &mut Infer<'_>) -> Result<()> {
    let all: Vec<_> = DType::all().collect();
    same_types(infer, &all, Some(DType::Bool))?;
    propagate(infer, |values, _| match (&values[0], &values[1]) {
        (Scalar::Int(a), Scalar::Int(b)) => a.equals(b).ok()?.map(Scalar::from),
        (Scalar::Float(a), Scalar::Float(b)) => Some(Scalar::from(a == b)),
        _ => None,
    });
    Ok(())
}

/// Less, LessOrEqual, Greater and GreaterOrEqual.
pub(super) fn compare(infer: &mut Infer<'_>) -> Result<()> {
    same_types(infer, NUMERIC, Some(DType::Bool))?;
    let op = infer.node.op.as_str();
    // a > b is b < a, and "or equal" is the opposite of the reverse.
    let swap = matches!(op, "Greater" | "LessOrEqual");
    let negate = op.ends_with("OrEqual");
    propagate(infer, |values, _| {
        let (a, b) = if swap { (&values[1], &values[0]) } else { (&values[0], &values[1]) };
        let less = match (a.int(), b.int()) {
            (Some(a), Some(b)) => a.less_than(b).ok()??,
            _ => a.as_f64()? < b.as_f64()?,
        };
        Some(Scalar::from(less != negate))
    });
    Ok(())
}

/// Where.
pub(super) fn select(infer: &mut Infer<'_>) -> Result<()> {
    infer.typed(0, BOOL)?;
    let (x, y) = (infer.input(1)?, infer.input(2)?);
    if x.dtype != y.dtype {
        let text = format!("input 1 is {x}, but input 2 is {y}: both must have the same element type");
        return Err(Diagnostic::new(Code::TypeMismatch, text));
    }
    let shape = infer.broadcast(0)?;
    infer.set(0, x.dtype, shape);
    propagate(infer, |values, _| {
        let choice = if values[0].as_i64()? != 0 { &values[1] } else { &values[2] };
        Some(choice.clone())
    });
    Ok(())
}

/// Computes the elements of output 0 from those of all inputs, broadcast, where they are known.
fn propagate(infer: &mut Infer<'_>, compute: impl Fn(&[Scalar], DType) -> Option<Scalar>) {
    let elements = broadcast_inputs(infer).and_then(|(columns, dtype)| {
        let count = columns.first().map_or(0, Vec::len);
        let one = |index: usize| {
            let values: Vec<_> = columns.iter().map(|column| column[index].clone()).collect();
            round_to(compute(&values, dtype)?, dtype)
        };
        (0..count).map(one).collect()
    });
    infer.set_elements(elements);
}

fn broadcast_inputs(infer: &Infer<'_>) -> Option<(Vec<Vec<Scalar>>, DType)> {
    let output = infer.outputs.first()?.as_ref()?;
    let repeat = |index: usize| {
        let shape: &[Dim] = &infer.inputs.get(index)?.as_ref()?.shape;
        elements::broadcast(infer.known(index)?, shape, &output.shape)
    };
    let columns = (0..infer.inputs.len()).map(repeat).collect::<Option<Vec<_>>>()?;
    Some((columns, output.dtype))
}

#[cfg(test)]
mod tests;
