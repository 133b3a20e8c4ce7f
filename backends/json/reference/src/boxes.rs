//! `NonMaxSuppression`: of boxes that overlap, the one with the best score.

use byoc_plugin_api::Error;

use super::array::{Array, Item, elements, shaped};
use super::call::{Call, Outputs};
use super::{I64, Kernel, Types, kernel};

const F32: Types = Types::of(&[byoc_plugin_api::DType::F32]);

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("NonMaxSuppression", suppression, &[F32, F32, I64, F32, F32])];

/// A box by its lower and its upper corner.
#[derive(Clone, Copy)]
struct Rectangle {
    low: [f32; 2],
    high: [f32; 2],
}

impl Rectangle {
    /// From two opposite corners, or from the centre (x, y) and the sizes.
    fn new(numbers: &[f32], center: bool) -> Rectangle {
        let [a, b, c, d] = *numbers else { return Rectangle { low: [0.0; 2], high: [0.0; 2] } };
        if center {
            return Rectangle { low: [a - c / 2.0, b - d / 2.0], high: [a + c / 2.0, b + d / 2.0] };
        }
        Rectangle { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] }
    }

    fn area(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Whether the common area is a larger part of what both cover. A box without an area overlaps nothing.
    fn overlaps(&self, other: &Rectangle, threshold: f32) -> bool {
        let common =
            |axis: usize| (self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis])).max(0.0);
        let common = common(0) * common(1);
        let both = self.area() + other.area() - common;
        common > 0.0 && self.area() > 0.0 && other.area() > 0.0 && both > 0.0 && common / both > threshold
    }
}

/// The number that an optional input holds.
fn limit<T: Item>(call: &Call<'_, '_>, input: usize) -> Result<Option<T>, Error> {
    let Some(array) = call.optional(input) else { return Ok(None) };
    let value = T::of(array).filter(|array| array.len() == 1).and_then(|array| array.first().copied());
    value.map(Some).ok_or_else(|| Error::new(format!("input {input} of NonMaxSuppression must have one element")))
}

/// `NonMaxSuppression`: batch, class and box of each that is left, for each class the best first; of equal scores the first
/// box. A box whose score is NaN is none.
pub(crate) fn suppression(call: &Call<'_, '_>) -> Outputs {
    let (Array::F32(boxes), Array::F32(scores)) = (call.input(0)?, call.input(1)?) else {
        return Err(Error::new("NonMaxSuppression takes boxes and scores of f32"));
    };
    let (&[batches, count, 4], &[others, classes, scored]) = (boxes.shape(), scores.shape()) else {
        return Err(Error::new(format!("boxes {:?} and scores {:?}", boxes.shape(), scores.shape())));
    };
    if batches != others || count != scored {
        return Err(Error::new(format!("boxes {:?} and scores {:?}", boxes.shape(), scores.shape())));
    }
    let most = usize::try_from(limit::<i64>(call, 2)?.unwrap_or(0)).unwrap_or(0);
    let overlap = limit::<f32>(call, 3)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&overlap) {
        return Err(Error::new(format!("iou_threshold of NonMaxSuppression is {overlap}, expected 0 to 1")));
    }
    let least = limit::<f32>(call, 4)?;
    let center = call.node.int("center_point_box", 0) != 0;
    let (boxes, scores) = (boxes.view(), scores.view());
    let (boxes, scores) = (elements(&boxes), elements(&scores));
    let mut rows = Vec::new();
    for batch in 0..batches {
        let boxes = &boxes[batch * count * 4..][..count * 4];
        let boxes: Vec<Rectangle> = boxes.chunks(4).map(|numbers| Rectangle::new(numbers, center)).collect();
        for class in 0..classes {
            let scores = &scores[(batch * classes + class) * count..][..count];
            for place in left(&boxes, scores, (most, overlap, least)) {
                rows.extend([batch, class, place].map(|value| value as i64));
            }
        }
    }
    Ok(vec![Item::wrap(shaped(&[rows.len() / 3, 3], rows)?)])
}

/// The boxes of one class that are left.
fn left(boxes: &[Rectangle], scores: &[f32], (most, overlap, least): (usize, f32, Option<f32>)) -> Vec<usize> {
    let counts = |&place: &usize| !scores[place].is_nan() && least.is_none_or(|least| scores[place] > least);
    let mut places: Vec<usize> = (0..boxes.len()).filter(counts).collect();
    // Stable, so that of equal ones the first stays first; -0 is 0.
    places.sort_by(|&a, &b| super::select::order(scores[b], scores[a]));
    let mut left: Vec<usize> = Vec::new();
    for place in places {
        if left.len() == most {
            break;
        }
        if !left.iter().any(|&better| boxes[place].overlaps(&boxes[better], overlap)) {
            left.push(place);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, ints, tensor};

    /// What is left of boxes in a row, of 1 by 1 and moved by a tenth each.
    fn left_of(scores: &[f32], most: i64, overlap: f32, least: Option<f32>) -> Result<Vec<i64>, String> {
        let count = scores.len();
        let corners: Vec<f32> = (0..count).flat_map(|i| [1.0, i as f32 / 10.0 + 1.0, 0.0, i as f32 / 10.0]).collect();
        let inputs = vec![
            tensor(&[1, count, 4], &corners),
            tensor(&[1, 1, count], scores),
            ints(&[most]),
            tensor(&[], &[overlap]),
            least.and_then(|least| tensor(&[1], &[least])),
        ];
        let rows = all("NonMaxSuppression", &[], inputs).map_err(|error| error.message)?;
        Ok(rows[0].to_ints().chunks(3).map(|row| row[2]).collect())
    }

    #[test]
    fn the_best_suppress_those_that_overlap() {
        assert_eq!(left_of(&[0.5, 0.9, 0.6, 0.9], 9, 0.5, None), Ok(vec![1]));
        // The boxes 0 and 1 have 9 of 11 parts in common: more than 0.8, less than 0.83.
        assert_eq!(left_of(&[0.5, 0.9, 0.6, 0.9], 9, 0.83, None), Ok(vec![1, 3, 2, 0]));
        assert_eq!(left_of(&[0.5, 0.9, 0.6, 0.9], 9, 0.8, None), Ok(vec![1, 3]));
        assert_eq!(left_of(&[0.5, 0.9, 0.6, 0.9], 1, 1.0, None), Ok(vec![1]));
        assert_eq!(left_of(&[0.5, 0.9, f32::NAN, 0.5], 9, 1.0, Some(0.5)), Ok(vec![1]));
        assert_eq!(left_of(&[f32::NEG_INFINITY, f32::NAN], 9, 1.0, None), Ok(vec![0]));
        assert_eq!(left_of(&[0.5], 0, 1.0, None), Ok(vec![]));
        assert_eq!(left_of(&[0.5], i64::MIN, 1.0, None), Ok(vec![]));
        assert_eq!(left_of(&[], i64::MAX, 1.0, None), Ok(vec![]));
        let error = "iou_threshold of NonMaxSuppression is 1.5, expected 0 to 1";
        assert_eq!(left_of(&[0.5], 1, 1.5, None), Err(error.into()));
    }

    #[test]
    fn boxes_have_corners_or_a_centre() {
        let inputs = || {
            let boxes = tensor(&[1, 3, 4], &[1f32, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 0.0, 1.5, 1.0, 2.0, 2.0]);
            vec![boxes, tensor(&[1, 1, 3], &[0.1f32, 0.2, 0.3]), ints(&[3]), tensor(&[], &[0.5f32])]
        };
        let left = |center| {
            let rows = all("NonMaxSuppression", &[("center_point_box", Attribute::Int(center))], inputs());
            rows.expect("boxes")[0].to_ints()
        };
        assert_eq!(left(1), [0, 0, 2, 0, 0, 1]);
        assert_eq!(left(0), [0, 0, 2, 0, 0, 1, 0, 0, 0]);
        let mut wrong = inputs();
        wrong[1] = tensor(&[1, 1, 2], &[0.1f32, 0.2]);
        let error = all("NonMaxSuppression", &[], wrong).expect_err("another number");
        assert_eq!(error.message, "boxes [1, 3, 4] and scores [1, 1, 2]");
    }
}
