//! The factors of a sum of bytes (layer QUANTIZED_ADD; kmodel v3, section 4: SDK CPU-layer details).

use super::Quantization;
use crate::kmodel::bodies::Rescale;

/// Bits of the factors behind the point, where factors are not too large for that.
const BITS: i32 = 20;

/// `c = a + b` as `((a + a_offset) * a_mul + (b + b_offset) * b_mul) >> shift`, plus the output's offset, clamped to a
/// byte. The second shift, after the sum, is not used: it rounds negative numbers to the wrong side. The first one
/// rounds down, so a half has to be added before; and since offsets are in front of the factors, it comes in by
/// arithmetic modulo `2^shift`: the greater factor is made odd, so some offset times it is whatever is wanted plus a
/// multiple of
/// `2^shift`, which the output's offset takes back.
///
/// The result is the nearest byte to the sum of what the bytes stand for, but for `400 / 2^20` of a step (more where a
/// step of an input has 512 steps of the output or more). Clamping is ReLU where the output's zero point is 0, and
/// `Clip(0, high)` where its range ends at `high`; other functions need a [`table`](super::table) behind.
pub fn add(a: Quantization, b: Quantization, output: Quantization) -> (Rescale, Rescale, Rescale) {
    let ratio = |input: Quantization| f64::from(input.scale) / f64::from(output.scale);
    let (smaller, larger) = (ratio(a).min(ratio(b)), ratio(a).max(ratio(b)));
    // Factors stay below 2^30, and times a zero point, without what is behind the point, below 2^31. What 2^22 steps a step
    // would be is clamped anyway, but where two of them cancel each other, which takes factors less than 2^9 apart.
    let most = larger.min((smaller * 2f64.powi(9)).max(2f64.powi(22))).max(f64::MIN_POSITIVE);
    let scale = (2f64.powi(22) / most).min(1.0);
    let shift = BITS.min(29 - (most * scale).log2().ceil() as i32);
    let factor = |input: Quantization| (ratio(input).min(most) * scale * 2f64.powi(shift)).round() as i64;
    let mut factors = [factor(a), factor(b)];
    let odd = usize::from(factors[1] > factors[0]);
    factors[odd] |= 1;
    let one = 1i64 << shift;
    let wanted = one / 2 - i64::from(a.zero_point) * factors[0] - i64::from(b.zero_point) * factors[1];
    let mut offsets = [0; 2];
    offsets[odd] = wanted.wrapping_mul(inverse(factors[odd])).rem_euclid(one);
    let surplus = (offsets[odd] * factors[odd] - wanted) >> shift;
    let rescale = |offset: i64, mul: i64, shift: i32| Rescale { offset: offset as i32, mul: mul as i32, shift };
    (
        rescale(offsets[0], factors[0], shift),
        rescale(offsets[1], factors[1], shift),
        rescale(i64::from(output.zero_point) - surplus, 1, 0),
    )
}

/// The number by which an odd one gives 1 modulo `2^64`: each of Newton's steps doubles the bits, of which 3 are right
/// at the start.
fn inverse(odd: i64) -> i64 {
    (0..5).fold(odd, |found, _| found.wrapping_mul(2i64.wrapping_sub(odd.wrapping_mul(found))))
}
