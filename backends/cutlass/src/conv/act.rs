//! Elementwise functions: matched in a region, and as CUDA C++.

use byoc_plugin_api::{Node, Refusal, RefusalCode, Region};

use super::net::{Act, Pair};

impl Act {
    /// The function of a node, and the constants that are its parameters. `None` if the node is not elementwise.
    pub(super) fn read(region: &Region, node: &Node) -> Option<Result<(Act, Vec<usize>), Refusal>> {
        let act = match node.op.as_str() {
            "Relu" => Act::Relu,
            "Clip" => return Some(clip(region, node)),
            "Sigmoid" => Act::Sigmoid,
            "HardSigmoid" => Act::HardSigmoid(node.float("alpha", 0.2), node.float("beta", 0.5)),
            "HardSwish" => Act::HardSwish,
            "LeakyRelu" => Act::LeakyRelu(node.float("alpha", 0.01)),
            "Tanh" => Act::Tanh,
            _ => return None,
        };
        let finite = [act.numbers()[0], act.numbers()[1]].iter().all(|number| number.is_finite());
        let odd = || Refusal::new(RefusalCode::Attribute, format!("'{}' has a number that is not finite", node.name));
        Some(if finite { Ok((act, Vec::new())) } else { Err(odd()) })
    }

    /// An expression of the float `x`. NaN stays NaN. Sigmoids use the fast division: within 2 ulp, and 0 if the divisor is
    /// above 2^126.
    pub(super) fn text(self) -> String {
        let [a, b] = self.numbers().map(literal);
        match self {
            Act::Relu => "x < 0.f ? 0.f : x".into(),
            Act::Clip(..) => {
                // The upper bound wins if it is below the lower one, as in ONNX.
                let raised = format!("(x < {a} ? {a} : x)");
                format!("{raised} > {b} ? {b} : {raised}")
            }
            Act::Sigmoid => "__fdividef(1.f, 1.f + __expf(-x))".into(),
            Act::Silu => "__fdividef(x, 1.f + __expf(-x))".into(),
            Act::HardSigmoid(..) => {
                let line = format!("{a} * x + {b}");
                format!("{line} < 0.f ? 0.f : {line} > 1.f ? 1.f : {line}")
            }
            Act::HardSwish => "x < -3.f ? 0.f : x > 3.f ? x : x * (x + 3.f) / 6.f".into(),
            Act::LeakyRelu(_) => format!("x < 0.f ? {a} * x : x"),
            Act::Tanh => "tanhf(x)".into(),
        }
    }

    /// A part of an identifier, unique for the function.
    pub(super) fn name(self) -> String {
        let [a, b] = self.numbers().map(|number| format!("{:08x}", number.to_bits()));
        match self {
            Act::Relu => "relu".into(),
            Act::Clip(..) => format!("clip_{a}_{b}"),
            Act::Sigmoid => "sigmoid".into(),
            Act::Silu => "silu".into(),
            Act::HardSigmoid(..) => format!("hardsigmoid_{a}_{b}"),
            Act::HardSwish => "hardswish".into(),
            Act::LeakyRelu(_) => format!("leakyrelu_{a}"),
            Act::Tanh => "tanh".into(),
        }
    }

    fn numbers(self) -> [f32; 2] {
        match self {
            Act::Clip(a, b) | Act::HardSigmoid(a, b) => [a, b],
            Act::LeakyRelu(a) => [a, 0.0],
            Act::Relu | Act::Sigmoid | Act::Silu | Act::HardSwish | Act::Tanh => [0.0; 2],
        }
    }
}

impl Pair {
    /// The function of a node, if it is one of two operands.
    pub(super) fn read(node: &Node) -> Option<Pair> {
        match node.op.as_str() {
            "Add" => Some(Pair::Add),
            "Sum" if node.inputs.len() == 2 => Some(Pair::Add),
            "Mul" => Some(Pair::Mul),
            _ => None,
        }
    }

    /// An expression of the floats `x` and `y`.
    pub(super) fn text(self) -> &'static str {
        match self {
            Pair::Add => "x + y",
            Pair::Mul => "x * y",
        }
    }

    /// As in an identifier.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pair::Add => "add",
            Pair::Mul => "mul",
        }
    }
}

/// A number as an exact C++ literal.
fn literal(number: f32) -> String {
    format!("{number:e}f")
}

/// Absent bounds are the lowest and the largest number of the type.
fn clip(region: &Region, node: &Node) -> Result<(Act, Vec<usize>), Refusal> {
    let mut numbers = Vec::new();
    let mut bounds = [f32::MIN, f32::MAX];
    for (position, bound) in bounds.iter_mut().enumerate() {
        let Some(value) = node.input(position + 1) else { continue };
        let elements = region.constant_floats(value).unwrap_or_default();
        let &[number] = elements.as_slice() else {
            let message = format!("a bound of '{}' is not a constant number", node.name);
            return Err(Refusal::new(RefusalCode::ConstantNeeded, message));
        };
        *bound = (number as f32).clamp(f32::MIN, f32::MAX);
        numbers.push(value);
    }
    if bounds.iter().any(|bound| bound.is_nan()) {
        let message = format!("a bound of '{}' is not a number", node.name);
        return Err(Refusal::new(RefusalCode::Attribute, message));
    }
    Ok((Act::Clip(bounds[0], bounds[1]), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_back() {
        let expected = ["0e0f", "6e0f", "-1.5e0f", "1e-5f", "3.4028235e38f"];
        let found = [0.0, 6.0, -1.5, 1e-5, f32::MAX].map(literal);
        assert_eq!(found, expected);
    }
}
