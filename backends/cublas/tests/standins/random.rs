//! Numbers that look random and are the same every time: Knuth's MMIX generator.

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// Yes, once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// From -2 to 2.
    pub(crate) fn value(&mut self) -> f64 {
        self.below(4001) as f64 / 1000.0 - 2.0
    }
}
