//! Operators of the domain `ai.onnx.preview.training`: steps of optimisers.

use byoc_plugin_api::DType;

use super::attributes::{List, float, float_or, string_or};
use super::infer::{bad, mismatch};
use super::{ANY, Infer, OpDef};
use crate::diagnostic::Result;

/// The name of the domain.
pub const DOMAIN: &str = "ai.onnx.preview.training";

const fn optimiser(name: &'static str, attributes: List, infer: super::InferRule) -> OpDef {
    OpDef { domain: DOMAIN, ..OpDef::new(name, 1, (3, ANY), infer) }.outputs(ANY).attributes(attributes)
}

/// Every one of them that core knows, by name.
pub static OPS: &[OpDef] = &[
    optimiser("Adagrad", ADAGRAD, one_state),
    optimiser("Adam", ADAM, two_states),
    optimiser("Momentum", MOMENTUM, momentum),
];

const ADAGRAD: List = &[float_or("decay_factor", 0.0), float_or("epsilon", 1e-6), float_or("norm_coefficient", 0.0)];
const ADAM: List = &[
    float_or("alpha", 0.9),
    float_or("beta", 0.999),
    float_or("epsilon", 1e-6),
    float_or("norm_coefficient", 0.0),
    float_or("norm_coefficient_post", 0.0),
];
const MOMENTUM: List = &[
    float("alpha").required(),
    float("beta").required(),
    string_or("mode", "standard").required(),
    float("norm_coefficient").required(),
];

fn one_state(infer: &mut Infer<'_>) -> Result<()> {
    step(infer, 1)
}

fn two_states(infer: &mut Infer<'_>) -> Result<()> {
    step(infer, 2)
}

fn momentum(infer: &mut Infer<'_>) -> Result<()> {
    for name in ["alpha", "beta", "mode", "norm_coefficient"] {
        if !infer.node.attributes.contains_key(name) {
            return Err(bad(format!("attribute '{name}' is missing")));
        }
    }
    infer.choice("mode", &["standard", "nesterov"])?;
    step(infer, 1)
}

/// The rate, how many steps were made, then all tensors, all gradients and all states, which come out new but for the
/// gradients.
fn step(infer: &mut Infer<'_>, states: usize) -> Result<()> {
    const REAL: &[DType] = &[DType::F32, DType::F64];
    for (index, types) in [(0, REAL), (1, &[DType::I64])] {
        let ty = infer.typed(index, types)?;
        if ty.shape.iter().any(|size| size.fixed().is_some_and(|size| size != 1)) {
            return Err(mismatch(format!("input {index} is {ty}, expected one element")));
        }
    }
    let (each, tensors) = (2 + states, infer.inputs.len() - 2);
    if tensors % each != 0 {
        return Err(bad(format!("has {tensors} inputs behind the first two, expected {each} for each tensor")));
    }
    let count = tensors / each;
    if infer.outputs.len() != count * (1 + states) {
        return Err(bad(format!("has {} outputs, expected {}", infer.outputs.len(), count * (1 + states))));
    }
    for index in 0..count {
        let x = infer.typed(2 + index, REAL)?;
        for part in 1..each {
            let position = 2 + part * count + index;
            let other = infer.typed(position, REAL)?;
            let differ = |(a, b): (&byoc_plugin_api::Dim, &byoc_plugin_api::Dim)| {
                a.fixed().zip(b.fixed()).is_some_and(|(a, b)| a != b)
            };
            if other.dtype != x.dtype
                || other.shape.len() != x.shape.len()
                || other.shape.iter().zip(&x.shape).any(differ)
            {
                return Err(mismatch(format!("input {position} is {other}, and the tensor that it is for {x}")));
            }
        }
        for part in 0..=states {
            infer.set(part * count + index, x.dtype, x.shape.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const STEPS: &[Case] = &[
        ("ai.onnx.preview.training.Adagrad", "", "f32[] i64[] f32[2] f32[2] f32[2]", "f32[2] f32[2]"),
        (
            "ai.onnx.preview.training.Adam",
            "",
            "f32[] i64[] f32[2] f64[3] f32[2] f64[3] f32[2] f64[3] f32[2] f64[3]",
            "f32[2] f64[3] f32[2] f64[3] f32[2] f64[3]",
        ),
        (
            "ai.onnx.preview.training.Adagrad",
            "",
            "f32[] i64[] f32[2] f32[2]",
            "[B106] has 2 inputs behind the first two, expected 3 for each tensor",
        ),
        (
            "ai.onnx.preview.training.Adagrad",
            "",
            "f32[] i64[] f32[2] f32[2] f32[3]",
            "[B106] has 1 outputs, expected 2",
        ),
        ("ai.onnx.preview.training.Adam", "", "f32[2] i64[] f32[2]", "[B202] input 0 is f32[2], expected one element"),
        (
            "ai.onnx.preview.training.Momentum",
            "mode=standard",
            "f32[] i64[] f32[2]",
            "[B106] attribute 'alpha' is missing",
        ),
    ];

    #[test]
    fn steps() {
        check(STEPS);
    }
}
