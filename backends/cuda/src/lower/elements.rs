//! Elementwise operators.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode};

use super::{Lowering, refused};
use crate::expr::{Expr, X};
use crate::ir::{Def, computed, wide};

impl Lowering<'_> {
    /// Lowers the node if it is one of these.
    pub(super) fn elements(&mut self, node: &Node) -> Result<bool, Refusal> {
        let Some(&dtype) = node.input(0).map(|value| &self.region.values[value].dtype) else { return Ok(false) };
        let expression = match node.op.as_str() {
            "Clip" => return self.clip(node),
            "Cast" => match node.output(0) {
                Some(to) => cast(dtype, self.region.values[to].dtype),
                None => return Ok(false),
            },
            "Pow" => match node.input(1) {
                Some(exponent) => power(dtype, self.region.values[exponent].dtype),
                None => return Ok(false),
            },
            "BatchNormalization" => return self.batch_norm(node),
            op => match unary(node, dtype).or_else(|| binary(node, dtype)).or_else(|| many(op, node.inputs.len())) {
                Some(expression) => expression,
                None => return Ok(false),
            },
        };
        let operands = self.operands(node)?;
        let outside = operands.iter().any(|&operand| self.dtype(operand) == DType::Bool) && !takes_bool(&node.op);
        if outside {
            return Err(refused(RefusalCode::Type, format!("{} does not take bool", node.op)));
        }
        self.give(node, 0, Def::Each(expression, operands));
        Ok(true)
    }

    fn clip(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let (mut clipped, mut operands) = (X, vec![x]);
        for (input, function) in [(1, "larger"), (2, "smaller")] {
            if let Some(bound) = self.optional(node, input)? {
                clipped = Expr::light(function, [clipped, Expr::Operand(operands.len())]);
                let bound = self.scalar(bound);
                operands.push(bound);
            }
        }
        self.give(node, 0, Def::Each(clipped, operands));
        Ok(true)
    }

    fn batch_norm(&mut self, node: &Node) -> Result<bool, Refusal> {
        if node.int("training_mode", 0) != 0 {
            return Err(refused(RefusalCode::Attribute, "it is in training mode"));
        }
        let x = self.operand(node, 0)?;
        let (dtype, shape) = (self.dtype(x), self.shape(x));
        let mut operands = vec![x];
        for input in 1..5 {
            let own = self.operand(node, input)?;
            if wide(self.dtype(own)) != wide(dtype) {
                return Err(refused(RefusalCode::Type, format!("input {input} is {}", self.dtype(own))));
            }
            let mut along = vec![crate::index::ONE; shape.len().saturating_sub(1)];
            let size = self.shape(own).first().cloned();
            let (Some(first), Some(size)) = (along.first_mut(), size) else {
                return Err(refused(RefusalCode::Shape, "it has no channels"));
            };
            *first = size;
            operands.push(self.push(self.dtype(own), along, Def::Move(crate::ir::Move::Reshape, vec![own])));
        }
        let [scale, shift, mean, variance] = [1, 2, 3, 4].map(Expr::Operand);
        let epsilon = Expr::number(node.float("epsilon", 1e-5).into(), dtype);
        let factor = scale / Expr::math("sqrt", dtype, [variance + epsilon]);
        self.give(node, 0, Def::Each((X - mean) * factor + shift, operands));
        Ok(true)
    }
}

fn takes_bool(op: &str) -> bool {
    matches!(op, "And" | "Not" | "Where" | "Equal" | "Cast")
}

fn unary(node: &Node, dtype: DType) -> Option<Expr> {
    let literal = |value: f64| Expr::number(value, dtype);
    let attribute = |name: &str, default: f32| literal(node.float(name, default).into());
    let negative = |then: Expr| Expr::select(Expr::infix("<", X, Expr::zero(dtype)), then, X);
    let clamped = |x: Expr| {
        let positive = Expr::light("larger", [x, literal(0.0)]);
        Expr::light("smaller", [positive, literal(1.0)])
    };
    Some(match node.op.as_str() {
        name @ ("Sqrt" | "Exp" | "Log" | "Sin" | "Cos" | "Erf" | "Tanh") => {
            return dtype.is_float().then(|| Expr::math(&name.to_lowercase(), dtype, [X]));
        }
        "Abs" => Expr::light("absolute", [X]),
        "Neg" if dtype.is_float() => -X,
        "Neg" => Expr::light("subtract", [Expr::zero(dtype), X]),
        "Relu" => Expr::light("larger", [X, Expr::zero(dtype)]),
        "Not" => !X,
        "IsNaN" => Expr::infix("!=", X, X),
        _ if !dtype.is_float() => return None,
        "Reciprocal" => literal(1.0) / X,
        "Sigmoid" => Expr::heavy("sigmoid", [X]),
        "Softplus" => Expr::heavy("softplus", [X]),
        "Swish" => X * Expr::heavy("sigmoid", [attribute("alpha", 1.0) * X]),
        "Mish" => X * Expr::math("tanh", dtype, [Expr::heavy("softplus", [X])]),
        "Elu" => negative(attribute("alpha", 1.0) * Expr::math("expm1", dtype, [X])),
        "LeakyRelu" => negative(attribute("alpha", 0.01) * X),
        "HardSigmoid" => clamped(attribute("alpha", 0.2) * X + attribute("beta", 0.5)),
        "HardSwish" => X * clamped(X / literal(6.0) + literal(0.5)),
        "Gelu" => gelu(node.string("approximate", "none"), dtype)?,
        _ => return None,
    })
}

fn gelu(approximate: &str, dtype: DType) -> Option<Expr> {
    let literal = |value: f64| Expr::number(value, dtype);
    let bent = match approximate {
        "none" => Expr::math("erf", dtype, [X * literal(std::f64::consts::FRAC_1_SQRT_2)]),
        "tanh" => {
            let scale = literal((2.0 / std::f64::consts::PI).sqrt());
            Expr::math("tanh", dtype, [scale * (X + literal(0.044715) * X * X * X)])
        }
        _ => return None,
    };
    Some(literal(0.5) * X * (literal(1.0) + bent))
}

fn binary(node: &Node, dtype: DType) -> Option<Expr> {
    let float = dtype.is_float();
    let [x, y, z] = [0, 1, 2].map(Expr::Operand);
    Some(match node.op.as_str() {
        "Add" if float => x + y,
        "Sub" if float => x - y,
        "Mul" if float => x * y,
        "Div" if float => x / y,
        "Add" => Expr::light("add", [x, y]),
        "Sub" => Expr::light("subtract", [x, y]),
        "Mul" => Expr::light("multiply", [x, y]),
        "Div" => Expr::heavy("divide", [x, y]),
        "Mod" if node.int("fmod", 0) != 0 => Expr::heavy("rest", [x, y]),
        "Mod" if !float => Expr::heavy("modulo", [x, y]),
        "And" => Expr::infix("&&", x, y),
        "Equal" => Expr::infix("==", x, y),
        "Greater" => Expr::infix(">", x, y),
        "GreaterOrEqual" => Expr::infix(">=", x, y),
        "Less" => Expr::infix("<", x, y),
        "LessOrEqual" => Expr::infix("<=", x, y),
        "Where" => Expr::select(x, y, z),
        _ => return None,
    })
}

/// Operators on any number of operands.
fn many(op: &str, operands: usize) -> Option<Expr> {
    let join = |sum: Expr, operand: Expr| match op {
        "Max" => Expr::light("larger", [sum, operand]),
        "Min" => Expr::light("smaller", [sum, operand]),
        _ => sum + operand,
    };
    matches!(op, "Max" | "Min" | "Sum").then(|| (1..operands).map(Expr::Operand).fold(X, join))
}

fn power(base: DType, exponent: DType) -> Expr {
    let ty = computed(base);
    let both = |ty: &str| [X, Expr::Operand(1)].map(|operand| Expr::light(ty, [operand]));
    match (base.is_float(), exponent.is_float()) {
        (true, _) => Expr::heavy("power", [X, Expr::light(ty, [Expr::Operand(1)])]),
        (false, true) => Expr::light(&format!("truncated<{ty}>"), [Expr::heavy("pow", both("double"))]),
        (false, false) => Expr::light(ty, [Expr::heavy("power", both("i64"))]),
    }
}

fn cast(from: DType, to: DType) -> Expr {
    let ty = computed(to);
    // Rounded to the narrow type and back.
    let rounded = |to: &str, wide: Expr| Expr::light("to_float", [Expr::light(to, [wide])]);
    match to {
        DType::Bool => Expr::infix("!=", X, Expr::Literal("0".into())),
        _ if from == to => X,
        DType::F16 if from.is_float() && from != DType::F64 => rounded("to_f16", X),
        DType::F16 => rounded("to_f16", Expr::light("double", [X])),
        DType::BF16 => rounded("to_bf16", Expr::light("float", [X])),
        _ if from.is_float() && !to.is_float() => {
            Expr::light(&format!("truncated<{ty}>"), [Expr::light("double", [X])])
        }
        _ => Expr::light(ty, [X]),
    }
}
