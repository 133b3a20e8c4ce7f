//! Shape makers of classical models on tables of features, which are operators of `ai.onnx.ml`. What such a model has learnt is in
//! attributes.

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::{INNER, Operand, Recipe, Wish, any, below, filled, with};
use crate::onnx::Fill;

/// The recipe for such an operator.
pub(super) fn find(op: &str, wish: &Wish) -> Option<Recipe> {
    features(op, wish).or_else(|| linear(op, wish)).or_else(|| vectors(op, wish)).or_else(|| trees(op, wish))
}

fn int(value: usize) -> Attribute {
    Attribute::Int(value as i64)
}

fn ints(values: impl IntoIterator<Item = usize>) -> Attribute {
    Attribute::Ints(values.into_iter().map(|value| value as i64).collect())
}

/// So many numbers, of both signs.
fn floats(count: usize) -> Attribute {
    Attribute::Floats((0..count).map(|at| (at * 7 % 11) as f32 * 0.25 - 1.25).collect())
}

fn word(text: &str) -> Attribute {
    Attribute::String(text.into())
}

fn tensor(dtype: DType, values: impl IntoIterator<Item = f32>) -> Attribute {
    let values: Vec<f32> = values.into_iter().collect();
    let bytes = match dtype {
        DType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(),
        _ => values.iter().map(|value| *value as u8).collect(),
    };
    Attribute::Tensor { dtype, shape: vec![values.len()], hex: to_hex(&bytes) }
}

/// A table with as many rows as are wished for.
fn table(rows: usize) -> Operand {
    any(DType::F32, &[rows, INNER])
}

/// What changes features, or chooses some.
fn features(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let columns = *shape.last()?;
    if *dtype != DType::F32 {
        return None;
    }
    let whole = |attributes| with(vec![any(*dtype, shape)], 1, attributes);
    match (op, shape.as_slice()) {
        ("Binarizer", _) => whole(&[("threshold", Attribute::Float(0.25))]),
        ("Scaler", [_, _]) => whole(&[("offset", floats(columns)), ("scale", floats(columns))]),
        ("Normalizer", [_, _]) => whole(&[("norm", word("L2"))]),
        ("Imputer", [_, _]) => {
            let attributes =
                [("imputed_value_floats", floats(columns)), ("replaced_value_float", Attribute::Float(1.0))];
            with(vec![filled(*dtype, shape, Fill::Few)], 1, &attributes)
        }
        ("LabelEncoder", _) => {
            let keys = Attribute::Floats(vec![1.0, -1.0]);
            let default = ("default_float", Attribute::Float(0.5));
            let attributes = [("keys_floats", keys), ("values_floats", floats(2)), default];
            with(vec![filled(*dtype, shape, Fill::Few)], 1, &attributes)
        }
        ("OneHotEncoder", [front @ .., _]) if columns > 0 => {
            let known = ("cats_int64s", ints((0..columns).rev()));
            with(vec![below(columns + 1, front)], 1, &[known])
        }
        ("ArrayFeatureExtractor", &[rows, columns]) => with(vec![table(rows), below(INNER, &[1, columns])], 2, &[]),
        ("FeatureVectorizer", &[rows, columns]) if columns > 1 => {
            let parts = [columns / 2, columns - columns / 2];
            let tables = parts.map(|columns| any(*dtype, &[rows, columns]));
            with(tables.into(), 2, &[("inputdimensions", ints(parts))])
        }
        _ => None,
    }
}

/// The classes that there are: three, whose numbers are no places.
fn classes(name: &'static str) -> (&'static str, Attribute) {
    (name, ints([7, 3, 5]))
}

/// One whose second output has the scores of the classes.
fn with_scores(recipe: Option<Recipe>) -> Option<Recipe> {
    recipe.map(|recipe| Recipe { more_outputs: vec![DType::F32], ..recipe })
}

/// Products with what was learnt.
fn linear(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    match (op, dtype, shape.as_slice()) {
        ("LinearRegressor", DType::F32, &[rows, targets]) if targets > 0 => {
            let learnt = [("coefficients", floats(targets * INNER)), ("intercepts", floats(targets))];
            with(vec![table(rows)], 1, &[&learnt[..], &[("targets", int(targets))]].concat())
        }
        ("LinearClassifier", DType::I64, &[rows]) => {
            let learnt = [("coefficients", floats(3 * INNER)), ("intercepts", floats(3))];
            let others = [classes("classlabels_ints"), ("post_transform", word("SOFTMAX"))];
            with_scores(with(vec![table(rows)], 1, &[learnt, others].concat()))
        }
        _ => None,
    }
}

/// Distances to support vectors.
fn vectors(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let kernel = [("kernel_type", word("RBF")), ("kernel_params", Attribute::Floats(vec![0.5, 0.0, 3.0]))];
    match (op, dtype, shape.as_slice()) {
        ("SVMRegressor", DType::F32, &[rows, 1]) => {
            let learnt = [("support_vectors", floats(4 * INNER)), ("coefficients", floats(4)), ("rho", floats(1))];
            with(vec![table(rows)], 1, &[&learnt[..], &kernel, &[("n_supports", int(4))]].concat())
        }
        ("SVMClassifier", DType::I64, &[rows]) => {
            // For each two classes a decision, and for each vector one coefficient fewer than there are classes.
            let learnt = [("support_vectors", floats(5 * INNER)), ("coefficients", floats(10)), ("rho", floats(3))];
            let others = [("vectors_per_class", ints([2, 1, 2])), classes("classlabels_ints")];
            with_scores(with(vec![table(rows)], 1, &[&learnt[..], &kernel, &others].concat()))
        }
        _ => None,
    }
}

/// Nodes of two trees: the first one asks for two features, the second one for one. Version 3 numbers nodes by tree.
fn nodes() -> Vec<(&'static str, Attribute)> {
    let modes = ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"];
    vec![
        ("nodes_treeids", ints([0, 0, 0, 0, 0, 1, 1, 1])),
        ("nodes_nodeids", ints([0, 1, 2, 3, 4, 0, 1, 2])),
        ("nodes_featureids", ints([3, 0, 1, 0, 0, 5, 0, 0])),
        ("nodes_modes", Attribute::Strings(modes.map(str::to_owned).into())),
        ("nodes_values", Attribute::Floats(vec![0.1, 0.0, -0.2, 0.0, 0.0, 0.3, 0.0, 0.0])),
        ("nodes_truenodeids", ints([1, 0, 3, 0, 0, 1, 0, 0])),
        ("nodes_falsenodeids", ints([2, 0, 4, 0, 0, 2, 0, 0])),
    ]
}

/// What the five leaves of these trees add: tree, node, and to which of `count` results.
fn leaves(names: [&'static str; 4], count: usize) -> Vec<(&'static str, Attribute)> {
    let [tree, node, result, weight] = names;
    vec![
        (tree, ints([0, 0, 0, 1, 1])),
        (node, ints([1, 3, 4, 1, 2])),
        (result, ints([0, 1, 2, 1, 0].map(|result| result % count))),
        (weight, floats(5)),
    ]
}

/// Forests.
fn trees(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    match (op, dtype, shape.as_slice()) {
        ("TreeEnsembleRegressor", DType::F32, &[rows, targets]) if targets > 0 => {
            let leaves = leaves(["target_treeids", "target_nodeids", "target_ids", "target_weights"], targets);
            with(vec![table(rows)], 1, &[nodes(), leaves, vec![("n_targets", int(targets))]].concat())
        }
        ("TreeEnsembleClassifier", DType::I64, &[rows]) => {
            let leaves = leaves(["class_treeids", "class_nodeids", "class_ids", "class_weights"], 3);
            with_scores(with(vec![table(rows)], 1, &[nodes(), leaves, vec![classes("classlabels_int64s")]].concat()))
        }
        // Of version 5: leaves have numbers of their own.
        ("TreeEnsemble", DType::F32, &[rows, targets]) if targets > 0 => {
            let attributes = [
                ("n_targets", int(targets)),
                ("tree_roots", ints([0, 2])),
                ("nodes_featureids", ints([3, 1, 5])),
                ("nodes_modes", tensor(DType::U8, [0.0, 3.0, 1.0])),
                ("nodes_splits", tensor(DType::F32, [0.1, -0.2, 0.3])),
                ("nodes_truenodeids", ints([0, 1, 3])),
                ("nodes_trueleafs", ints([1, 1, 1])),
                ("nodes_falsenodeids", ints([1, 2, 4])),
                ("nodes_falseleafs", ints([0, 1, 1])),
                ("leaf_targetids", ints([0, 1, 2, 1, 0].map(|target| target % targets))),
                ("leaf_weights", tensor(DType::F32, [0.5, -1.0, 2.0, 0.25, -0.75])),
            ];
            with(vec![table(rows)], 1, &attributes)
        }
        _ => None,
    }
}
