//! How alike two tensors of floats are as wholes, whatever single elements do.

use serde::{Serialize, Serializer};

use super::Criterion;
use crate::tensor::{Number, Tensor};
use crate::text;

/// A last axis of at most so many elements has no ranking that is worth comparing.
const FEW: usize = 5;

/// Statistics of two tensors of floats of the same shape, over the elements that are finite in both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Likeness {
    /// The cosine of the angle between them, as vectors; 1 where both are zero, and 0 where one is.
    pub cosine: f64,
    /// The signal-to-noise ratio in dB; infinite where they are equal, which JSON has as `null`.
    #[serde(rename = "snr_db", serialize_with = "finite")]
    pub snr: f64,
    /// How many of the rows along the last axis have their largest element at the same place, as a share; none where the axis has
    /// at most 5 elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_1: Option<f64>,
    /// How many of the places of the 5 largest elements of a row are the same, as a share, whatever their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_5: Option<f64>,
}

fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

impl Likeness {
    /// Of two tensors of the same type and shape.
    pub(super) fn of(found: &Tensor, expected: &Tensor) -> Likeness {
        let (mut product, mut own, mut signal, mut noise) = (0.0, 0.0, 0.0, 0.0);
        for (a, b) in pairs(found, expected).filter(|(a, b)| a.is_finite() && b.is_finite()) {
            product += a * b;
            own += a * a;
            signal += b * b;
            noise += (a - b) * (a - b);
        }
        let snr = if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() };
        let cosine = match (own > 0.0, signal > 0.0) {
            // Equal but for rounding of the sums.
            _ if noise == 0.0 => 1.0,
            (true, true) => (product / (own.sqrt() * signal.sqrt())).clamp(-1.0, 1.0),
            _ => 0.0,
        };
        let (top_1, top_5) = ranking(found, expected).unzip();
        Likeness { cosine, snr, top_1, top_5 }
    }

    /// What is wrong, by a criterion about the whole.
    pub(super) fn problem(&self, criterion: Criterion) -> Option<String> {
        match criterion {
            Criterion::Snr(least) if self.snr < least => {
                Some(format!("{:.1} dB above the noise, expected {}", self.snr, text::db(least)))
            }
            Criterion::Cosine(least) if self.cosine < least => {
                Some(format!("cosine {:.6}, expected {least}", self.cosine))
            }
            _ => None,
        }
    }
}

fn pairs(found: &Tensor, expected: &Tensor) -> impl Iterator<Item = (f64, f64)> {
    found.numbers().map(Number::value).zip(expected.numbers().map(Number::value))
}

/// The shares of rows with the same largest element, and of the same places among the 5 largest.
fn ranking(found: &Tensor, expected: &Tensor) -> Option<(f64, f64)> {
    let row = usize::try_from(*found.shape().last()?).ok().filter(|&row| row > FEW)?;
    let rows = found.elements() / row;
    if rows == 0 {
        return None;
    }
    let (mut first, mut common) = (0, 0);
    let (mut ours, mut theirs) = (Top::default(), Top::default());
    for (index, (a, b)) in pairs(found, expected).enumerate() {
        let place = index % row;
        if place == 0 {
            (ours, theirs) = (Top::default(), Top::default());
        }
        ours.see(place, a);
        theirs.see(place, b);
        if place + 1 == row {
            first += usize::from(ours.0[0].0 == theirs.0[0].0);
            common += ours.0.iter().filter(|(place, _)| theirs.0.iter().any(|(other, _)| other == place)).count();
        }
    }
    Some((first as f64 / rows as f64, common as f64 / (rows * FEW) as f64))
}

/// The largest elements of a row with their places, the largest first; of equal ones the first first.
struct Top([(usize, f64); FEW]);

impl Default for Top {
    fn default() -> Top {
        Top([(usize::MAX, f64::NEG_INFINITY); FEW])
    }
}

impl Top {
    fn see(&mut self, place: usize, value: f64) {
        // What is no number is the least.
        let value = if value.is_nan() { f64::NEG_INFINITY } else { value };
        let free = |&(known, other): &(usize, f64)| known == usize::MAX || value > other;
        let Some(at) = self.0.iter().position(free) else { return };
        self.0[at..].rotate_right(1);
        self.0[at] = (place, value);
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;

    fn rows(shape: &[i64], values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(DType::F32, shape.to_vec(), bytes).expect("a tensor")
    }

    #[test]
    fn angle_and_noise() {
        let of = |a: &[f32], b: &[f32]| Likeness::of(&rows(&[2], a), &rows(&[2], b));
        assert_eq!(
            of(&[3.0, 4.0], &[3.0, 4.0]),
            Likeness { cosine: 1.0, snr: f64::INFINITY, top_1: None, top_5: None }
        );
        assert_eq!(of(&[3.0, 4.0], &[4.0, -3.0]).cosine, 0.0);
        assert_eq!(of(&[9.0, 0.0], &[10.0, 0.0]).snr, 20.0);
        assert_eq!((of(&[0.0, 0.0], &[0.0, 0.0]).cosine, of(&[0.0, 0.0], &[1.0, 0.0]).cosine), (1.0, 0.0));
        // What is no number is left out.
        assert_eq!(of(&[f32::NAN, 2.0], &[1.0, 2.0]).cosine, 1.0);
    }

    #[test]
    fn rankings_of_rows() {
        let expected = rows(&[2, 6], &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let found = rows(&[2, 6], &[5.0, 6.0, 4.0, 3.0, 2.0, 1.0, 2.5, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let likeness = Likeness::of(&found, &expected);
        assert_eq!((likeness.top_1, likeness.top_5), (Some(0.5), Some(0.9)));
        assert_eq!(Likeness::of(&rows(&[1, 5], &[0.0; 5]), &rows(&[1, 5], &[0.0; 5])).top_1, None);
        let lost = rows(&[1, 6], &[f32::NAN, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(Likeness::of(&lost, &lost).top_5, Some(1.0));
        assert!(serde_json::to_value(likeness).expect("JSON")["snr_db"].is_number());
    }
}
