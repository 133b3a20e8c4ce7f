//! Unary functions against f64.

use super::*;

/// erf by its Taylor series (small arguments) or the continued fraction of erfc (large ones).
fn erf(x: f64) -> f64 {
    let t = x.abs();
    let value = if t < 3.0 {
        let (mut term, mut sum) = (t, t);
        for n in 1..200 {
            term *= -t * t / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..60).rev().fold(t, |f, n| t + f64::from(n) / 2.0 / f);
        1.0 - (-t * t).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

fn reference(op: Unary, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    match op {
        Unary::Act(act) => match act {
            Activation::None => x,
            Activation::Relu => x.max(0.0),
            Activation::Clip { min, max } => x.max(f64::from(min)).min(f64::from(max)),
            Activation::LeakyRelu { alpha } => {
                if x < 0.0 {
                    f64::from(alpha) * x
                } else {
                    x
                }
            }
            Activation::Elu { alpha } => {
                if x < 0.0 {
                    f64::from(alpha) * x.exp_m1()
                } else {
                    x
                }
            }
            Activation::Sigmoid => sigmoid(x),
            Activation::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
            Activation::HardSwish { alpha, beta } => x * (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
            Activation::Silu => x * sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::GeluErf => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            Activation::GeluTanh => {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
            }
            Activation::Softplus => softplus(x),
            Activation::Mish => x * softplus(x).tanh(),
        },
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Erf => erf(x),
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Square => x * x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sign => {
            if x == 0.0 {
                0.0
            } else {
                x.signum()
            }
        }
    }
}

/// Operators with their tolerances: relative, absolute.
const OPS: &[(Unary, f64, f64)] = &[
    (Unary::Act(Activation::None), 0.0, 0.0),
    (Unary::Act(Activation::Relu), 0.0, 0.0),
    (Unary::Act(Activation::Clip { min: -1.5, max: 2.25 }), 0.0, 0.0),
    (Unary::Act(Activation::LeakyRelu { alpha: 0.125 }), 0.0, 0.0),
    (Unary::Act(Activation::Elu { alpha: 1.5 }), 1e-6, 0.0),
    (Unary::Act(Activation::Sigmoid), 4e-7, 1e-37),
    (Unary::Act(Activation::HardSigmoid { alpha: 0.25, beta: 0.5 }), 1e-6, 1e-7),
    (Unary::Act(Activation::HardSwish { alpha: 0.25, beta: 0.5 }), 1e-6, 1e-7),
    (Unary::Act(Activation::Silu), 4e-7, 1e-35),
    (Unary::Act(Activation::Tanh), 4e-7, 0.0),
    (Unary::Act(Activation::GeluErf), 5e-7, 5e-7),
    (Unary::Act(Activation::GeluTanh), 5e-7, 1e-6),
    (Unary::Act(Activation::Softplus), 5e-7, 1e-37),
    (Unary::Act(Activation::Mish), 1e-6, 1e-35),
    (Unary::Exp, 3e-7, 1e-37),
    (Unary::Log, 2e-7, 0.0),
    (Unary::Sqrt, 1e-7, 0.0),
    (Unary::Rsqrt, 2e-7, 0.0),
    (Unary::Reciprocal, 1e-7, 0.0),
    (Unary::Erf, 4e-7, 0.0),
    (Unary::Abs, 0.0, 0.0),
    (Unary::Neg, 0.0, 0.0),
    (Unary::Square, 1e-7, 0.0),
    (Unary::Sin, 2e-7, 1e-9),
    (Unary::Cos, 2e-7, 1e-9),
    (Unary::Tan, 2e-7, 1e-9),
    (Unary::Floor, 0.0, 0.0),
    (Unary::Ceil, 0.0, 0.0),
    (Unary::Round, 0.0, 0.0),
    (Unary::Sign, 0.0, 0.0),
];

#[test]
fn against_f64() {
    let mut x: Vec<f32> = (-30_000..=30_000).map(|i| i as f32 / 300.0).collect();
    x.extend((1..200).map(|i| 1.5f32.powi(-i % 80)));
    x.extend([1e-30, -1e-30, 88.7, -87.3, -103.0, 0.5, -0.5, 2.5, -2.5, 0.927_734_4, 0.55]);
    for &(op, relative, absolute) in OPS {
        for &isa in Isa::available() {
            for threads in [Threads::with_isa(1, isa), Threads::with_isa(2, isa)] {
                let mut y = vec![0.0; x.len()];
                unary(&threads, op, &x, &mut y);
                for (x, y) in x.iter().zip(&y) {
                    let (want, got) = (reference(op, f64::from(*x)), f64::from(*y));
                    let exact = got == want || got == f64::from(want as f32) || got.is_nan() && want.is_nan();
                    let error = (got - want).abs();
                    assert!(exact || error <= relative * want.abs() + absolute, "{op:?} {isa:?} {x}: {got} for {want}");
                }
                let mut z = x.clone();
                unary_inplace(&threads, op, &mut z);
                assert!(z.iter().zip(&y).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
}

#[test]
fn limits_and_nan() {
    for &(op, ..) in OPS {
        for &isa in Isa::available() {
            let mut y = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, 0.0];
            let x = y;
            unary_inplace(&Threads::with_isa(1, isa), op, &mut y);
            assert!(y[0].is_nan(), "{op:?} {isa:?}: NaN becomes {}", y[0]);
            // Where the limit is a product of 0 and infinity, or a function has none, anything is allowed.
            let loose = matches!(op, Unary::Sin | Unary::Cos | Unary::Tan);
            for (x, y) in x.iter().zip(&y).skip(1) {
                let want = reference(op, f64::from(*x)) as f32;
                let close = (y - want).abs() <= 1e-6 * want.abs();
                assert!(loose || want.is_nan() || close || *y == want, "{op:?} {isa:?} {x}: {y} for {want}");
            }
        }
    }
}
