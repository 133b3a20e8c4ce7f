//! The activation functions of recurrent layers.

use byoc_plugin_api::{Attribute, Error, Node};

/// A function with its numbers, by ONNX's formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Affine(f64, f64),
    Elu(f64),
    HardSigmoid(f64, f64),
    LeakyRelu(f64),
    Relu,
    ScaledTanh(f64, f64),
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu(f64),
}

impl Activation {
    /// The function of that name. Where the lists have numbers left, it takes those that it has; otherwise it has the defaults of the
    /// operator of its name, or changes nothing.
    fn named(
        name: &str,
        alphas: &mut impl Iterator<Item = f64>,
        betas: &mut impl Iterator<Item = f64>,
    ) -> Option<Activation> {
        let mut alpha = |default: f64| alphas.next().unwrap_or(default);
        let mut beta = |default: f64| betas.next().unwrap_or(default);
        // In any case, as onnxruntime takes them.
        Some(match name.to_ascii_lowercase().as_str() {
            "affine" => Activation::Affine(alpha(1.0), beta(0.0)),
            "elu" => Activation::Elu(alpha(1.0)),
            "hardsigmoid" => Activation::HardSigmoid(alpha(f64::from(0.2f32)), beta(0.5)),
            "leakyrelu" => Activation::LeakyRelu(alpha(f64::from(0.01f32))),
            "relu" => Activation::Relu,
            "scaledtanh" => Activation::ScaledTanh(alpha(1.0), beta(1.0)),
            "sigmoid" => Activation::Sigmoid,
            "softplus" => Activation::Softplus,
            "softsign" => Activation::Softsign,
            "tanh" => Activation::Tanh,
            "thresholdedrelu" => Activation::ThresholdedRelu(alpha(1.0)),
            _ => return None,
        })
    }

    /// Its value at `x`.
    pub(super) fn apply(self, x: f64) -> f64 {
        match self {
            Activation::Affine(alpha, beta) => alpha * x + beta,
            Activation::Elu(alpha) => {
                if x >= 0.0 {
                    x
                } else {
                    alpha * x.exp_m1()
                }
            }
            Activation::HardSigmoid(alpha, beta) => (alpha * x + beta).clamp(0.0, 1.0),
            Activation::LeakyRelu(alpha) => {
                if x >= 0.0 {
                    x
                } else {
                    alpha * x
                }
            }
            Activation::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Activation::ScaledTanh(alpha, beta) => alpha * (beta * x).tanh(),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            // log(1 + e^x), without an e^x that is too large.
            Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Activation::Softsign => x / (1.0 + x.abs()),
            Activation::Tanh => x.tanh(),
            Activation::ThresholdedRelu(alpha) => {
                if x >= alpha {
                    x
                } else {
                    0.0
                }
            }
        }
    }
}

/// The functions of all directions of a node, `count` of them.
pub(super) fn all(node: &Node, count: usize) -> Result<Vec<Activation>, Error> {
    // Core writes out what the nodes that it knows leave out.
    let usual = ["Sigmoid", "Tanh", "Tanh"].map(str::to_owned).into_iter().cycle().take(count).collect();
    let names = match node.attributes.get("activations") {
        Some(Attribute::Strings(names)) if !names.is_empty() => names,
        _ if super::is_dynamic(node) => &usual,
        _ => return Err(Error::new(format!("{} has no activations", node.op))),
    };
    if names.len() != count {
        return Err(Error::new(format!("{} has {} activations, expected {count}", node.op, names.len())));
    }
    let numbers = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Floats(numbers)) => numbers.iter().map(|&number| f64::from(number)).collect(),
        _ => Vec::new(),
    };
    let mut alphas = numbers("activation_alpha").into_iter();
    let mut betas = numbers("activation_beta").into_iter();
    let named = |name: &String| {
        let found = Activation::named(name, &mut alphas, &mut betas);
        found.ok_or_else(|| Error::new(format!("there is no activation '{name}'")))
    };
    names.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_take_the_numbers_that_they_have_in_order() {
        let names = ["Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Affine"].map(str::to_owned).to_vec();
        let attributes = [
            ("activations".to_owned(), Attribute::Strings(names)),
            ("activation_alpha".to_owned(), Attribute::Floats(vec![0.5, 0.25])),
            ("activation_beta".to_owned(), Attribute::Floats(vec![0.75])),
        ];
        let node = Node { op: "RNN".into(), attributes: attributes.into(), ..Node::default() };
        let expected = [
            Activation::Tanh,
            Activation::LeakyRelu(0.5),
            Activation::HardSigmoid(0.25, 0.75),
            Activation::Elu(1.0),
            Activation::Affine(1.0, 0.0),
        ];
        assert_eq!(all(&node, 5), Ok(expected.to_vec()));
        assert_eq!(all(&node, 1).expect_err("too many").message, "RNN has 5 activations, expected 1");
    }

    #[test]
    fn functions_have_their_values() {
        let cases = [
            (Activation::Affine(2.0, 1.0), -3.0, -5.0),
            (Activation::HardSigmoid(0.5, 0.5), 3.0, 1.0),
            (Activation::LeakyRelu(0.1), -3.0, -0.3),
            (Activation::Relu, -3.0, 0.0),
            (Activation::ScaledTanh(2.0, 0.5), 2.0, 2.0 * 1f64.tanh()),
            (Activation::Softsign, -3.0, -0.75),
            (Activation::Softplus, 800.0, 800.0),
            (Activation::Elu(2.0), -1.0, 2.0 * ((-1f64).exp() - 1.0)),
            (Activation::ThresholdedRelu(1.0), 0.5, 0.0),
            (Activation::Sigmoid, 0.0, 0.5),
        ];
        for (function, x, y) in cases {
            assert!((function.apply(x) - y).abs() < 1e-12, "{function:?}");
        }
        assert!(Activation::Relu.apply(f64::NAN).is_nan());
    }
}
