//! The operators core knows, as facts about them: versions, arity, types and shapes. No kernels. [`OPS`] is the one
//! list; each family has one file. `docs/adding-an-operator.md` shows how to add a row.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::CustomOperators;

pub mod attributes;
pub mod elements;
mod infer;

mod attention;
pub mod cast;
mod columns;
mod concat;
pub mod control;
mod conv;
mod conv_transpose;
pub(crate) mod custom;
mod def;
mod domains;
pub(crate) mod einsum;
mod elementwise;
mod fourier;
mod gather;
mod grid_sample;
mod layout;
pub mod lists;
mod matmul;
pub mod ml;
mod norm;
mod pool;
mod quantize;
mod random;
pub(crate) mod recurrent;
mod reduce;
mod resize;
mod roi;
mod run_time;
mod scatter;
mod select;
mod shape;
mod slice;
mod softmax;
pub mod strings;
#[cfg(test)]
pub(crate) mod testing;
mod tf_idf;
pub mod training;

pub use def::{InferRule, Like, NoOp, OpDef, ViewRule};
pub use domains::{DOMAINS, Domain, NEWEST, Reason, all, domain, reason};
pub use elements::{ELEMENT_LIMIT, Scalar};
pub use infer::Infer;
use infer::{FLOAT8, OPAQUE, SMALL, STRING};
pub use run_time::{PartialType, RunTimeRule, Size};

const ANY: usize = usize::MAX;

/// Every operator core knows, by name. `Constant` is not among them: the importer turns it into a constant.
pub static OPS: &[OpDef] = &[
    OpDef::unary("Abs", 13, elementwise::numeric_unary),
    OpDef::unary("Acos", 22, elementwise::float_unary),
    OpDef::unary("Acosh", 22, elementwise::float_unary),
    OpDef::new("Add", 14, (2, 2), elementwise::arithmetic).like(Like::Broadcast).attributes(attributes::BROADCAST),
    OpDef::new("And", 7, (2, 2), elementwise::logic).like(Like::Compared).attributes(attributes::BROADCAST),
    OpDef::new("ArgMax", 13, (1, 1), reduce::arg).attributes(attributes::ARG),
    OpDef::new("ArgMin", 13, (1, 1), reduce::arg).attributes(attributes::ARG),
    OpDef::unary("Asin", 22, elementwise::float_unary),
    OpDef::unary("Asinh", 22, elementwise::float_unary),
    OpDef::unary("Atan", 22, elementwise::float_unary),
    OpDef::unary("Atanh", 22, elementwise::float_unary),
    OpDef::new("Attention", 25, (3, 7), attention::attention)
        .older(&[(24, 6, 4)])
        .attributes(attributes::ATTENTION)
        .outputs(4),
    OpDef::new("AveragePool", 22, (1, 1), pool::average).like(Like::Rank).attributes(attributes::AVERAGE_POOL),
    OpDef::new("BatchNormalization", 15, (5, 5), norm::batch)
        .like(Like::First)
        .older(&[(14, 5, 5)])
        .attributes(attributes::BATCH_NORMALIZATION)
        .outputs(3),
    OpDef::new("Bernoulli", 22, (1, 1), random::bernoulli).attributes(random::BERNOULLI).random(),
    OpDef::new("BitCast", 26, (1, 1), cast::bit_cast).attributes(attributes::BIT_CAST).small(SMALL),
    OpDef::new("BitShift", 28, (2, 2), elementwise::shift).like(Like::Broadcast).attributes(attributes::BIT_SHIFT),
    OpDef::new("BitwiseAnd", 18, (2, 2), elementwise::bitwise).like(Like::Broadcast),
    OpDef::unary("BitwiseNot", 18, elementwise::bitwise),
    OpDef::new("BitwiseOr", 18, (2, 2), elementwise::bitwise).like(Like::Broadcast),
    OpDef::new("BitwiseXor", 18, (2, 2), elementwise::bitwise).like(Like::Broadcast),
    OpDef::new("Cast", 24, (1, 1), cast::cast)
        .attributes(attributes::CAST)
        .no_op(NoOp::SameType)
        .small(SMALL)
        .opaque(STRING),
    OpDef::new("CastLike", 24, (2, 2), cast::cast_like).attributes(attributes::CAST_LIKE).small(SMALL).opaque(STRING),
    OpDef::unary("Ceil", 13, elementwise::float_unary),
    OpDef::new("Clip", 13, (1, 3), elementwise::clip)
        .like(Like::First)
        .older(&[(11, 1, 1)])
        .attributes(attributes::CLIP),
    OpDef::new("Col2Im", 18, (3, 3), columns::col_2_im).run_time(columns::some_image).attributes(columns::COL_2_IM),
    OpDef::new("Compress", 11, (2, 2), select::compress)
        .run_time(select::compressed)
        .attributes(attributes::COMPRESS)
        .opaque(OPAQUE),
    OpDef::new("Concat", 13, (1, ANY), concat::concat).attributes(attributes::CONCAT).opaque(OPAQUE),
    OpDef::new("ConstantOfShape", 24, (1, 1), shape::constant_of_shape)
        .run_time(run_time::constant_of_shape)
        .attributes(attributes::CONSTANT_OF_SHAPE),
    OpDef::new("Conv", 22, (2, 3), conv::conv).attributes(attributes::CONV),
    OpDef::new("ConvInteger", 10, (2, 4), quantize::conv_integer).like(Like::Rank).attributes(attributes::CONV),
    OpDef::new("ConvTranspose", 22, (2, 3), conv_transpose::conv_transpose)
        .like(Like::Rank)
        .attributes(conv_transpose::ATTRIBUTES),
    OpDef::unary("Cos", 22, elementwise::float_unary),
    OpDef::unary("Cosh", 22, elementwise::float_unary),
    OpDef::new("CumProd", 26, (2, 2), reduce::cumsum).like(Like::First).attributes(attributes::CUM_SUM),
    OpDef::new("CumSum", 14, (2, 2), reduce::cumsum).like(Like::First).attributes(attributes::CUM_SUM),
    OpDef::new("DFT", 20, (1, 3), fourier::dft)
        .run_time(fourier::some_length)
        .attributes(fourier::DFT)
        .older(&[(20, 2, 1)]),
    OpDef::new("DeformConv", 22, (3, 5), columns::deform_conv).like(Like::Rank).attributes(columns::DEFORM_CONV),
    OpDef::new("DequantizeLinear", 25, (2, 3), quantize::dequantize)
        .attributes(attributes::DEQUANTIZE_LINEAR)
        .small(SMALL)
        .widens(),
    OpDef::new("Det", 22, (1, 1), matmul::det),
    OpDef::new("Div", 14, (2, 2), elementwise::arithmetic).like(Like::Broadcast).attributes(attributes::BROADCAST),
    OpDef::new("Dropout", 22, (1, 3), norm::dropout)
        .like(Like::First)
        .older(&[(12, 1, 2)])
        .attributes(attributes::DROPOUT)
        .outputs(2)
        .no_op(NoOp::Alone)
        .random()
        .small(FLOAT8)
        .view(layout::alone_view),
    OpDef::new("DynamicQuantizeLinear", 11, (1, 1), quantize::dynamic).outputs(3),
    OpDef::new("Einsum", 28, (1, ANY), einsum::einsum).attributes(einsum::ATTRIBUTES),
    OpDef::unary("Elu", 22, elementwise::float_unary).attributes(attributes::ELU),
    OpDef::new("Equal", 19, (2, 2), elementwise::equal)
        .like(Like::Compared)
        .attributes(attributes::BROADCAST)
        .opaque(STRING),
    OpDef::unary("Erf", 13, elementwise::float_unary),
    OpDef::unary("Exp", 13, elementwise::float_unary),
    OpDef::new("Expand", 13, (2, 2), shape::expand)
        .run_time(run_time::expand)
        .view(layout::expand_view)
        .no_op(NoOp::SameType)
        .opaque(OPAQUE),
    OpDef::new("EyeLike", 22, (1, 1), shape::eye_like).attributes(attributes::EYE_LIKE),
    OpDef::new("Flatten", 24, (1, 1), layout::flatten)
        .attributes(attributes::FLATTEN)
        .small(SMALL)
        .view(layout::reshape_view)
        .no_op(NoOp::Always)
        .opaque(OPAQUE),
    OpDef::unary("Floor", 13, elementwise::float_unary),
    OpDef::new("GRU", 22, (3, 6), recurrent::recurrent).attributes(recurrent::GRU).outputs(2),
    OpDef::new("Gather", 13, (2, 2), gather::gather).attributes(attributes::GATHER).opaque(OPAQUE),
    OpDef::new("GatherElements", 13, (2, 2), gather::gather_elements).attributes(attributes::GATHER).opaque(OPAQUE),
    OpDef::new("GatherND", 13, (2, 2), gather::gather_nd).attributes(attributes::GATHER_ND).opaque(OPAQUE),
    OpDef::unary("Gelu", 20, elementwise::gelu).attributes(attributes::GELU),
    OpDef::new("Gemm", 13, (2, 3), matmul::gemm).attributes(attributes::GEMM),
    OpDef::new("GlobalAveragePool", 22, (1, 1), pool::global).like(Like::Rank),
    OpDef::new("GlobalLpPool", 22, (1, 1), pool::global_lp).like(Like::Rank).attributes(pool::GLOBAL_LP_POOL),
    OpDef::new("GlobalMaxPool", 22, (1, 1), pool::global).like(Like::Rank),
    OpDef::new("Greater", 13, (2, 2), elementwise::compare).like(Like::Compared).attributes(attributes::BROADCAST),
    OpDef::new("GreaterOrEqual", 16, (2, 2), elementwise::compare).like(Like::Compared),
    OpDef::new("GridSample", 22, (2, 2), grid_sample::grid_sample).like(Like::Rank).attributes(grid_sample::ATTRIBUTES),
    OpDef::unary("HardSigmoid", 22, elementwise::float_unary).attributes(attributes::HARD_SIGMOID),
    OpDef::unary("HardSwish", 22, elementwise::float_unary),
    OpDef::unary("Hardmax", 13, softmax::softmax).attributes(attributes::SOFTMAX),
    OpDef::new("Identity", 24, (1, 1), layout::identity)
        .like(Like::First)
        .small(SMALL)
        .view(layout::identity_view)
        .no_op(NoOp::Always)
        .opaque(OPAQUE),
    OpDef::new("IsInf", 20, (1, 1), elementwise::is_nan).attributes(attributes::IS_INF).small(FLOAT8),
    OpDef::new("IsNaN", 20, (1, 1), elementwise::is_nan).small(FLOAT8),
    OpDef::new("LRN", 13, (1, 1), norm::lrn).like(Like::First).attributes(attributes::LRN),
    OpDef::new("LSTM", 22, (3, 8), recurrent::recurrent).attributes(recurrent::LSTM).outputs(3),
    OpDef::new("LayerNormalization", 17, (2, 3), norm::layer)
        .like(Like::First)
        .attributes(attributes::LAYER_NORMALIZATION)
        .outputs(3),
    OpDef::unary("LeakyRelu", 16, elementwise::float_unary).attributes(attributes::LEAKY_RELU),
    OpDef::new("Less", 13, (2, 2), elementwise::compare).like(Like::Compared).attributes(attributes::BROADCAST),
    OpDef::new("LessOrEqual", 16, (2, 2), elementwise::compare).like(Like::Compared),
    OpDef::unary("Log", 13, elementwise::float_unary),
    OpDef::unary("LogSoftmax", 13, softmax::softmax).attributes(attributes::SOFTMAX),
    OpDef::new("LpPool", 22, (1, 1), pool::lp).like(Like::Rank).attributes(pool::LP_POOL),
    OpDef::new("MatMul", 13, (2, 2), matmul::matmul),
    OpDef::new("MatMulInteger", 10, (2, 4), quantize::matmul_integer),
    OpDef::new("Max", 13, (1, ANY), elementwise::extreme).like(Like::Broadcast),
    OpDef::new("MaxPool", 22, (1, 1), pool::max)
        .like(Like::Rank)
        .older(&[(8, 1, 1)])
        .attributes(attributes::MAX_POOL)
        .outputs(2),
    OpDef::new("MaxRoiPool", 22, (2, 2), roi::max_roi).like(Like::Rank).attributes(roi::MAX_ROI_POOL),
    OpDef::new("MaxUnpool", 22, (2, 3), pool::unpool)
        .run_time(pool::unpooled)
        .like(Like::Rank)
        .attributes(pool::MAX_UNPOOL),
    OpDef::new("MelWeightMatrix", 17, (5, 5), fourier::mel_weight_matrix)
        .run_time(fourier::some_weights)
        .attributes(fourier::MEL_WEIGHT_MATRIX),
    OpDef::new("Min", 13, (1, ANY), elementwise::extreme).like(Like::Broadcast),
    OpDef::unary("Mish", 22, elementwise::float_unary),
    OpDef::new("Mod", 28, (2, 2), elementwise::modulo).like(Like::Broadcast).attributes(attributes::MOD),
    OpDef::new("Mul", 14, (2, 2), elementwise::arithmetic).like(Like::Broadcast).attributes(attributes::BROADCAST),
    OpDef::new("Multinomial", 22, (1, 1), random::multinomial).attributes(random::MULTINOMIAL).random(),
    OpDef::unary("Neg", 13, elementwise::negate),
    OpDef::new("NonMaxSuppression", 11, (2, 5), select::suppression)
        .run_time(select::boxes_left)
        .attributes(attributes::NON_MAX_SUPPRESSION),
    OpDef::new("NonZero", 13, (1, 1), select::non_zero).run_time(select::some_non_zero).opaque(OPAQUE),
    OpDef::new("Not", 1, (1, 1), elementwise::not),
    OpDef::new("OneHot", 11, (3, 3), select::one_hot)
        .run_time(select::some_depth)
        .attributes(attributes::ONE_HOT)
        .opaque(OPAQUE),
    OpDef::new("Or", 7, (2, 2), elementwise::logic).like(Like::Compared).attributes(attributes::BROADCAST),
    OpDef::new("Pad", 24, (2, 4), concat::pad)
        .run_time(run_time::pad)
        .like(Like::Rank)
        .older(&[(11, 1, 1), (18, 3, 1)])
        .attributes(attributes::PAD)
        .small(SMALL)
        .opaque(OPAQUE),
    OpDef::new("Pow", 15, (2, 2), elementwise::pow).like(Like::Broadcast).attributes(attributes::BROADCAST),
    OpDef::new("QLinearConv", 10, (8, 9), quantize::linear_conv).attributes(attributes::CONV),
    OpDef::new("QLinearMatMul", 21, (8, 8), quantize::linear_matmul),
    OpDef::new("QuantizeLinear", 25, (2, 3), quantize::quantize).attributes(attributes::QUANTIZE_LINEAR).small(SMALL),
    OpDef::new("RMSNormalization", 23, (2, 2), norm::rms).attributes(attributes::LAYER_NORMALIZATION),
    OpDef::new("RNN", 22, (3, 6), recurrent::recurrent).attributes(recurrent::RNN).outputs(2),
    OpDef::new("RandomNormal", 22, (0, 0), random::of_shape).attributes(random::NORMAL).random(),
    OpDef::new("RandomNormalLike", 22, (1, 1), random::like).attributes(random::NORMAL_LIKE).random(),
    OpDef::new("RandomUniform", 22, (0, 0), random::of_shape).attributes(random::UNIFORM).random(),
    OpDef::new("RandomUniformLike", 22, (1, 1), random::like).attributes(random::UNIFORM_LIKE).random(),
    OpDef::new("Range", 27, (3, 3), shape::range).run_time(run_time::range).attributes(attributes::RANGE),
    OpDef::unary("Reciprocal", 13, elementwise::float_unary),
    OpDef::reduction("ReduceL1", 18, reduce::sum),
    OpDef::reduction("ReduceL2", 18, reduce::sum),
    OpDef::reduction("ReduceLogSum", 18, reduce::sum),
    OpDef::reduction("ReduceLogSumExp", 18, reduce::sum),
    OpDef::reduction("ReduceMax", 20, reduce::extreme),
    OpDef::reduction("ReduceMean", 18, reduce::sum),
    OpDef::reduction("ReduceMin", 20, reduce::extreme),
    OpDef::reduction("ReduceProd", 18, reduce::sum),
    OpDef::new("ReduceSum", 13, (1, 2), reduce::sum)
        .run_time(run_time::reduce)
        .older(&[(13, 1, 1)])
        .attributes(attributes::REDUCE_SUM),
    OpDef::reduction("ReduceSumSquare", 18, reduce::sum),
    OpDef::new("RegexFullMatch", 20, (1, 1), strings::full_match).attributes(strings::FULL_MATCH).opaque(STRING),
    OpDef::unary("Relu", 14, elementwise::signed_unary),
    OpDef::new("Reshape", 24, (2, 2), layout::reshape)
        .run_time(run_time::reshape)
        .older(&[(5, 1, 1)])
        .attributes(attributes::RESHAPE)
        .small(SMALL)
        .view(layout::reshape_view)
        .no_op(NoOp::Always)
        .opaque(OPAQUE),
    OpDef::new("Resize", 19, (1, 4), resize::resize)
        .run_time(run_time::resize)
        .like(Like::Rank)
        .older(&[(11, 2, 1)])
        .attributes(attributes::RESIZE),
    OpDef::new("ReverseSequence", 10, (2, 2), gather::reverse_sequence)
        .like(Like::First)
        .attributes(attributes::REVERSE_SEQUENCE)
        .opaque(OPAQUE),
    OpDef::new("RoiAlign", 22, (3, 3), roi::roi_align).like(Like::Rank).attributes(roi::ROI_ALIGN),
    OpDef::new("RotaryEmbedding", 23, (3, 4), attention::rotary).attributes(attributes::ROTARY),
    OpDef::unary("Round", 22, elementwise::float_unary),
    OpDef::new("STFT", 17, (2, 4), fourier::stft).run_time(fourier::some_frames).attributes(fourier::STFT),
    OpDef::new("ScatterElements", 18, (3, 3), scatter::scatter_elements)
        .like(Like::First)
        .attributes(attributes::SCATTER_ELEMENTS)
        .opaque(OPAQUE),
    OpDef::new("ScatterND", 18, (3, 3), scatter::scatter_nd).attributes(attributes::SCATTER_ND).opaque(OPAQUE),
    OpDef::new("Shape", 24, (1, 1), shape::shape).attributes(attributes::SHAPE).small(SMALL).opaque(OPAQUE),
    OpDef::unary("Sigmoid", 13, elementwise::float_unary),
    OpDef::unary("Sign", 13, elementwise::numeric_unary),
    OpDef::unary("Sin", 22, elementwise::float_unary),
    OpDef::unary("Sinh", 22, elementwise::float_unary),
    OpDef::new("Size", 24, (1, 1), shape::size).small(SMALL).opaque(OPAQUE),
    OpDef::new("Slice", 13, (3, 5), slice::slice)
        .run_time(run_time::slice)
        .like(Like::Rank)
        .older(&[(10, 1, 1)])
        .attributes(attributes::SLICE)
        .view(slice::slice_view)
        .opaque(OPAQUE),
    OpDef::new("Softmax", 13, (1, 1), softmax::softmax).like(Like::First).attributes(attributes::SOFTMAX),
    OpDef::unary("Softplus", 22, elementwise::float_unary),
    OpDef::new("Split", 18, (1, 2), concat::split)
        .run_time(run_time::split)
        .older(&[(2, 2, ANY), (13, 1, ANY)])
        .attributes(attributes::SPLIT)
        .outputs(ANY)
        .opaque(OPAQUE),
    OpDef::unary("Sqrt", 13, elementwise::float_unary),
    OpDef::new("Squeeze", 24, (1, 2), layout::squeeze)
        .run_time(run_time::squeeze)
        .older(&[(13, 1, 1)])
        .attributes(attributes::SQUEEZE)
        .small(SMALL)
        .view(layout::reshape_view)
        .no_op(NoOp::Always)
        .opaque(OPAQUE),
    OpDef::new("StringConcat", 20, (2, 2), strings::concat).like(Like::Broadcast).opaque(STRING),
    OpDef::new("StringNormalizer", 10, (1, 1), strings::normalizer)
        .run_time(strings::some_normalized)
        .attributes(strings::NORMALIZER)
        .opaque(STRING),
    OpDef::new("StringSplit", 20, (1, 1), strings::split)
        .run_time(strings::some_parts)
        .attributes(strings::SPLIT)
        .outputs(2)
        .opaque(STRING),
    OpDef::new("Sub", 14, (2, 2), elementwise::arithmetic).like(Like::Broadcast).attributes(attributes::BROADCAST),
    OpDef::new("Sum", 13, (1, ANY), elementwise::sum).like(Like::Broadcast),
    OpDef::unary("Swish", 24, elementwise::float_unary).attributes(attributes::SWISH),
    OpDef::unary("Tan", 22, elementwise::float_unary),
    OpDef::unary("Tanh", 13, elementwise::float_unary),
    OpDef::new("TfIdfVectorizer", 9, (1, 1), tf_idf::tf_idf).attributes(tf_idf::ATTRIBUTES).opaque(STRING),
    OpDef::new("Tile", 13, (2, 2), concat::tile)
        .run_time(run_time::tile)
        .like(Like::Rank)
        .older(&[(6, 3, 1)])
        .no_op(NoOp::SameType)
        .opaque(OPAQUE),
    OpDef::new("TopK", 24, (2, 2), select::top_k)
        .run_time(select::some_of)
        .older(&[(10, 1, 2)])
        .attributes(attributes::TOP_K)
        .outputs(2),
    OpDef::new("Transpose", 24, (1, 1), layout::transpose)
        .like(Like::Rank)
        .attributes(attributes::TRANSPOSE)
        .small(SMALL)
        .view(layout::transpose_view)
        .opaque(OPAQUE),
    OpDef::new("Trilu", 14, (1, 2), layout::trilu).attributes(attributes::TRILU).opaque(OPAQUE),
    OpDef::new("Unique", 11, (1, 1), select::unique)
        .run_time(select::different)
        .attributes(attributes::UNIQUE)
        .outputs(4)
        .opaque(OPAQUE),
    OpDef::new("Unsqueeze", 24, (2, 2), layout::unsqueeze)
        .run_time(run_time::unsqueeze)
        .older(&[(13, 1, 1)])
        .attributes(attributes::SQUEEZE)
        .small(SMALL)
        .view(layout::reshape_view)
        .no_op(NoOp::Always)
        .opaque(OPAQUE),
    OpDef::new("Where", 16, (3, 3), elementwise::select).opaque(OPAQUE),
    OpDef::new("Xor", 7, (2, 2), elementwise::logic).like(Like::Compared).attributes(attributes::BROADCAST),
];

/// Operators of older operator sets, which the importer rewrites to ones of [`OPS`], in their last form.
pub static REWRITTEN: &[OpDef] = &[
    OpDef::new("Scatter", 9, (3, 3), scatter::scatter_elements).attributes(attributes::GATHER).opaque(OPAQUE),
    OpDef::new("Upsample", 9, (2, 2), resize::resize).older(&[(9, 1, 1)]).attributes(attributes::UPSAMPLE),
];

/// The facts about an operator in its canonical form or, for an older one, in its last form.
pub(crate) fn find_any(domain: &str, op: &str) -> Option<&'static OpDef> {
    find(domain, op).or_else(|| REWRITTEN.iter().find(|def| domain.is_empty() && def.name == op))
}

/// The facts about an operator, if core knows it.
pub fn find(domain: &str, op: &str) -> Option<&'static OpDef> {
    let operators = domains::domain(domain)?.operators;
    operators.binary_search_by(|def| def.name.cmp(op)).ok().map(|index| &operators[index])
}

/// Gives each output of the node its type, by the rule of its operator; an operator that is not known is an error.
pub(crate) fn infer(infer: &mut Infer<'_>, custom: &CustomOperators) -> Result<()> {
    let node = infer.node;
    if let Some(def) = find(&node.domain, &node.op) {
        return infer.apply(def);
    }
    if let Some(brought) = custom.find(&node.domain, &node.op, node.version) {
        return infer.apply_custom(brought);
    }
    let cause = format!("the operator {} is not known", node.qualified_op());
    Err(Diagnostic::new(Code::UnknownOperator, cause).hint("`docs/operators.md` lists those that are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_every_row_is_found() {
        for domain in DOMAINS {
            assert!(domain.operators.windows(2).all(|pair| pair[0].name < pair[1].name), "{}", domain.name);
            for def in domain.operators {
                assert_eq!(find(domain.name, def.name).map(OpDef::qualified), Some(def.qualified()));
                assert_eq!(def.domain, domain.name, "{}", def.name);
                assert!(def.inputs.0 <= def.inputs.1 && def.outputs >= 1, "{}", def.name);
                assert!(def.inputs.1 != ANY || def.lifted().next().is_none(), "{}: no place is behind any", def.name);
            }
        }
        assert!(find("com.acme", "Conv").is_none());
        assert!(find("", "Conw").is_none());
        assert!(find("", "Scaler").is_none());
        assert!(find("ai.onnx", "Conv").is_some());
    }
}
