//! Range and histogram of a value's elements.

use byoc_plugin_api::Observed;

use super::PARTS;

/// The least and the greatest element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    min: f32,
    max: f32,
}

impl Default for Range {
    fn default() -> Self {
        Range { min: f32::INFINITY, max: f32::NEG_INFINITY }
    }
}

impl Range {
    /// Takes in further elements, or returns the first one that is not finite.
    pub(super) fn widen(&mut self, values: &[f32]) -> Result<(), f32> {
        for &value in values {
            if !value.is_finite() {
                return Err(value);
            }
            // Minus zero becomes zero, so that the result does not depend on the order.
            let value = value + 0.0;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        Ok(())
    }
}

/// Counts elements by bin of their range.
pub(super) struct Histogram {
    observed: Observed,
    /// Bins per unit; 0 where all elements are equal.
    scale: f64,
}

impl Histogram {
    /// An empty one. Where no element was seen the range is that of a zero.
    pub(super) fn new(range: &Range) -> Histogram {
        let (min, max) = if range.min <= range.max { (range.min, range.max) } else { (0.0, 0.0) };
        let width = f64::from(max) - f64::from(min);
        let scale = if width > 0.0 { PARTS as f64 / width } else { 0.0 };
        Histogram { observed: Observed { value: 0, min, max, histogram: vec![0; PARTS] }, scale }
    }

    /// Counts elements, all of them within the range.
    pub(super) fn count(&mut self, values: &[f32]) {
        let Observed { min, histogram, .. } = &mut self.observed;
        let min = f64::from(*min);
        for &value in values {
            let part = (f64::from(value) - min) * self.scale;
            histogram[(part as usize).min(PARTS - 1)] += 1;
        }
    }

    /// The observation; the number of the value is still to be set.
    pub(super) fn observed(self) -> Observed {
        self.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(pieces: &[&[f32]]) -> Observed {
        let mut range = Range::default();
        pieces.iter().for_each(|values| range.widen(values).expect("finite"));
        let mut histogram = Histogram::new(&range);
        pieces.iter().for_each(|values| histogram.count(values));
        histogram.observed()
    }

    /// The parts that hold anything, with what they hold.
    fn filled(observed: &Observed) -> Vec<(usize, u64)> {
        let parts = observed.histogram.iter().enumerate();
        parts.filter(|(_, count)| **count > 0).map(|(part, &count)| (part, count)).collect()
    }

    #[test]
    fn elements_are_counted_in_equal_parts() {
        let seen = observed(&[&[-1.0, 0.0, 0.25], &[1.0, 0.249_9, 0.25]]);
        assert_eq!((seen.min, seen.max, seen.histogram.len()), (-1.0, 1.0, PARTS));
        assert_eq!(filled(&seen), [(0, 1), (1024, 1), (1279, 1), (1280, 2), (2047, 1)]);
    }

    #[test]
    fn the_order_of_samples_does_not_matter() {
        assert_eq!(observed(&[&[3.0, -0.0], &[0.0, 0.7]]), observed(&[&[0.7, 0.0], &[-0.0, 3.0]]));
        assert_eq!(observed(&[&[-0.0]]).min.to_bits(), 0);
    }

    #[test]
    fn equal_elements_lie_in_the_first_part() {
        let seen = observed(&[&[2.5; 7]]);
        assert_eq!((seen.min, seen.max, filled(&seen)), (2.5, 2.5, vec![(0, 7)]));
    }

    #[test]
    fn no_elements_are_the_range_of_zero() {
        let seen = observed(&[&[]]);
        assert_eq!((seen.min, seen.max, filled(&seen)), (0.0, 0.0, vec![]));
    }

    #[test]
    fn the_whole_range_of_f32_has_parts() {
        let seen = observed(&[&[f32::MIN, 0.0, f32::MAX]]);
        assert_eq!(filled(&seen), [(0, 1), (1024, 1), (2047, 1)]);
    }

    #[test]
    fn what_is_not_finite_is_given_back() {
        assert_eq!(Range::default().widen(&[1.0, f32::INFINITY]), Err(f32::INFINITY));
        assert!(Range::default().widen(&[f32::NAN]).is_err_and(f32::is_nan));
    }
}
