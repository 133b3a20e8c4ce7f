//! Linear models and support vector machines of `ai.onnx.ml`.

use byoc_plugin_api::Error;

use super::array::{Array, shaped};
use super::call::{Call, Outputs};
use super::features::{TABLE, as_f32};
use super::scores::{Lists, Transform, best, classified, rows, table};
use super::{ANY, Kernel, STRING, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ai.onnx.ml.LinearClassifier", linear_classifier, &[TABLE, ANY.or(STRING)]),
    kernel("ai.onnx.ml.LinearRegressor", linear_regressor, &[TABLE, ANY]),
    kernel("ai.onnx.ml.SVMClassifier", svm_classifier, &[TABLE, ANY.or(STRING)]),
    kernel("ai.onnx.ml.SVMRegressor", svm_regressor, &[TABLE, ANY]),
];

fn unfit(call: &Call<'_, '_>) -> Error {
    Error::new(format!("the lists of {} do not fit the features", call.node.op))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The products of each row with each of `count` lists of coefficients, plus the intercepts.
fn products(call: &Call<'_, '_>, lists: &Lists<'_, '_, '_>, count: usize) -> Result<(usize, Vec<f64>), Error> {
    let ((height, columns, x), coefficients) = (table(call)?, lists.floats("coefficients"));
    let intercepts = lists.floats("intercepts");
    let length = count.checked_mul(columns);
    if length != Some(coefficients.len()) || !(intercepts.is_empty() || intercepts.len() == count) {
        return Err(unfit(call));
    }
    let mut scores = Vec::new();
    for row in rows(&x, height, columns) {
        let score = |k: usize| {
            dot(row, &coefficients[k * columns..(k + 1) * columns]) + intercepts.get(k).copied().unwrap_or(0.0)
        };
        scores.extend((0..count).map(score));
    }
    Ok((height, scores))
}

/// `LinearRegressor`: a product with each target's coefficients.
fn linear_regressor(call: &Call<'_, '_>) -> Outputs {
    let targets =
        usize::try_from(call.node.int("targets", 1)).ok().filter(|&targets| targets > 0).ok_or_else(|| unfit(call))?;
    let transform = Transform::of(call)?;
    call.count(&[table(call)?.0, targets])?;
    let (height, mut scores) = products(call, &Lists::new(call, &["coefficients", "intercepts"]), targets)?;
    scores.chunks_exact_mut(targets).for_each(|row| transform.apply(row));
    as_f32(shaped(&[height, targets], scores)?)
}

/// `LinearClassifier`: of the scores of all classes the largest one, or the sign of the only one.
fn linear_classifier(call: &Call<'_, '_>) -> Outputs {
    let lists = Lists::new(call, &["classlabels_ints", "classlabels_strings", "coefficients", "intercepts"]);
    let (labels, transform) = (lists.labels("classlabels_ints")?, Transform::of(call)?);
    let count = match lists.floats("intercepts").len() {
        0 => labels.len(),
        count => count,
    };
    if labels.is_empty() || count != labels.len() && (count, labels.len()) != (1, 2) {
        return Err(unfit(call));
    }
    let (_, mut scores) = products(call, &lists, count)?;
    if count < labels.len() {
        let found = scores.iter().map(|&score| usize::from(score > 0.0)).collect::<Vec<_>>();
        let pairs = scores.iter().flat_map(|&score| transform.of_pair(1.0 - score, score)).collect();
        return classified(&labels, &found, 2, pairs);
    }
    let found = scores.chunks_exact(count).map(best).collect::<Vec<_>>();
    scores.chunks_exact_mut(count).for_each(|row| transform.apply(row));
    classified(&labels, &found, count, scores)
}

/// The function that stands for a product of two vectors.
struct Similarity {
    kind: fn(&[f64], &[f64], [f64; 3]) -> f64,
    /// gamma, coef0, degree.
    parameters: [f64; 3],
}

impl Similarity {
    fn of(call: &Call<'_, '_>, lists: &Lists<'_, '_, '_>) -> Result<Similarity, Error> {
        let parameters = lists.floats("kernel_params");
        let parameters =
            if parameters.is_empty() { [0.0; 3] } else { parameters.try_into().map_err(|_| unfit(call))? };
        let kind: fn(&[f64], &[f64], [f64; 3]) -> f64 = match call.node.string("kernel_type", "LINEAR") {
            "LINEAR" => |a, b, _| dot(a, b),
            "POLY" => |a, b, [gamma, coef0, degree]| (gamma * dot(a, b) + coef0).powf(degree),
            "RBF" => |a, b, [gamma, ..]| (-gamma * a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()).exp(),
            "SIGMOID" => |a, b, [gamma, coef0, _]| (gamma * dot(a, b) + coef0).tanh(),
            other => return Err(Error::new(format!("there is no kernel '{other}'"))),
        };
        Ok(Similarity { kind, parameters })
    }

    fn between(&self, a: &[f64], b: &[f64]) -> f64 {
        (self.kind)(a, b, self.parameters)
    }
}

/// `SVMRegressor`: the weighted similarities to the support vectors or, where there are none, the product with the coefficients; with
/// `one_class` the sign.
fn svm_regressor(call: &Call<'_, '_>) -> Outputs {
    let lists = Lists::new(call, &["coefficients", "kernel_params", "rho", "support_vectors"]);
    let ((height, columns, x), similarity) = (table(call)?, Similarity::of(call, &lists)?);
    let (coefficients, vectors) = (lists.floats("coefficients"), lists.floats("support_vectors"));
    let supports = usize::try_from(call.node.int("n_supports", 0)).map_err(|_| unfit(call))?;
    let fits = if supports == 0 {
        coefficients.len() == columns
    } else {
        coefficients.len() == supports && Some(vectors.len()) == supports.checked_mul(columns)
    };
    let Some(&rho) = lists.floats("rho").first().filter(|_| fits) else { return Err(unfit(call)) };
    let score = |row: &[f64]| {
        let sum = match supports {
            0 => dot(row, &coefficients),
            _ => (0..supports)
                .map(|k| coefficients[k] * similarity.between(row, &vectors[k * columns..(k + 1) * columns]))
                .sum(),
        };
        let score = sum + rho;
        match call.node.int("one_class", 0) {
            0 => score,
            _ if score > 0.0 => 1.0,
            _ => -1.0,
        }
    };
    as_f32(shaped(&[height, 1], rows(&x, height, columns).map(score).collect())?)
}

/// Support vectors by class.
struct Machine {
    /// Where the vectors of each class begin, and where the last ones end.
    starts: Vec<usize>,
    /// For each class but one, a coefficient of each vector.
    coefficients: Vec<f64>,
    /// For each pair of classes.
    rho: Vec<f64>,
    /// Of each pair what makes a probability of its score; empty without probabilities.
    sigmoids: Vec<[f64; 2]>,
}

const MACHINE: &[&str] = &[
    "classlabels_ints",
    "classlabels_strings",
    "coefficients",
    "kernel_params",
    "prob_a",
    "prob_b",
    "rho",
    "support_vectors",
    "vectors_per_class",
];

/// `SVMClassifier`: each pair of classes has a vote.
fn svm_classifier(call: &Call<'_, '_>) -> Outputs {
    let lists = Lists::new(call, MACHINE);
    let (labels, transform, similarity) =
        (lists.labels("classlabels_ints")?, Transform::of(call)?, Similarity::of(call, &lists)?);
    if lists.ints("vectors_per_class").is_empty() {
        return linear_machine(call, &lists, &labels, transform);
    }
    let (height, columns, x) = table(call)?;
    let (machine, vectors) = (Machine::of(&lists).ok_or_else(|| unfit(call))?, lists.floats("support_vectors"));
    let count = machine.starts.last().copied().unwrap_or(0);
    if Some(vectors.len()) != count.checked_mul(columns) || labels.len() + 1 != machine.starts.len() || labels.len() < 2
    {
        return Err(unfit(call));
    }
    let (mut found, mut all, mut width) = (Vec::new(), Vec::new(), 0);
    for row in rows(&x, height, columns) {
        let near: Vec<f64> =
            (0..count).map(|k| similarity.between(row, &vectors[k * columns..(k + 1) * columns])).collect();
        let (pairs, votes) = machine.pairs(&near);
        found.push(best(&votes));
        let mut scores = match machine.sigmoids.is_empty() {
            false => machine.probabilities(&pairs),
            // As in onnxruntime: the score of the pair is that of its second class, and a softmax changes neither.
            true if labels.len() == 2 && transform == Transform::Keep => vec![-pairs[0], pairs[0]],
            true if labels.len() == 2 => transform.of_pair(1.0 - pairs[0], pairs[0]).to_vec(),
            true => pairs,
        };
        if !(machine.sigmoids.is_empty() && labels.len() == 2) {
            transform.apply(&mut scores);
        }
        width = scores.len();
        all.extend(scores);
    }
    if height == 0 {
        let pairs = machine.rho.len();
        width = if labels.len() == 2 || !machine.sigmoids.is_empty() { labels.len() } else { pairs };
    }
    classified(&labels, &found, width, all)
}

/// Without support vectors: the largest product with the coefficients of a class.
fn linear_machine(call: &Call<'_, '_>, lists: &Lists<'_, '_, '_>, labels: &Array<'_>, transform: Transform) -> Outputs {
    let ((height, columns, x), coefficients) = (table(call)?, lists.floats("coefficients"));
    let Some(&rho) = lists
        .floats("rho")
        .first()
        .filter(|_| !labels.is_empty() && Some(coefficients.len()) == labels.len().checked_mul(columns))
    else {
        return Err(unfit(call));
    };
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for row in rows(&x, height, columns) {
        let score = |k: usize| dot(row, &coefficients[k * columns..(k + 1) * columns]) + rho;
        let mut scores: Vec<f64> = (0..labels.len()).map(score).collect();
        found.push(best(&scores));
        transform.apply(&mut scores);
        all.extend(scores);
    }
    classified(labels, &found, labels.len(), all)
}

impl Machine {
    fn of(lists: &Lists<'_, '_, '_>) -> Option<Machine> {
        let mut starts = vec![0usize];
        for count in lists.ints("vectors_per_class") {
            starts.push(starts.last()?.checked_add(usize::try_from(count).ok()?)?);
        }
        let (classes, vectors) = (starts.len() - 1, *starts.last()?);
        let (coefficients, rho) = (lists.floats("coefficients"), lists.floats("rho"));
        let (a, b) = (lists.floats("prob_a"), lists.floats("prob_b"));
        let pairs = classes.checked_mul(classes.checked_sub(1)?)? / 2;
        let fits = coefficients.len() == vectors.checked_mul(classes - 1)? && rho.len() == pairs;
        let probable = a.len() == b.len() && (a.is_empty() || a.len() == pairs);
        let sigmoids = a.into_iter().zip(b).map(|(a, b)| [a, b]).collect();
        (fits && probable).then_some(Machine { starts, coefficients, rho, sigmoids })
    }

    /// The score of each pair of classes, and how many pairs each class wins. The coefficients of a vector for its pair with another
    /// class are in the row of that class, less one where it comes after its own.
    fn pairs(&self, near: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (classes, vectors) = (self.starts.len() - 1, near.len());
        let (mut scores, mut votes) = (Vec::with_capacity(self.rho.len()), vec![0.0; classes]);
        for first in 0..classes {
            for second in first + 1..classes {
                let part = |of: usize, row: usize| {
                    let range = self.starts[of]..self.starts[of + 1];
                    dot(&self.coefficients[row * vectors..][range.clone()], &near[range])
                };
                let score = part(first, second - 1) + part(second, first) + self.rho[scores.len()];
                votes[if score > 0.0 { first } else { second }] += 1.0;
                scores.push(score);
            }
        }
        (scores, votes)
    }

    /// Probabilities of the classes by pairwise coupling: the second method of T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability
    /// estimates for multi-class classification by pairwise coupling", 2004, with the iteration of its section 4.
    fn probabilities(&self, pairs: &[f64]) -> Vec<f64> {
        let classes = self.starts.len() - 1;
        let mut wins = vec![vec![0.0; classes]; classes];
        let places = (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second)));
        for ((first, second), (score, [a, b])) in places.zip(pairs.iter().zip(&self.sigmoids)) {
            let won = (1.0 / (1.0 + (score * a + b).exp())).clamp(1e-7, 1.0 - 1e-7);
            (wins[first][second], wins[second][first]) = (won, 1.0 - won);
        }
        let q = |i: usize, j: usize| match i == j {
            true => (0..classes).filter(|&other| other != i).map(|other| wins[other][i] * wins[other][i]).sum::<f64>(),
            false => -wins[j][i] * wins[i][j],
        };
        let q: Vec<Vec<f64>> = (0..classes).map(|i| (0..classes).map(|j| q(i, j)).collect()).collect();
        let mut p = vec![1.0 / classes as f64; classes];
        for _ in 0..classes.max(100) {
            let qp: Vec<f64> = q.iter().map(|row| dot(row, &p)).collect();
            let pqp = dot(&p, &qp);
            let error = qp.iter().map(|value| (value - pqp).abs()).fold(0.0, f64::max);
            if error < 0.005 / classes as f64 {
                break;
            }
            let (mut qp, mut pqp) = (qp, pqp);
            for t in 0..classes {
                let step = (pqp - qp[t]) / q[t][t];
                p[t] += step;
                pqp = (pqp + step * (step * q[t][t] + 2.0 * qp[t])) / ((1.0 + step) * (1.0 + step));
                for j in 0..classes {
                    qp[j] = (qp[j] + step * q[t][j]) / (1.0 + step);
                    p[j] /= 1.0 + step;
                }
            }
        }
        p
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use crate::testing::{all, tensor, text};

    /// Figures are onnxruntime's.
    #[test]
    fn scores_and_labels_are_those_of_onnxruntime() {
        let x = || tensor(&[1, 2], &[0.125_730_22f32, -0.132_104_86]);
        let rbf = [("kernel_type", text("RBF")), ("n_supports", Attribute::Int(3))];
        let params = || tensor(&[3], &[0.5f32, 0.2, 3.0]);
        let vectors = || tensor(&[6], &[0.5f32, -0.2, 1.0, 0.3, -0.7, 0.9]);
        let weights = || tensor(&[3], &[0.5f32, -1.0, 0.25]);
        let inputs = vec![x(), weights(), params(), tensor(&[1], &[0.1f32]), vectors()];
        let found = all("ai.onnx.ml.SVMRegressor", &rbf, inputs).expect("runs");
        assert!((found[0].to_f64()[[0, 0]] - 0.047_918_91).abs() < 1e-6);
        let machine = |probable: bool| {
            let of = |value| probable.then(|| tensor(&[1], &[value])).flatten();
            let labels = tensor(&[2], &[5u8, 7]);
            let counts = tensor(&[2], &[2u8, 1]);
            let rho = tensor(&[1], &[0.1f32]);
            let inputs = vec![x(), labels, None, weights(), params(), of(-1.5f32), of(0.2f32), rho, vectors(), counts];
            let found = all("ai.onnx.ml.SVMClassifier", &rbf[..1], inputs).expect("runs");
            assert_eq!(found[0].to_ints(), [5]);
            found[1].to_f64().into_iter().collect::<Vec<_>>()
        };
        let close = |found: Vec<f64>, expected: [f64; 2]| {
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5), "{found:?}");
        };
        close(machine(false), [-0.047_918_91, 0.047_918_91]);
        close(machine(true), [0.468_004_5, 0.531_995_53]);
    }

    #[test]
    fn lists_that_do_not_fit_are_errors() {
        let x = || tensor(&[1, 2], &[1f32, 2.0]);
        let message = |op: &str, inputs| all(op, &[], inputs).map(drop).expect_err("they do not fit").message;
        let labels = || tensor(&[2], &[5u8, 7]);
        for (op, inputs) in [
            ("LinearRegressor", vec![x(), tensor(&[3], &[1f32; 3])]),
            ("LinearClassifier", vec![x(), labels(), None, tensor(&[3], &[1f32; 3])]),
            ("SVMRegressor", vec![x(), tensor(&[2], &[1f32; 2])]),
            ("SVMClassifier", vec![x(), labels(), None, tensor(&[2], &[1f32; 2])]),
            (
                "SVMClassifier",
                vec![
                    x(),
                    labels(),
                    None,
                    tensor(&[2], &[1f32; 2]),
                    None,
                    None,
                    None,
                    None,
                    None,
                    tensor(&[2], &[255u8; 2]),
                ],
            ),
        ] {
            let expected = format!("the lists of ai.onnx.ml.{op} do not fit the features");
            assert_eq!(message(&format!("ai.onnx.ml.{op}"), inputs), expected);
        }
    }
}
