//! Tests of quantisation.

mod add;
mod convolutions;
mod curves;
mod ranges;
mod refusals;

use byoc_plugin_api::testing::Rng;

use crate::quantize::Activation;

/// One of each kind, with several parameters.
fn activations() -> Vec<Activation> {
    vec![
        Activation::Linear,
        Activation::Relu,
        Activation::Clip { min: 0.0, max: 6.0 },
        Activation::Clip { min: -0.7, max: 1.3 },
        Activation::Clip { min: f32::NEG_INFINITY, max: 0.25 },
        Activation::Clip { min: f32::MIN, max: f32::MAX },
        Activation::LeakyRelu { slope: 0.1 },
        Activation::LeakyRelu { slope: 0.01 },
        Activation::LeakyRelu { slope: 1.5 },
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Elu { alpha: 1.0 },
        Activation::Elu { alpha: 0.3 },
        Activation::Selu { alpha: 1.673_263_2, gamma: 1.050_701 },
        Activation::Softplus,
    ]
}

/// How far, in steps, the lines of a curved function may be off: see the documentation of `quantize::fit::curve`.
fn of_lines(activation: Activation) -> f64 {
    match activation {
        Activation::Sigmoid | Activation::Tanh => 0.44,
        _ if activation.pieces().is_none() => 0.33,
        _ => 0.0,
    }
}

/// Normally distributed.
fn normal(random: &mut Rng) -> f64 {
    (-2.0 * random.f64().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}
