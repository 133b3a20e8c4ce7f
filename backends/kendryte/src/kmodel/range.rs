//! Bounds of a convolution's sums, by interval arithmetic over all inputs.

use super::conv::Conv;
use super::tables::{HIGHEST, LOWEST};

/// The least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(pub i128, pub i128);

/// What the two sums of an output channel can be (kmodel v3, arithmetic: `acc` and `v`).
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    /// The sum over the kernel, corrected for zero points.
    pub acc: Range,
    /// The sum after batch normalisation.
    pub v: Range,
}

impl Range {
    fn map(self, function: impl Fn(i128) -> i128) -> Self {
        let (a, b) = (function(self.0), function(self.1));
        Range(a.min(b), a.max(b))
    }

    /// Whether every value has at most 36 bits.
    pub fn fits(self) -> bool {
        self.0 >= i128::from(LOWEST) && self.1 <= i128::from(HIGHEST)
    }
}

impl Ranges {
    /// Whether no input whatever makes a sum exceed 36 bits.
    pub fn fit(&self) -> bool {
        self.acc.fits() && self.v.fits()
    }
}

/// The part of `acc` that is the same for every pixel: zero-point corrections by the weights.
pub fn constant(conv: &Conv, weights: &[u8]) -> i64 {
    let arguments = &conv.arguments;
    let sum: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
    let inputs = if arguments.depthwise { 1 } else { i64::from(arguments.input_channels) };
    ((i64::from(arguments.arg_w) * sum) >> arguments.shr_w) + arguments.arg_add * inputs
}

/// The ranges of output channel `channel`; none where the file has no such channel.
pub fn ranges(conv: &Conv, channel: usize) -> Option<Ranges> {
    let arguments = &conv.arguments;
    let size = arguments.channel_weights() as usize;
    let weights = conv.weights.get(channel * size..(channel + 1) * size)?;
    let batch_norm = conv.batch_norm.get(channel)?;
    let arg_x = i128::from(arguments.arg_x);
    let sum = if arguments.shr_x == 0 {
        // A weight adds up to 255 times (itself + arg_x) to one end or the other, as that has a sign.
        let zero = arguments.arg_x.saturating_neg();
        let (mut all, mut above, mut count) = (0, 0, 0);
        for &weight in weights {
            let is_above = i32::from(weight) > zero;
            all += u64::from(weight);
            above += u64::from(if is_above { weight } else { 0 });
            count += u64::from(is_above);
        }
        let end = |sum: u64, count: u64| 255 * (i128::from(sum) + i128::from(count) * arg_x);
        Range(end(all - above, weights.len() as u64 - count), end(above, count))
    } else {
        let products = 255 * weights.iter().map(|&weight| i128::from(weight)).sum::<i128>();
        let correction = Range(0, 255 * size as i128).map(|sum| (arg_x * sum) >> arguments.shr_x);
        Range(correction.0, products + correction.1)
    };
    let constant = i128::from(constant(conv, weights));
    let acc = sum.map(|sum| sum + constant);
    let v = acc.map(|acc| ((acc * i128::from(batch_norm.mul)) >> batch_norm.shift) + i128::from(batch_norm.add));
    Some(Ranges { acc, v })
}
