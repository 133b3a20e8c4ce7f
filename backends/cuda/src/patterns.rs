//! Which regions the backend supports, and why it refuses others.

use std::collections::BTreeSet;

use byoc_dim as dim;
use byoc_nvidia::attention;
use byoc_plugin_api::{Pattern, Refusal, RefusalCode, Region};

use crate::kernels;
use crate::lower::{lower, refused};

/// Operators that can be fused.
const FUSED: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "ArgMax",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "ConstantOfShape",
    "Cos",
    "CumSum",
    "Div",
    "Dropout",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gelu",
    "GlobalAveragePool",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsNaN",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Pad",
    "Pow",
    "RMSNormalization",
    "Range",
    "Reciprocal",
    "ReduceMax",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "RotaryEmbedding",
    "Shape",
    "Sigmoid",
    "Sin",
    "Slice",
    "Softmax",
    "Softplus",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
];

/// Attention, and one pattern for each operator: the partitioner merges them to regions that are fused.
pub(crate) fn patterns() -> Vec<Pattern> {
    let pattern = |op: &&str| Pattern::new(op.to_lowercase(), format!("({op} ...)"));
    let operators = FUSED.iter().chain(kernels::OPERATORS).map(pattern);
    attention::patterns().into_iter().chain(operators).collect()
}

/// Accepts a region that can be lowered and whose sizes follow from those of its inputs.
pub(crate) fn check(candidate: &Region) -> Result<(), Refusal> {
    let given: BTreeSet<String> = candidate.inputs.iter().flat_map(|&input| symbols(candidate, input)).collect();
    for node in &candidate.nodes {
        for &output in node.outputs.iter().flatten() {
            if let Some(symbol) = symbols(candidate, output).find(|symbol| !given.contains(symbol)) {
                let message = format!("'{}' has the size '{symbol}', which no input has", node.name);
                return Err(refused(RefusalCode::Shape, message));
            }
        }
    }
    let refusal = match lower(candidate, None) {
        Ok(_) => return Ok(()),
        Err(refusal) => refusal,
    };
    // A MatMul is supported within attention only, so that refusal is the better reason.
    let is_product = candidate.nodes.iter().any(|node| node.op == "MatMul");
    Err(if is_product { attention::read(candidate).err().unwrap_or(refusal) } else { refusal })
}

fn symbols(region: &Region, value: usize) -> impl Iterator<Item = String> {
    let exprs = region.values[value].shape.iter().filter_map(|size| dim::Expr::of(size).ok());
    exprs.flat_map(|expr| expr.symbols()).collect::<Vec<_>>().into_iter()
}
