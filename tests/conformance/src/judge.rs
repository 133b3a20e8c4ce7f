//! How near a result has to be to that of the reference kernels: by element, or, where a backend computes with fewer bits
//! than the model has, by the noise in the whole tensor.

use byoc_plugin_api::{Allowance, DType};

use crate::bench::{Bench, Source};
use crate::tensor::{Tensor, Tolerance, compare};

/// Least ratio of signal to noise of a backend with `calibration`, in dB: a tenth of the amplitude may be noise.
const LEAST_RATIO: f64 = 20.0;

/// What difference is allowed where values lose bits in any arithmetic.
pub(crate) const COARSE: Allowance = Allowance::Elements { relative: 1e-3, absolute: 1e-4 };

/// Compares an output with what is expected; the error says what differs. `declared` is what the backend declares of all that
/// the output was computed by.
pub(crate) fn judge(
    bench: &Bench,
    source: &Source,
    declared: Option<Allowance>,
    found: &Tensor,
    expected: &Tensor,
) -> Result<(), String> {
    let usual = tolerance(expected.dtype);
    let by_itself = || match (declared, bench.is_calibrated()) {
        (Some(Allowance::Elements { absolute, relative }), _) if expected.dtype.is_float() => {
            Allowance::Elements { absolute: usual.absolute.max(absolute), relative: usual.relative.max(relative) }
        }
        (Some(Allowance::NoiseDb(least)), _) => Allowance::NoiseDb(least),
        (None, true) => Allowance::NoiseDb(LEAST_RATIO),
        _ => Allowance::Elements { absolute: usual.absolute, relative: usual.relative },
    };
    let allowed = source.allowed.unwrap_or_else(by_itself);
    let elements = expected.shape.iter().map(|&size| size as usize).product();
    match allowed.of_elements(elements) {
        Allowance::Elements { absolute, relative } => compare(found, expected, Tolerance { relative, absolute }),
        noise @ Allowance::NoiseDb(least) => is_quiet(found, expected, least, &mut |ratio| {
            // What few elements have is no measure of anything.
            if noise == allowed && ratio.is_finite() {
                bench.notes.measured(ratio);
            }
        }),
    }
}

fn is_quiet(found: &Tensor, expected: &Tensor, least: f64, measured: &mut dyn FnMut(f64)) -> Result<(), String> {
    let Err(reason) = compare(found, expected, Tolerance::EXACT) else { return Ok(()) };
    if !expected.dtype.is_float() || (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        return Err(reason);
    }
    // What is not finite must come as it is; only the rest has noise. Infinity times a factor that is rounded to 0 is NaN.
    let is_same = |(a, b): (f64, f64)| (a.is_nan() && !b.is_finite()) || a == b;
    let mut not_finite = found.floats().zip(expected.floats()).filter(|(a, b)| !a.is_finite() || !b.is_finite());
    if !not_finite.all(is_same) {
        return Err(reason);
    }
    let ratio = ratio(found, expected);
    measured(ratio);
    match ratio {
        enough if enough >= least => Ok(()),
        ratio => Err(format!("the signal is {ratio:.1} dB above the noise, not {least:.1}: {reason}")),
    }
}

/// Ratio of signal to noise in dB: 10 log10 of the sum of the squares of what is expected over that of the differences.
fn ratio(found: &Tensor, expected: &Tensor) -> f64 {
    let finite = || found.floats().zip(expected.floats()).filter(|(a, b)| a.is_finite() && b.is_finite());
    let signal: f64 = finite().map(|(_, b)| b * b).sum();
    let noise: f64 = finite().map(|(a, b)| (a - b) * (a - b)).sum();
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
    }

    #[test]
    fn what_is_not_finite_must_be_the_same() {
        let judged = |found: &[f32], expected: &[f32]| {
            is_quiet(&Tensor::f32(&[2], found), &Tensor::f32(&[2], expected), 20.0, &mut |_| ()).is_ok()
        };
        assert!(judged(&[f32::NAN, 1.01], &[f32::NAN, 1.0]));
        assert!(judged(&[f32::INFINITY, 1.01], &[f32::INFINITY, 1.0]));
        assert!(!judged(&[f32::INFINITY, 1.0], &[f32::NEG_INFINITY, 1.0]));
        assert!(judged(&[f32::NAN, 1.0], &[f32::INFINITY, 1.0]));
        assert!(!judged(&[f32::INFINITY, 1.0], &[f32::NAN, 1.0]));
        assert!(!judged(&[f32::NAN, 1.0], &[1.0, 1.0]));
        assert!(!judged(&[1.0, 1.0], &[f32::NAN, 1.0]));
        assert!(!judged(&[f32::NAN, 2.0], &[f32::NAN, 1.0]));
    }
}
