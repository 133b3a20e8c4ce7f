//! The activation of a layer as straight lines, and as the 16 segments of its table (kmodel v3, section 4).
//!
//! Everything is counted in output steps: `v` is the real sum over the output's scale, a line's value is a byte. The
//! unit of the integer `v` is `2^-exponent` steps, so that where the slope is 1 factors are powers of two, and exact.

use super::fit;
use super::{Activation, Quantization, TOP};
use crate::kmodel::tables::{HIGHEST, LOWEST, SEGMENTS, Segment};

/// Most bits that a segment shifts by (kmodel v3, section 12).
const MOST_SHIFT: i32 = 20;

/// A step has this many bits of `v` at most, where the function is steepest.
const MOST_BITS: i32 = 14;

/// A unit of this many steps, `2^12`, is the coarsest. One of more than a step is needed only where sums reach `2^31`
/// steps; then what the rounding of weights does to them is far more than a unit.
const FEWEST_BITS: i32 = -12;

/// `bias + slope * (v - start)` from `start` to the next line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) start: f64,
    pub(crate) slope: f64,
    pub(crate) bias: u8,
}

/// A function as lines: `low` up to the first one; the last one is flat.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) low: u8,
    pub(crate) lines: Vec<Line>,
}

/// A curve with `v` in units of `2^-exponent` steps.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) exponent: i32,
    pub(crate) segments: [Segment; SEGMENTS],
    /// At most how many steps the rounding of `v`, starts and factors costs.
    pub(crate) error: f64,
}

impl Curve {
    /// Exact for functions of straight parts; for others see [`fit::curve`].
    pub(crate) fn new(activation: Activation, output: Quantization) -> Self {
        straight(activation, output).unwrap_or_else(|| fit::curve(activation, output))
    }

    /// The value at `v`, before rounding.
    #[cfg(test)]
    pub(crate) fn value(&self, v: f64) -> f64 {
        let line = self.lines.iter().rev().find(|line| v > line.start);
        line.map_or(self.low.into(), |line| (f64::from(line.bias) + line.slope * (v - line.start)).clamp(0.0, TOP))
    }

    /// Below the first number the value is `low`, above the second it does not change any more; none where it never
    /// changes.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        Some((self.lines.first()?.start, self.lines.last()?.start))
    }

    /// The tables with every unit that is possible, the most exact one first: a fine unit costs bits of small factors,
    /// since shifts are limited.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let steepest = self.lines.iter().fold(0f64, |most, line| most.max(line.slope));
        let power = if steepest > 0.0 { steepest.log2().ceil() as i32 } else { 0 };
        let mut tables: Vec<_> = (FEWEST_BITS..=MOST_BITS).rev().filter_map(|bits| self.table(bits + power)).collect();
        tables.sort_by(|a, b| a.error.total_cmp(&b.error));
        tables
    }

    /// None when a line starts outside 36 bits.
    fn table(&self, exponent: i32) -> Option<Table> {
        let unit = 2f64.powi(-exponent);
        let low = Segment { start: LOWEST, mul: 0, shift: 0, bias: self.low };
        let mut segments = vec![low];
        let (mut error, mut steepest) = (0f64, 0f64);
        for (index, line) in self.lines.iter().enumerate() {
            let start = (line.start / unit).round();
            // The last ones are for segments that are not used.
            if start <= LOWEST as f64 || start > (HIGHEST - SEGMENTS as i64) as f64 {
                return None;
            }
            let (mul, shift) = factor(line.slope * unit);
            let end = self.lines.get(index + 1).map_or(line.start, |next| next.start);
            let slope = f64::from(mul) * 2f64.powi(-i32::from(shift)) / unit;
            let moved = line.slope * (start * unit - line.start).abs();
            error = error.max(moved + (slope - line.slope).abs() * (end - line.start));
            steepest = steepest.max(line.slope);
            // A segment that ends where it starts is not one.
            while segments.last().is_some_and(|last| last.start >= start as i64) {
                segments.pop();
            }
            segments.push(Segment { start: start as i64, mul, shift, bias: line.bias });
        }
        let top = segments.last().map_or(self.low, |last| last.bias);
        let unused =
            |number: usize| Segment { start: HIGHEST - (SEGMENTS - 1 - number) as i64, mul: 0, shift: 0, bias: top };
        let segments = std::array::from_fn(|number| segments.get(number).copied().unwrap_or_else(|| unused(number)));
        Some(Table { exponent, segments, error: error + steepest * unit })
    }
}

/// `y_mul` and `shift` with `mul / 2^shift` nearest to a slope.
fn factor(slope: f64) -> (i16, u8) {
    let mul = |shift: i32| (slope * 2f64.powi(shift)).round();
    let shift = (0..=MOST_SHIFT).rev().find(|&shift| mul(shift) <= f64::from(i16::MAX)).unwrap_or_default();
    if mul(shift) == 0.0 { (0, 0) } else { (mul(shift) as i16, shift as u8) }
}

/// The lines of a function of straight parts. A line has to start at a whole level, so it starts where it would have
/// the level that its beginning is rounded to: in between both sides round to that level.
fn straight(activation: Activation, output: Quantization) -> Option<Curve> {
    let pieces = activation.pieces()?;
    let scale = f64::from(output.scale);
    let value = |v: f64| activation.apply(v * scale) / scale + f64::from(output.zero_point);
    let round = |value: f64| value.round().clamp(0.0, TOP) as u8;
    let mut curve = Curve { low: round(value(f64::NEG_INFINITY)), lines: Vec::new() };
    let push = |curve: &mut Curve, line: Line| {
        if line.start.is_finite() {
            curve.lines.retain(|other| other.start < line.start);
            curve.lines.push(line);
        }
    };
    for (index, piece) in pieces.iter().enumerate() {
        let from = piece.from / scale;
        let to = pieces.get(index + 1).map_or(f64::INFINITY, |next| next.from / scale);
        let (first, last) = (value(from), value(to));
        if piece.slope == 0.0 || first >= TOP {
            // A limit may be too far off for the table, and is not needed where the top is reached before.
            if !curve.lines.last().is_some_and(|line| line.slope == 0.0 && line.bias == round(first)) {
                push(&mut curve, Line { start: from, slope: 0.0, bias: round(first) });
            }
            continue;
        }
        // The point of the line that is nearest to 0: at one far off, such as a limit that stands for none, levels would
        // be lost in rounding.
        let anchor = 0f64.clamp(from, to);
        let at = |level: f64| anchor + (level - value(anchor)) / piece.slope;
        let start = at(round(first).into());
        if last <= 0.0 || start >= to {
            continue;
        }
        push(&mut curve, Line { start, slope: piece.slope, bias: round(first) });
        if last > TOP {
            push(&mut curve, Line { start: at(TOP), slope: 0.0, bias: TOP as u8 });
        }
    }
    Some(curve)
}
