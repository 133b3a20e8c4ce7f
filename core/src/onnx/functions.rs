//! Operators that are functions of others: those that ONNX's specification defines so, and some more. A backend that brings one
//! gets its nodes whole; where nobody takes them, the importer puts the nodes of the function in their place.
//!
//! The formulas are those of ONNX's operator descriptions, written for values of any size.

mod activations;
mod attention;
mod body;
mod call;
mod gradient;
mod losses;
mod microsoft;
mod microsoft_quantised;
mod norm;
mod space;
mod windows;

use std::collections::BTreeSet;

use self::body::{Body, Value};
use self::call::{Call, bad};
pub(super) use self::gradient::{NAME as GRADIENT_NAME, derive};
use self::microsoft::attributes as ms;
use self::microsoft_quantised as quantised;
use super::proto::{FunctionProto, NodeProto};
use super::values;
use crate::diagnostic::Result;
use crate::ops::attributes::{
    AttributeDef, Default, Kind, List, float, float_or, graph, int, int_or, ints, string, string_or, strings,
};
use crate::ops::training;

/// The operator set of the nodes in the bodies.
const OPSET: i64 = 28;

/// An operator that is a function of others.
#[derive(Clone, Copy, Debug)]
pub struct FunctionDef {
    /// The domain, empty for ONNX's own.
    pub domain: &'static str,
    /// The ONNX name.
    pub name: &'static str,
    /// The first version of the operator set whose form is known.
    pub since: i64,
    /// Fewest and most inputs.
    pub inputs: (usize, usize),
    /// Most outputs; output 0 is required.
    pub outputs: usize,
    /// Its attributes, in all versions that are known.
    pub attributes: List,
    /// Writes the values of the outputs.
    body: fn(&mut Body, &Call) -> Result<Vec<Value>>,
}

const ALPHA: List = &[float_or("alpha", 1.0)];
const BLOCKS: List = &[int("blocksize").required(), string_or("mode", "DCR").since(11)];
const CACHE: List = &[int_or("axis", -2), string_or("mode", "linear")];
const FLEX: List = &[graph("prob_mod"), float("scale"), graph("score_mod"), int("softmax_precision")];
const LINEAR_ATTENTION: List = &[
    // How the work may be cut, which changes no result.
    int_or("chunk_size", 64),
    int("kv_num_heads").required(),
    int("q_num_heads").required(),
    float_or("scale", 0.0),
    string_or("update_rule", "gated_delta"),
];
const LOSS: List = &[int("ignore_index"), string_or("reduction", "mean")];
const WINDOW: List = &[int_or("output_datatype", 1), int_or("periodic", 1)];

/// Every one of them, by name: the first version, inputs, outputs, attributes and body.
#[rustfmt::skip]
pub static FUNCTIONS: &[FunctionDef] = &[
    row("AffineGrid", 20, (2, 2), 1, &[int_or("align_corners", 0)], space::affine_grid),
    row("BlackmanWindow", 17, (1, 1), 1, WINDOW, windows::blackman),
    row("CausalConvWithState", 27, (2, 4), 2, &[string_or("activation", "none")], attention::causal_conv),
    row("Celu", 12, (1, 1), 1, ALPHA, activations::celu),
    row("CenterCropPad", 18, (2, 2), 1, &[ints("axes")], space::center_crop_pad),
    row("DepthToSpace", 1, (1, 1), 1, BLOCKS, space::depth_to_space),
    FunctionDef { domain: "ai.onnx.preview", ..row("FlexAttention", 1, (3, 3), 1, FLEX, attention::flex) },
    FunctionDef { domain: training::DOMAIN, ..row(gradient::NAME, 1, (1, usize::MAX), usize::MAX, GRADIENT, gradient::elsewhere) },
    row("GroupNormalization", 18, (3, 3), 1, GROUP, norm::group),
    row("HammingWindow", 17, (1, 1), 1, WINDOW, windows::hamming),
    row("HannWindow", 17, (1, 1), 1, WINDOW, windows::hann),
    // Operator set 1 named inputs that may be overwritten.
    row("InstanceNormalization", 6, (3, 3), 1, &[float_or("epsilon", 1e-5)], norm::instance),
    row("LinearAttention", 27, (3, 6), 2, LINEAR_ATTENTION, attention::linear),
    row("LpNormalization", 1, (1, 1), 1, &[int_or("axis", -1), int_or("p", 2)], norm::lp),
    // Before 8, the inputs were not broadcast.
    row("Mean", 8, (1, usize::MAX), 1, &[], norm::mean_of_all),
    row("MeanVarianceNormalization", 9, (1, 1), 1, MEAN_VARIANCE, norm::mean_variance),
    row("NegativeLogLikelihoodLoss", 12, (2, 3), 1, LOSS, losses::negative_log_likelihood),
    // Operator set 1 named inputs that may be overwritten.
    row("PRelu", 6, (2, 2), 1, &[], activations::prelu),
    // Operator set 1 had other defaults.
    row("Selu", 6, (1, 1), 1, SELU, activations::selu),
    row("Shrink", 9, (1, 1), 1, &[float_or("bias", 0.0), float_or("lambd", 0.5)], activations::shrink),
    // Not ONNX's: onnxruntime has it in this domain, with all operator sets.
    row("SimplifiedLayerNormalization", 1, (2, 2), 2, RMS, microsoft::norm::rms),
    row("SoftmaxCrossEntropyLoss", 12, (2, 3), 2, LOSS, losses::softmax_cross_entropy),
    row("Softsign", 1, (1, 1), 1, &[], activations::softsign),
    row("SpaceToDepth", 1, (1, 1), 1, BLOCKS_BACK, space::space_to_depth),
    row("SwiGLU", 28, (2, 2), 1, ALPHA, activations::swiglu),
    row("TensorScatter", 24, (2, 3), 1, CACHE, space::tensor_scatter),
    row("ThresholdedRelu", 10, (1, 1), 1, ALPHA, activations::thresholded_relu),
    // onnxruntime's own domain.
    microsoft("Attention", (2, 7), 2, ms::ATTENTION, microsoft::attention::projected),
    microsoft("BiasAdd", (3, 3), 1, &[], microsoft::activations::bias_add),
    microsoft("BiasGelu", (2, 2), 1, &[], microsoft::activations::bias_gelu),
    microsoft("BiasSplitGelu", (2, 2), 1, &[], microsoft::activations::bias_split_gelu),
    microsoft("ConvTransposeWithDynamicPads", (2, 4), 1, ms::CONV_TRANSPOSE, quantised::space::conv_transpose),
    microsoft("DequantizeLinear", (2, 3), 1, &[int("axis")], quantised::elementwise::dequantize),
    microsoft("DynamicQuantizeMatMul", (3, 5), 1, &[], quantised::products::dynamic_matmul),
    microsoft("EmbedLayerNormalization", (7, 9), 3, ms::EMBED, microsoft::norm::embed),
    microsoft("ExpandDims", (2, 2), 1, &[], microsoft::renamed::expand_dims),
    microsoft("FastGelu", (1, 2), 1, &[], microsoft::activations::fast_gelu),
    microsoft("FusedConv", (2, 4), 1, ms::FUSED_CONV, microsoft::conv::fused),
    microsoft("FusedGemm", (2, 3), 1, ms::FUSED_GEMM, microsoft::products::fused_gemm),
    microsoft("FusedMatMul", (2, 2), 1, ms::FUSED_MATMUL, microsoft::products::fused_matmul),
    microsoft("GatherND", (2, 2), 1, &[], microsoft::renamed::gather_nd),
    microsoft("Gelu", (1, 1), 1, &[], microsoft::activations::gelu),
    microsoft("GemmFastGelu", (2, 3), 1, &[], microsoft::activations::gemm_fast_gelu),
    microsoft("GroupNorm", (3, 3), 1, ms::GROUP_NORM, microsoft::norm::group),
    microsoft("GroupQueryAttention", (7, 16), 4, ms::GROUPED, microsoft::grouped::grouped),
    microsoft("MatMulIntegerToFloat", (4, 7), 1, &[], quantised::products::matmul_to_float),
    microsoft("MultiHeadAttention", (1, 10), 4, ms::MULTI_HEAD, microsoft::attention::multi_head),
    microsoft("NhwcConv", (2, 3), 1, ms::CONV, microsoft::conv::channels_last),
    microsoft("NhwcMaxPool", (1, 1), 1, ms::MAX_POOL, quantised::space::max_pool),
    microsoft("Pad", (2, 3), 1, &[string_or("mode", "constant")], microsoft::renamed::pad),
    microsoft("QAttention", (5, 9), 2, ms::QUANTISED_ATTENTION, quantised::attention::attention),
    microsoft("QEmbedLayerNormalization", (18, 18), 2, &[float_or("epsilon", 1e-12)], quantised::embedding::layer_normalization),
    microsoft("QGemm", (6, 9), 1, ms::SCALED_PRODUCT, quantised::products::gemm),
    microsoft("QLinearAdd", (7, 8), 1, &[], quantised::elementwise::add),
    microsoft("QLinearAveragePool", (4, 5), 1, ms::AVERAGE_POOL, quantised::space::average_pool),
    microsoft("QLinearConcat", (3, usize::MAX), 1, &[int("axis").required()], quantised::elementwise::concat),
    microsoft("QLinearConv", (8, 9), 1, ms::QUANTISED_CONV, quantised::space::conv),
    microsoft("QLinearGlobalAveragePool", (5, 5), 1, &[int_or("channels_last", 0)], quantised::space::global_average_pool),
    microsoft("QLinearLeakyRelu", (4, 5), 1, &[float_or("alpha", 0.01)], quantised::elementwise::leaky_relu),
    microsoft("QLinearMul", (7, 8), 1, &[], quantised::elementwise::mul),
    microsoft("QLinearReduceMean", (4, 5), 1, ms::REDUCE_MEAN, quantised::elementwise::reduce_mean),
    microsoft("QLinearSigmoid", (4, 5), 1, &[], quantised::elementwise::sigmoid),
    microsoft("QLinearSoftmax", (5, 5), 1, &[int_or("axis", -1), int("opset").required()], quantised::elementwise::softmax),
    microsoft("QLinearWhere", (9, 9), 1, &[], quantised::elementwise::select),
    microsoft("QuantizeLinear", (2, 3), 1, &[int("axis")], quantised::elementwise::quantize),
    microsoft("QuickGelu", (1, 1), 1, &[float_or("alpha", 1.702)], microsoft::activations::quick_gelu),
    microsoft("Range", (2, 3), 1, &[], microsoft::renamed::range),
    microsoft("RotaryEmbedding", (4, 4), 1, ms::ROTARY, microsoft::rotary::rotary),
    microsoft("SkipGroupNorm", (4, 5), 2, ms::GROUP_NORM, microsoft::norm::skip_group),
    microsoft("SkipLayerNormalization", (3, 5), 4, ms::SKIP, microsoft::norm::skip_layer),
    microsoft("SkipSimplifiedLayerNormalization", (3, 4), 4, ms::SKIP, microsoft::norm::skip_rms),
    microsoft("TransposeMatMul", (2, 2), 1, ms::SCALED_PRODUCT, microsoft::products::fused_matmul),
    microsoft("Trilu", (1, 2), 1, &[int_or("upper", 1)], microsoft::renamed::trilu),
];

const BLOCKS_BACK: List = &[int("blocksize").required(), string_or("mode", "DCR").since(28)];
const GRADIENT: List = &[strings("xs").required(), string("y").required(), strings("zs")];
const GROUP: List = &[float_or("epsilon", 1e-5), int("num_groups").required(), int_or("stash_type", 1).since(21)];
const MEAN_VARIANCE: List = &[AttributeDef::new("axes", Kind::Ints, Default::Ints(&[0, 2, 3]))];
const RMS: List = &[int_or("axis", -1), float_or("epsilon", 1e-5), int_or("stash_type", 1)];
const SELU: List = &[float_or("alpha", 1.673_263_2), float_or("gamma", 1.050_701)];

/// An operator of onnxruntime's domain, which has one version.
const fn microsoft(
    name: &'static str,
    inputs: (usize, usize),
    outputs: usize,
    attributes: List,
    body: fn(&mut Body, &Call) -> Result<Vec<Value>>,
) -> FunctionDef {
    FunctionDef { domain: "com.microsoft", ..row(name, 1, inputs, outputs, attributes, body) }
}

const fn row(
    name: &'static str,
    since: i64,
    inputs: (usize, usize),
    outputs: usize,
    attributes: List,
    body: fn(&mut Body, &Call) -> Result<Vec<Value>>,
) -> FunctionDef {
    FunctionDef { domain: "", name, since, inputs, outputs, attributes, body }
}

/// Whether the operator is expanded unless a backend brings it.
pub fn is_function(domain: &str, op: &str) -> bool {
    find(domain, op).is_some()
}

/// The function of that name, if there is one.
pub(super) fn find(domain: &str, op: &str) -> Option<&'static FunctionDef> {
    FUNCTIONS.iter().find(|def| (def.domain, def.name) == (domain, op))
}

impl FunctionDef {
    /// The function for a node of that version of the operator set. The node gets as many inputs as the function has.
    pub(super) fn function(&self, version: i64, node: &mut NodeProto) -> Result<FunctionProto> {
        if version < self.since {
            let cause = format!("operator {} version {version} is not supported", self.name);
            return Err(bad(cause).hint(format!("Export the model with operator set {} or newer", self.since)));
        }
        let count = |names: &[String]| names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
        for (what, count, most) in
            [("inputs", count(&node.input), self.inputs.1), ("outputs", count(&node.output), self.outputs)]
        {
            if count > most {
                return Err(bad(format!("has {count} {what}, expected at most {most} in version {version}")));
            }
        }
        node.input.truncate(self.inputs.1);
        let mut inputs: Vec<_> = (0..node.input.len()).map(|index| format!("input_{index}")).collect();
        let call = Call::new(self, version, node, &inputs)?;
        let mut body = Body::new(call.graphs().flat_map(values::names).map(str::to_owned).collect());
        let outputs = (self.body)(&mut body, &call)?;
        // What the graphs of the node read keeps its name.
        let read: BTreeSet<String> = call.graphs().flat_map(values::free).collect();
        inputs.extend(read.iter().cloned());
        node.input.extend(read);
        Ok(body.function(inputs, &outputs))
    }
}
