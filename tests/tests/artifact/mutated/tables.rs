//! A model with the operators of `ai.onnx.ml` and the steps of optimisers.

use byoc_plugin_api::Attribute::{self, Float, Floats, Int, Ints, String, Strings};
use byoc_plugin_api::{DType, to_hex};
use byoc_tests::onnx::{Model, Type};

const ML: &str = "ai.onnx.ml";

/// The lists of two trees of two and three leaves.
const TREES: [&[i64]; 5] = [
    &[0, 0, 0, 1, 1, 1, 1, 1],
    &[0, 1, 2, 0, 1, 2, 3, 4],
    &[1, 0, 0, 2, 0, 3, 0, 0],
    &[1, 0, 0, 1, 0, 3, 0, 0],
    &[2, 0, 0, 2, 0, 4, 0, 0],
];

fn text(text: &str) -> Attribute {
    String(text.into())
}

/// A list of that many numbers.
fn numbers(count: usize) -> Attribute {
    Floats((0..count).map(|i| (i * 7 % 5) as f32 / 4.0 - 0.25).collect())
}

fn tensor(dtype: DType, shape: &[usize], bytes: &[u8]) -> Attribute {
    Attribute::Tensor { dtype, shape: shape.into(), hex: to_hex(bytes) }
}

fn floats(values: &[f32]) -> Attribute {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(DType::F32, &[values.len()], &bytes)
}

/// Trees as older versions have them, with the weights of their leaves.
fn trees(what: &str) -> Vec<(std::string::String, Attribute)> {
    let leaves = ["treeids", "nodeids", "ids"].map(|list| format!("{what}_{list}"));
    let names = ["nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"];
    let lists = names.iter().zip(TREES).map(|(name, list)| ((*name).to_owned(), Ints(list.to_vec())));
    let modes = "BRANCH_LEQ LEAF LEAF BRANCH_GT LEAF BRANCH_EQ LEAF LEAF".split(' ').map(str::to_owned).collect();
    let weights: [&[i64]; 3] = [&[0, 0, 1, 1, 1], &[1, 2, 1, 3, 4], &[0, 1, 0, 1, 0]];
    let mut all: Vec<_> = lists.chain(leaves.into_iter().zip(weights.map(|list| Ints(list.to_vec())))).collect();
    all.push(("nodes_modes".into(), Strings(modes)));
    all.push(("nodes_values".into(), numbers(8)));
    all.push((format!("{what}_weights"), numbers(5)));
    all
}

/// Adds a node with inputs and outputs that are separated by spaces.
fn add(model: Model, op: &str, inputs: &str, outputs: &str, attributes: &[(&str, Attribute)]) -> Model {
    let (inputs, outputs): (Vec<_>, Vec<_>) = (inputs.split(' ').collect(), outputs.split(' ').collect());
    model.node_of((ML, op), &inputs, &outputs, attributes)
}

/// The model.
pub(super) fn tables() -> Model {
    let model = Model::default().domain(ML, 5).domain("ai.onnx.preview.training", 1).input("x", Type::Float, &[3, 4]);
    let model = model.input("i", Type::Int64, &[3, 2]).input("z", Type::Float, &[3, 2]).ints("few", &[2], &[3, 1]);
    let model = add(model, "Scaler", "x", "scaled", &[("offset", numbers(4)), ("scale", numbers(1))]);
    let model = add(model, "Normalizer", "scaled", "normal", &[("norm", text("L2"))]);
    let model = add(
        model,
        "Imputer",
        "normal",
        "full",
        &[("imputed_value_floats", numbers(4)), ("replaced_value_float", Float(0.5))],
    );
    let model = add(model, "Binarizer", "full", "binary", &[("threshold", Float(0.1))]);
    let model = add(model, "ArrayFeatureExtractor", "binary few", "chosen", &[]);
    let model = add(model, "FeatureVectorizer", "x chosen z", "wide", &[("inputdimensions", Ints(vec![4, 2, 2]))]);
    let model = add(model, "OneHotEncoder", "i", "hot", &[("cats_int64s", Ints(vec![0, 2, 5]))]);
    let labels = [("keys_int64s", Ints(vec![0, 1, 2])), ("values_floats", numbers(3))];
    let model = add(model, "LabelEncoder", "i", "coded", &labels);
    let model = linear(model);
    let grams = [
        ("mode", text("TFIDF")),
        ("min_gram_length", Int(1)),
        ("max_gram_length", Int(2)),
        ("max_skip_count", Int(1)),
        ("ngram_counts", Ints(vec![0, 2])),
        ("ngram_indexes", Ints(vec![0, 1, 2])),
        ("pool_int64s", Ints(vec![0, 1, 0, 1])),
        ("weights", numbers(3)),
    ];
    let model =
        model.node_of(("", "TfIdfVectorizer"), &["i"], &["grams"], &grams).output("grams", Type::Float, &[3, 3]);
    let mut regressor = trees("target");
    regressor.extend([("n_targets".to_owned(), Int(2)), ("base_values".to_owned(), numbers(2))]);
    let mut classifier = trees("class");
    classifier.push(("classlabels_int64s".into(), Ints(vec![4, 7, 300])));
    let model = with(model, "TreeEnsembleRegressor", "x", "y_trees", &regressor);
    let model = with(model, "TreeEnsembleClassifier", "x", "y_class y_scores", &classifier);
    let model = add(model, "TreeEnsemble", "x", "y_ensemble", &ensemble());
    let model = step(model);
    let model = model.output("wide", Type::Float, &[3, 8]).output("hot", Type::Float, &[3, 2, 3]);
    let model = model.output("coded", Type::Float, &[3, 2]).output("y_trees", Type::Float, &[3, 2]);
    let model = model.output("y_class", Type::Int64, &[3]).output("y_scores", Type::Float, &[3, 3]);
    model.output("y_ensemble", Type::Float, &[3, 1])
}

fn with(model: Model, op: &str, inputs: &str, outputs: &str, attributes: &[(std::string::String, Attribute)]) -> Model {
    let attributes: Vec<_> = attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    add(model, op, inputs, outputs, &attributes)
}

/// Linear models and support vector machines.
fn linear(model: Model) -> Model {
    let coefficients = [("coefficients", numbers(12)), ("intercepts", numbers(3))];
    let regressor = [&coefficients[..], &[("targets", Int(3)), ("post_transform", text("SOFTMAX"))]].concat();
    let model = add(model, "LinearRegressor", "x", "y_linear", &regressor).output("y_linear", Type::Float, &[3, 3]);
    let classifier = [&coefficients[..], &[("classlabels_ints", Ints(vec![1, 2, 300]))]].concat();
    let model = add(model, "LinearClassifier", "x", "y_linear_class y_linear_scores", &classifier);
    let common = [
        ("kernel_type", text("RBF")),
        ("kernel_params", numbers(3)),
        ("support_vectors", numbers(16)),
        ("rho", numbers(1)),
    ];
    let regressor = [&common[..], &[("coefficients", numbers(4)), ("n_supports", Int(4))]].concat();
    let model = add(model, "SVMRegressor", "x", "y_machine", &regressor).output("y_machine", Type::Float, &[3, 1]);
    let classes = [("classlabels_ints", Ints(vec![1, 2])), ("vectors_per_class", Ints(vec![1, 3]))];
    let probable = [("prob_a", numbers(1)), ("prob_b", numbers(1)), ("coefficients", numbers(4))];
    let classifier = [&common[..], &classes[..], &probable[..]].concat();
    let model = add(model, "SVMClassifier", "x", "y_machine_class y_machine_scores", &classifier);
    let model = model.output("y_linear_class", Type::Int64, &[3]).output("y_linear_scores", Type::Float, &[3, 3]);
    model.output("y_machine_class", Type::Int64, &[3]).output("y_machine_scores", Type::Float, &[3, 2])
}

/// A tree with a branch that asks for membership.
fn ensemble() -> Vec<(&'static str, Attribute)> {
    vec![
        ("tree_roots", Ints(vec![0])),
        ("nodes_featureids", Ints(vec![1, 2])),
        ("nodes_truenodeids", Ints(vec![1, 0])),
        ("nodes_falsenodeids", Ints(vec![0, 1])),
        ("nodes_trueleafs", Ints(vec![0, 1])),
        ("nodes_falseleafs", Ints(vec![1, 1])),
        ("nodes_modes", tensor(DType::U8, &[2], &[0, 6])),
        ("nodes_splits", floats(&[0.5, 0.0])),
        ("membership_values", floats(&[1.0, 2.0, f32::NAN])),
        ("leaf_targetids", Ints(vec![0, 0])),
        ("leaf_weights", floats(&[0.5, -1.0])),
    ]
}

/// A step of each optimiser.
fn step(model: Model) -> Model {
    let training = "ai.onnx.preview.training";
    let model = model.input("rate", Type::Float, &[]).input("steps", Type::Int64, &[]);
    let model = model.node_of((training, "Adagrad"), &["rate", "steps", "x", "x", "x"], &["y_adagrad", "s1"], &[]);
    let model = model.node_of((training, "Adam"), &["rate", "steps", "x", "x", "x", "x"], &["y_adam", "s2", "s3"], &[]);
    let momentum =
        [("alpha", Float(0.9)), ("beta", Float(0.5)), ("norm_coefficient", Float(0.1)), ("mode", text("nesterov"))];
    let model =
        model.node_of((training, "Momentum"), &["rate", "steps", "x", "x", "x"], &["y_momentum", "s4"], &momentum);
    let outputs = ["y_adagrad", "s1", "y_adam", "s2", "s3", "y_momentum", "s4"];
    outputs.iter().fold(model, |model, name| model.output(name, Type::Float, &[3, 4]))
}
