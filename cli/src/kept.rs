//! What is kept of a log for a report: the first lines of it, and how many came behind them.

/// Lines that are kept.
const MOST: usize = 10_000;

/// Lines of a log.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// The first ones.
    pub(crate) lines: Vec<T>,
    /// How many more there were.
    pub(crate) left_out: usize,
}

impl<T> Kept<T> {
    /// None yet.
    pub(crate) const fn none() -> Kept<T> {
        Kept { lines: Vec::new(), left_out: 0 }
    }

    /// One more.
    pub(crate) fn push(&mut self, line: T) {
        match self.lines.len() < MOST {
            true => self.lines.push(line),
            false => self.left_out += 1,
        }
    }
}
