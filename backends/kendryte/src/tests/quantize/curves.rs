//! Activation tables against the functions that they hold.

use super::{activations, of_lines};
use crate::kmodel::tables::{HIGHEST, LOWEST, SEGMENTS, Segment};
use crate::quantize::{Activation, Curve, Quantization};

/// Output ranges: wide, narrow, to one side, and just what the function gives.
pub(super) fn outputs(activation: Activation) -> Vec<Quantization> {
    let end = |x: f64| activation.apply(x).clamp(-8.0, 8.0) as f32;
    [(-1.0, 1.0), (-20.0, 40.0), (0.0, 3.0), (-0.3, 0.0), (0.0, 1e-6), (end(-9.0), end(9.0)), (end(-2.0), end(1.0))]
        .map(|(low, high)| Quantization::of(low, high))
        .to_vec()
}

/// Places, in output steps, from well below to well above what the bytes tell apart.
fn places(activation: Activation, output: Quantization) -> impl Iterator<Item = f64> {
    let value = move |x: f64| activation.apply(x) / f64::from(output.scale) + f64::from(output.zero_point);
    let flat = |x: f64| (value(x) - value(0.5 * x)).abs() < 1e-3;
    let mut end = f64::from(output.scale);
    while !(flat(end) || value(end) > 256.0) || !(flat(-end) || value(-end) < -1.0) {
        end *= 2.0;
    }
    (-50_000..=50_000).map(move |number| f64::from(number) / 50_000.0 * end / f64::from(output.scale))
}

/// The value of a function in levels, clamped.
fn level(activation: Activation, output: Quantization, v: f64) -> f64 {
    let scale = f64::from(output.scale);
    (activation.apply(v * scale) / scale + f64::from(output.zero_point)).clamp(0.0, 255.0)
}

/// The byte of a table for `v` (kmodel v3, section 4).
fn byte(segments: &[Segment; SEGMENTS], v: i64) -> u8 {
    let segment = segments.iter().rev().find(|segment| v > segment.start).unwrap_or(&segments[0]);
    let product = (v - segment.start) * i64::from(segment.mul);
    let exact = product as f64 / 2f64.powi(segment.shift.into());
    (exact.round_ties_even() + f64::from(segment.bias)).clamp(0.0, 255.0) as u8
}

#[test]
fn lines_are_near_their_functions() {
    for activation in activations() {
        for output in outputs(activation) {
            let curve = Curve::new(activation, output);
            for v in places(activation, output) {
                let (found, expected) = (curve.value(v), level(activation, output, v));
                let difference = (found.round_ties_even() - expected).abs();
                let place = || format!("{activation:?} to {:?} at {v}: {found}, {expected}", output.range());
                assert!(difference <= 0.5 + of_lines(activation) + 1e-6, "{}", place());
            }
        }
    }
}

#[test]
fn tables_are_near_their_functions() {
    for activation in activations() {
        for output in outputs(activation) {
            let tables = Curve::new(activation, output).tables();
            let table = &tables[0];
            assert!(tables.iter().all(|other| other.error >= table.error));
            assert!(table.error < 0.15, "{activation:?} to {:?}: {}", output.range(), table.error);
            for v in places(activation, output) {
                // The unit may be coarse: the function is asked where `v` really is.
                let v = (v * 2f64.powi(table.exponent)).round();
                let (found, expected) =
                    (byte(&table.segments, v as i64), level(activation, output, v * 2f64.powi(-table.exponent)));
                let difference = (f64::from(found) - expected).abs();
                let place = || format!("{activation:?} to {:?} at {v}: {found}, {expected}", output.range());
                assert!(difference <= 0.5 + of_lines(activation) + table.error + 1e-6, "{}", place());
            }
        }
    }
}

/// Segments rise strictly from the lowest number, shifts are 20 at most, slopes are not negative, and the segments that
/// are left over keep the last value at the very top.
#[test]
fn tables_keep_the_rules() {
    for activation in activations() {
        for output in outputs(activation) {
            for table in Curve::new(activation, output).tables() {
                let segments = table.segments;
                assert_eq!((segments[0].start, segments[0].mul), (LOWEST, 0));
                assert_eq!(segments[SEGMENTS - 1].mul, 0);
                assert!(segments.windows(2).all(|pair| pair[0].start < pair[1].start), "{segments:?}");
                for (number, segment) in segments.iter().enumerate() {
                    assert!(segment.pack().is_ok() && segment.mul >= 0, "{segment:?}");
                    assert!(if segment.mul == 0 { segment.shift == 0 } else { (1..=20).contains(&segment.shift) });
                    let left_over = segment.start > HIGHEST - SEGMENTS as i64;
                    let same = segment.start == HIGHEST - (SEGMENTS - 1 - number) as i64
                        && segment.bias == segments[SEGMENTS - 1].bias;
                    assert!(!left_over || same, "{segments:?}");
                }
            }
        }
    }
}

/// Where slopes are 0 and 1, factors are powers of two and tables are exact.
#[test]
fn straight_tables_are_exact() {
    let segment = |start, mul, shift, bias| Segment { start, mul, shift, bias };
    let six = Quantization::of(0.0, 6.0);
    let tables = Curve::new(Activation::Clip { min: 0.0, max: 6.0 }, six).tables();
    let expected = [segment(LOWEST, 0, 0, 0), segment(0, 64, 20, 0), segment(255 << 14, 0, 0, 255)];
    assert_eq!((tables[0].exponent, &tables[0].segments[..3]), (14, &expected[..]));
    assert_eq!(tables[0].segments[3], segment(HIGHEST - 12, 0, 0, 255));
    assert_eq!(tables[0].error, 2f64.powi(-14));
}
