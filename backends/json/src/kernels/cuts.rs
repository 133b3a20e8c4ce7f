//! Lengths cut into the fewest nearly equal parts.

/// The fewest nearly equal parts of at most some size.
#[derive(Clone, Copy)]
pub(super) struct Cuts {
    pub(super) count: usize,
    /// The size of a part, and how many of the first ones have one more.
    least: usize,
    longer: usize,
}

impl Cuts {
    pub(super) fn new(len: usize, most: usize) -> Cuts {
        let count = len.div_ceil(most);
        let least = len.checked_div(count).unwrap_or(0);
        Cuts { count, least, longer: len - least * count }
    }

    /// Start and size of each.
    #[inline(always)]
    pub(super) fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(move |index| self.at(index))
    }

    /// Those of one.
    #[inline(always)]
    pub(super) fn at(self, index: usize) -> (usize, usize) {
        (index * self.least + index.min(self.longer), self.least + usize::from(index < self.longer))
    }

    /// How many from that one on are of its size.
    #[inline(always)]
    pub(super) fn alike(self, index: usize) -> usize {
        if index < self.longer { self.longer - index } else { self.count - index }
    }
}
