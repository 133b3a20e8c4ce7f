//! Entropy calibration: divergence of the quantised distribution.

use super::Quantization;
use super::bins::{Bin, Bins};

/// What an empty bin counts for, so that no quotient is infinite.
const LITTLE: f64 = 1e-4;

/// The Kullback-Leibler divergence of the quantised from the observed distribution, in the form that became usual with
/// TensorRT: the observed one is that of the bins inside the range, with what is outside added to the bins at the
/// ends; the quantised one is that of the bins inside, where the bins of each level share its values evenly. Values
/// that are exactly 0 do not count (see [`Bins`]): else a tensor after ReLU is clipped to almost nothing.
pub(super) fn divergence(bins: &Bins, quantization: Quantization) -> f64 {
    // Levels narrower than bins would copy the histogram, however much is outside: such ranges do not take part.
    if bins.bins.first().is_none_or(|bin| f64::from(quantization.scale) < bin.high - bin.low) {
        return f64::INFINITY;
    }
    let level = |bin: &Bin| quantization.level(0.5 * (bin.low + bin.high));
    let first = bins.bins.partition_point(|bin| level(bin) < -0.5);
    let last = bins.bins.partition_point(|bin| level(bin) < 255.5);
    let inside = &bins.bins[first.min(last)..last];
    let total = |part: &[Bin]| part.iter().map(|bin| bin.count).sum::<f64>();
    let (below, above) = (total(&bins.bins[..first.min(last)]), total(&bins.bins[last..]));
    let kept = total(inside);
    if kept == 0.0 {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    for shared in inside.chunk_by(|a, b| level(a).round() == level(b).round()) {
        let quantised = (total(shared) / shared.len() as f64 / kept).max(LITTLE / kept);
        for bin in shared {
            let ends = if std::ptr::eq(bin, &inside[0]) { below } else { 0.0 }
                + if std::ptr::eq(bin, &inside[inside.len() - 1]) { above } else { 0.0 };
            let observed = (bin.count + ends) / (kept + below + above);
            sum += observed * (observed / quantised).ln();
        }
    }
    sum
}
