//! What the kernels compute with.

use std::ops::{Deref, DerefMut};

/// f32 values from the beginning of a cache line on, as those of the runtime: a vector that lies across two lines is read twice.
pub(crate) struct Values {
    all: Vec<f32>,
    start: usize,
    len: usize,
}

impl Values {
    /// Zeros.
    pub(crate) fn zeros(len: usize) -> Values {
        let all = vec![0.0; len + 15];
        let start = (0..16).find(|&start| all[start..].as_ptr().addr().is_multiple_of(64)).unwrap_or(0);
        Values { all, start, len }
    }
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.all[self.start..][..self.len]
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.all[self.start..][..self.len]
    }
}

/// Numbers that differ: matrix units are faster on others.
pub(crate) fn numbers(len: usize) -> Values {
    let mut values = Values::zeros(len);
    let number = |at: u32| (at.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    (0..).zip(&mut *values).for_each(|(at, value)| *value = number(at));
    values
}
