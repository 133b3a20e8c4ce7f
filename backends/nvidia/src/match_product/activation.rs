//! Matches the activation: Relu, Gelu, SiLU, and GELU decomposed into several nodes as exporters write it.

use byoc_plugin_api::{DType, Refusal, RefusalCode};

use super::{Erf, Matcher, other};
use crate::product::Activation;

/// The largest difference between GELU with tanh and GELU with erf.
const DIFFERENCE: &str = "up to 4e-4";

/// A product of values and one number.
struct Factors {
    number: f64,
    values: Vec<usize>,
}

impl Matcher<'_> {
    /// The activation that makes `output`, and the value that it is applied to.
    pub(super) fn activation(&mut self, output: usize) -> Result<(Activation, usize), Refusal> {
        if let Some(node) = self.step(output, "Relu") {
            return Ok((Activation::Relu, node.input(0).ok_or_else(|| other("Relu has no input"))?));
        }
        if let Some(node) = self.step(output, "Gelu") {
            let activation = match (node.string("approximate", "none"), self.state.erf) {
                ("tanh", _) | (_, Erf::AsTanh) => Activation::GeluTanh,
                (_, Erf::Exact) => Activation::Gelu,
                (_, Erf::Refused) => {
                    let message = format!("GELU with erf; gelu-tanh=true approximates it with tanh ({DIFFERENCE} off)");
                    return Err(Refusal::new(RefusalCode::Attribute, message));
                }
            };
            return Ok((activation, node.input(0).ok_or_else(|| other("Gelu has no input"))?));
        }
        if self.producer(output).is_some_and(|node| node.op == "Mul") {
            if let Some(value) = self.silu(output) {
                return Ok((Activation::Silu, value));
            }
            return self.gelu(output).ok_or_else(|| other("a product of tensors that is not GELU"));
        }
        Ok((Activation::None, output))
    }

    /// `x` where `output` is `x` times the sigmoid of `x`.
    fn silu(&mut self, output: usize) -> Option<usize> {
        let node = self.producer(output).filter(|node| node.domain.is_empty() && self.state.silu)?;
        let (a, b) = (node.input(0)?, node.input(1)?);
        let of = |value: usize| self.producer(value).filter(|node| node.op == "Sigmoid").and_then(|node| node.input(0));
        let (x, gate) = if of(b) == Some(a) { (a, b) } else { (b, a) };
        (of(gate) == Some(x)).then(|| {
            self.mark(output);
            self.mark(gate);
            x
        })
    }

    /// `x` where `output` is `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, or `0.5 x (1 + erf(x / sqrt(2)))`; and
    /// which.
    fn gelu(&mut self, output: usize) -> Option<(Activation, usize)> {
        let dtype = self.region.values[output].dtype;
        let all = self.factors(output);
        let &[a, b] = all.values.as_slice() else { return None };
        let (x, gate) = if self.producer(a).is_some_and(|node| self.is_gate(node)) { (b, a) } else { (a, b) };
        let sum = self.step(gate, "Add")?;
        let (one, curve) = self.number_and_other(sum.input(0)?, sum.input(1)?)?;
        let (activation, fits) = if let Some(tanh) = self.step(curve, "Tanh") {
            (Activation::GeluTanh, self.is_cubic(tanh.input(0)?, x, dtype)?)
        } else {
            let erf = self.step(curve, "Erf").filter(|_| self.state.erf != Erf::Refused)?;
            let inner = self.factors(erf.input(0)?);
            let activation = if self.state.erf == Erf::Exact { Activation::Gelu } else { Activation::GeluTanh };
            (activation, inner.values == [x] && close(inner.number, std::f64::consts::FRAC_1_SQRT_2, dtype))
        };
        (fits && one == 1.0 && close(all.number, 0.5, dtype)).then_some((activation, x))
    }

    /// Whether a node may be the sum of 1 and tanh or erf.
    fn is_gate(&self, node: &byoc_plugin_api::Node) -> bool {
        let curve =
            |value: &usize| self.producer(*value).is_some_and(|node| matches!(node.op.as_str(), "Tanh" | "Erf"));
        node.op == "Add" && node.inputs.iter().flatten().any(curve)
    }

    /// Whether a value is `sqrt(2 / pi) (x + 0.044715 x^3)`.
    fn is_cubic(&mut self, value: usize, x: usize, dtype: DType) -> Option<bool> {
        let outer = self.factors(value);
        let &[sum] = outer.values.as_slice() else { return None };
        let sum = self.step(sum, "Add")?;
        let term = sum.inputs.iter().flatten().copied().find(|&input| input != x)?;
        let inner = self.factors(term);
        let shape = sum.inputs.contains(&Some(x)) && inner.values == [x, x, x];
        let numbers = close(outer.number, (2.0 / std::f64::consts::PI).sqrt(), dtype);
        Some(shape && numbers && close(inner.number, 0.044715, dtype))
    }

    /// A constant number and the value beside it, in either order.
    fn number_and_other(&mut self, a: usize, b: usize) -> Option<(f64, usize)> {
        match self.number(a) {
            Some(number) => Some((number, b)),
            None => Some((self.number(b)?, a)),
        }
    }

    /// A value as a flattened product of factors.
    fn factors(&mut self, value: usize) -> Factors {
        if let Some(number) = self.number(value) {
            return Factors { number, values: vec![] };
        }
        let node = self.producer(value).filter(|node| node.domain.is_empty());
        let operands = node.and_then(|node| Some((node, node.input(0)?, node.input(1)?)));
        match operands.map(|(node, a, b)| (node.op.as_str(), a, b)) {
            Some(("Mul", a, b)) => {
                self.mark(value);
                let (a, b) = (self.factors(a), self.factors(b));
                Factors { number: a.number * b.number, values: [a.values, b.values].concat() }
            }
            Some(("Div", a, b)) if self.number(b).is_some() => {
                self.mark(value);
                let by = self.number(b).unwrap_or(1.0);
                let a = self.factors(a);
                Factors { number: a.number / by, values: a.values }
            }
            Some(("Pow", a, b)) if self.number(b) == Some(3.0) => {
                self.mark(value);
                Factors { number: 1.0, values: vec![a; 3] }
            }
            _ => Factors { number: 1.0, values: vec![value] },
        }
    }
}

/// Exporters round their numbers in different ways, and to the type of the tensors.
fn close(a: f64, b: f64, dtype: DType) -> bool {
    let rounded = match dtype {
        DType::BF16 => 8e-3,
        DType::F16 => 1e-3,
        _ => 1e-4,
    };
    (a - b).abs() <= rounded * b.abs()
}
