//! Operators of the domain `ai.onnx.ml`: classical models on tables of features. What such a model has learnt are attributes in
//! ONNX; here they are constants, as all other weights are (`docs/decisions/0023-weights-in-attributes.md`).

use byoc_plugin_api::DType;

use super::attributes::{AttributeDef, List, float_or, floats, int, int_or, ints, string_or, strings, tensor};
use super::infer::STRING;
use super::{ANY, Like, OpDef, Reason};

mod features;
mod models;

/// The name of the domain.
pub const DOMAIN: &str = "ai.onnx.ml";

/// What most of these operators take.
const NUMBERS: &[DType] = &[DType::F32, DType::F64, DType::I64, DType::I32];

const fn ml(name: &'static str, since: u32, inputs: (usize, usize), infer: super::InferRule) -> OpDef {
    OpDef { domain: DOMAIN, ..OpDef::new(name, since, inputs, infer) }
}

/// Every one of them that core knows, by name.
pub static OPS: &[OpDef] = &[
    ml("ArrayFeatureExtractor", 1, (2, 2), features::extractor).opaque(STRING),
    ml("Binarizer", 1, (1, 1), features::binarizer).like(Like::First).attributes(BINARIZER),
    ml("CategoryMapper", 1, (1, 1), features::category_mapper).attributes(CATEGORY_MAPPER).opaque(STRING),
    ml("FeatureVectorizer", 1, (1, ANY), features::vectorizer).attributes(FEATURE_VECTORIZER),
    ml("Imputer", 1, (1, 1), features::imputer).like(Like::First).attributes(IMPUTER),
    ml("LabelEncoder", 4, (1, 1), features::label_encoder).attributes(LABEL_ENCODER).opaque(STRING),
    ml("LinearClassifier", 1, (1, 1), models::linear_classifier)
        .outputs(2)
        .attributes(LINEAR_CLASSIFIER)
        .opaque(STRING),
    ml("LinearRegressor", 1, (1, 1), models::linear_regressor).attributes(LINEAR_REGRESSOR),
    ml("Normalizer", 1, (1, 1), features::normalizer).attributes(NORMALIZER),
    ml("OneHotEncoder", 1, (1, 1), features::one_hot).attributes(ONE_HOT_ENCODER).opaque(STRING),
    ml("SVMClassifier", 1, (1, 1), models::svm_classifier).outputs(2).attributes(SVM_CLASSIFIER).opaque(STRING),
    ml("SVMRegressor", 1, (1, 1), models::svm_regressor).attributes(SVM_REGRESSOR),
    ml("Scaler", 1, (1, 1), features::scaler).attributes(SCALER),
    ml("TreeEnsemble", 5, (1, 1), models::tree_ensemble).attributes(TREE_ENSEMBLE),
    ml("TreeEnsembleClassifier", 3, (1, 1), models::tree_classifier)
        .outputs(2)
        .attributes(TREE_CLASSIFIER)
        .opaque(STRING),
    ml("TreeEnsembleRegressor", 3, (1, 1), models::tree_regressor).attributes(TREE_REGRESSOR),
];

/// The others.
pub static REFUSED: &[Reason] = &[
    Reason {
        name: "CastMap",
        cause: "takes a map, which byoc does not carry",
        remedy: "Export the model without it, and give it a tensor",
    },
    Reason {
        name: "DictVectorizer",
        cause: "takes a map, which byoc does not carry",
        remedy: "Export the model behind its DictVectorizer, and give it the tensor of features",
    },
    Reason {
        name: "ZipMap",
        cause: "makes maps, which byoc does not carry",
        remedy: "Export the model without it: with skl2onnx, options={id(model): {'zipmap': False}}",
    },
];

const BINARIZER: List = &[float_or("threshold", 0.0)];
const CATEGORY_MAPPER: List = &[
    ints("cats_int64s").lifted(),
    strings("cats_strings").lifted(),
    int_or("default_int64", -1),
    string_or("default_string", "_Unused"),
];
const FEATURE_VECTORIZER: List = &[ints("inputdimensions")];
const IMPUTER: List = &[
    floats("imputed_value_floats").lifted(),
    ints("imputed_value_int64s").lifted(),
    float_or("replaced_value_float", 0.0),
    int_or("replaced_value_int64", 0),
];
/// Keys, values and the default are tensors in every form.
const LABEL_ENCODER: List = &[
    strings("classes_strings").until(1),
    float_or("default_float", -0.0).since(2).rewritten(),
    int_or("default_int64", -1).rewritten(),
    string_or("default_string", "_Unused").rewritten(),
    tensor("default_tensor").since(4).lifted(),
    floats("keys_floats").since(2).rewritten(),
    ints("keys_int64s").since(2).rewritten(),
    strings("keys_strings").since(2).rewritten(),
    tensor("keys_tensor").since(4).lifted(),
    floats("values_floats").since(2).rewritten(),
    ints("values_int64s").since(2).rewritten(),
    strings("values_strings").since(2).rewritten(),
    tensor("values_tensor").since(4).lifted(),
];
const POST_TRANSFORM: AttributeDef = string_or("post_transform", "NONE");
const LINEAR_CLASSIFIER: List = &[
    ints("classlabels_ints").lifted(),
    strings("classlabels_strings").lifted(),
    floats("coefficients").required().lifted(),
    floats("intercepts").lifted(),
    int_or("multi_class", 0),
    POST_TRANSFORM,
];
const LINEAR_REGRESSOR: List =
    &[floats("coefficients").lifted(), floats("intercepts").lifted(), POST_TRANSFORM, int_or("targets", 1)];
const NORMALIZER: List = &[string_or("norm", "MAX")];
const ONE_HOT_ENCODER: List = &[ints("cats_int64s").lifted(), strings("cats_strings").lifted(), int_or("zeros", 1)];
const SCALER: List = &[floats("offset").lifted(), floats("scale").lifted()];
const SVM_CLASSIFIER: List = &[
    ints("classlabels_ints").lifted(),
    strings("classlabels_strings").lifted(),
    floats("coefficients").lifted(),
    floats("kernel_params").lifted(),
    string_or("kernel_type", "LINEAR"),
    POST_TRANSFORM,
    floats("prob_a").lifted(),
    floats("prob_b").lifted(),
    floats("rho").lifted(),
    floats("support_vectors").lifted(),
    ints("vectors_per_class").lifted(),
];
const SVM_REGRESSOR: List = &[
    floats("coefficients").lifted(),
    floats("kernel_params").lifted(),
    string_or("kernel_type", "LINEAR"),
    int_or("n_supports", 0),
    int_or("one_class", 0),
    POST_TRANSFORM,
    floats("rho").lifted(),
    floats("support_vectors").lifted(),
];

/// The list of texts that becomes numbers: what each node of a tree does.
pub const NODES_MODES: &str = "nodes_modes";

/// What the nodes of a tree may do with a feature, by the numbers that version 5 has for them; and the leaf of the versions before,
/// which have texts.
pub const MODES: [&str; 8] =
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"];
const TREE_ENSEMBLE: List = &[
    int_or("aggregate_function", 1),
    ints("leaf_targetids").required().lifted(),
    tensor("leaf_weights").required().lifted(),
    tensor("membership_values").lifted(),
    int("n_targets"),
    ints("nodes_falseleafs").required().lifted(),
    ints("nodes_falsenodeids").required().lifted(),
    ints("nodes_featureids").required().lifted(),
    // How often a node is reached: it changes no result.
    tensor("nodes_hitrates").rewritten(),
    ints("nodes_missing_value_tracks_true").lifted(),
    tensor("nodes_modes").required().lifted(),
    tensor("nodes_splits").required().lifted(),
    ints("nodes_trueleafs").required().lifted(),
    ints("nodes_truenodeids").required().lifted(),
    int_or("post_transform", 0),
    ints("tree_roots").required().lifted(),
];
const TREE_CLASSIFIER: List = &[
    floats("base_values").lifted(),
    tensor("base_values_as_tensor").since(3).lifted(),
    ints("class_ids").lifted(),
    ints("class_nodeids").lifted(),
    ints("class_treeids").lifted(),
    floats("class_weights").lifted(),
    tensor("class_weights_as_tensor").since(3).lifted(),
    ints("classlabels_int64s").lifted(),
    strings("classlabels_strings").lifted(),
    ints("nodes_falsenodeids").lifted(),
    ints("nodes_featureids").lifted(),
    floats("nodes_hitrates").rewritten(),
    tensor("nodes_hitrates_as_tensor").since(3).rewritten(),
    ints("nodes_missing_value_tracks_true").lifted(),
    MODES_OF_NODES,
    ints("nodes_nodeids").lifted(),
    ints("nodes_treeids").lifted(),
    ints("nodes_truenodeids").lifted(),
    floats("nodes_values").lifted(),
    tensor("nodes_values_as_tensor").since(3).lifted(),
    POST_TRANSFORM,
];
const MODES_OF_NODES: AttributeDef = strings(NODES_MODES).lifted();
const TREE_REGRESSOR: List = &[
    string_or("aggregate_function", "SUM"),
    floats("base_values").lifted(),
    tensor("base_values_as_tensor").since(3).lifted(),
    int("n_targets"),
    ints("nodes_falsenodeids").lifted(),
    ints("nodes_featureids").lifted(),
    floats("nodes_hitrates").rewritten(),
    tensor("nodes_hitrates_as_tensor").since(3).rewritten(),
    ints("nodes_missing_value_tracks_true").lifted(),
    MODES_OF_NODES,
    ints("nodes_nodeids").lifted(),
    ints("nodes_treeids").lifted(),
    ints("nodes_truenodeids").lifted(),
    floats("nodes_values").lifted(),
    tensor("nodes_values_as_tensor").since(3).lifted(),
    POST_TRANSFORM,
    ints("target_ids").lifted(),
    ints("target_nodeids").lifted(),
    ints("target_treeids").lifted(),
    floats("target_weights").lifted(),
    tensor("target_weights_as_tensor").since(3).lifted(),
];
