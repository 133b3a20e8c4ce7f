//! From sums to bytes: batch normalisation, the 36-bit check and the activation table (kmodel v3, arithmetic).

use crate::kmodel::conv::Conv;
use crate::kmodel::range::{constant, ranges};
use crate::kmodel::tables::{BatchNorm, HIGHEST, LOWEST, SEGMENTS, Segment};

/// A sum that needs more than 36 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub(crate) channel: usize,
    pub(crate) value: i64,
}

/// A segment with what its rounding needs.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    start: i64,
    mul: i64,
    shift: u32,
    /// The bits that are shifted out.
    mask: i64,
    /// Half of the last place; nothing equals it when there is no shift.
    half: i64,
    bias: i64,
}

impl Step {
    fn new(segment: &Segment) -> Self {
        let shift = u32::from(segment.shift);
        Step {
            start: segment.start,
            mul: i64::from(segment.mul),
            shift,
            mask: ((1u64 << shift) - 1) as i64,
            half: if shift == 0 { i64::MAX } else { (1u64 << (shift - 1)) as i64 },
            bias: i64::from(segment.bias),
        }
    }

    /// `clamp(rnd((v - start) * mul, shift) + bias)`; a tie goes to the even neighbour, other fractions above a half
    /// away from zero, as the formula has it also where it is not the nearest.
    #[inline(always)]
    fn apply(&self, v: i64) -> u8 {
        let product = (v - self.start) * self.mul;
        let quotient = product >> self.shift;
        let fraction = product & self.mask;
        let up = fraction > self.half || (fraction == self.half && quotient & 1 == 1);
        let sign = if product < 0 { -1 } else { 1 };
        let rounded = if up { quotient + sign } else { quotient };
        (rounded + self.bias).clamp(0, 255) as u8
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
    pub(crate) fn finish(
        &self,
        steps: &[Step; SEGMENTS],
        sums: &[i32],
        corrections: &[i64],
        out: &mut [u8],
    ) -> Result<(), Overflow> {
        let pixels = out.iter_mut().zip(sums).zip(corrections);
        if !self.proved {
            for ((out, sum), correction) in pixels {
                *out = self.checked(steps, i64::from(*sum) + correction)?;
            }
            return Ok(());
        }
        let (mul, add, shift) = (i64::from(self.batch_norm.mul), i64::from(self.batch_norm.add), self.batch_norm.shift);
        for ((out, sum), correction) in pixels {
            let acc = i64::from(*sum) + correction + self.constant;
            *out = self.activate(steps, ((acc * mul) >> shift) + add);
        }
        Ok(())
    }

    #[inline(always)]
    fn activate(&self, steps: &[Step; SEGMENTS], v: i64) -> u8 {
        let mut number = self.high;
        while number > self.low && v <= steps[number].start {
            number -= 1;
        }
        steps[number].apply(v)
    }

    fn checked(&self, steps: &[Step; SEGMENTS], sum: i64) -> Result<u8, Overflow> {
        let fits = |value: i64| {
            if (LOWEST..=HIGHEST).contains(&value) { Ok(value) } else { Err(Overflow { channel: self.index, value }) }
        };
        let acc = fits(sum + self.constant)?;
        let product = (acc * i64::from(self.batch_norm.mul)) >> self.batch_norm.shift;
        let v = fits(product + i64::from(self.batch_norm.add))?;
        Ok(self.activate(steps, v))
    }
}
