//! Histogram bins of a tensor, and the noise that a quantisation adds.

use byoc_plugin_api::Observed;

use super::{Quantization, TOP};

/// Values spread evenly between two numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bin {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: f64,
}

/// The bins that are not empty, by rising value. Values that are exactly 0, of which ReLU makes many, are left out:
/// every quantisation keeps them. A histogram does not tell them from their neighbours, so that part of the bin at 0
/// which stands out above both neighbours is taken for them.
pub(crate) struct Bins {
    pub(super) bins: Vec<Bin>,
    /// The observed range with 0 in it.
    pub(super) range: (f32, f32),
}

impl Bins {
    /// Where nothing was counted, values are assumed to be uniform over the range.
    pub(crate) fn new(observed: &Observed) -> Self {
        let Observed { min, max, .. } = *observed;
        let mut counts: Vec<f64> = observed.histogram.iter().map(|&count| count as f64).collect();
        if counts.iter().all(|count| *count == 0.0) {
            counts = vec![1.0];
        }
        let (low, width) = (f64::from(min), (f64::from(max) - f64::from(min)) / counts.len() as f64);
        let edge = |index: usize| low + width * index as f64;
        let zero = (0..counts.len()).find(|&index| edge(index) <= 0.0 && 0.0 <= edge(index + 1));
        if let Some(zero) = zero.filter(|_| counts.len() > 1) {
            let neighbour = |index: Option<usize>| index.and_then(|index| counts.get(index)).copied().unwrap_or(0.0);
            let usual = neighbour(zero.checked_sub(1)).max(neighbour(Some(zero + 1)));
            counts[zero] = counts[zero].min(usual);
        }
        let bins = counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
        let bins = bins.map(|(index, count)| Bin { low: edge(index), high: edge(index + 1), count }).collect();
        Bins { bins, range: (min.min(0.0), max.max(0.0)) }
    }

    /// The sum of the squared errors: rounding inside the range, clipping outside.
    pub(crate) fn noise(&self, quantization: Quantization) -> f64 {
        let error = |bin: &Bin| bin.count * mean_square(quantization.level(bin.low), quantization.level(bin.high));
        f64::from(quantization.scale).powi(2) * self.bins.iter().map(error).sum::<f64>()
    }

    /// Signal to noise in decibels; infinite where there is no noise.
    pub(crate) fn sqnr(&self, quantization: Quantization) -> f64 {
        let square = |bin: &Bin| bin.count * (bin.low * bin.low + bin.low * bin.high + bin.high * bin.high) / 3.0;
        let (signal, noise) = (self.bins.iter().map(square).sum::<f64>(), self.noise(quantization));
        if noise > 0.0 { 10.0 * (signal / noise).log10() } else { f64::INFINITY }
    }
}

/// The mean of `(t - nearest level)^2` for `t` evenly between two places among the levels.
fn mean_square(from: f64, to: f64) -> f64 {
    let nearest = |t: f64| t.round().clamp(0.0, TOP);
    // From level 0 on; a whole step contributes 1/12.
    let integral = |t: f64| nearest(t) / 12.0 + (t - nearest(t)).powi(3) / 3.0;
    // The difference of nearly equal integrals says nothing.
    if to - from < 1e-6 {
        let middle = 0.5 * (from + to);
        return (middle - nearest(middle)).powi(2);
    }
    (integral(to) - integral(from)) / (to - from)
}
