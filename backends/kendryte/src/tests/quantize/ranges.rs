//! Chosen ranges against the values that were observed.

use byoc_plugin_api::Observed;

use byoc_plugin_api::testing::Rng;

use super::normal;
use crate::quantize::{Bins, Method, Quantization, choose, table};

const METHODS: [Method; 4] = [Method::MinMax, Method::Percentile, Method::L2, Method::Kl];

/// As core observes them.
fn observe(values: &[f32], bins: usize) -> Observed {
    let min = values.iter().copied().fold(f32::INFINITY, f32::min);
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut histogram = vec![0; bins];
    for value in values {
        let part = (f64::from(value - min) / f64::from(max - min) * bins as f64) as usize;
        histogram[part.min(bins - 1)] += 1;
    }
    Observed { value: 0, min, max, histogram }
}

/// Values of several distributions, with their names.
fn tensors() -> Vec<(&'static str, Vec<f32>)> {
    let mut random = Rng::with_seed(2);
    let mut draw = |function: &dyn Fn(&mut Rng) -> f64| -> Vec<f32> {
        (0..40_000).map(|_| function(&mut random) as f32).collect()
    };
    let laplace = |random: &mut Rng| -random.f64().max(1e-300).ln() * if random.bool() { 1.0 } else { -1.0 };
    let mut outliers = draw(&normal);
    (outliers[7], outliers[8]) = (40.0, -25.0);
    vec![
        ("normal", draw(&normal)),
        ("shifted", draw(&|random| normal(random) + 2.0)),
        ("relu", draw(&|random| normal(random).max(0.0))),
        ("laplace", draw(&laplace)),
        ("relu of laplace", draw(&|random| laplace(random).max(0.0))),
        ("uniform", draw(&|random| random.f64() * 3.0 - 1.0)),
        ("negative", draw(&|random| -random.f64() * 1e-6)),
        ("outliers", outliers),
        ("peaks", draw(&|random| normal(random).powi(5))),
    ]
}

/// Signal to noise as it is.
fn sqnr(values: &[f32], quantization: Quantization) -> f64 {
    let squares = |function: &dyn Fn(f32) -> f32| values.iter().map(|x| f64::from(function(*x)).powi(2)).sum::<f64>();
    let noise = squares(&|x| x - quantization.dequantize(quantization.quantize(x)));
    10.0 * (squares(&|x| x) / noise).log10()
}

#[test]
fn estimates_are_near_the_truth() {
    for (name, values) in tensors() {
        let observed = observe(&values, 2048);
        for method in METHODS {
            let choice = choose(&observed, method);
            let (estimate, truth) = (choice.sqnr, sqnr(&values, choice.quantization));
            assert!((estimate - truth).abs() < 0.3, "{name}, {method:?}: {estimate} and {truth}");
        }
        let minmax = choose(&observed, Method::MinMax);
        assert_eq!(minmax.sqnr, minmax.minmax_sqnr);
    }
}

/// Against every range of a fine grid.
#[test]
fn l2_finds_the_least_noise() {
    for (name, values) in tensors() {
        let observed = observe(&values, 2048);
        let bins = Bins::new(&observed);
        let (low, high) = (observed.min.min(0.0), observed.max.max(0.0));
        let grid = (0..64).map(|number| 0.93f32.powi(number));
        let ranges = grid.clone().flat_map(|a| grid.clone().map(move |b| Quantization::of(low * a, high * b)));
        let best = ranges.map(|quantization| bins.sqnr(quantization)).fold(f64::NEG_INFINITY, f64::max);
        let choice = choose(&observed, Method::L2);
        assert!(choice.sqnr >= best - 0.05, "{name}: {} of {best}", choice.sqnr);
        assert!(choice.sqnr >= choice.minmax_sqnr);
    }
}

/// Entropy calibration is meant for tensors with long tails; where there are none it must not cost much.
#[test]
fn kl_is_near_minmax_without_long_tails() {
    for (name, values) in tensors().into_iter().take(4) {
        let choice = choose(&observe(&values, 2048), Method::Kl);
        assert!(choice.sqnr > choice.minmax_sqnr - 1.0, "{name}: {choice:?}");
    }
    // Narrower levels than bins mean nothing: the whole range is kept.
    let (_, values) = tensors().swap_remove(7);
    let observed = observe(&values, 100);
    assert_eq!(choose(&observed, Method::Kl), choose(&observed, Method::MinMax));
}

#[test]
fn outliers_are_cut() {
    let (_, values) = tensors().swap_remove(7);
    let observed = observe(&values, 2048);
    let range = |method| choose(&observed, method).quantization.range();
    let (low, high) = range(Method::MinMax);
    assert!((low + 25.0).abs() < 0.2 && (high - 40.0).abs() < 0.2, "{low} {high}");
    for method in [Method::Percentile, Method::Kl] {
        let (low, high) = range(method);
        assert!((-6.0..-2.5).contains(&low) && (2.5..6.0).contains(&high), "{method:?}: {low} to {high}");
    }
    // 4 of 40,000 may go at each end.
    let mut observed = Observed { value: 0, min: -1.0, max: 1.0, histogram: vec![40_000 / 8; 8] };
    (observed.histogram[0], observed.histogram[7]) = (4, 5);
    let total: u64 = observed.histogram.iter().sum();
    observed.histogram[3] += 40_000 - total;
    assert_eq!(choose(&observed, Method::Percentile).quantization, Quantization::of(-0.75, 1.0));
}

#[test]
fn degenerate_observations() {
    let observed = |min, max, histogram: &[u64]| Observed { value: 0, min, max, histogram: histogram.to_vec() };
    let cases = [
        (observed(0.0, 0.0, &[]), Quantization { scale: 1.0, zero_point: 0 }),
        (observed(0.0, 0.0, &[7]), Quantization { scale: 1.0, zero_point: 0 }),
        (observed(0.0, 0.0, &[9; 2048]), Quantization { scale: 1.0, zero_point: 0 }),
        (observed(0.0, 1e-40, &[9; 16]), Quantization { scale: 1.0, zero_point: 0 }),
        (observed(5.1, 5.1, &[3]), Quantization { scale: 0.02, zero_point: 0 }),
        (observed(-5.1, -5.1, &[3, 0]), Quantization { scale: 0.02, zero_point: 255 }),
        (observed(-1.0, 4.1, &[]), Quantization { scale: 0.02, zero_point: 50 }),
        (observed(-1.0, 4.1, &[1]), Quantization { scale: 0.02, zero_point: 50 }),
    ];
    for (observed, expected) in cases {
        for method in METHODS {
            let choice = choose(&observed, method);
            assert!(!choice.sqnr.is_nan() && !choice.minmax_sqnr.is_nan(), "{observed:?} {method:?}");
            if method == Method::MinMax {
                let near = (choice.quantization.scale / expected.scale - 1.0).abs() < 1e-6;
                assert!(near && choice.quantization.zero_point == expected.zero_point, "{observed:?}: {choice:?}");
            }
        }
    }
    for (low, high) in [(f32::MIN, f32::MAX), (f32::NAN, f32::NAN), (f32::NEG_INFINITY, 1.0), (0.0, 1e-36)] {
        let found = Quantization::of(low, high);
        assert!(found.scale.is_normal() && (1.0 / found.scale).is_finite(), "{found:?}");
    }
}

#[test]
fn bytes_and_numbers() {
    let quantization = Quantization::of(-1.0, 3.0);
    assert_eq!((quantization.zero_point, quantization.quantize(0.0), quantization.dequantize(64)), (64, 64, 0.0));
    assert_eq!((quantization.quantize(-9.0), quantization.quantize(9.0), quantization.quantize(f32::NAN)), (0, 255, 0));
    assert!((0..=255).all(|byte| quantization.quantize(quantization.dequantize(byte)) == byte));
    let body = quantization.body();
    assert!(
        (0..=255u8).all(|byte| (f32::from(byte) * body.scale + body.bias - quantization.dequantize(byte)).abs() < 1e-6)
    );
}

#[test]
fn names_of_methods() {
    let named = ["minmax", "percentile", "l2", "kl"].map(|name| Method::parse(name).expect("known"));
    assert_eq!(named, METHODS);
    assert_eq!([Method::parse("no_clip"), Method::parse("cdf")], [Some(Method::MinMax), Some(Method::Percentile)]);
    assert_eq!(Method::parse("kld"), None);
}

/// Half way between two levels ONNX takes the even number of steps, and only then adds the zero point.
#[test]
fn halves_go_to_even_steps() {
    let (fine, coarse) = (Quantization { scale: 1.0, zero_point: 0 }, Quantization { scale: 2.0, zero_point: 1 });
    assert_eq!(table(fine, coarse, |x| x)[..8], [1, 1, 2, 3, 3, 3, 4, 5]);
    let reals = [-3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 511.0];
    assert_eq!(reals.map(|real| coarse.nearest(real)), [0, 1, 1, 1, 3, 3, 255]);
}
