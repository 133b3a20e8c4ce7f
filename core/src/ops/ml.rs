//! Operators of the domain `ai.onnx.ml`: classical models on tables of features. What such a model has learnt are attributes in
//! ONNX; here they are constants, as all other weights are (`docs/decisions/0023-weights-in-attributes.md`).

use byoc_plugin_api::DType;

use super::attributes::{List, float_or, floats, int_or, ints, string_or, strings, tensor};
use super::{ANY, Like, OpDef, Reason};

mod features;

/// The name of the domain.
pub const DOMAIN: &str = "ai.onnx.ml";

/// What most of these operators take.
const NUMBERS: &[DType] = &[DType::F32, DType::F64, DType::I64, DType::I32];

const fn ml(name: &'static str, since: u32, inputs: (usize, usize), infer: super::InferRule) -> OpDef {
    OpDef { domain: DOMAIN, ..OpDef::new(name, since, inputs, infer) }
}

/// Every one of them that core knows, by name.
pub static OPS: &[OpDef] = &[
    ml("ArrayFeatureExtractor", 1, (2, 2), features::extractor),
    ml("Binarizer", 1, (1, 1), features::binarizer).like(Like::First).attributes(BINARIZER),
    ml("FeatureVectorizer", 1, (1, ANY), features::vectorizer).attributes(FEATURE_VECTORIZER),
    ml("Imputer", 1, (1, 1), features::imputer).like(Like::First).attributes(IMPUTER),
    ml("LabelEncoder", 4, (1, 1), features::label_encoder).attributes(LABEL_ENCODER),
    ml("Normalizer", 1, (1, 1), features::normalizer).attributes(NORMALIZER),
    ml("OneHotEncoder", 1, (1, 1), features::one_hot).attributes(ONE_HOT_ENCODER),
    ml("Scaler", 1, (1, 1), features::scaler).attributes(SCALER),
];

/// The others.
pub static REFUSED: &[Reason] = &[
    Reason {
        name: "CastMap",
        cause: "takes a map, which byoc does not carry",
        remedy: "Export the model without it, and give it a tensor",
    },
    Reason {
        name: "CategoryMapper",
        cause: "is between strings and integers, and byoc does not carry strings",
        remedy: "Map the strings before the model, and give it integers",
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
    strings("keys_strings").since(2),
    tensor("keys_tensor").since(4).lifted(),
    floats("values_floats").since(2).rewritten(),
    ints("values_int64s").since(2).rewritten(),
    strings("values_strings").since(2),
    tensor("values_tensor").since(4).lifted(),
];
const NORMALIZER: List = &[string_or("norm", "MAX")];
const ONE_HOT_ENCODER: List = &[ints("cats_int64s").lifted(), strings("cats_strings"), int_or("zeros", 1)];
const SCALER: List = &[floats("offset").lifted(), floats("scale").lifted()];
