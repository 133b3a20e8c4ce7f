//! The batch-normalisation and activation tables of a convolution (kmodel v3, layer arguments: last paragraph).

use super::arguments::{bits, put, signed};

/// Segments of an activation table.
pub const SEGMENTS: usize = 16;

/// Bytes of an activation table: the segments, then one bias each.
pub(crate) const ACTIVATION_BYTES: usize = SEGMENTS * 9;

/// The lowest 36-bit number: where the first segment starts.
pub const LOWEST: i64 = -(1 << 35);

/// The highest 36-bit number.
pub const HIGHEST: i64 = (1 << 35) - 1;

/// `((acc * mul) >> shift) + add` for one output channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNorm {
    /// 24 bits, signed.
    pub mul: i32,
    /// 32 bits, signed.
    pub add: i32,
    /// 0 to 15.
    pub shift: u8,
}

impl BatchNorm {
    /// From the word in the file; none when bits are set that mean nothing.
    pub fn unpack(word: u64) -> Option<Self> {
        let found = BatchNorm {
            mul: signed(word, 0, 24) as i32,
            add: signed(word, 24, 32) as i32,
            shift: bits(word, 56, 4) as u8,
        };
        (found.pack().ok()? == word).then_some(found)
    }

    /// The word in the file. Errors with the name of a field that is too large.
    pub fn pack(&self) -> Result<u64, &'static str> {
        let mut word = 0;
        put(&mut word, 0, 24, i64::from(self.mul), true).ok_or("norm_mul")?;
        put(&mut word, 24, 32, i64::from(self.add), true).ok_or("norm_add")?;
        put(&mut word, 56, 4, i64::from(self.shift), false).ok_or("norm_shift")?;
        Ok(word)
    }
}

/// One segment of an activation: `round((v - start) * mul, shift) + bias` for `v > start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 36 bits, signed.
    pub start: i64,
    /// 16 bits, signed.
    pub mul: i16,
    /// Bits to the right.
    pub shift: u8,
    /// Added at the end.
    pub bias: u8,
}

impl Segment {
    /// From the word and the bias in the file; none when bits are set that mean nothing.
    pub fn unpack(word: u64, bias: u8) -> Option<Self> {
        let shift = bits(word, 0, 8) as u8;
        let found = Segment { start: signed(word, 24, 36), mul: signed(word, 8, 16) as i16, shift, bias };
        (found.pack().ok()? == word).then_some(found)
    }

    /// The word in the file. Errors with the name of a field that is too large.
    pub fn pack(&self) -> Result<u64, &'static str> {
        let mut word = 0;
        put(&mut word, 0, 8, i64::from(self.shift), false).ok_or("shift_number")?;
        put(&mut word, 8, 16, i64::from(self.mul), true).ok_or("y_mul")?;
        put(&mut word, 24, 36, self.start, true).ok_or("x_start")?;
        Ok(word)
    }
}
