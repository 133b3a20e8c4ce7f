//! The operators that are drawn in graphs of [`EVERY_SEEDS`] beside all others: what json has and the other lists do not; and why some
//! are not drawn at all.

use byoc_core::onnx::functions;
use byoc_core::ops;
use byoc_plugin_api::DType::{self, Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

use super::{
    ANY, COMMON, FLOAT, Family, NUMBER, choice, classical, elementwise, family, images, indices, integers, microsoft,
    microsoft_bytes, normal, quantize, recurrent, reduce, signal, texts,
};

/// The seeds of graphs with them.
pub(crate) const EVERY_SEEDS: std::ops::Range<u64> = 3_000_000..3_001_600;

const ONE: &[DType] = &[F32];
const WIDE_FLOAT: &[DType] = &[F32, F64];
const INTEGER: &[DType] = &[I8, I16, I32, I64, U8, U16, U32, U64];
const TABLE: &[DType] = &[F32, F64, I64, I32];
const BYTES: &[DType] = &[U8, I8];
const WORDS: &[DType] = &[U8, I8, U16, I16];

/// Every one of them.
#[rustfmt::skip]
pub(crate) const EVERY: &[Family] = &[
    // Functions of one element and bits.
    family(&["Acos", "Acosh", "Asin", "Atanh"], 13, ONE, elementwise::bounded, 28),
    family(&["Asinh", "Atan", "Cosh", "Sinh", "Softsign"], 13, ONE, elementwise::function, 32),
    family(&["Celu", "Selu"], 13, ONE, elementwise::function, 14),
    family(&["Shrink", "ThresholdedRelu"], 13, ONE, elementwise::threshold, 14),
    family(&["PRelu"], 13, ONE, elementwise::p_relu, 8),
    family(&["Mean"], 13, ONE, elementwise::variadic, 8),
    family(&["BitwiseAnd", "BitwiseOr", "BitwiseXor"], 18, INTEGER, elementwise::arithmetic, 24),
    family(&["BitwiseNot"], 18, INTEGER, elementwise::exact_function, 8),
    family(&["BitShift"], 13, &[U8, U32, U64], elementwise::shift, 8),
    family(&["BitCast"], 26, NUMBER, elementwise::bit_cast, 20),
    family(&["CastLike"], 19, NUMBER, elementwise::cast_like, 8),
    // Reductions, places and numbers of elements.
    family(&["ReduceLogSum"], 18, WIDE_FLOAT, reduce::reduce, 8),
    family(&["CumProd"], 26, &[F32, F64, I32, I64], reduce::cum_sum, 20),
    family(&["Size"], 13, ANY, indices::size, 8),
    family(&["NonZero"], 13, &[F32, I32, I64, U8, Bool], choice::found, 10),
    family(&["Unique"], 13, &[F32, F64, I64, I8], choice::found, 10),
    family(&["Compress"], 13, COMMON, choice::compress, 10),
    // Images.
    family(&["RoiAlign", "MaxRoiPool"], 13, ONE, images::regions, 20),
    family(&["DeformConv"], 19, ONE, images::deform_conv, 14),
    family(&["Col2Im"], 18, ONE, images::col_2_im, 12),
    family(&["MaxUnpool"], 13, ONE, images::max_unpool, 10),
    family(&["AffineGrid"], 20, WIDE_FLOAT, images::affine_grid, 12),
    family(&["CenterCropPad"], 18, COMMON, images::center_crop_pad, 12),
    family(&["DepthToSpace", "SpaceToDepth"], 13, WIDE_FLOAT, images::blocks, 16),
    family(&["GlobalLpPool"], 13, ONE, images::global_lp, 8),
    family(&["NonMaxSuppression"], 13, ONE, images::suppression, 10),
    family(&["Resize"], 19, ONE, images::resize, 20),
    family(&["TensorScatter"], 24, FLOAT, images::tensor_scatter, 20),
    // Normalisations and losses.
    family(&["InstanceNormalization"], 13, ONE, normal::grouped, 8),
    family(&["GroupNormalization"], 18, ONE, normal::grouped, 10),
    family(&["LpNormalization"], 13, WIDE_FLOAT, normal::lp, 8),
    family(&["MeanVarianceNormalization"], 13, ONE, normal::mean_variance, 8),
    family(&["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], 13, WIDE_FLOAT, normal::loss, 16),
    family(&["LSTM", "GRU", "RNN"], 14, ONE, recurrent::recurrent, 30),
    // Signals.
    family(&["DFT"], 17, WIDE_FLOAT, signal::dft, 12),
    family(&["STFT"], 17, WIDE_FLOAT, signal::stft, 10),
    family(&["BlackmanWindow", "HammingWindow", "HannWindow"], 17, WIDE_FLOAT, signal::window, 20),
    family(&["MelWeightMatrix"], 17, ONE, signal::mel, 8),
    // Integers between scales.
    family(&["QLinearConv", "ConvInteger"], 13, BYTES, integers::conv, 30),
    family(&["QLinearMatMul"], 13, BYTES, integers::linear_matmul, 16),
    family(&["DynamicQuantizeLinear"], 13, ONE, integers::dynamic, 8),
    family(&["QuantizeLinear"], 13, BYTES, integers::group, 60),
    family(&["QuantizeLinear", "DequantizeLinear"], 21, WORDS, integers::blocked, 20),
    family(&["DequantizeLinear"], 13, BYTES, quantize::dequantize, 4),
    // Texts.
    family(&["StringConcat"], 20, ONE, texts::concat, 14),
    family(&["RegexFullMatch"], 20, ONE, texts::full_match, 10),
    family(&["StringNormalizer"], 13, ONE, texts::normalizer, 10),
    family(&["StringSplit"], 20, ONE, texts::split, 10),
    family(&["TfIdfVectorizer"], 13, ONE, texts::tf_idf, 10),
    family(&["Cast"], 13, &[F32, I32, I64, U8, Bool], texts::number, 6),
    family(&["Concat", "Transpose", "Identity", "Equal"], 19, ONE, texts::moved, 12),
    // Classical models.
    family(&["ai.onnx.ml.Scaler", "ai.onnx.ml.Normalizer"], 13, TABLE, classical::same_shape, 12),
    family(&["ai.onnx.ml.Binarizer"], 13, ONE, classical::same_shape, 6),
    family(&["ai.onnx.ml.Imputer"], 13, &[F32, I64], classical::same_shape, 8),
    family(&["ai.onnx.ml.FeatureVectorizer"], 13, TABLE, classical::vectorizer, 6),
    family(&["ai.onnx.ml.ArrayFeatureExtractor"], 13, TABLE, classical::extractor, 6),
    family(&["ai.onnx.ml.LabelEncoder", "ai.onnx.ml.CategoryMapper", "ai.onnx.ml.OneHotEncoder"], 13, ONE, classical::categories, 20),
    family(&["ai.onnx.ml.LinearRegressor", "ai.onnx.ml.LinearClassifier"], 13, ONE, classical::linear, 14),
    family(&["ai.onnx.ml.SVMRegressor", "ai.onnx.ml.SVMClassifier"], 13, ONE, classical::machine, 14),
    family(&["ai.onnx.ml.TreeEnsembleRegressor", "ai.onnx.ml.TreeEnsembleClassifier"], 13, WIDE_FLOAT, classical::trees, 16),
    family(&["ai.onnx.ml.TreeEnsemble"], 13, WIDE_FLOAT, classical::ensemble, 8),
    // What onnxruntime's optimisers write.
    family(&["com.microsoft.BiasGelu", "com.microsoft.FastGelu", "com.microsoft.Gelu", "com.microsoft.QuickGelu"], 13, ONE, microsoft::activation, 24),
    family(&["com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization"], 13, ONE, microsoft::normalization, 20),
    family(&["com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul"], 13, ONE, microsoft::matmul, 12),
    family(&["com.microsoft.FusedGemm"], 13, ONE, microsoft::gemm, 8),
    family(&["com.microsoft.FusedConv"], 13, ONE, microsoft::conv, 10),
    family(&["com.microsoft.ConvTransposeWithDynamicPads"], 13, ONE, microsoft::conv_transpose, 8),
    family(&["com.microsoft.ExpandDims", "com.microsoft.GatherND", "com.microsoft.Trilu"], 13, &[F32, I64], microsoft::renamed, 18),
    family(&["com.microsoft.Pad"], 13, ONE, microsoft::renamed, 6),
    family(&["com.microsoft.Range"], 13, &[F32, I32, I64], microsoft::range, 6),
    family(&["com.microsoft.RotaryEmbedding"], 13, ONE, microsoft::rotary, 8),
    family(&["com.microsoft.Attention", "com.microsoft.MultiHeadAttention"], 13, ONE, microsoft::attention, 20),
    family(&["com.microsoft.GroupQueryAttention"], 13, ONE, microsoft::grouped_attention, 12),
    family(&["com.microsoft.EmbedLayerNormalization"], 13, ONE, microsoft::embedding, 8),
    family(&["com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"], 13, BYTES, microsoft_bytes::binary, 16),
    family(&["com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSoftmax"], 13, BYTES, microsoft_bytes::unary, 20),
    family(&["com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool"], 13, BYTES, microsoft_bytes::pool, 16),
    family(&["com.microsoft.QLinearConcat"], 13, BYTES, microsoft_bytes::concat, 8),
    family(&["com.microsoft.QLinearWhere"], 13, BYTES, microsoft_bytes::select, 8),
    family(&["com.microsoft.QLinearConv"], 13, BYTES, microsoft_bytes::conv, 10),
    family(&["com.microsoft.NhwcMaxPool"], 13, BYTES, microsoft_bytes::max_pool, 8),
    family(&["com.microsoft.QGemm", "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul"], 13, BYTES, microsoft_bytes::product, 24),
    family(&["com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear"], 13, WORDS, microsoft_bytes::linear, 14),
    family(&["com.microsoft.QAttention"], 13, BYTES, microsoft_bytes::attention, 8),
    family(&["com.microsoft.QEmbedLayerNormalization"], 13, BYTES, microsoft_bytes::embedding, 8),
    family(&["com.microsoft.DynamicQuantizeLSTM"], 13, BYTES, microsoft_bytes::lstm, 8),
    family(&["com.microsoft.MatMulNBits"], 13, ONE, microsoft_bytes::n_bits, 8),
];

const NO_KERNEL: &str = "onnxruntime has no kernel for it on the host";
const RANDOM: &str = "each runtime has random numbers of its own";

/// Operators that are not drawn, with the reason.
const NOT_DRAWN: &[(&str, &str)] = &[
    ("Bernoulli", RANDOM),
    ("CausalConvWithState", "onnxruntime does not have operator set 27 yet"),
    ("LinearAttention", "onnxruntime does not have operator set 27 yet"),
    ("Multinomial", RANDOM),
    ("RandomNormal", RANDOM),
    ("RandomNormalLike", RANDOM),
    ("RandomUniform", RANDOM),
    ("RandomUniformLike", RANDOM),
    ("SwiGLU", "onnxruntime does not have operator set 28 yet"),
    ("ai.onnx.preview.FlexAttention", NO_KERNEL),
    ("ai.onnx.preview.training.Adagrad", NO_KERNEL),
    ("ai.onnx.preview.training.Adam", NO_KERNEL),
    ("ai.onnx.preview.training.Gradient", NO_KERNEL),
    ("ai.onnx.preview.training.Momentum", NO_KERNEL),
    ("byoc.DecodeStrings", "the importer makes it of constants, which texts have"),
    ("com.microsoft.BiasAdd", NO_KERNEL),
    ("com.microsoft.BiasSplitGelu", NO_KERNEL),
    ("com.microsoft.GemmFastGelu", NO_KERNEL),
    ("com.microsoft.GroupNorm", NO_KERNEL),
    ("com.microsoft.NhwcConv", NO_KERNEL),
    ("com.microsoft.QLinearReduceMean", NO_KERNEL),
    ("com.microsoft.SkipGroupNorm", NO_KERNEL),
];

/// The operators that byoc has and that neither a family nor the list of reasons names, and those of that list that are drawn or that
/// byoc does not have.
pub(crate) fn not_drawn(drawn: &[&str]) -> (Vec<String>, Vec<&'static str>) {
    let qualified = |domain: &str, name: &str| if domain.is_empty() { name.into() } else { format!("{domain}.{name}") };
    let known = ops::all().map(|def| qualified(def.domain, def.name));
    let functions = functions::FUNCTIONS.iter().map(|def| qualified(def.domain, def.name));
    let brought = ["com.microsoft.DynamicQuantizeLSTM", "com.microsoft.MatMulNBits"].map(str::to_owned);
    let known: Vec<String> = known.chain(functions).chain(brought).collect();
    let reasoned = |name: &str| NOT_DRAWN.iter().any(|(known, _)| *known == name);
    let idle = NOT_DRAWN.iter().map(|(name, _)| *name);
    let idle = idle.filter(|name| drawn.contains(name) || !known.iter().any(|known| known == name)).collect();
    (known.into_iter().filter(|name| !drawn.contains(&name.as_str()) && !reasoned(name)).collect(), idle)
}
