//! Functions that a convolution's activation table or a table of bytes can hold.

/// What follows the affine part of a convolution: functions that never fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x`.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, min), max)`; either end may be infinite.
    Clip {
        /// Least value.
        min: f32,
        /// Greatest value.
        max: f32,
    },
    /// `x`, or `slope * x` below 0.
    LeakyRelu {
        /// At least 0.
        slope: f32,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid {
        /// At least 0.
        alpha: f32,
        /// Value at 0.
        beta: f32,
    },
    /// `x`, or `alpha * (exp(x) - 1)` below 0.
    Elu {
        /// At least 0.
        alpha: f32,
    },
    /// `gamma * x`, or `gamma * alpha * (exp(x) - 1)` below 0.
    Selu {
        /// At least 0.
        alpha: f32,
        /// At least 0.
        gamma: f32,
    },
    /// `ln(1 + exp(x))`.
    Softplus,
}

/// A straight part of a function: from here to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(super) from: f64,
    pub(super) slope: f64,
}

impl Activation {
    /// The value at `x`, which may be infinite.
    pub fn apply(&self, x: f64) -> f64 {
        let exponential = |alpha: f32| if x < 0.0 { f64::from(alpha) * x.exp_m1() } else { x };
        match *self {
            Activation::Linear => x,
            Activation::Relu => x.max(0.0),
            Activation::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
            Activation::LeakyRelu { slope: 0.0 } => x.max(0.0),
            Activation::LeakyRelu { slope } => x.max(0.0) + f64::from(slope) * x.min(0.0),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
            Activation::HardSigmoid { alpha: 0.0, beta } => f64::from(beta).clamp(0.0, 1.0),
            Activation::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
            Activation::Elu { alpha } => exponential(alpha),
            Activation::Selu { gamma: 0.0, .. } => 0.0,
            Activation::Selu { alpha, gamma } => f64::from(gamma) * exponential(alpha),
            Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        }
    }

    /// Whether its parameters are numbers with which it never falls. Tables hold only such functions: what the chip
    /// does with negative slopes is not known (kmodel v3, section 4).
    pub fn is_monotone(&self) -> bool {
        let rises = |factor: f32| factor.is_finite() && factor >= 0.0;
        match *self {
            Activation::Linear | Activation::Relu | Activation::Sigmoid | Activation::Tanh | Activation::Softplus => {
                true
            }
            Activation::Clip { min, max } => !min.is_nan() && !max.is_nan(),
            Activation::LeakyRelu { slope } => rises(slope),
            Activation::HardSigmoid { alpha, beta } => rises(alpha) && beta.is_finite(),
            Activation::Elu { alpha } => rises(alpha),
            Activation::Selu { alpha, gamma } => rises(alpha) && rises(gamma),
        }
    }

    /// Its straight parts, the first from minus infinity; none where it has curved ones.
    pub(crate) fn pieces(&self) -> Option<Vec<Piece>> {
        let pieces = |list: &[(f64, f64)]| Some(list.iter().map(|&(from, slope)| Piece { from, slope }).collect());
        let start = f64::NEG_INFINITY;
        match *self {
            Activation::Linear => pieces(&[(start, 1.0)]),
            Activation::Relu => pieces(&[(start, 0.0), (0.0, 1.0)]),
            Activation::Clip { min, max } if min >= max => pieces(&[(start, 0.0)]),
            Activation::Clip { min, max } => pieces(&[(start, 0.0), (min.into(), 1.0), (max.into(), 0.0)]),
            Activation::LeakyRelu { slope } => pieces(&[(start, slope.into()), (0.0, 1.0)]),
            Activation::HardSigmoid { alpha: 0.0, .. } => pieces(&[(start, 0.0)]),
            Activation::HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (f64::from(alpha), f64::from(beta));
                pieces(&[(start, 0.0), (-beta / alpha, alpha), ((1.0 - beta) / alpha, 0.0)])
            }
            Activation::Sigmoid
            | Activation::Tanh
            | Activation::Elu { .. }
            | Activation::Selu { .. }
            | Activation::Softplus => None,
        }
    }
}
