//! What models of `ai.onnx.ml` make of their scores: lists that are inputs, post transforms, labels.

use byoc_plugin_api::Error;

use super::array::{Array, Item, shaped};
use super::call::{Call, Outputs};
use super::gather::taken;

/// The inputs of a node that are attributes in ONNX, by name.
pub(super) struct Lists<'c, 'n, 'a> {
    call: &'c Call<'n, 'a>,
    /// In the order of the inputs, behind the features.
    names: &'static [&'static str],
}

impl<'c, 'n, 'a> Lists<'c, 'n, 'a> {
    /// The lists of a node, which are called so.
    pub(super) fn new(call: &'c Call<'n, 'a>, names: &'static [&'static str]) -> Self {
        Lists { call, names }
    }

    fn get(&self, name: &str) -> Option<&'c Array<'a>> {
        self.call.optional(self.names.iter().position(|known| *known == name)? + 1)
    }

    /// Integers; none where the list is absent.
    pub(super) fn ints(&self, name: &str) -> Vec<i64> {
        self.get(name).map_or_else(Vec::new, Array::to_ints)
    }

    /// The labels of the classes: texts by their handles, or the integers of that list.
    pub(super) fn labels(&self, integers: &str) -> Result<Array<'static>, Error> {
        match self.get("classlabels_strings") {
            Some(texts) => Ok(texts.to_owned()),
            None => {
                let labels = self.ints(integers);
                Ok(Item::wrap(shaped(&[labels.len()], labels)?))
            }
        }
    }

    /// Numbers, in the form that is there; none where the list is absent.
    pub(super) fn floats(&self, name: &str) -> Vec<f64> {
        let array = self.get(name).or_else(|| self.get(&format!("{name}_as_tensor")));
        array.map_or_else(Vec::new, |array| array.to_f64().into_iter().collect())
    }
}

/// The features: numbers of rows and columns, and the elements. A vector counts as a row.
pub(super) fn table(call: &Call<'_, '_>) -> Result<(usize, usize, Vec<f64>), Error> {
    let x = call.input(0)?;
    let elements = x.to_f64().into_iter().collect();
    match *x.shape() {
        [columns] => Ok((1, columns, elements)),
        [rows, columns] => Ok((rows, columns, elements)),
        ref shape => {
            Err(Error::new(format!("{} takes a table, and the features have the shape {shape:?}", call.node.op)))
        }
    }
}

/// The rows of a table, one slice each.
pub(super) fn rows(elements: &[f64], rows: usize, columns: usize) -> impl Iterator<Item = &[f64]> {
    (0..rows).map(move |row| &elements[row * columns..(row + 1) * columns])
}

/// What becomes of the scores of a row in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    Keep,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    /// The one that the attribute names, or numbers as `TreeEnsemble` does.
    pub(super) fn of(call: &Call<'_, '_>) -> Result<Transform, Error> {
        let (name, number) = (call.node.string("post_transform", ""), call.node.int("post_transform", 0));
        Ok(match (name, number) {
            ("NONE", _) | ("", 0) => Transform::Keep,
            ("SOFTMAX", _) | ("", 1) => Transform::Softmax,
            ("LOGISTIC", _) | ("", 2) => Transform::Logistic,
            ("SOFTMAX_ZERO", _) | ("", 3) => Transform::SoftmaxZero,
            ("PROBIT", _) | ("", 4) => Transform::Probit,
            _ => return Err(Error::new(format!("there is no post transform '{name}' {number}"))),
        })
    }

    /// Applies it to the scores of a row. A lone score only has a probit, as in onnxruntime.
    pub(super) fn apply(self, scores: &mut [f64]) {
        match self {
            Transform::Probit => scores.iter_mut().for_each(|score| *score = probit(*score)),
            _ if scores.len() < 2 => {}
            Transform::Keep => {}
            Transform::Softmax => softmax(scores, |_| true),
            // What is 0 stays so, and has no part in the sum.
            Transform::SoftmaxZero => softmax(scores, |score| score.abs() > 1e-7),
            Transform::Logistic => scores.iter_mut().for_each(|score| *score = logistic(*score)),
        }
    }

    /// The scores of two classes of which only the second has one: `first` is what the other one has without a transform. As in
    /// onnxruntime, a softmax changes neither.
    pub(super) fn of_pair(self, first: f64, second: f64) -> [f64; 2] {
        match self {
            Transform::Logistic => [logistic(-second), logistic(second)],
            Transform::Probit => [probit(first), probit(second)],
            _ => [first, second],
        }
    }
}

fn softmax(scores: &mut [f64], counts: impl Fn(f64) -> bool) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, Item::larger);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        if counts(*score) {
            *score = (*score - largest).exp();
            sum += *score;
        } else {
            *score *= (-largest).exp();
        }
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// `1 / (1 + e^-x)`.
pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The quantile function of the normal distribution by Winitzki's approximation of the inverse error function (S. Winitzki, "A handy
/// approximation for the error function and its inverse", 2008), which other runtimes use too; NaN outside of 0 to 1.
fn probit(p: f64) -> f64 {
    const A: f64 = 0.147;
    let x = 2.0 * p - 1.0;
    let log = (1.0 - x * x).ln();
    let half = 2.0 / (std::f64::consts::PI * A) + log / 2.0;
    let root = ((half * half - log / A).sqrt() - half).sqrt();
    std::f64::consts::SQRT_2 * if x < 0.0 { -root } else { root }
}

/// The place of the first of the largest.
pub(super) fn best(scores: &[f64]) -> usize {
    let mut best = 0;
    for (place, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = place;
        }
    }
    best
}

/// The labels of all rows, each by its place among `labels`, and their scores.
pub(super) fn classified(labels: &Array<'_>, places: &[usize], columns: usize, scores: Vec<f64>) -> Outputs {
    let rows = places.len();
    let scores = shaped(&[rows, columns], scores)?;
    let labels = taken(labels, (1, labels.len(), 1), places, &[rows])?;
    Ok(labels.into_iter().chain([Array::from_f64(byoc_plugin_api::DType::F32, scores)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        let near = |(found, expected): (&f64, &f64)| {
            found == expected || (found - expected).abs() < 1e-6 || found.is_nan() && expected.is_nan()
        };
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?} {expected:?}");
    }

    /// Figures are onnxruntime's.
    #[test]
    fn transforms_are_those_of_onnxruntime() {
        let of = |transform: Transform, scores: &[f64]| {
            let mut scores = scores.to_vec();
            transform.apply(&mut scores);
            scores
        };
        close(&of(Transform::Softmax, &[0.35, 0.0, 0.0]), &[0.4150452, 0.2924774, 0.2924774]);
        close(&of(Transform::SoftmaxZero, &[0.1, -0.5, 0.0]), &[0.6456563, 0.3543437, 0.0]);
        close(&of(Transform::Logistic, &[0.1, 0.25]), &[0.5249792, 0.5621765]);
        close(&of(Transform::Probit, &[0.35, 0.1, 0.0, -0.5]), &[-0.3853402, -1.2817129, f64::NEG_INFINITY, f64::NAN]);
        close(&of(Transform::Logistic, &[0.35]), &[0.35]);
        close(&of(Transform::Probit, &[0.55]), &[0.1256620]);
        close(&Transform::Logistic.of_pair(0.65, 0.35), &[0.4133824, 0.5866176]);
        close(&Transform::Softmax.of_pair(0.65, 0.35), &[0.65, 0.35]);
        assert_eq!([best(&[1.0, 3.0, 3.0]), best(&[f64::NAN, 1.0])], [1, 0]);
    }
}
