//! Operators of `ai.onnx.ml` on tables of features, some of which are whole numbers, so that they meet thresholds.

use byoc_plugin_api::{Attribute, DType, to_hex};

use super::super::builder::{Builder, Value, fixed};
use super::super::values::{self, Mood};
use super::short::{Attributes, flag, int, ints, node, nodes, some, text};

const COLUMNS: usize = 3;

/// A table.
fn table(builder: &mut Builder, dtype: DType) -> Value {
    let rows = some(builder);
    let mood = builder.random.of(&[Mood::Ties, Mood::Tame]);
    builder.leaf(dtype, &[rows, fixed(COLUMNS)], mood)
}

/// Numbers of a model.
pub(super) fn floats(builder: &mut Builder, count: usize) -> Attribute {
    Attribute::Floats((0..count).map(|_| builder.random.between(-8, 8) as f32 / 4.0).collect())
}

/// A post transform, of those that both sides compute alike for every number of scores.
fn transform(builder: &mut Builder) -> (&'static str, Attribute) {
    ("post_transform", text(builder.random.of(&["NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])))
}

/// Scaler, Normalizer, Binarizer and Imputer: a table of another table, element by element or row by row.
pub(crate) fn same_shape(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let whole = !dtype.is_float();
    let attributes: Attributes = match op {
        "ai.onnx.ml.Scaler" => {
            let count = builder.random.of(&[1, COLUMNS]);
            vec![("offset", floats(builder, count)), ("scale", floats(builder, count))]
        }
        "ai.onnx.ml.Normalizer" => vec![("norm", text(builder.random.of(&["MAX", "L1", "L2"])))],
        "ai.onnx.ml.Imputer" if whole => vec![
            ("imputed_value_int64s", ints(&[7, 8, 9][..builder.random.of(&[1, COLUMNS])])),
            ("replaced_value_int64", Attribute::Int(builder.random.between(-1, 2))),
        ],
        "ai.onnx.ml.Imputer" => {
            let count = builder.random.of(&[1, COLUMNS]);
            let replaced = builder.random.of(&[0.5, 1.0, f32::NAN]);
            vec![("imputed_value_floats", floats(builder, count)), ("replaced_value_float", Attribute::Float(replaced))]
        }
        _ => vec![("threshold", Attribute::Float(builder.random.of(&[0.0, 0.5, 1.0])))],
    };
    let made = if matches!(op, "ai.onnx.ml.Scaler" | "ai.onnx.ml.Normalizer") { DType::F32 } else { dtype };
    node(builder, op, &[x.name], attributes, (made, x.dims));
    Some(())
}

pub(crate) fn vectorizer(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, rows) = (builder.random.of(types), some(builder));
    let widths: Vec<_> = (0..1 + builder.random.below(3)).map(|_| 1 + builder.random.below(3)).collect();
    let parts = widths.iter().map(|&width| builder.leaf(dtype, &[rows, fixed(width)], Mood::Tame).name);
    let parts: Vec<_> = parts.collect();
    let attributes = vec![("inputdimensions", ints(&widths))];
    node(builder, op, &parts, attributes, (DType::F32, vec![rows, fixed(widths.iter().sum())]));
    Some(())
}

pub(crate) fn extractor(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let count = 1 + builder.random.below(4);
    let places = builder.leaf(DType::I64, &[fixed(count)], Mood::Place(COLUMNS));
    node(builder, op, &[x.name, places.name], vec![], (dtype, vec![x.dims[0], fixed(count)]));
    Some(())
}

/// LabelEncoder, CategoryMapper and OneHotEncoder: keys, and what becomes of them.
pub(crate) fn categories(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let words = builder.random.chance(50);
    let rows = some(builder);
    let x = match words {
        true => builder.leaf(DType::String, &[rows, fixed(2)], Mood::Tame),
        false => builder.leaf(DType::I64, &[rows, fixed(2)], Mood::Tame),
    };
    let texts = || Attribute::Strings(["cat", "Dog", "", "12"].map(str::to_owned).to_vec());
    let numbers = || Attribute::Ints(vec![1, 0, -2, 5]);
    let keys = if words { texts() } else { numbers() };
    let named = |name: [&'static str; 2]| name[usize::from(!words)];
    let (attributes, made) = match op {
        "ai.onnx.ml.OneHotEncoder" => {
            let attributes = vec![(named(["cats_strings", "cats_int64s"]), keys), ("zeros", int(1))];
            node(builder, op, &[x.name], attributes, (DType::F32, vec![rows, fixed(2), fixed(4)]));
            return Some(());
        }
        "ai.onnx.ml.CategoryMapper" => {
            let attributes = vec![
                ("cats_strings", texts()),
                ("cats_int64s", numbers()),
                ("default_int64", Attribute::Int(9)),
                ("default_string", text("none")),
            ];
            (attributes, if words { DType::I64 } else { DType::String })
        }
        _ => {
            let (name, values, made) = match builder.random.below(3) {
                0 => ("values_strings", texts(), DType::String),
                1 => ("values_int64s", numbers(), DType::I64),
                _ => ("values_floats", floats(builder, 4), DType::F32),
            };
            // onnxruntime has no kernel from words to words of that operator set beside these.
            (vec![(named(["keys_strings", "keys_int64s"]), keys), (name, values)], made)
        }
    };
    let y = node(builder, op, &[x.name], attributes, (made, x.dims));
    builder.exact(&y, true);
    Some(())
}

/// LinearRegressor and LinearClassifier.
pub(crate) fn linear(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let count = builder.random.of(&[1, 3]);
    let mut attributes = vec![
        ("coefficients", floats(builder, count * COLUMNS)),
        ("intercepts", floats(builder, count)),
        transform(builder),
    ];
    if op == "ai.onnx.ml.LinearRegressor" {
        attributes.push(("targets", int(count)));
        node(builder, op, &[x.name], attributes, (DType::F32, vec![x.dims[0], fixed(count)]));
        return Some(());
    }
    let classes = count.max(2);
    classified(builder, op, &x, attributes, ("classlabels_ints", "classlabels_strings"), classes);
    Some(())
}

/// A classifier of so many classes, whose labels are numbers or texts.
fn classified(
    builder: &mut Builder,
    op: &'static str,
    x: &Value,
    mut attributes: Attributes,
    names: (&'static str, &'static str),
    classes: usize,
) {
    let words = builder.random.chance(30);
    attributes.push(match words {
        true => (names.1, Attribute::Strings(["no", "yes", "maybe"][..classes].iter().map(|&it| it.into()).collect())),
        false => (names.0, Attribute::Ints([5, -6, 700][..classes].to_vec())),
    });
    let label = if words { DType::String } else { DType::I64 };
    let outputs = vec![(label, vec![x.dims[0]]), (DType::F32, vec![x.dims[0], fixed(classes)])];
    let made = nodes(builder, op, std::slice::from_ref(&x.name), attributes, outputs);
    builder.unread(&made[..1]);
}

/// SVMRegressor and SVMClassifier.
pub(crate) fn machine(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let vectors = 4;
    let mut attributes = vec![
        ("kernel_type", text(builder.random.of(&["LINEAR", "POLY", "RBF", "SIGMOID"]))),
        ("kernel_params", Attribute::Floats(vec![0.3, 0.2, 3.0])),
        ("support_vectors", floats(builder, vectors * COLUMNS)),
    ];
    if op == "ai.onnx.ml.SVMRegressor" {
        attributes.extend([
            ("coefficients", floats(builder, vectors)),
            ("n_supports", int(vectors)),
            ("rho", floats(builder, 1)),
            ("one_class", flag(builder)),
        ]);
        node(builder, op, &[x.name], attributes, (DType::F32, vec![x.dims[0], fixed(1)]));
        return Some(());
    }
    let classes = builder.random.of(&[2, 3]);
    attributes.extend([
        ("coefficients", floats(builder, vectors * (classes - 1))),
        ("rho", floats(builder, classes * (classes - 1) / 2)),
        ("vectors_per_class", ints(if classes == 2 { &[2, 2] } else { &[1, 2, 1] })),
        transform(builder),
    ]);
    classified(builder, op, &x, attributes, ("classlabels_ints", "classlabels_strings"), classes);
    Some(())
}

/// The lists of trees that have a root and two leaves each.
fn stumps(builder: &mut Builder, trees: usize) -> Attributes {
    let list = |root: usize, other: usize| {
        let all = (0..trees).flat_map(|_| [root, other, other]).collect::<Vec<_>>();
        ints(&all)
    };
    let modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
    let modes = (0..trees).flat_map(|_| [builder.random.of(&modes), "LEAF", "LEAF"]).map(str::to_owned).collect();
    let features: Vec<_> = (0..trees).flat_map(|_| [builder.random.below(COLUMNS), 0, 0]).collect();
    vec![
        ("nodes_treeids", ints(&(0..3 * trees).map(|at| at / 3).collect::<Vec<_>>())),
        ("nodes_nodeids", ints(&(0..3 * trees).map(|at| at % 3).collect::<Vec<_>>())),
        ("nodes_featureids", ints(&features)),
        ("nodes_modes", Attribute::Strings(modes)),
        ("nodes_values", floats(builder, 3 * trees)),
        ("nodes_truenodeids", list(1, 0)),
        ("nodes_falsenodeids", list(2, 0)),
        ("nodes_missing_value_tracks_true", list(builder.random.below(2), 0)),
    ]
}

/// TreeEnsembleRegressor and TreeEnsembleClassifier.
pub(crate) fn trees(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let trees = 1 + builder.random.below(5);
    let targets = builder.random.of(&[1, 3]);
    let mut attributes = stumps(builder, trees);
    let regressor = op == "ai.onnx.ml.TreeEnsembleRegressor";
    let names = match regressor {
        true => ["target_treeids", "target_nodeids", "target_ids", "target_weights"],
        false => ["class_treeids", "class_nodeids", "class_ids", "class_weights"],
    };
    let rows: Vec<_> = (0..2 * trees * targets).collect();
    let column = |of: fn(usize, usize) -> usize| ints(&rows.iter().map(|&row| of(row, targets)).collect::<Vec<_>>());
    attributes.extend([
        (names[0], column(|row, targets| row / targets / 2)),
        (names[1], column(|row, targets| 1 + row / targets % 2)),
        (names[2], column(|row, targets| row % targets)),
        (names[3], floats(builder, rows.len())),
        transform(builder),
    ]);
    if builder.random.chance(50) {
        attributes.push(("base_values", floats(builder, targets)));
    }
    if regressor {
        attributes.push(("n_targets", int(targets)));
        attributes.push(("aggregate_function", text(builder.random.of(&["SUM", "AVERAGE", "MIN", "MAX"]))));
        node(builder, op, &[x.name], attributes, (DType::F32, vec![x.dims[0], fixed(targets)]));
    } else {
        let names = ("classlabels_int64s", "classlabels_strings");
        classified(builder, op, &x, attributes, names, targets.max(2));
    }
    Some(())
}

/// TreeEnsemble, of the same trees in the lists of version 5.
pub(crate) fn ensemble(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let x = table(builder, dtype);
    let trees = 1 + builder.random.below(4);
    let mut tensor = |dtype: DType, count: usize, most: i64| {
        let unit = if most > 5 { 4.0 } else { 1.0 };
        let numbers = (0..count).map(|_| builder.random.between(0, most) as f64 / unit);
        let bytes = values::vector(dtype, &numbers.collect::<Vec<_>>()).bytes;
        Attribute::Tensor { dtype, shape: vec![count], hex: to_hex(&bytes) }
    };
    let (weights, splits, modes) = (tensor(dtype, 2 * trees, 8), tensor(dtype, trees, 8), tensor(DType::U8, trees, 5));
    let every = |of: fn(usize) -> usize| ints(&(0..trees).map(of).collect::<Vec<_>>());
    let attributes = vec![
        ("tree_roots", every(|tree| tree)),
        ("nodes_featureids", every(|tree| tree % COLUMNS)),
        ("nodes_modes", modes),
        ("nodes_splits", splits),
        ("nodes_truenodeids", every(|tree| 2 * tree)),
        ("nodes_trueleafs", every(|_| 1)),
        ("nodes_falsenodeids", every(|tree| 2 * tree + 1)),
        ("nodes_falseleafs", every(|_| 1)),
        ("leaf_targetids", ints(&(0..2 * trees).map(|leaf| leaf % 2).collect::<Vec<_>>())),
        ("leaf_weights", weights),
        ("n_targets", int(2)),
        ("aggregate_function", int(builder.random.below(2))),
    ];
    node(builder, op, &[x.name], attributes, (dtype, vec![x.dims[0], fixed(2)]));
    Some(())
}
