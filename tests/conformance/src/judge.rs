//! How near a result has to be to that of the reference kernels: by element, or, where a backend computes with fewer bits
//! than the model has, by the noise in the whole tensor.

use byoc_plugin_api::DType;

use crate::bench::{Bench, Source};
use crate::tensor::{Tensor, Tolerance, compare};

/// Least ratio of signal to noise of a backend with `calibration`, in dB: a tenth of the amplitude may be noise.
const LEAST_RATIO: f64 = 20.0;

/// What difference is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowed {
    /// Of every element.
    Difference(Tolerance),
    /// Of the tensor: the ratio of signal to noise is at least this, in dB. Integers and booleans must be equal.
    Noise(f64),
}

/// Compares an output with what is expected; the error says what differs.
pub(crate) fn judge(bench: &Bench, source: &Source, found: &Tensor, expected: &Tensor) -> Result<(), String> {
    let usual = || match bench.is_calibrated() {
        true => Allowed::Noise(LEAST_RATIO),
        false => Allowed::Difference(tolerance(expected.dtype)),
    };
    match source.allowed.unwrap_or_else(usual) {
        Allowed::Difference(tolerance) => compare(found, expected, tolerance),
        Allowed::Noise(least) => is_quiet(found, expected, least),
    }
}

fn is_quiet(found: &Tensor, expected: &Tensor, least: f64) -> Result<(), String> {
    let Err(reason) = compare(found, expected, Tolerance::EXACT) else { return Ok(()) };
    if !expected.dtype.is_float() || (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        return Err(reason);
    }
    match ratio(found, expected) {
        enough if enough >= least => Ok(()),
        // NaN, where a value is not finite, is too little as well.
        ratio => Err(format!("the signal is {ratio:.1} dB above the noise, not {least:.1}: {reason}")),
    }
}

/// Ratio of signal to noise in dB: 10 log10 of the sum of the squares of what is expected over that of the differences.
fn ratio(found: &Tensor, expected: &Tensor) -> f64 {
    let signal: f64 = expected.floats().map(|value| value * value).sum();
    let noise: f64 = found.floats().zip(expected.floats()).map(|(a, b)| (a - b) * (a - b)).sum();
    10.0 * (signal / noise).log10()
}

/// A few units in the last place of the type, with room for sums that are added up in another order: those of
/// `byoc verify`.
fn tolerance(dtype: DType) -> Tolerance {
    let (absolute, relative) = match dtype {
        DType::F32 | DType::F64 => (1e-5, 1e-3),
        DType::F16 => (1e-3, 1e-2),
        DType::BF16 => (1e-2, 5e-2),
        _ => (0.0, 0.0),
    };
    Tolerance { relative, absolute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_measured_over_the_tensor() {
        let ratio = |found: &[f32], expected: &[f32]| ratio(&Tensor::f32(&[2], found), &Tensor::f32(&[2], expected));
        assert!((ratio(&[11.0, 0.0], &[10.0, 0.0]) - 20.0).abs() < 1e-9);
        assert!((ratio(&[3.0, 4.05], &[3.0, 4.0]) - 40.0).abs() < 1e-4);
        assert_eq!(ratio(&[0.1, 0.0], &[0.0, 0.0]), f64::NEG_INFINITY);
        assert!(ratio(&[f32::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert_eq!(ratio(&[f32::INFINITY, 1.0], &[1.0, 1.0]), f64::NEG_INFINITY);
    }
}
