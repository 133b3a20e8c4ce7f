//! Which operators are drawn, for which element types, and by what. The types are those that onnxruntime has kernels
//! for as well.

use byoc_plugin_api::DType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

use super::builder::Builder;

mod choice;
mod classical;
mod elementwise;
mod every;
mod images;
mod indices;
mod integers;
mod layers;
mod microsoft;
mod microsoft_bytes;
mod movement;
mod normal;
mod quantize;
mod recurrent;
mod reduce;
mod sequence;
mod short;
mod signal;
mod texts;
mod vision;

pub(crate) use every::{EVERY, EVERY_SEEDS, not_drawn};

/// Draws a node of that operator, for one of these types; nothing where no form fits that came to mind.
type Draw = fn(&mut Builder, &'static str, &'static [DType]) -> Option<()>;

/// Operators that are drawn alike.
pub(crate) struct Family {
    pub(crate) operators: &'static [&'static str],
    /// The first operator set that has them.
    since: i64,
    types: &'static [DType],
    draw: Draw,
    /// How often, beside the others.
    weight: usize,
}

const fn family(
    operators: &'static [&'static str],
    since: i64,
    types: &'static [DType],
    draw: Draw,
    weight: usize,
) -> Family {
    Family { operators, since, types, draw, weight }
}

const FLOAT: &[DType] = &[F32, F64, F16];
const NARROW: &[DType] = &[F32, F16];
const NUMBER: &[DType] = &[F32, F64, F16, I8, I16, I32, I64, U8, U16, U32, U64];
const SIGNED: &[DType] = &[F32, F64, F16, I8, I16, I32, I64];
const COMMON: &[DType] = &[F32, F64, F16, I8, I32, I64, U8, U32, U64];
const WIDE: &[DType] = &[F32, F64, F16, I32, I64];
const ANY: &[DType] = &[F32, F64, F16, I8, I16, I32, I64, U8, U16, U32, U64, Bool];

/// What moves elements of bf16 as well; onnxruntime computes nothing with them.
const MOVED: &[DType] = &[F32, F64, F16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, BF16];

/// Every operator that is drawn.
#[rustfmt::skip]
pub(crate) const FAMILIES: &[Family] = &[
    family(&["Cos", "Sin", "Exp", "Log", "Reciprocal", "Sigmoid", "Sqrt", "Tanh"], 13, FLOAT, elementwise::function, 12),
    family(&["Erf", "Elu", "HardSigmoid", "LeakyRelu", "Softplus"], 13, NARROW, elementwise::function, 8),
    family(&["HardSwish"], 14, NARROW, elementwise::function, 2),
    family(&["Mish"], 18, NARROW, elementwise::function, 2),
    family(&["Gelu"], 20, NARROW, elementwise::function, 3),
    family(&["Swish"], 24, FLOAT, elementwise::function, 2),
    family(&["Relu"], 14, &[F32, F64, F16, I8, I32], elementwise::exact_function, 3),
    family(&["Abs"], 13, NUMBER, elementwise::exact_function, 2),
    family(&["Neg"], 13, SIGNED, elementwise::exact_function, 2),
    family(&["Identity"], 14, MOVED, elementwise::exact_function, 1),
    family(&["Dropout"], 13, FLOAT, elementwise::exact_function, 1),
    family(&["Not"], 13, &[Bool], elementwise::exact_function, 1),
    family(&["IsNaN"], 13, FLOAT, elementwise::is_nan, 1),
    family(&["Add", "Sub", "Mul"], 14, NUMBER, elementwise::arithmetic, 12),
    family(&["Div"], 14, NUMBER, elementwise::quotient, 4),
    family(&["Mod"], 13, NUMBER, elementwise::modulo, 2),
    family(&["Pow"], 13, WIDE, elementwise::power, 2),
    family(&["Max", "Min"], 13, COMMON, elementwise::variadic, 4),
    family(&["Sum"], 13, FLOAT, elementwise::variadic, 2),
    family(&["Equal"], 13, ANY, elementwise::compare, 2),
    family(&["Greater", "Less"], 13, NUMBER, elementwise::compare, 3),
    family(&["GreaterOrEqual", "LessOrEqual"], 16, NUMBER, elementwise::compare, 3),
    family(&["And"], 13, &[Bool], elementwise::compare, 2),
    family(&["Where"], 16, &[F32, F64, F16, I8, I32, I64, U8, U32], elementwise::select, 4),
    family(&["Clip"], 13, COMMON, elementwise::clip, 4),
    family(&["Cast"], 13, MOVED, elementwise::cast, 5),
    family(&["Transpose"], 13, MOVED, movement::transpose, 5),
    family(&["Reshape"], 14, MOVED, movement::reshape, 5),
    family(&["Flatten"], 13, MOVED, movement::flatten, 2),
    family(&["Squeeze"], 13, MOVED, movement::squeeze, 2),
    family(&["Unsqueeze"], 13, MOVED, movement::unsqueeze, 2),
    family(&["Expand"], 13, ANY, movement::expand, 3),
    family(&["Tile"], 13, ANY, movement::tile, 2),
    family(&["Concat"], 13, MOVED, movement::concat, 5),
    family(&["Split"], 13, MOVED, movement::split, 4),
    family(&["Slice"], 13, MOVED, movement::slice, 6),
    family(&["Pad"], 19, &[F32, F64, F16, I8, I32, I64, U8, U32, U64, Bool], movement::pad, 4),
    family(&["Trilu"], 14, &[F32, F64, F16, I32, I64, Bool], movement::trilu, 2),
    family(&["Gather"], 13, MOVED, indices::gather, 4),
    family(&["GatherElements"], 13, MOVED, indices::gather_elements, 3),
    family(&["GatherND"], 13, MOVED, indices::gather_nd, 2),
    family(&["ScatterND"], 18, COMMON, indices::scatter_nd, 3),
    family(&["Shape"], 15, MOVED, indices::shape, 2),
    family(&["ConstantOfShape"], 13, ANY, indices::constant_of_shape, 1),
    family(&["Range"], 13, &[F32, F64, I16, I32, I64], indices::range, 1),
    family(&["ReduceSum", "ReduceMean"], 18, WIDE, reduce::reduce, 5),
    family(&["ReduceMax"], 20, &[F32, F64, F16, I8, I32, I64, U8, Bool], reduce::reduce, 3),
    family(&["ArgMax"], 13, &[F32, F64, F16, I8, I32, I64, U8], reduce::arg_max, 2),
    family(&["CumSum"], 14, WIDE, reduce::cum_sum, 2),
    family(&["Softmax"], 13, FLOAT, reduce::softmax, 4),
    family(&["LayerNormalization"], 17, FLOAT, reduce::layer_normalization, 3),
    family(&["RMSNormalization"], 23, FLOAT, reduce::rms_normalization, 2),
    family(&["BatchNormalization"], 15, FLOAT, reduce::batch_normalization, 3),
    family(&["LRN"], 13, NARROW, reduce::lrn, 2),
    family(&["MatMul"], 13, &[F32, F64, F16, I32, I64, U32, U64], vision::matmul, 7),
    family(&["Gemm"], 13, FLOAT, vision::gemm, 4),
    family(&["Conv"], 13, NARROW, vision::conv, 8),
    family(&["MaxPool"], 13, &[F32, F64, F16, I8, U8], vision::pool, 4),
    family(&["AveragePool"], 19, NARROW, vision::pool, 4),
    family(&["GlobalAveragePool"], 13, NARROW, vision::global, 2),
    family(&["Resize"], 19, &[F32, F16, I8, I32, U8], vision::resize, 4),
    family(&["Attention"], 23, FLOAT, sequence::attention, 4),
    family(&["RotaryEmbedding"], 23, NARROW, sequence::rotary, 2),
];

/// Operators that are drawn in graphs of [`LATER_SEEDS`] only: what other seeds draw stays as it is, so that the rare ones that
/// were searched for do.
#[rustfmt::skip]
pub(crate) const LATER: &[Family] = &[
    family(&["Tan"], 13, &[F32], elementwise::function, 4),
    family(&["Ceil", "Floor"], 13, FLOAT, elementwise::rounding, 12),
    family(&["Round"], 13, FLOAT, elementwise::rounding, 8),
    family(&["Sign"], 13, NUMBER, elementwise::sign, 8),
    family(&["ReduceMin"], 20, &[F32, F64, F16, I8, I32, I64, U8, Bool], reduce::reduce, 8),
    family(&["ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"], 18, NARROW, reduce::reduce, 16),
    family(&["GlobalMaxPool"], 13, NARROW, vision::global, 8),
    family(&["DequantizeLinear"], 13, &[U8, I8, I32], quantize::dequantize, 8),
    family(&["QuantizeLinear"], 13, &[F32], quantize::quantize, 8),
    family(&["MatMulInteger"], 13, &[U8, I8], quantize::matmul_integer, 8),
    family(&["TopK"], 13, &[F32, F64, I32, I64], choice::top_k, 10),
    family(&["OneHot"], 13, &[F32, I64], choice::one_hot, 8),
    family(&["ScatterElements"], 18, &[F32, F64, I32, I64, U8], choice::scatter_elements, 8),
    family(&["ReverseSequence"], 13, NUMBER, choice::reverse_sequence, 8),
    family(&["EyeLike"], 13, &[F32, F64, I32, I64], choice::eye_like, 6),
    family(&["ArgMin"], 13, &[F32, F64, F16, I8, I32, U8], reduce::arg_max, 8),
    family(&["Hardmax"], 13, &[F32], reduce::softmax, 6),
    family(&["LogSoftmax"], 13, FLOAT, reduce::softmax, 8),
    family(&["ReduceLogSumExp"], 18, &[F32, F64], reduce::reduce, 10),
    family(&["Or", "Xor"], 13, &[Bool], elementwise::compare, 10),
    family(&["IsInf"], 20, FLOAT, elementwise::is_nan, 8),
];

/// Operators that are drawn in graphs of [`LAYER_SEEDS`] only, for the same reason.
#[rustfmt::skip]
pub(crate) const LAYERS: &[Family] = &[
    family(&["ConvTranspose"], 13, &[F32], layers::conv_transpose, 30),
    family(&["LSTM", "GRU", "RNN"], 14, &[F32], layers::recurrent, 30),
    family(&["GridSample"], 20, &[F32], layers::grid_sample, 20),
    family(&["LpPool"], 18, &[F32], layers::lp_pool, 20),
    family(&["Einsum"], 13, &[F32, F64, I32, I64], layers::einsum, 20),
    family(&["Det"], 13, &[F32], layers::det, 8),
];

/// The seeds of graphs with every operator but those.
pub(crate) const LATER_SEEDS: std::ops::Range<u64> = 1_000_000..1_000_400;

/// The seeds of graphs with those too.
pub(crate) const LAYER_SEEDS: std::ops::Range<u64> = 1_000_400..1_000_600;

fn families(builder: &Builder) -> impl Iterator<Item = &'static Family> + use<> {
    FAMILIES.iter().chain(builder.later.iter().copied().flatten())
}

/// Draws one more node.
pub(crate) fn draw(builder: &mut Builder) {
    let there: Vec<_> = families(builder).filter(|family| family.since <= builder.opset).collect();
    let all: usize = there.iter().map(|family| family.weight).sum();
    for _ in 0..30 {
        let mut place = builder.random.below(all);
        let chosen = there.iter().find(|family| {
            let here = place < family.weight;
            place = place.wrapping_sub(family.weight);
            here
        });
        let family = chosen.expect("the weights add up");
        let op = builder.random.of(family.operators);
        if (family.draw)(builder, op, family.types).is_some() {
            return;
        }
    }
}
