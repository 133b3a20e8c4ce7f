//! The weights of one output channel, and the batch-norm word behind them.

use super::TOP;
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST};

/// The byte that stands for a weight of 0 (kmodel v3, section 4: zero points).
pub(super) const ZERO: u8 = 128;

/// The greatest weight in steps, to either side.
const MOST: f64 = 127.0;

/// The highest `norm_mul`: 24 bits, signed.
const MOST_MUL: f64 = ((1 << 23) - 1) as f64;

/// The highest `norm_shift`: 4 bits.
const MOST_SHIFT: i32 = 15;

/// A channel in real numbers.
#[derive(Clone, Copy)]
pub(super) struct Channel<'a> {
    pub(super) weights: &'a [f32],
    /// Times each weight.
    pub(super) scale: f64,
    /// In output steps.
    pub(super) bias: f64,
}

/// What all channels of a layer share.
#[derive(Clone, Copy)]
pub(super) struct Units {
    /// Output steps that a weight of 1 makes of an input step: the input's scale over the output's.
    pub(super) gain: f64,
    /// The byte that stands for an input of 0.
    pub(super) input_zero: u8,
    /// `v` counts in `2^-exponent` output steps.
    pub(super) exponent: i32,
}

impl Channel<'_> {
    /// The least and the greatest sum over all inputs, in output steps.
    pub(super) fn reach(&self, gain: f64, input_zero: u8) -> (f64, f64) {
        let sum = |sign: f64| self.weights.iter().map(|&w| (sign * self.scale * f64::from(w)).max(0.0)).sum::<f64>();
        let (positive, negative) = (gain * sum(1.0), gain * sum(-1.0));
        let (below, above) = (f64::from(input_zero), TOP - f64::from(input_zero));
        (self.bias - positive * below - negative * above, self.bias + positive * above + negative * below)
    }

    /// Appends the bytes of the weights and returns the word, by which
    /// `v = ((acc * norm_mul) >> norm_shift) + norm_add` (kmodel v3, section 4). None when it has no room, or when an
    /// input exists with which `v` has more than 36 bits.
    ///
    /// Weights are symmetric. Their step is the greatest weight over 127, but rounded up to the next that
    /// `norm_mul / 2^norm_shift` can express, so that factors are exact however small they are. (A finer step that
    /// clips the greatest weights was tried: for normal and for Laplacian weights, 9 to 1152 of them, it gains
    /// less than 0.1 dB.)
    pub(super) fn quantize(&self, units: Units, bytes: &mut Vec<u8>) -> Option<BatchNorm> {
        let largest = self.weights.iter().fold(0f64, |most, &w| most.max((f64::from(w) * self.scale).abs()));
        let gain = units.gain * 2f64.powi(units.exponent);
        let ratio = largest / MOST * gain;
        let mul = |shift: i32| (ratio * 2f64.powi(shift)).ceil();
        let shift = (0..=MOST_SHIFT).rev().find(|&shift| mul(shift) <= MOST_MUL)?;
        let (mul, shift) = if ratio > 0.0 { (mul(shift), shift) } else { (0.0, 0) };
        let step = mul / 2f64.powi(shift) / gain;
        let level =
            |w: f32| if mul == 0.0 { 0.0 } else { (f64::from(w) * self.scale / step).round().clamp(-MOST, MOST) };
        let start = bytes.len();
        bytes.extend(self.weights.iter().map(|&w| (level(w) + f64::from(ZERO)) as u8));
        // The shift rounds down, by this much in the mean.
        let lost = 0.5 * (1.0 - 2f64.powi(-shift));
        let add = (self.bias * 2f64.powi(units.exponent) + lost).round();
        let word = BatchNorm { mul: mul as i32, add: i32_of(add)?, shift: shift as u8 };
        fits(&word, &bytes[start..], units.input_zero).then_some(word)
    }
}

/// A number that has 32 bits.
pub(super) fn i32_of(number: f64) -> Option<i32> {
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number).then_some(number as i32)
}

/// Whether no input makes `v` exceed 36 bits. `acc` has 30 at most: 9 * 1024 products of 255 and 127.
fn fits(word: &BatchNorm, weights: &[u8], input_zero: u8) -> bool {
    let (below, above) = (-i64::from(input_zero), 255 - i64::from(input_zero));
    let (mut least, mut most) = (0, 0);
    for &byte in weights {
        let weight = i64::from(byte) - i64::from(ZERO);
        least += (weight * below).min(weight * above);
        most += (weight * below).max(weight * above);
    }
    let v = |acc: i64| ((acc * i64::from(word.mul)) >> word.shift) + i64::from(word.add);
    v(least) >= LOWEST && v(most) <= HIGHEST
}
