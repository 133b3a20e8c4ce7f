//! Operators that work on each element by itself.

use byoc_plugin_api::{Attribute, DType};

use super::super::{Operand, Wish, any, filled, onnx_code};
use super::{List, int, word};
use crate::onnx::Fill;

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match op {
        "Add" | "Sub" | "Mul" | "Max" | "Min" | "Sum" if wish.dtype != DType::Bool => pair(wish, Fill::Any, found),
        "Div" => pair(wish, Fill::NonZero, found),
        "Pow" => {
            pair(wish, Fill::Positive, found);
            power(wish, found);
        }
        "Mod" => modulo(wish, found),
        "And" | "Or" | "Xor" if wish.dtype == DType::Bool => pair(wish, Fill::Any, found),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" if wish.dtype == DType::Bool => {
            let compared = Wish { dtype: DType::F32, shape: wish.shape.clone() };
            pair(&compared, Fill::Few, found);
        }
        "Where" => choice(wish, found),
        "Clip" => clip(wish, found),
        "Cast" => cast(wish, found),
        "BitShift" if is_unsigned(wish.dtype) => {
            let operands = vec![any(wish.dtype, &wish.shape), filled(wish.dtype, &wish.shape, Fill::Positive)];
            found.add("LEFT", operands, &[("direction", word("LEFT"))]);
        }
        "PRelu" => slopes(wish, found),
        _ => function(op, wish, found),
    }
    if matches!(op, "Max" | "Min" | "Sum") && wish.dtype != DType::Bool {
        found.add("one", vec![any(wish.dtype, &wish.shape)], &[]);
        found.add("three", vec![any(wish.dtype, &wish.shape); 3], &[]);
        let first = any(wish.dtype, &vec![1; wish.shape.len()]);
        found.add(
            "three, the first broadcast",
            vec![first, any(wish.dtype, &wish.shape), any(wish.dtype, &wish.shape)],
            &[],
        );
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

/// Shapes that are broadcast to another one, with the name of each.
fn broadcast(shape: &[usize]) -> Vec<(&'static str, Vec<usize>)> {
    let rank = shape.len();
    let only = |axis: usize| -> Vec<usize> { (0..rank).map(|at| if at == axis { shape[at] } else { 1 }).collect() };
    let mut forms = vec![("one number", vec![]), ("ones", vec![1; rank])];
    if rank > 0 {
        forms.push(("the last axis", vec![shape[rank - 1]]));
    }
    if rank > 1 {
        forms.push(("the first axis", only(0)));
        forms.push(("all but the first axis", shape[1..].to_vec()));
        forms.push(("all but the last axis", super::resized(shape, rank - 1, 1)));
    }
    if rank > 2 {
        forms.push(("the second axis", only(1)));
        forms.push(("all but the second axis", super::resized(shape, 1, 1)));
    }
    forms.retain(|(_, form)| form != shape);
    forms
}

/// Two operands, either of them broadcast, and both.
fn pair(Wish { dtype, shape }: &Wish, fill: Fill, found: &mut List) {
    let tensor = |shape: &[usize]| filled(*dtype, shape, fill);
    found.add("equal shapes", vec![tensor(shape), tensor(shape)], &[]);
    for (name, form) in broadcast(shape) {
        found.add(&format!("second: {name}"), vec![tensor(shape), tensor(&form)], &[]);
        found.add(&format!("first: {name}"), vec![tensor(&form), tensor(shape)], &[]);
    }
    if let [front @ .., rows, columns] = shape.as_slice() {
        let (left, right) = ([front, &[*rows, 1]].concat(), [front, &[1, *columns]].concat());
        found.add("both broadcast", vec![tensor(&left), tensor(&right)], &[]);
        found.add("both broadcast, ranks differ", vec![tensor(&left), tensor(&[*columns])], &[]);
    }
}

fn power(Wish { dtype, shape }: &Wish, found: &mut List) {
    for exponent in [2.0, 3.0, 0.5] {
        let fill = if exponent == 0.5 { Fill::Positive } else { Fill::Any };
        let operands = vec![filled(*dtype, shape, fill), Operand::Number(exponent, *dtype)];
        if dtype.is_float() || exponent >= 1.0 {
            found.add(&format!("exponent {exponent}"), operands, &[]);
        }
    }
}

fn modulo(wish: &Wish, found: &mut List) {
    let Wish { dtype, shape } = wish;
    let operands = || vec![filled(*dtype, shape, Fill::NonZero), filled(*dtype, shape, Fill::NonZero)];
    found.add("fmod=1", operands(), &[("fmod", int(1))]);
    if !dtype.is_float() {
        found.add("fmod=0", operands(), &[("fmod", int(0))]);
        pair(wish, Fill::NonZero, found);
    }
}

fn choice(Wish { dtype, shape }: &Wish, found: &mut List) {
    let (tensor, condition) = (|shape: &[usize]| any(*dtype, shape), |shape: &[usize]| any(DType::Bool, shape));
    found.add("equal shapes", vec![condition(shape), tensor(shape), tensor(shape)], &[]);
    for (name, form) in broadcast(shape) {
        found.add(&format!("condition: {name}"), vec![condition(&form), tensor(shape), tensor(shape)], &[]);
        found.add(&format!("first: {name}"), vec![condition(shape), tensor(&form), tensor(shape)], &[]);
        found.add(&format!("second: {name}"), vec![condition(shape), tensor(shape), tensor(&form)], &[]);
    }
}

fn clip(Wish { dtype, shape }: &Wish, found: &mut List) {
    let number = |value| Operand::Number(value, *dtype);
    let x = || filled(*dtype, shape, Fill::Large);
    if is_unsigned(*dtype) || *dtype == DType::Bool {
        return;
    }
    found.add("min alone", vec![x(), number(-2.0)], &[]);
    found.add("max alone", vec![x(), Operand::Absent, number(2.0)], &[]);
    found.add("-3 to 6", vec![x(), number(-3.0), number(6.0)], &[]);
    found.add("min above max", vec![x(), number(3.0), number(-2.0)], &[]);
    found.add("no limit", vec![x()], &[]);
}

fn cast(Wish { dtype, shape }: &Wish, found: &mut List) {
    let to = [("to", Attribute::Int(onnx_code(*dtype)))];
    let sources = [DType::F32, DType::F64, DType::F16, DType::I32, DType::I64, DType::I8, DType::U8, DType::Bool];
    for from in sources.into_iter().filter(|from| from != dtype) {
        // Fractions of both signs, which integers cut off.
        let fill = match from.is_float() {
            true if is_unsigned(*dtype) => Fill::Positive,
            true => Fill::Large,
            false if is_unsigned(*dtype) => Fill::Positive,
            false => Fill::Any,
        };
        found.add(&format!("from {from}"), vec![filled(from, shape, fill)], &to);
    }
}

fn slopes(Wish { dtype, shape }: &Wish, found: &mut List) {
    found.add("equal shapes", vec![any(*dtype, shape), any(*dtype, shape)], &[]);
    for (name, form) in broadcast(shape) {
        found.add(&format!("slope: {name}"), vec![any(*dtype, shape), any(*dtype, &form)], &[]);
    }
}

/// Operators of one operand: attributes, and values far from zero.
fn function(op: &str, Wish { dtype, shape }: &Wish, found: &mut List) {
    if !super::super::is_function(op) || !dtype.is_float() {
        return;
    }
    let float = |name: &'static str, value: f32| (name, Attribute::Float(value));
    let sets: &[&[(&str, Attribute)]] = match op {
        "LeakyRelu" => &[&[float("alpha", 0.3)], &[float("alpha", -0.5)]],
        "Elu" | "Celu" | "ThresholdedRelu" | "Swish" => &[&[float("alpha", 0.4)], &[float("alpha", 2.0)]],
        "HardSigmoid" => &[&[float("alpha", 0.5)], &[float("beta", 0.1)], &[float("alpha", 0.3), float("beta", 0.7)]],
        "Selu" => &[&[float("alpha", 2.0)], &[float("gamma", 0.5)]],
        "Shrink" => &[&[float("lambd", 0.25)], &[float("bias", 0.5), float("lambd", 0.1)]],
        "Gelu" => &[&[("approximate", word("tanh"))]],
        _ => &[],
    };
    for attributes in sets {
        let value = |value: &Attribute| match value {
            Attribute::Float(number) => number.to_string(),
            _ => "tanh".into(),
        };
        let name: Vec<_> = attributes.iter().map(|(name, found)| format!("{name}={}", value(found))).collect();
        found.add(&name.join(" "), vec![filled(*dtype, shape, Fill::Large)], attributes);
        found.add(&format!("{} near zero", name.join(" ")), vec![any(*dtype, shape)], attributes);
    }
    if !matches!(op, "Log" | "Sqrt" | "Acos" | "Asin" | "Acosh" | "Atanh" | "Tan" | "Exp" | "Sinh" | "Cosh") {
        found.add("far from zero", vec![filled(*dtype, shape, Fill::Large)], &[]);
    }
}
