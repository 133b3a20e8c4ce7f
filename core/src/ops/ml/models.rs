//! Linear models, support vector machines and trees, after `ai.onnx.ml`: version 1, TreeEnsemble 5, the other trees 3. Rows of a
//! table are examples; a vector counts as a row.

use byoc_plugin_api::{DType, Dim};

use super::NUMBERS;
use super::features::length;
use crate::diagnostic::Result;
use crate::ops::infer::{bad, mismatch};
use crate::ops::{Infer, find};

const POST_TRANSFORMS: [&str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];

/// How many elements the list of that name has, 0 where it is absent.
fn count(infer: &Infer<'_>, name: &str) -> Result<usize> {
    let def = find(&infer.node.domain, &infer.node.op);
    let place = def.and_then(|def| Some(def.inputs.1 + def.lifted().position(|attribute| attribute.name == name)?));
    let place = place.ok_or_else(|| bad(format!("there is no list '{name}'")))?;
    Ok(length(infer, place, name)?.unwrap_or(0))
}

/// As [`count`], of a list that must be there.
fn least_one(infer: &Infer<'_>, name: &str) -> Result<usize> {
    match count(infer, name)? {
        0 => Err(bad(format!("attribute '{name}' is missing"))),
        count => Ok(count),
    }
}

/// The numbers of rows and of columns of input 0.
fn table(infer: &Infer<'_>) -> Result<(Dim, Dim)> {
    let x = infer.typed(0, NUMBERS)?;
    match x.shape.as_slice() {
        [columns] => Ok((Dim::Fixed(1), columns.clone())),
        [rows, columns] => Ok((rows.clone(), columns.clone())),
        _ => Err(mismatch(format!("input 0 is {x}, expected one or two dimensions"))),
    }
}

/// Fails where the list of that name has not `each` numbers for each column.
fn fits(infer: &Infer<'_>, name: &str, each: usize, columns: &Dim) -> Result<()> {
    let (count, expected) = (count(infer, name)?, columns.fixed().and_then(|columns| columns.checked_mul(each)));
    match expected {
        Some(expected) if expected != count => Err(mismatch(format!(
            "attribute '{name}' has {count} numbers, expected {expected}: {each} for each of {columns} columns"
        ))),
        _ => Ok(()),
    }
}

/// A number of targets in an attribute.
fn targets(infer: &Infer<'_>, name: &str) -> Result<usize> {
    let value = infer.int(name, 1)?;
    let most = 1 << 20;
    let found = usize::try_from(value).ok().filter(|count| (1..=most).contains(count));
    found.ok_or_else(|| bad(format!("attribute '{name}' is {value}, expected 1 to {most}")))
}

/// How many classes there are, by the list of their labels, and the type of those: integers, whose list has that name, or texts.
fn labels(infer: &Infer<'_>, integers: &str) -> Result<(usize, DType)> {
    match (count(infer, integers)?, count(infer, "classlabels_strings")?) {
        (0, 0) => Err(bad(format!("attributes '{integers}' and 'classlabels_strings' are missing"))),
        (labels, 0) => Ok((labels, DType::I64)),
        (0, labels) => Ok((labels, DType::String)),
        _ => Err(bad(format!("attributes '{integers}' and 'classlabels_strings' are both there"))),
    }
}

/// The label of each row and its scores.
fn classes(infer: &mut Infer<'_>, label: DType, rows: Dim, scores: usize) {
    infer.set(0, label, vec![rows.clone()]);
    infer.set(1, DType::F32, vec![rows, Dim::Fixed(scores)]);
}

/// LinearRegressor: products with the coefficients of each target.
pub(super) fn linear_regressor(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("post_transform", &POST_TRANSFORMS)?;
    let ((rows, columns), targets) = (table(infer)?, targets(infer, "targets")?);
    least_one(infer, "coefficients")?;
    fits(infer, "coefficients", targets, &columns)?;
    same(infer, "intercepts", targets)?;
    infer.set(0, DType::F32, vec![rows, Dim::Fixed(targets)]);
    Ok(())
}

/// Fails where a list is there and has another length.
fn same(infer: &Infer<'_>, name: &str, expected: usize) -> Result<()> {
    match count(infer, name)? {
        0 => Ok(()),
        count if count == expected => Ok(()),
        count => Err(mismatch(format!("attribute '{name}' has {count} numbers, expected {expected}"))),
    }
}

/// LinearClassifier: a score for each class, or one for the second of two.
pub(super) fn linear_classifier(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("post_transform", &POST_TRANSFORMS)?;
    let ((rows, columns), (labels, label)) = (table(infer)?, labels(infer, "classlabels_ints")?);
    let scores = match count(infer, "intercepts")? {
        0 => labels,
        1 if labels == 2 => 1,
        count => count,
    };
    if scores != labels && (scores, labels) != (1, 2) {
        return Err(mismatch(format!("there are {labels} labels for {scores} scores")));
    }
    fits(infer, "coefficients", scores, &columns)?;
    classes(infer, label, rows, labels);
    Ok(())
}

/// The kernel functions of support vector machines; all but the linear one have parameters.
fn kernel(infer: &Infer<'_>) -> Result<()> {
    let kernel = infer.choice("kernel_type", &["LINEAR", "POLY", "RBF", "SIGMOID"])?;
    match count(infer, "kernel_params")? {
        0 if kernel == "LINEAR" => Ok(()),
        3 => Ok(()),
        count => {
            Err(mismatch(format!("attribute 'kernel_params' has {count} numbers, expected 3: gamma, coef0, degree")))
        }
    }
}

/// SVMRegressor: one target.
pub(super) fn svm_regressor(infer: &mut Infer<'_>) -> Result<()> {
    // Neither onnxruntime nor ONNX's reference computes any other.
    infer.choice("post_transform", &["NONE"])?;
    let (rows, columns) = table(infer)?;
    kernel(infer)?;
    least_one(infer, "rho")?;
    let coefficients = least_one(infer, "coefficients")?;
    match infer.int("n_supports", 0)? {
        0 => fits(infer, "coefficients", 1, &columns)?,
        supports if usize::try_from(supports) == Ok(coefficients) => {
            fits(infer, "support_vectors", coefficients, &columns)?
        }
        supports => {
            return Err(mismatch(format!(
                "attribute 'n_supports' is {supports}, and there are {coefficients} coefficients"
            )));
        }
    }
    infer.set(0, DType::F32, vec![rows, Dim::Fixed(1)]);
    Ok(())
}

/// SVMClassifier: with probabilities one for each class. Without, a score for each pair of classes; those of two classes are the score
/// of their pair and its negative. Without support vectors one for each class.
pub(super) fn svm_classifier(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("post_transform", &POST_TRANSFORMS)?;
    let ((rows, columns), (labels, label)) = (table(infer)?, labels(infer, "classlabels_ints")?);
    kernel(infer)?;
    least_one(infer, "rho")?;
    let coefficients = least_one(infer, "coefficients")?;
    let by_class = count(infer, "vectors_per_class")?;
    if by_class == 0 {
        fits(infer, "coefficients", labels, &columns)?;
        classes(infer, label, rows, labels);
        return Ok(());
    }
    if by_class != labels || labels < 2 {
        return Err(mismatch(format!(
            "attribute 'vectors_per_class' has {by_class} numbers, and there are {labels} labels"
        )));
    }
    let pairs = labels * (labels - 1) / 2;
    if coefficients % (labels - 1) != 0 {
        return Err(mismatch(format!(
            "attribute 'coefficients' has {coefficients} numbers, expected a multiple of {}",
            labels - 1
        )));
    }
    fits(infer, "support_vectors", coefficients / (labels - 1), &columns)?;
    let (a, b) = (count(infer, "prob_a")?, count(infer, "prob_b")?);
    for (name, found) in [("rho", count(infer, "rho")?), ("prob_a", a), ("prob_b", b)] {
        if found != pairs && (found != 0 || a != b) {
            return Err(mismatch(format!(
                "attribute '{name}' has {found} numbers, expected {pairs}: one for each pair of classes"
            )));
        }
    }
    classes(infer, label, rows, if a > 0 || labels == 2 { labels } else { pairs });
    Ok(())
}

/// TreeEnsembleRegressor: a number for each target. The importer has looked at the trees.
pub(super) fn tree_regressor(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("post_transform", &POST_TRANSFORMS)?;
    infer.choice("aggregate_function", &["SUM", "AVERAGE", "MIN", "MAX"])?;
    let ((rows, _), targets) = (table(infer)?, targets(infer, "n_targets")?);
    infer.set(0, DType::F32, vec![rows, Dim::Fixed(targets)]);
    Ok(())
}

/// TreeEnsembleClassifier: a score for each class.
pub(super) fn tree_classifier(infer: &mut Infer<'_>) -> Result<()> {
    infer.choice("post_transform", &POST_TRANSFORMS)?;
    let ((rows, _), (labels, label)) = (table(infer)?, labels(infer, "classlabels_int64s")?);
    classes(infer, label, rows, labels);
    Ok(())
}

/// TreeEnsemble: a number for each target, of the type of the features.
pub(super) fn tree_ensemble(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.ranked(0, &[DType::F32, DType::F64, DType::F16], 2)?;
    for (name, last) in [("aggregate_function", 3), ("post_transform", 4)] {
        let value = infer.int(name, 0)?;
        if !(0..=last).contains(&value) {
            return Err(bad(format!("attribute '{name}' is {value}, expected 0 to {last}")));
        }
    }
    let targets = targets(infer, "n_targets")?;
    infer.set(0, x.dtype, vec![x.shape[0].clone(), Dim::Fixed(targets)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const MODELS: &[Case] = &[
        ("ai.onnx.ml.LinearRegressor", "targets=2", "f32[n,3] f32[6] f32[2]", "f32[n,2]"),
        ("ai.onnx.ml.LinearRegressor", "", "f64[3] f32[3]", "f32[1,1]"),
        (
            "ai.onnx.ml.LinearRegressor",
            "targets=2",
            "f32[n,3] f32[3]",
            "[B202] attribute 'coefficients' has 3 numbers, expected 6: 2 for each of 3 columns",
        ),
        (
            "ai.onnx.ml.LinearRegressor",
            "targets=0",
            "f32[n,3] f32[3]",
            "[B106] attribute 'targets' is 0, expected 1 to 1048576",
        ),
        (
            "ai.onnx.ml.LinearRegressor",
            "",
            "f32[n,3] f32[3] f32[2]",
            "[B202] attribute 'intercepts' has 2 numbers, expected 1",
        ),
        ("ai.onnx.ml.LinearClassifier", "", "f32[n,3] u8[3] - f32[9] f32[3]", "i64[n] f32[n,3]"),
        ("ai.onnx.ml.LinearClassifier", "", "f32[n,3] u8[2] - f32[3] f32[1]", "i64[n] f32[n,2]"),
        ("ai.onnx.ml.LinearClassifier", "", "f32[n,3] u8[3] - f32[3] f32[1]", "[B202] there are 3 labels for 1 scores"),
        (
            "ai.onnx.ml.LinearClassifier",
            "",
            "f32[n,3] - - f32[3] f32[1]",
            "[B106] attributes 'classlabels_ints' and 'classlabels_strings' are missing",
        ),
        ("ai.onnx.ml.SVMRegressor", "n_supports=2 kernel_type=RBF", "f32[n,3] f32[2] f32[3] f32[1] f32[6]", "f32[n,1]"),
        (
            "ai.onnx.ml.SVMRegressor",
            "n_supports=2 kernel_type=RBF",
            "f32[n,3] f32[2] - f32[1] f32[6]",
            "[B202] attribute 'kernel_params' has 0 numbers, expected 3: gamma, coef0, degree",
        ),
        (
            "ai.onnx.ml.SVMRegressor",
            "n_supports=3",
            "f32[n,3] f32[2] - f32[1] f32[6]",
            "[B202] attribute 'n_supports' is 3, and there are 2 coefficients",
        ),
        ("ai.onnx.ml.SVMClassifier", "", "f32[n,2] u8[4] - f32[12] - - - f32[6] f32[8] u8[4]", "i64[n] f32[n,6]"),
        (
            "ai.onnx.ml.SVMClassifier",
            "",
            "f32[n,2] u8[4] - f32[12] - f32[6] f32[6] f32[6] f32[8] u8[4]",
            "i64[n] f32[n,4]",
        ),
        ("ai.onnx.ml.SVMClassifier", "", "f32[n,2] u8[2] - f32[3] - - - f32[1] f32[6] u8[2]", "i64[n] f32[n,2]"),
        ("ai.onnx.ml.SVMClassifier", "", "f32[n,2] u8[3] - f32[6] - - - f32[1]", "i64[n] f32[n,3]"),
        (
            "ai.onnx.ml.SVMClassifier",
            "",
            "f32[n,2] u8[4] - f32[12] - f32[6] f32[5] f32[6] f32[8] u8[4]",
            "[B202] attribute 'prob_b' has 5 numbers, expected 6: one for each pair of classes",
        ),
        ("ai.onnx.ml.TreeEnsembleRegressor", "n_targets=3 aggregate_function=MIN", "i64[n,2]", "f32[n,3]"),
        (
            "ai.onnx.ml.TreeEnsembleRegressor",
            "aggregate_function=MEAN",
            "f32[n,2]",
            "[B106] attribute 'aggregate_function' is 'MEAN', expected one of SUM, AVERAGE, MIN, MAX",
        ),
        ("ai.onnx.ml.LinearClassifier", "", "f32[n,3] - string[2] f32[3] f32[1]", "string[n] f32[n,2]"),
        (
            "ai.onnx.ml.LinearClassifier",
            "",
            "f32[n,3] u8[2] string[2] f32[3] f32[1]",
            "[B106] attributes 'classlabels_ints' and 'classlabels_strings' are both there",
        ),
        ("ai.onnx.ml.TreeEnsembleClassifier", "", "f32[n,2] - - - - - - - u8[5]", "i64[n] f32[n,5]"),
        ("ai.onnx.ml.TreeEnsembleClassifier", "", "f32[n,2] - - - - - - - - string[5]", "string[n] f32[n,5]"),
        (
            "ai.onnx.ml.TreeEnsemble",
            "post_transform=5",
            "f32[n,2]",
            "[B106] attribute 'post_transform' is 5, expected 0 to 4",
        ),
        ("ai.onnx.ml.TreeEnsemble", "n_targets=4", "f64[n,2]", "f64[n,4]"),
    ];

    #[test]
    fn models() {
        check(MODELS);
    }
}
