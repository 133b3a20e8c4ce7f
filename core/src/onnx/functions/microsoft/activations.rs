//! Activations, alone and with a bias, and those that other operators end with.

use byoc_plugin_api::Attribute;

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use crate::diagnostic::Result;

/// `Gelu(X)` by the error function.
pub(in super::super) fn gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    Ok(vec![body.op("Gelu", [&call.input(0)?])])
}

/// `Gelu(A + B)` by the error function.
pub(in super::super) fn bias_gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let sum = body.op("Add", [&call.input(0)?, &call.input(1)?]);
    Ok(vec![body.op("Gelu", [&sum])])
}

/// `Gelu(X + bias)` by the hyperbolic tangent.
pub(in super::super) fn fast_gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let mut x = call.input(0)?;
    if let Some(bias) = call.optional(1) {
        x = body.op("Add", [&x, &bias]);
    }
    Ok(vec![by_tangent(body, &x)])
}

/// `Gelu(X W + bias)` by the hyperbolic tangent.
pub(in super::super) fn gemm_fast_gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let mut x = body.op("MatMul", [&call.input(0)?, &call.input(1)?]);
    if let Some(bias) = call.optional(2) {
        x = body.op("Add", [&x, &bias]);
    }
    Ok(vec![by_tangent(body, &x)])
}

fn by_tangent(body: &mut Body, x: &Value) -> Value {
    body.with("Gelu", [x], &[("approximate", Attribute::String("tanh".into()))])
}

/// `X * sigmoid(alpha * X)`, by operators that every backend has kernels for.
pub(in super::super) fn quick_gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, alpha) = (call.input(0)?, call.float("alpha"));
    let factor = body.number(alpha, &x);
    let scaled = if alpha == 1.0 { x.clone() } else { body.op("Mul", [&x, &factor]) };
    let gate = body.op("Sigmoid", [&scaled]);
    Ok(vec![body.op("Mul", [&x, &gate])])
}

/// `a * Gelu(b)`, where a and b are the halves of `X + bias` along the last axis.
pub(in super::super) fn bias_split_gelu(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let sum = body.op("Add", [&call.input(0)?, &call.input(1)?]);
    let attributes = [("axis", Attribute::Int(-1)), ("num_outputs", Attribute::Int(2))];
    let halves = body.many("Split", &[sum], &attributes, 2);
    let gate = body.op("Gelu", [&halves[1]]);
    Ok(vec![body.op("Mul", [&halves[0], &gate])])
}

/// `X + bias + skip`.
pub(in super::super) fn bias_add(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let sum = body.op("Add", [&call.input(0)?, &call.input(1)?]);
    Ok(vec![body.op("Add", [&sum, &call.input(2)?])])
}

/// The activations that end `FusedGemm`, with the parameters that each takes.
const OF_GEMM: &[(&str, &[&str])] = &[
    ("Celu", &["alpha"]),
    ("Elu", &["alpha"]),
    ("HardSigmoid", &["alpha", "beta"]),
    ("LeakyRelu", &["alpha"]),
    ("Relu", &[]),
    ("Selu", &["alpha", "gamma"]),
    ("Sigmoid", &[]),
    ("Softplus", &[]),
    ("Softsign", &[]),
    ("Tanh", &[]),
    ("ThresholdedRelu", &["alpha"]),
];

/// The activation that the attributes `activation` and `activation_alpha`, `_beta` and `_gamma` name. It must be there.
pub(super) fn of_gemm(body: &mut Body, call: &Call, x: &Value) -> Result<Value> {
    let name = call.text("activation");
    let Some((name, taken)) = OF_GEMM.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(name, &OF_GEMM.iter().map(|(name, _)| *name).collect::<Vec<_>>()));
    };
    let mut attributes = Vec::new();
    for parameter in ["alpha", "beta", "gamma"] {
        let attribute = format!("activation_{parameter}");
        match (taken.contains(&parameter), call.optional_float(&attribute)) {
            (true, Some(value)) => attributes.push((parameter, Attribute::Float(value))),
            (true, None) => return Err(bad(format!("attribute '{attribute}' is missing"))),
            // onnxruntime's optimisers write none that is not read.
            (false, Some(_)) => return Err(bad(format!("attribute '{attribute}' has no meaning for {name}"))),
            (false, None) => {}
        }
    }
    Ok(body.with(name, [x], &attributes))
}

/// The activations that end `FusedConv`, with how many parameters each takes.
const OF_CONV: &[(&str, &[&str])] = &[
    ("Clip", &["min", "max"]),
    ("HardSigmoid", &["alpha", "beta"]),
    ("HardSwish", &[]),
    ("LeakyRelu", &["alpha"]),
    ("Relu", &[]),
    ("Sigmoid", &[]),
    ("Tanh", &[]),
];

/// The activation that the attributes `activation` and `activation_params` name, if there is one.
pub(super) fn of_conv(body: &mut Body, call: &Call, x: &Value) -> Result<Value> {
    let (name, given) = (call.text("activation"), call.floats("activation_params"));
    if name.is_empty() && given.is_empty() {
        return Ok(x.clone());
    }
    let Some((name, parameters)) = OF_CONV.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(name, &OF_CONV.iter().map(|(name, _)| *name).collect::<Vec<_>>()));
    };
    if given.len() != parameters.len() {
        let (found, expected) = (given.len(), parameters.len());
        return Err(bad(format!("attribute 'activation_params' has {found} numbers, expected {expected} for {name}")));
    }
    if *name == "Clip" {
        let [low, high] = [0, 1].map(|index| body.number(given[index], x));
        return Ok(body.op("Clip", [x, &low, &high]));
    }
    let values = given.iter().map(|&value| Attribute::Float(value));
    Ok(body.with(name, [x], &parameters.iter().copied().zip(values).collect::<Vec<_>>()))
}

fn unknown(name: &str, known: &[&str]) -> crate::diagnostic::Diagnostic {
    bad(format!("attribute 'activation' is '{name}', expected one of {}", known.join(", ")))
}
