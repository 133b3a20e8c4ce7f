//! Elementwise operators.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode};

use super::{Lowering, refused};
use crate::ir::{Def, computed, number, wide};

impl Lowering<'_> {
    /// Lowers the node if it is one of these.
    pub(super) fn elements(&mut self, node: &Node) -> Result<bool, Refusal> {
        let Some(&dtype) = node.input(0).map(|value| &self.region.values[value].dtype) else { return Ok(false) };
        let text = match node.op.as_str() {
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
                Some(text) => text,
                None => return Ok(false),
            },
        };
        let operands = self.operands(node)?;
        let outside = operands.iter().any(|&operand| self.dtype(operand) == DType::Bool) && !takes_bool(&node.op);
        if outside {
            return Err(refused(RefusalCode::Type, format!("{} does not take bool", node.op)));
        }
        self.give(node, 0, Def::Each(text, operands));
        Ok(true)
    }

    fn clip(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let (mut text, mut operands) = ("{0}".to_owned(), vec![x]);
        for (input, function) in [(1, "larger"), (2, "smaller")] {
            if let Some(bound) = self.optional(node, input)? {
                text = format!("{function}({text}, {{{}}})", operands.len());
                let bound = self.scalar(bound);
                operands.push(bound);
            }
        }
        self.give(node, 0, Def::Each(text, operands));
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
        let epsilon = number(node.float("epsilon", 1e-5).into(), dtype);
        let sqrt = function("sqrt", dtype);
        let text = format!("({{0}} - {{3}}) * ({{1}} / {sqrt}({{4}} + {epsilon})) + {{2}}");
        self.give(node, 0, Def::Each(text, operands));
        Ok(true)
    }
}

fn takes_bool(op: &str) -> bool {
    matches!(op, "And" | "Not" | "Where" | "Equal" | "Cast")
}

/// The function of that name for elements of a type.
pub(super) fn function(name: &str, dtype: DType) -> String {
    if wide(dtype) == DType::F32 { format!("{name}f") } else { name.to_owned() }
}

fn unary(node: &Node, dtype: DType) -> Option<String> {
    let ty = computed(dtype);
    let float = |name: &str| dtype.is_float().then(|| format!("{}({{0}})", function(name, dtype)));
    let attribute = |name: &str, default: f32| number(node.float(name, default).into(), dtype);
    let literal = |value: f64| number(value, dtype);
    let clamped = |text: &str| format!("smaller(larger({text}, {}), {})", literal(0.0), literal(1.0));
    Some(match node.op.as_str() {
        "Sqrt" | "Exp" | "Log" | "Sin" | "Cos" | "Erf" | "Tanh" => return float(&node.op.to_lowercase()),
        "Abs" => "absolute({0})".into(),
        "Neg" if dtype.is_float() => "-{0}".into(),
        "Neg" => format!("subtract({ty}(0), {{0}})"),
        "Relu" => format!("larger({{0}}, {ty}(0))"),
        "Not" => "!{0}".into(),
        "IsNaN" => "{0} != {0}".into(),
        _ if !dtype.is_float() => return None,
        "Reciprocal" => format!("{} / {{0}}", literal(1.0)),
        "Sigmoid" => "sigmoid({0})".into(),
        "Softplus" => "softplus({0})".into(),
        "Swish" => format!("{{0}} * sigmoid({} * {{0}})", attribute("alpha", 1.0)),
        "Mish" => format!("{{0}} * {}(softplus({{0}}))", function("tanh", dtype)),
        "Elu" => {
            let (alpha, expm1) = (attribute("alpha", 1.0), function("expm1", dtype));
            format!("{{0}} < {ty}(0) ? {alpha} * {expm1}({{0}}) : {{0}}")
        }
        "LeakyRelu" => format!("{{0}} < {ty}(0) ? {} * {{0}} : {{0}}", attribute("alpha", 0.01)),
        "HardSigmoid" => clamped(&format!("{} * {{0}} + {}", attribute("alpha", 0.2), attribute("beta", 0.5))),
        "HardSwish" => format!("{{0}} * {}", clamped(&format!("{{0}} / {} + {}", literal(6.0), literal(0.5)))),
        "Gelu" => gelu(node.string("approximate", "none"), dtype)?,
        _ => return None,
    })
}

fn gelu(approximate: &str, dtype: DType) -> Option<String> {
    let literal = |value: f64| number(value, dtype);
    let (half, one) = (literal(0.5), literal(1.0));
    match approximate {
        "none" => {
            let scale = literal(std::f64::consts::FRAC_1_SQRT_2);
            Some(format!("{half} * {{0}} * ({one} + {}({{0}} * {scale}))", function("erf", dtype)))
        }
        "tanh" => {
            let (scale, cube) = (literal((2.0 / std::f64::consts::PI).sqrt()), literal(0.044715));
            let inner = format!("{scale} * ({{0}} + {cube} * {{0}} * {{0}} * {{0}})");
            Some(format!("{half} * {{0}} * ({one} + {}({inner}))", function("tanh", dtype)))
        }
        _ => None,
    }
}

fn binary(node: &Node, dtype: DType) -> Option<String> {
    let float = dtype.is_float();
    let either = |sign: &str, function: &str| {
        if float { format!("{{0}} {sign} {{1}}") } else { format!("{function}({{0}}, {{1}})") }
    };
    Some(match node.op.as_str() {
        "Add" => either("+", "add"),
        "Sub" => either("-", "subtract"),
        "Mul" => either("*", "multiply"),
        "Div" => either("/", "divide"),
        "Mod" if node.int("fmod", 0) != 0 => "rest({0}, {1})".into(),
        "Mod" if !float => "modulo({0}, {1})".into(),
        "And" => "{0} && {1}".into(),
        "Equal" => "{0} == {1}".into(),
        "Greater" => "{0} > {1}".into(),
        "GreaterOrEqual" => "{0} >= {1}".into(),
        "Less" => "{0} < {1}".into(),
        "LessOrEqual" => "{0} <= {1}".into(),
        "Where" => "{0} ? {1} : {2}".into(),
        _ => return None,
    })
}

/// Operators on any number of operands.
fn many(op: &str, operands: usize) -> Option<String> {
    let join = |text: String, index: usize| match op {
        "Max" => format!("larger({text}, {{{index}}})"),
        "Min" => format!("smaller({text}, {{{index}}})"),
        _ => format!("{text} + {{{index}}}"),
    };
    matches!(op, "Max" | "Min" | "Sum").then(|| (1..operands).fold("{0}".to_owned(), join))
}

fn power(base: DType, exponent: DType) -> String {
    let ty = computed(base);
    match (base.is_float(), exponent.is_float()) {
        (true, _) => format!("power({{0}}, {ty}({{1}}))"),
        (false, true) => format!("truncated<{ty}>(pow(double({{0}}), double({{1}})))"),
        (false, false) => format!("{ty}(power(i64({{0}}), i64({{1}})))"),
    }
}

fn cast(from: DType, to: DType) -> String {
    let ty = computed(to);
    match to {
        DType::Bool => "{0} != 0".into(),
        _ if from == to => "{0}".into(),
        DType::F16 if from.is_float() && from != DType::F64 => "to_float(to_f16({0}))".into(),
        DType::F16 => "to_float(to_f16(double({0})))".into(),
        DType::BF16 => "to_float(to_bf16(float({0})))".into(),
        _ if from.is_float() && !to.is_float() => format!("truncated<{ty}>(double({{0}}))"),
        _ => format!("{ty}({{0}})"),
    }
}
