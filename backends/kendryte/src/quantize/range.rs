//! Chooses the range of an observed tensor that the 256 levels cover.

use byoc_plugin_api::Observed;

use super::Quantization;
use super::bins::Bins;
use super::entropy::divergence;

/// The part of the values that [`Method::Percentile`] cuts off on each side.
const CUT: f64 = 1e-4;

/// How a range is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All that was seen.
    MinMax,
    /// All but the lowest and the highest 0.01 % of the values.
    Percentile,
    /// The range with the least mean squared error.
    L2,
    /// The range whose quantised distribution is most like the observed one (entropy calibration).
    Kl,
}

/// The methods by their names; some have two.
pub const METHODS: [(&str, Method); 6] = [
    ("minmax", Method::MinMax),
    ("no_clip", Method::MinMax),
    ("percentile", Method::Percentile),
    ("cdf", Method::Percentile),
    ("l2", Method::L2),
    ("kl", Method::Kl),
];

impl Method {
    /// The one of that name.
    pub fn parse(text: &str) -> Option<Self> {
        METHODS.iter().find(|(name, _)| *name == text).map(|(_, method)| *method)
    }
}

/// A chosen range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The meaning of the bytes.
    pub quantization: Quantization,
    /// Signal to quantisation noise in decibels, estimated from the histogram; infinite where there is no noise.
    pub sqnr: f64,
    /// What [`Method::MinMax`] would have.
    pub minmax_sqnr: f64,
}

/// Chooses a range, which contains 0. The input of a model that is an image should keep its range
/// ([`Method::MinMax`]), so that a byte is a pixel.
pub fn choose(observed: &Observed, method: Method) -> Choice {
    let bins = Bins::new(observed);
    let minmax = Quantization::of(bins.range.0, bins.range.1);
    let quantization = match method {
        Method::MinMax => minmax,
        Method::Percentile => percentile(observed, bins.range),
        Method::L2 => search(bins.range, |quantization| bins.noise(quantization)),
        Method::Kl => search(bins.range, |quantization| divergence(&bins, quantization)),
    };
    Choice { quantization, sqnr: bins.sqnr(quantization), minmax_sqnr: bins.sqnr(minmax) }
}

/// Leaves out whole bins from either end while all of them hold no more than [`CUT`] of the values.
fn percentile(observed: &Observed, range: (f32, f32)) -> Quantization {
    let counts = &observed.histogram;
    let most = counts.iter().map(|&count| count as f64).sum::<f64>() * CUT;
    let cut = |counts: &mut dyn Iterator<Item = &u64>| {
        let sums = counts.scan(0.0, |sum, &count| {
            *sum += count as f64;
            Some(*sum)
        });
        sums.take_while(|sum| *sum <= most).count()
    };
    let (below, above) = (cut(&mut counts.iter()), cut(&mut counts.iter().rev()));
    if below + above >= counts.len() {
        return Quantization::of(range.0, range.1);
    }
    let width = (f64::from(observed.max) - f64::from(observed.min)) / counts.len() as f64;
    let low = f64::from(observed.min) + width * below as f64;
    let high = f64::from(observed.max) - width * above as f64;
    Quantization::of(low as f32, high as f32)
}

/// The range inside `full` of least cost: both ends are drawn in together, then each by itself, by factors of 0.94 down
/// to less than a bin of 2048, and at last by factors of 0.99 around what was found.
fn search(full: (f32, f32), cost: impl Fn(Quantization) -> f64) -> Quantization {
    const SIDES: [(bool, bool); 5] = [(true, true), (true, false), (false, true), (true, false), (false, true)];
    let mut best = full;
    let mut least = cost(Quantization::of(full.0, full.1));
    for (ratio, powers) in [(0.94f32, 0..=125), (0.99, -7..=7)] {
        for (low, high) in SIDES {
            // A side that is 0 stays 0.
            if (low && full.0 == 0.0) || (high && full.1 == 0.0) {
                continue;
            }
            let start = if ratio < 0.99 { full } else { best };
            for power in powers.clone() {
                let factor = ratio.powi(power);
                let candidate = (
                    if low { (start.0 * factor).max(full.0) } else { best.0 },
                    if high { (start.1 * factor).min(full.1) } else { best.1 },
                );
                let found = cost(Quantization::of(candidate.0, candidate.1));
                if found < least {
                    (best, least) = (candidate, found);
                }
            }
        }
    }
    Quantization::of(best.0, best.1)
}
