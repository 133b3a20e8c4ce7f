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

/// How far a factor that is rounded to `norm_mul / 2^norm_shift` may move a result, in output steps. With what tables round
/// that keeps each result within a step of the exact one.
const MOST_MOVED: f64 = 0.25;

/// Weights, as they are given.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Numbers, for which each output channel gets a step.
    Real(&'a [f32]),
    /// Bytes of a model that is quantised: `(byte - zero) * step`.
    Levels {
        /// They stay what they are.
        bytes: &'a [u8],
        /// The byte that stands for 0.
        zero: u8,
        /// One an output channel.
        steps: &'a [f32],
    },
}

impl Weights<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Weights::Real(weights) => weights.len(),
            Weights::Levels { bytes, .. } => bytes.len(),
        }
    }

    /// The byte that stands for 0 on the accelerator.
    pub(super) fn zero(&self) -> u8 {
        match self {
            Weights::Real(_) => ZERO,
            Weights::Levels { zero, .. } => *zero,
        }
    }
}

/// The weights of a channel.
#[derive(Clone, Copy)]
pub(super) enum Numbers<'a> {
    Real(&'a [f32]),
    Levels { bytes: &'a [u8], zero: u8, step: f64 },
}

impl Numbers<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Numbers::Real(weights) => weights.len(),
            Numbers::Levels { bytes, .. } => bytes.len(),
        }
    }

    pub(super) fn at(&self, index: usize) -> f64 {
        match *self {
            Numbers::Real(weights) => weights[index].into(),
            Numbers::Levels { bytes, zero, step } => (f64::from(bytes[index]) - f64::from(zero)) * step,
        }
    }

    pub(super) fn is_finite(&self) -> bool {
        (0..self.len()).all(|index| self.at(index).is_finite())
    }
}

/// Why a channel has no words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NoRoom {
    /// Some input makes `v` exceed 36 bits, or the bias 32.
    Sums,
    /// This many output steps for a unit of the sum are not near any `norm_mul / 2^norm_shift`.
    Factor(f64),
}

/// A channel in real numbers.
#[derive(Clone, Copy)]
pub(super) struct Channel<'a> {
    pub(super) weights: Numbers<'a>,
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
        let weights = || (0..self.weights.len()).map(|index| self.scale * self.weights.at(index));
        let sum = |sign: f64| weights().map(|weight| (sign * weight).max(0.0)).sum::<f64>();
        let (positive, negative) = (gain * sum(1.0), gain * sum(-1.0));
        let (below, above) = (f64::from(input_zero), TOP - f64::from(input_zero));
        (self.bias - positive * below - negative * above, self.bias + positive * above + negative * below)
    }

    /// Appends the bytes of the weights and returns the word, by which
    /// `v = ((acc * norm_mul) >> norm_shift) + norm_add` (kmodel v3, section 4).
    pub(super) fn quantize(&self, units: Units, bytes: &mut Vec<u8>) -> Result<BatchNorm, NoRoom> {
        match self.weights {
            Numbers::Real(weights) => self.choose(weights, units, bytes),
            Numbers::Levels { bytes: given, zero, step } => {
                bytes.extend(given);
                self.keep(given, zero, step, units)
            }
        }
    }

    /// Real weights are symmetric. Their step is the greatest weight over 127, but rounded up to the next that
    /// `norm_mul / 2^norm_shift` can express, so that factors are exact however small they are. (A finer step that
    /// clips the greatest weights was tried: for normal and for Laplacian weights, 9 to 1152 of them, it gains
    /// less than 0.1 dB.)
    fn choose(&self, weights: &[f32], units: Units, bytes: &mut Vec<u8>) -> Result<BatchNorm, NoRoom> {
        let largest = weights.iter().fold(0f64, |most, &w| most.max((f64::from(w) * self.scale).abs()));
        let gain = units.gain * 2f64.powi(units.exponent);
        let ratio = largest / MOST * gain;
        let mul = |shift: i32| (ratio * 2f64.powi(shift)).ceil();
        let shift = (0..=MOST_SHIFT).rev().find(|&shift| mul(shift) <= MOST_MUL).ok_or(NoRoom::Sums)?;
        let (mul, shift) = if ratio > 0.0 { (mul(shift), shift) } else { (0.0, 0) };
        let step = mul / 2f64.powi(shift) / gain;
        let level =
            |w: f32| if mul == 0.0 { 0.0 } else { (f64::from(w) * self.scale / step).round().clamp(-MOST, MOST) };
        let start = bytes.len();
        bytes.extend(weights.iter().map(|&w| (level(w) + f64::from(ZERO)) as u8));
        let sums = reach(&bytes[start..], ZERO, units.input_zero);
        self.word(mul, shift, sums, units)
    }

    /// Weights that stay what they are: it is the factor that is rounded. Where `acc` could be so large that this moves a
    /// result by more than [`MOST_MOVED`], there is no room; as far as `acc` goes beyond the output's range, it does not count.
    fn keep(&self, bytes: &[u8], zero: u8, step: f64, units: Units) -> Result<BatchNorm, NoRoom> {
        let steps = units.gain * step * self.scale;
        let ratio = steps * 2f64.powi(units.exponent);
        let mul = |shift: i32| (ratio * 2f64.powi(shift)).round();
        let fitting = (0..=MOST_SHIFT).rev().find(|&shift| mul(shift).abs() <= MOST_MUL);
        let shift = fitting.ok_or(NoRoom::Factor(steps))?;
        let (mul, shift) = if mul(shift) == 0.0 { (0.0, 0) } else { (mul(shift), shift) };
        let sums = reach(bytes, zero, units.input_zero);
        let most = sums.0.abs().max(sums.1.abs()) as f64;
        let counted = if steps == 0.0 { most } else { most.min((TOP + self.bias.abs()) / steps.abs()) };
        let moved = (mul / 2f64.powi(shift) - ratio).abs() * 2f64.powi(-units.exponent) * counted;
        if moved > MOST_MOVED {
            return Err(NoRoom::Factor(steps));
        }
        self.word(mul, shift, sums, units)
    }

    /// The word with this factor. An error when it has no room, or when an input exists with which `v` has more than 36 bits.
    fn word(&self, mul: f64, shift: i32, sums: (i64, i64), units: Units) -> Result<BatchNorm, NoRoom> {
        // The shift rounds down, by this much in the mean.
        let lost = 0.5 * (1.0 - 2f64.powi(-shift));
        let add = (self.bias * 2f64.powi(units.exponent) + lost).round();
        let word = BatchNorm { mul: mul as i32, add: i32_of(add).ok_or(NoRoom::Sums)?, shift: shift as u8 };
        let v = |acc: i64| ((acc * i64::from(word.mul)) >> word.shift) + i64::from(word.add);
        let fits = |acc| (LOWEST..=HIGHEST).contains(&v(acc));
        if fits(sums.0) && fits(sums.1) { Ok(word) } else { Err(NoRoom::Sums) }
    }
}

/// A number that has 32 bits.
pub(super) fn i32_of(number: f64) -> Option<i32> {
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number).then_some(number as i32)
}

/// The least and the greatest `acc` over all inputs. It has 30 bits and a sign at most: 9 * 1024 products of 255 and 255.
fn reach(bytes: &[u8], zero: u8, input_zero: u8) -> (i64, i64) {
    let (below, above) = (-i64::from(input_zero), 255 - i64::from(input_zero));
    let (mut least, mut most) = (0, 0);
    for &byte in bytes {
        let weight = i64::from(byte) - i64::from(zero);
        least += (weight * below).min(weight * above);
        most += (weight * below).max(weight * above);
    }
    (least, most)
}
