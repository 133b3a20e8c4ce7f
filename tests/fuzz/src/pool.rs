//! Numbers at the edges of types and ranges, for mutators.

use crate::Rng;

/// A number in place of `old`, often one at which arithmetic goes wrong.
pub(crate) fn integer(old: i128, rng: &mut Rng) -> i128 {
    let small = i128::from(rng.u8(..17));
    match rng.u8(..14) {
        0 => old + 1,
        1 => old - 1,
        2 => old * 2,
        3 => old / 2,
        4 => -old,
        5 => 0,
        6 => (1i128 << rng.u8(..65)) - 8 + small,
        7 => -(1i128 << rng.u8(..64)) - 8 + small,
        // What wraps to the same when multiplied by a small number.
        8 => old + (1i128 << 64) / (small + 1),
        9 => (1i128 << 64) - small,
        _ => small,
    }
}

/// A float in place of `old`.
pub(crate) fn float(old: f64, rng: &mut Rng) -> f64 {
    match rng.u8(..10) {
        0 => 0.0,
        1 => -0.0,
        2 => f64::from(f32::MAX) * 2.0,
        3 => f64::MAX,
        4 => f64::MIN_POSITIVE,
        5 => -old,
        6 => old * 1e9,
        7 => old / 1e9,
        8 => f64::from(rng.i8(..)),
        _ => old + rng.f64(),
    }
}
