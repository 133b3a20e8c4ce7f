//! Ensembles of trees of `ai.onnx.ml`.

use byoc_plugin_api::{DType, Error};

use super::array::{Array, Item, shaped};
use super::call::{Call, Outputs};
use super::features::TABLE;
use super::forest::Forest;
use super::scores::{Lists, Transform, best, classified, rows, table};
use super::types::Types;
use super::{ANY, Kernel, STRING, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ai.onnx.ml.TreeEnsemble", ensemble, &[Types::of(&[DType::F32, DType::F64, DType::F16]), ANY]),
    kernel("ai.onnx.ml.TreeEnsembleClassifier", classifier, &[TABLE, ANY.or(STRING)]),
    kernel("ai.onnx.ml.TreeEnsembleRegressor", regressor, &[TABLE, ANY]),
];

const ENSEMBLE: &[&str] = &[
    "leaf_targetids",
    "leaf_weights",
    "membership_values",
    "nodes_falseleafs",
    "nodes_falsenodeids",
    "nodes_featureids",
    "nodes_missing_value_tracks_true",
    "nodes_modes",
    "nodes_splits",
    "nodes_trueleafs",
    "nodes_truenodeids",
    "tree_roots",
];

const CLASSIFIER: &[&str] = &[
    "base_values",
    "base_values_as_tensor",
    "class_ids",
    "class_nodeids",
    "class_treeids",
    "class_weights",
    "class_weights_as_tensor",
    "classlabels_int64s",
    "classlabels_strings",
    "nodes_falsenodeids",
    "nodes_featureids",
    "nodes_missing_value_tracks_true",
    "nodes_modes",
    "nodes_nodeids",
    "nodes_treeids",
    "nodes_truenodeids",
    "nodes_values",
    "nodes_values_as_tensor",
];

const REGRESSOR: &[&str] = &[
    "base_values",
    "base_values_as_tensor",
    "nodes_falsenodeids",
    "nodes_featureids",
    "nodes_missing_value_tracks_true",
    "nodes_modes",
    "nodes_nodeids",
    "nodes_treeids",
    "nodes_truenodeids",
    "nodes_values",
    "nodes_values_as_tensor",
    "target_ids",
    "target_nodeids",
    "target_treeids",
    "target_weights",
    "target_weights_as_tensor",
];

/// What becomes of the weights of all trees for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// An error of a node's trees.
fn failed(call: &Call<'_, '_>) -> impl Fn(String) -> Error {
    let op = call.node.op.clone();
    move |cause| Error::new(format!("{op}: {cause}"))
}

/// The number of targets in an attribute.
fn targets(call: &Call<'_, '_>) -> Result<usize, Error> {
    let count = call.node.int("n_targets", 1);
    usize::try_from(count).map_err(|_| failed(call)(format!("there cannot be {count} targets")))
}

/// The weights of a row: for each target what all trees make of it, `None` where none has any.
fn gather(forest: &Forest, aggregate: Aggregate, row: &[f64], targets: usize) -> Result<Vec<Option<f64>>, String> {
    let mut found: Vec<Option<f64>> = vec![None; targets];
    forest.walk(row, |target, weight| {
        let so_far = &mut found[target];
        *so_far = Some(match (*so_far, aggregate) {
            (None, _) => weight,
            (Some(so_far), Aggregate::Sum | Aggregate::Average) => so_far + weight,
            (Some(so_far), Aggregate::Min) => so_far.smaller(weight),
            (Some(so_far), Aggregate::Max) => so_far.larger(weight),
        });
    })?;
    if aggregate == Aggregate::Average {
        found.iter_mut().flatten().for_each(|sum| *sum /= forest.trees() as f64);
    }
    Ok(found)
}

/// A number for each target of each row.
fn predicted(call: &Call<'_, '_>, forest: &Forest, aggregate: Aggregate, base: &[f64]) -> Result<Vec<f64>, Error> {
    let ((height, columns, x), targets, transform) = (table(call)?, targets(call)?, Transform::of(call)?);
    forest.check_width(columns).map_err(failed(call))?;
    let mut values = Vec::with_capacity(call.count(&[height, targets])?);
    for row in rows(&x, height, columns) {
        let found = gather(forest, aggregate, row, targets).map_err(failed(call))?;
        let with_base = found
            .iter()
            .enumerate()
            .map(|(target, value)| value.unwrap_or(0.0) + base.get(target).copied().unwrap_or(0.0));
        let mut scores: Vec<f64> = with_base.collect();
        transform.apply(&mut scores);
        values.extend(scores);
    }
    Ok(values)
}

/// `TreeEnsemble`: a number for each target.
fn ensemble(call: &Call<'_, '_>) -> Outputs {
    let aggregate = match call.node.int("aggregate_function", 1) {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(failed(call)(format!("there is no aggregate function {other}"))),
    };
    let forest = Forest::by_place(&Lists::new(call, ENSEMBLE), targets(call)?).map_err(failed(call))?;
    let values = predicted(call, &forest, aggregate, &[])?;
    call.rounded(shaped(&[table(call)?.0, targets(call)?], values)?)
}

/// `TreeEnsembleRegressor`: a number for each target.
fn regressor(call: &Call<'_, '_>) -> Outputs {
    let aggregate = match call.node.string("aggregate_function", "SUM") {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(failed(call)(format!("there is no aggregate function '{other}'"))),
    };
    let lists = Lists::new(call, REGRESSOR);
    let forest = Forest::by_number(&lists, "target", targets(call)?).map_err(failed(call))?;
    let values = predicted(call, &forest, aggregate, &lists.floats("base_values"))?;
    Ok(vec![Array::from_f64(DType::F32, shaped(&[table(call)?.0, targets(call)?], values)?)])
}

/// `TreeEnsembleClassifier`: of the sums of the weights of each class the largest one. Where only one of two classes has weights,
/// its sum decides: it is a probability where no weight is negative.
fn classifier(call: &Call<'_, '_>) -> Outputs {
    let lists = Lists::new(call, CLASSIFIER);
    let (labels, ids, base) =
        (lists.labels("classlabels_int64s")?, lists.ints("class_ids"), lists.floats("base_values"));
    let ((height, columns, x), transform) = (table(call)?, Transform::of(call)?);
    if labels.is_empty() {
        return Err(failed(call)("there is no label".into()));
    }
    let forest = Forest::by_number(&lists, "class", labels.len()).map_err(failed(call))?;
    forest.check_width(columns).map_err(failed(call))?;
    let alone = ids.first().filter(|&first| labels.len() == 2 && ids.iter().all(|id| id == first));
    let least = if lists.floats("class_weights").iter().all(|&weight| weight >= 0.0) { 0.5 } else { 0.0 };
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for row in rows(&x, height, columns) {
        let sums = gather(&forest, Aggregate::Sum, row, labels.len()).map_err(failed(call))?;
        let with_base = |class: usize| sums[class].unwrap_or(0.0) + base.get(class).copied().unwrap_or(0.0);
        let mut scores: Vec<f64> = (0..labels.len()).map(with_base).collect();
        match alone {
            Some(&0) => {
                let score = scores[0];
                found.push(usize::from(score > least));
                all.extend(transform.of_pair(if least > 0.0 { 1.0 - score } else { -score }, score));
                continue;
            }
            Some(_) => found.push(usize::from(scores[1] > least)),
            // A class without a weight for the row is not chosen.
            None => {
                let seen =
                    |(class, score): (usize, &f64)| if sums[class].is_some() { *score } else { f64::NEG_INFINITY };
                found.push(best(&scores.iter().enumerate().map(seen).collect::<Vec<_>>()));
            }
        }
        transform.apply(&mut scores);
        all.extend(scores);
    }
    classified(&labels, &found, labels.len(), all)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::*;
    use crate::testing::{all, ints, tensor, text};

    /// Two trees of a regressor: of three leaves, and of two.
    fn inputs(x: Option<Array<'static>>, yes: [i64; 8]) -> Vec<Option<Array<'static>>> {
        let none = || None;
        let no = ints(&[2, 0, 4, 0, 0, 2, 0, 0]);
        vec![
            x,
            none(),
            none(),
            no,
            ints(&[0, 0, 1, 0, 0, 1, 0, 0]),
            none(),
            ints(&[0, 7, 3, 7, 7, 1, 7, 7]),
            ints(&[0, 1, 2, 3, 4, 0, 1, 2]),
            ints(&[0, 0, 0, 0, 0, 1, 1, 1]),
            ints(&yes),
            tensor(&[8], &[0.5f32, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0]),
            none(),
            ints(&[0, 0, 0, 0, 0]),
            ints(&[1, 3, 4, 1, 2]),
            ints(&[0, 0, 0, 1, 1]),
            tensor(&[5], &[0.1f32, 0.2, 0.3, 0.25, -0.5]),
        ]
    }

    const YES: [i64; 8] = [1, 0, 3, 0, 0, 1, 0, 0];

    fn table_of_three() -> Option<Array<'static>> {
        tensor(&[3, 2], &[-1f32, 0.0, 0.5, 2.0, 3.0, -1.0])
    }

    /// Figures are onnxruntime's.
    #[test]
    fn trees_are_walked_and_their_weights_aggregated() {
        for (aggregate, expected) in [
            ("SUM", [0.35, -0.4, 0.55]),
            ("AVERAGE", [0.175, -0.2, 0.275]),
            ("MIN", [0.1, -0.5, 0.25]),
            ("MAX", [0.25, 0.1, 0.3]),
        ] {
            let attributes = [("aggregate_function", text(aggregate))];
            let found =
                all("ai.onnx.ml.TreeEnsembleRegressor", &attributes, inputs(table_of_three(), YES)).expect("runs");
            let found = found[0].to_f64();
            assert!(
                found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6),
                "{aggregate} {found}"
            );
        }
    }

    #[test]
    fn damaged_trees_are_errors() {
        let message = |x, yes, targets| {
            let attributes = [("n_targets", Attribute::Int(targets))];
            all("ai.onnx.ml.TreeEnsembleRegressor", &attributes, inputs(x, yes)).map(drop).expect_err("damaged").message
        };
        let op = "ai.onnx.ml.TreeEnsembleRegressor";
        let circle = message(table_of_three(), [0, 0, 3, 0, 0, 1, 0, 0], 1);
        assert_eq!(circle, format!("{op}: its trees lead in a circle"));
        assert_eq!(message(table_of_three(), [9, 0, 3, 0, 0, 1, 0, 0], 1), format!("{op}: tree 0 has no node 9"));
        assert_eq!(message(table_of_three(), YES, 0), format!("{op}: there is no target 0 among 0"));
        let narrow = message(tensor(&[3, 1], &[1f32, 2.0, 3.0]), YES, 1);
        assert_eq!(narrow, format!("{op}: its trees look at feature 1, and there are 1"));
    }
}
