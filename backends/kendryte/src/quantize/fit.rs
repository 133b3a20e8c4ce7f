//! Curved activations as straight lines that start at whole levels.

use super::curve::{Curve, Line};
use super::{Activation, Quantization, TOP};

/// Lines between the two flat ends.
const MOST_LINES: usize = 14;

/// Samples of a level: where lines are compared with the function.
const SAMPLES: f64 = 24.0;

/// The error, in steps, from which on a fit is looked for.
const GOOD: f64 = 0.02;

/// From one error that is tried to the next. All are tried, since one may do where a greater one does not.
const COARSER: f64 = 1.03;

/// Where the comparison ends: this close to what the function tends to, in steps.
const TAIL: f64 = 0.02;

/// The function, sampled where it is not flat: places and values in steps, both rising.
struct Samples {
    places: Vec<f64>,
    values: Vec<f64>,
}

/// At most 14 lines between two flat ends, as near to the function as a greedy choice of lines gets; the result is
/// rounded to a byte then. Where the output's range just holds the values of [`Activation::Sigmoid`] or
/// [`Activation::Tanh`], lines were found within 0.44 of a step, so bytes within 0.94 (a table of bytes: 0.5);
/// with ELU, SELU and Softplus, which are straight in part, within 0.33 and 0.83.
pub(super) fn curve(activation: Activation, output: Quantization) -> Curve {
    let scale = f64::from(output.scale);
    let value = |v: f64| activation.apply(v * scale) / scale + f64::from(output.zero_point);
    let round = |value: f64| value.round().clamp(0.0, TOP);
    let (least, most) = (value(f64::NEG_INFINITY), value(f64::INFINITY));
    let (low, top) = (round(least), round(most));
    if low == top {
        return Curve { low: low as u8, lines: Vec::new() };
    }
    // Where the function has a level, or all but has one that it only tends to.
    let from = solve(value, (low + TAIL).max(least + TAIL));
    let to = solve(value, (top - TAIL).min(most - TAIL));
    let samples = Samples::new(value, from, to);
    let errors = std::iter::successors(Some(GOOD), |error| Some(error * COARSER));
    let lines = errors.take_while(|error| *error < TOP).find_map(|error| samples.lines((low, top), error));
    Curve { low: low as u8, lines: lines.unwrap_or_default() }
}

/// Where a rising function has a value.
fn solve(function: impl Fn(f64) -> f64, value: f64) -> f64 {
    let mut end = 1.0;
    while end < 1e300 && (function(end) < value || function(-end) > value) {
        end *= 2.0;
    }
    let (mut below, mut above) = (-end, end);
    for _ in 0..120 {
        let middle = 0.5 * (below + above);
        if function(middle) < value { below = middle } else { above = middle }
    }
    above
}

impl Samples {
    /// Evenly by value from one place to another, as near as bisection of coarser samples gets it.
    fn new(function: impl Fn(f64) -> f64, from: f64, to: f64) -> Self {
        let sample = |places: Vec<f64>| Samples { values: places.iter().map(|&v| function(v)).collect(), places };
        let count = ((function(to) - function(from)) * SAMPLES).ceil().max(1.0) as usize;
        let between = |low: f64, high: f64, index: usize| low + (high - low) * index as f64 / count as f64;
        let coarse = sample((0..=count).map(|index| between(from, to, index)).collect());
        let (least, most) = (function(from), function(to));
        sample((0..=count).map(|index| coarse.place(between(least, most, index))).collect())
    }

    /// Lines within `error` of the function from the lower flat end to the upper one, and the upper one itself; none
    /// when 14 do not suffice. Flat ends are bytes already, so they may have the half that rounding costs lines.
    fn lines(&self, (low, top): (f64, f64), error: f64) -> Option<Vec<Line>> {
        let mut lines: Vec<Line> = Vec::new();
        let mut reached = self.place(low + 0.5 + error);
        let end = self.place(top - 0.5 - error);
        while reached < end {
            let after = lines.last().map_or(f64::NEG_INFINITY, |line| line.start);
            let starts = self.starts(reached, error).into_iter().filter(|(start, _)| *start > after);
            let reaches = starts.map(|(start, bias)| self.extend(start, bias, error));
            let (line, next) = reaches.max_by(|a, b| a.1.total_cmp(&b.1))?;
            if next <= reached || lines.len() == MOST_LINES {
                return None;
            }
            lines.push(line);
            reached = next;
        }
        lines.push(Line { start: end, slope: 0.0, bias: top as u8 });
        Some(lines)
    }

    /// Places up to `reached` where a level is within `error` of the function, with the level: the last places, above
    /// and below some levels. (Lines start above a function that bends down, and below one that bends up.)
    fn starts(&self, reached: f64, error: f64) -> Vec<(f64, f64)> {
        let level = (self.value(reached) + error).floor();
        let levels = (0..3).map(|down| level - f64::from(down)).filter(|level| (0.0..=TOP).contains(level));
        let places = |level: f64| {
            let at = move |part: i32| self.place(level + error * f64::from(part) / 2.0);
            (-2..=2).map(move |part| (at(part).min(reached), level))
        };
        levels.flat_map(places).collect()
    }

    /// The line from a level at `start` that keeps within `error` longest, and where it ends: the slopes that each
    /// sample allows are intersected.
    fn extend(&self, start: f64, bias: f64, error: f64) -> (Line, f64) {
        let line = |slope: f64| Line { start, slope, bias: bias as u8 };
        if (self.value(start) - bias).abs() > error + 1e-9 {
            return (line(0.0), start);
        }
        let (mut least, mut most) = (0.0, f64::INFINITY);
        let first = self.places.partition_point(|place| *place <= start);
        let (places, values) = (&self.places[first..], &self.values[first..]);
        let allowed = places.iter().zip(values).take_while(|(place, value)| {
            let slope = |value: f64| (value - bias) / (*place - start);
            let (low, high) = (f64::max(least, slope(*value - error)), f64::min(most, slope(*value + error)));
            let some = low <= high;
            if some {
                (least, most) = (low, high);
            }
            some
        });
        let kept = allowed.count();
        let end =
            if kept == places.len() { f64::INFINITY } else { kept.checked_sub(1).map_or(start, |last| places[last]) };
        (line(if kept == 0 { 0.0 } else { 0.5 * (least + most) }), end)
    }

    /// The function between samples.
    fn value(&self, place: f64) -> f64 {
        interpolate(&self.places, &self.values, place)
    }

    /// Where the function has a value, inside the samples.
    fn place(&self, value: f64) -> f64 {
        interpolate(&self.values, &self.places, value)
    }
}

/// The `y` at an `x` between rising points; beyond them that of the last one.
fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let after = xs.partition_point(|other| *other <= x);
    match (after.checked_sub(1), after < xs.len()) {
        (None, _) => ys[0],
        (Some(before), false) => ys[before],
        (Some(before), true) => ys[before] + (ys[after] - ys[before]) * (x - xs[before]) / (xs[after] - xs[before]),
    }
}
