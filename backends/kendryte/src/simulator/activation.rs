//! Converts sums to bytes: batch normalisation, the 36-bit check and the activation table (kmodel v3, arithmetic).

use crate::kmodel::conv::Conv;
use crate::kmodel::range::{constant, ranges};
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, SEGMENTS, Segment};

/// A sum that needs more than 36 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub(crate) channel: usize,
    pub(crate) value: i64,
}

/// Pixels whose bytes are computed together.
const BLOCK: usize = 16;

/// A segment, in numbers of one size.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    start: i64,
    mul: i64,
    shift: u32,
    bias: i64,
}

impl Step {
    fn new(segment: &Segment) -> Self {
        let shift = u32::from(segment.shift);
        Step { start: segment.start, mul: i64::from(segment.mul), shift, bias: i64::from(segment.bias) }
    }

    /// `rnd((v - start) * mul, shift) + bias`, which is still to be clamped; a tie goes to the even neighbour, other fractions above a half
    /// away from zero, as the formula has it also where it is not the nearest.
    #[inline(always)]
    fn apply(&self, v: i64) -> i64 {
        let product = (v - self.start) * self.mul;
        let quotient = product.wrapping_shr(self.shift);
        let one = 1u64.wrapping_shl(self.shift);
        // Twice what is shifted out: nothing where there is no shift.
        let fraction = (product as u64 & (one - 1)) << 1;
        let up = (fraction > one) | ((fraction == one) & (quotient & 1 == 1));
        let sign = (product >> 63) | 1;
        let rounded = if up { quotient + sign } else { quotient };
        rounded + self.bias
    }
}

/// The activation table of a layer.
pub(crate) fn steps(conv: &Conv) -> [Step; SEGMENTS] {
    conv.activation.each_ref().map(Step::new)
}

/// How the sums of one output channel become bytes.
pub(crate) struct Channel {
    index: usize,
    /// What is added to every sum.
    constant: i64,
    batch_norm: BatchNorm,
    /// No segment above this one is reached.
    high: usize,
    /// No segment below this one is reached.
    low: usize,
    /// Whether no input makes a sum exceed 36 bits.
    pub(crate) proved: bool,
}

impl Channel {
    /// None where the convolution has no such channel.
    pub(crate) fn new(conv: &Conv, index: usize) -> Option<Self> {
        let size = conv.arguments.channel_weights() as usize;
        let weights = conv.weights.get(index * size..(index + 1) * size)?;
        let ranges = ranges(conv, index)?;
        let segment =
            |v: i128| conv.activation.iter().rposition(|segment| v > i128::from(segment.start)).unwrap_or_default();
        // Which segments are out of reach follows from the range only where the starts rise.
        let rising = conv.activation.is_sorted_by_key(|segment| segment.start);
        let proved = ranges.fit();
        let (low, high) = if rising && proved { (segment(ranges.v.0), segment(ranges.v.1)) } else { (0, SEGMENTS - 1) };
        let batch_norm = *conv.batch_norm.get(index)?;
        Some(Channel { index, constant: constant(conv, weights), batch_norm, high, low, proved })
    }

    /// Its number in the layer.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The bytes of pixels whose products sum up to `sums`; `corrections` is what the sums of the input add.
    #[inline(always)]
    pub(crate) fn finish(
        &self,
        steps: &[Step; SEGMENTS],
        sums: &[i32],
        corrections: &[i64],
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let (sums, corrections) = (&sums[..out.len()], &corrections[..out.len()]);
        if !self.proved {
            for ((out, sum), correction) in out.iter_mut().zip(sums).zip(corrections) {
                *out = self.checked(steps, i64::from(*sum) + correction)?;
            }
            return Ok(());
        }
        let (blocks, rest) = out.as_chunks_mut();
        let ((whole, sums), (whole_corrections, corrections)) = (sums.as_chunks(), corrections.as_chunks());
        for ((out, sums), corrections) in blocks.iter_mut().zip(whole).zip(whole_corrections) {
            *out = self.block(steps, sums, corrections);
        }
        if !rest.is_empty() {
            let (mut last, mut last_corrections) = ([0; BLOCK], [0; BLOCK]);
            last[..sums.len()].copy_from_slice(sums);
            last_corrections[..corrections.len()].copy_from_slice(corrections);
            rest.copy_from_slice(&self.block(steps, &last, &last_corrections)[..rest.len()]);
        }
        Ok(())
    }

    /// Without branches, so that compilers do it for several pixels at once.
    #[inline(always)]
    fn block(&self, steps: &[Step; SEGMENTS], sums: &[i32; BLOCK], corrections: &[i64; BLOCK]) -> [u8; BLOCK] {
        let BatchNorm { mul, add, shift } = self.batch_norm;
        let (mul, add, shift) = (i64::from(mul), i64::from(add), u32::from(shift));
        let mut v = [0; BLOCK];
        for pixel in 0..BLOCK {
            let acc = i64::from(sums[pixel]) + corrections[pixel] + self.constant;
            v[pixel] = (acc * mul).wrapping_shr(shift) + add;
        }
        let steps = &steps[self.low..=self.high];
        // What all pixels have passed matters to none.
        let all = |step: &Step| v.iter().fold(true, |all, &v| all & (v > step.start));
        let any = |step: &Step| v.iter().fold(false, |any, &v| any | (v > step.start));
        let first = steps.iter().rposition(all).unwrap_or_default();
        let mut out = [0; BLOCK];
        for pixel in 0..BLOCK {
            out[pixel] = steps[first].apply(v[pixel]);
        }
        for step in steps[first + 1..].iter().filter(|step| any(step)) {
            for pixel in 0..BLOCK {
                let value = step.apply(v[pixel]);
                out[pixel] = if v[pixel] > step.start { value } else { out[pixel] };
            }
        }
        out.map(|value| value.clamp(0, 255) as u8)
    }

    fn checked(&self, steps: &[Step; SEGMENTS], sum: i64) -> Result<u8, Overflow> {
        let fits = |value: i64| {
            if (LOWEST..=HIGHEST).contains(&value) { Ok(value) } else { Err(Overflow { channel: self.index, value }) }
        };
        let acc = fits(sum + self.constant)?;
        let product = (acc * i64::from(self.batch_norm.mul)) >> self.batch_norm.shift;
        let v = fits(product + i64::from(self.batch_norm.add))?;
        let reached = steps.iter().rev().find(|step| v > step.start).unwrap_or(&steps[0]);
        Ok(reached.apply(v).clamp(0, 255) as u8)
    }
}
