//! The handwritten digits of the test data: pictures that no model was trained with, and how well their probabilities
//! are given. `tests/python/zoo/digits.py` tells how the models were made.

use std::path::{Path, PathBuf};

use byoc_core::runtime::Session;
use byoc_plugin_api::DType;

use crate::tensor::Tensor;
use crate::trial::Needed;
use crate::{data, engine, npz};

/// The name of the models' input.
pub const INPUT: &str = "input";

/// One of the two models, and what to measure it with.
#[derive(Clone, Debug)]
pub struct Digits {
    /// The ONNX file.
    pub model: PathBuf,
    /// An archive of 200 training pictures, `[200, 1, 32, 32]`.
    pub calibration: PathBuf,
    /// A folder of 20 of them as grey PNG files of 8 bits; divided by 255, they are the first of the archive.
    pub pictures: PathBuf,
    /// Test pictures, f32 `[1, 1, 32, 32]` in [0, 1].
    pub inputs: Vec<Tensor>,
    /// What each shows.
    pub labels: Vec<usize>,
    /// The probability of each digit, by onnxruntime.
    pub expected: Vec<Vec<f32>>,
}

/// How probabilities compare with those of the float model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Share of the pictures whose likeliest digit is the label.
    pub accuracy: f64,
    /// Share of the pictures whose likeliest digit is the float model's.
    pub agreement: f64,
    /// Mean absolute error of a probability.
    pub mean_error: f64,
}

/// The model whose every node a K210 can run.
pub fn k210_only() -> Needed<Digits> {
    Ok(load(&data::test_data("digits")?, "model.onnx", "float_probabilities.npy"))
}

/// The model of [`k210_only`] as onnxruntime's tool quantised it, with the probabilities that onnxruntime gives for that.
pub fn quantised() -> Needed<Digits> {
    Ok(load(&data::test_data("digits")?, "qdq.onnx", "qdq_probabilities.npy"))
}

/// The model that ends in operators which a K210 lacks.
pub fn mixed() -> Needed<Digits> {
    Ok(load(&data::test_data("digits")?, "mixed.onnx", "mixed_float_probabilities.npy"))
}

impl Digits {
    /// The probabilities that a compiled model gives for the test pictures.
    pub fn run(&self, session: &mut Session) -> Vec<Vec<f32>> {
        let run = |picture: &Tensor| {
            let outputs = engine::run(session, &[(INPUT.to_owned(), picture.clone())]).expect("runs");
            floats(&outputs[0].1)
        };
        self.inputs.iter().map(run).collect()
    }

    /// Scores the probabilities of the test pictures.
    pub fn score(&self, found: &[Vec<f32>]) -> Score {
        score(found, &self.expected, &self.labels)
    }
}

fn load(folder: &Path, model: &str, probabilities: &str) -> Digits {
    let all = npz::find(&npz::read(&folder.join("test.npz")), INPUT);
    let one: Vec<i64> = std::iter::once(1).chain(all.shape[1..].iter().copied()).collect();
    let size = all.bytes.len() / all.shape[0] as usize;
    let labels = npz::read_one(&folder.join("labels.npy"));
    assert_eq!(labels.dtype, DType::I64);
    let expected = npz::read_one(&folder.join(probabilities));
    Digits {
        model: folder.join(model),
        calibration: folder.join("calibration.npz"),
        pictures: folder.join("images"),
        inputs: all.bytes.chunks_exact(size).map(|bytes| Tensor::new(all.dtype, one.clone(), bytes.to_vec())).collect(),
        labels: labels.bytes.chunks_exact(8).map(|label| usize::from(label[0])).collect(),
        expected: floats(&expected).chunks_exact(expected.shape[1] as usize).map(<[f32]>::to_vec).collect(),
    }
}

/// The elements of an f32 tensor.
pub fn floats(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.dtype, DType::F32);
    let (values, _) = tensor.bytes.as_chunks::<4>();
    values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn score(found: &[Vec<f32>], expected: &[Vec<f32>], labels: &[usize]) -> Score {
    assert_eq!((found.len(), expected.len()), (labels.len(), labels.len()));
    let likeliest: Vec<usize> = found.iter().map(|row| largest(row)).collect();
    let share = |is: &dyn Fn(usize) -> bool| {
        (0..labels.len()).filter(|&picture| is(picture)).count() as f64 / labels.len() as f64
    };
    let errors = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| f64::from((a - b).abs()));
    Score {
        accuracy: share(&|picture| likeliest[picture] == labels[picture]),
        agreement: share(&|picture| likeliest[picture] == largest(&expected[picture])),
        mean_error: errors.sum::<f64>() / expected.iter().map(Vec::len).sum::<usize>() as f64,
    }
}

/// Where the largest value stands, the first of several. Panics at what is not a number: a probability that is none must not pass.
fn largest(row: &[f32]) -> usize {
    let by_value = |&a: &usize, &b: &usize| row[a].partial_cmp(&row[b]).expect("a number");
    (0..row.len()).rev().max_by(by_value).expect("a probability for each digit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_counts_labels_and_the_float_models_choice() {
        let expected = [vec![0.75, 0.25], vec![0.25, 0.75], vec![1.0, 0.0], vec![1.0, 0.0]];
        let found = [vec![0.5, 0.25], vec![1.0, 0.0], vec![1.0, 0.0], vec![1.0, 0.0]];
        let score = score(&found, &expected, &[0, 0, 1, 1]);
        assert_eq!(score, Score { accuracy: 0.5, agreement: 0.75, mean_error: 1.75 / 8.0 });
    }
}
