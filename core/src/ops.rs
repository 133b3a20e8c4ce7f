//! The operators core knows, as facts about them: versions, arity, types and shapes. No kernels. [`OPS`] is the one
//! list; each family has one file. `docs/adding-an-operator.md` tells how a row comes in.

use crate::constants::View;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Node, TensorType};

pub mod attributes;
pub mod elements;
mod infer;

mod attention;
pub mod cast;
mod concat;
mod conv;
mod elementwise;
mod gather;
mod layout;
mod matmul;
mod norm;
mod pool;
mod reduce;
mod resize;
mod scatter;
mod shape;
mod slice;
mod softmax;
#[cfg(test)]
mod testing;

pub use elements::{ELEMENT_LIMIT, Scalar};
pub use infer::Infer;

/// Sets type and shape of each output, or says what is wrong with the node.
pub type InferRule = fn(&mut Infer<'_>) -> Result<()>;

/// The view that stands for output 0 when input 0 is a constant seen through the given view, or `None` where bytes
/// would have to move. Arguments: the node, the view of input 0, the inferred shape of output 0, and for each input
/// its elements where it is a known integer tensor.
pub type ViewRule = fn(&Node, &View, &[usize], &[Option<Vec<i64>>]) -> Option<View>;

/// When an operator hands its first input on without arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOp {
    /// It always computes or moves something.
    Never,
    /// Always: output 0 has the bytes of input 0, at most under another shape.
    Always,
    /// When input 0 and output 0 have the same type and shape.
    SameType,
}

/// What core knows of one operator in its canonical (newest) form.
#[derive(Clone, Debug)]
pub struct OpDef {
    /// The ONNX name.
    pub name: &'static str,
    /// The operator-set version since which ONNX has had the form that core uses. Later versions of the operator, if
    /// there are any, only allow more types.
    pub since: u32,
    /// Fewest and most inputs; `usize::MAX` for variadic. Inputs below the fewest are required.
    pub inputs: (usize, usize),
    /// Most outputs; output 0 is required, the others are optional.
    pub outputs: usize,
    /// Its attributes, in all versions.
    pub attributes: attributes::List,
    /// Sets type and shape of each output.
    pub infer: InferRule,
    /// Whether equal inputs give equal outputs, so that a node over constants may be computed ahead of time. So far
    /// this holds for every operator of the list.
    pub foldable: bool,
    /// How a constant input becomes the output without a byte being moved.
    pub view: Option<ViewRule>,
    /// When the operator does nothing.
    pub no_op: NoOp,
}

impl OpDef {
    const fn new(name: &'static str, since: u32, inputs: (usize, usize), infer: InferRule) -> OpDef {
        OpDef {
            name,
            since,
            inputs,
            outputs: 1,
            attributes: &[],
            infer,
            foldable: true,
            view: None,
            no_op: NoOp::Never,
        }
    }

    const fn outputs(mut self, most: usize) -> OpDef {
        self.outputs = most;
        self
    }

    const fn attributes(mut self, list: attributes::List) -> OpDef {
        self.attributes = list;
        self
    }

    const fn view(mut self, rule: ViewRule) -> OpDef {
        self.view = Some(rule);
        self
    }

    const fn no_op(mut self, when: NoOp) -> OpDef {
        self.no_op = when;
        self
    }

    /// Whether `node` only hands input 0 on, given the types of its input 0 and output 0. A node with a second output
    /// that somebody wants does more.
    pub fn is_no_op(&self, node: &Node, input: &TensorType, output: &TensorType) -> bool {
        let alone = node.outputs.iter().skip(1).all(Option::is_none);
        alone
            && match self.no_op {
                NoOp::Never => false,
                NoOp::Always => true,
                NoOp::SameType => input == output,
            }
    }
}

const ANY: usize = usize::MAX;

/// Every operator core knows, by name. `Constant` is not among them: the importer turns it into a constant.
pub static OPS: &[OpDef] = &[
    OpDef::new("Abs", 13, (1, 1), elementwise::numeric_unary),
    OpDef::new("Add", 14, (2, 2), elementwise::arithmetic).attributes(attributes::BROADCAST),
    OpDef::new("And", 7, (2, 2), elementwise::logic).attributes(attributes::BROADCAST),
    OpDef::new("ArgMax", 13, (1, 1), reduce::arg).attributes(attributes::ARG),
    OpDef::new("Attention", 25, (3, 7), attention::attention).attributes(attributes::ATTENTION).outputs(4),
    OpDef::new("AveragePool", 22, (1, 1), pool::average).attributes(attributes::AVERAGE_POOL),
    OpDef::new("BatchNormalization", 15, (5, 5), norm::batch).attributes(attributes::BATCH_NORMALIZATION),
    OpDef::new("Cast", 24, (1, 1), cast::cast).attributes(attributes::CAST).no_op(NoOp::SameType),
    OpDef::new("Clip", 13, (1, 3), elementwise::clip).attributes(attributes::CLIP),
    OpDef::new("Concat", 13, (1, ANY), concat::concat).attributes(attributes::AXIS),
    OpDef::new("ConstantOfShape", 24, (1, 1), shape::constant_of_shape).attributes(attributes::CONSTANT_OF_SHAPE),
    OpDef::new("Conv", 22, (2, 3), conv::conv).attributes(attributes::CONV),
    OpDef::new("Cos", 22, (1, 1), elementwise::float_unary),
    OpDef::new("CumSum", 14, (2, 2), reduce::cumsum).attributes(attributes::CUM_SUM),
    OpDef::new("Div", 14, (2, 2), elementwise::arithmetic).attributes(attributes::BROADCAST),
    OpDef::new("Dropout", 22, (1, 3), norm::dropout)
        .attributes(attributes::DROPOUT)
        .outputs(2)
        .no_op(NoOp::Always)
        .view(layout::identity_view),
    OpDef::new("Elu", 22, (1, 1), elementwise::float_unary).attributes(attributes::ALPHA),
    OpDef::new("Equal", 19, (2, 2), elementwise::equal).attributes(attributes::BROADCAST),
    OpDef::new("Erf", 13, (1, 1), elementwise::float_unary),
    OpDef::new("Exp", 13, (1, 1), elementwise::float_unary),
    OpDef::new("Expand", 13, (2, 2), shape::expand).view(layout::expand_view).no_op(NoOp::SameType),
    OpDef::new("Flatten", 24, (1, 1), layout::flatten)
        .attributes(attributes::AXIS)
        .view(layout::reshape_view)
        .no_op(NoOp::Always),
    OpDef::new("Gather", 13, (2, 2), gather::gather).attributes(attributes::AXIS),
    OpDef::new("GatherElements", 13, (2, 2), gather::gather_elements).attributes(attributes::AXIS),
    OpDef::new("GatherND", 13, (2, 2), gather::gather_nd).attributes(attributes::GATHER_ND),
    OpDef::new("Gelu", 20, (1, 1), elementwise::gelu).attributes(attributes::GELU),
    OpDef::new("Gemm", 13, (2, 3), matmul::gemm).attributes(attributes::GEMM),
    OpDef::new("GlobalAveragePool", 22, (1, 1), pool::global),
    OpDef::new("Greater", 13, (2, 2), elementwise::compare).attributes(attributes::BROADCAST),
    OpDef::new("GreaterOrEqual", 16, (2, 2), elementwise::compare),
    OpDef::new("HardSigmoid", 22, (1, 1), elementwise::float_unary).attributes(attributes::HARD_SIGMOID),
    OpDef::new("HardSwish", 22, (1, 1), elementwise::float_unary),
    OpDef::new("Identity", 24, (1, 1), layout::identity).view(layout::identity_view).no_op(NoOp::Always),
    OpDef::new("IsNaN", 20, (1, 1), elementwise::is_nan),
    OpDef::new("LRN", 13, (1, 1), norm::lrn).attributes(attributes::LRN),
    OpDef::new("LayerNormalization", 17, (2, 3), norm::layer).attributes(attributes::LAYER_NORMALIZATION).outputs(3),
    OpDef::new("LeakyRelu", 16, (1, 1), elementwise::float_unary).attributes(attributes::ALPHA),
    OpDef::new("Less", 13, (2, 2), elementwise::compare).attributes(attributes::BROADCAST),
    OpDef::new("LessOrEqual", 16, (2, 2), elementwise::compare),
    OpDef::new("Log", 13, (1, 1), elementwise::float_unary),
    OpDef::new("MatMul", 13, (2, 2), matmul::matmul),
    OpDef::new("Max", 13, (1, ANY), elementwise::extreme),
    OpDef::new("MaxPool", 22, (1, 1), pool::max).attributes(attributes::MAX_POOL).outputs(2),
    OpDef::new("Min", 13, (1, ANY), elementwise::extreme),
    OpDef::new("Mish", 22, (1, 1), elementwise::float_unary),
    OpDef::new("Mod", 13, (2, 2), elementwise::modulo).attributes(attributes::MOD),
    OpDef::new("Mul", 14, (2, 2), elementwise::arithmetic).attributes(attributes::BROADCAST),
    OpDef::new("Neg", 13, (1, 1), elementwise::negate),
    OpDef::new("Not", 1, (1, 1), elementwise::not),
    OpDef::new("Pad", 24, (2, 4), concat::pad).attributes(attributes::PAD),
    OpDef::new("Pow", 15, (2, 2), elementwise::pow).attributes(attributes::BROADCAST),
    OpDef::new("RMSNormalization", 23, (2, 2), norm::rms).attributes(attributes::LAYER_NORMALIZATION),
    OpDef::new("Range", 27, (3, 3), shape::range).attributes(attributes::RANGE),
    OpDef::new("Reciprocal", 13, (1, 1), elementwise::float_unary),
    OpDef::new("ReduceMax", 20, (1, 2), reduce::max).attributes(attributes::REDUCE),
    OpDef::new("ReduceMean", 18, (1, 2), reduce::sum).attributes(attributes::REDUCE),
    OpDef::new("ReduceSum", 13, (1, 2), reduce::sum).attributes(attributes::REDUCE_SUM),
    OpDef::new("Relu", 14, (1, 1), elementwise::signed_unary),
    OpDef::new("Reshape", 24, (2, 2), layout::reshape)
        .attributes(attributes::RESHAPE)
        .view(layout::reshape_view)
        .no_op(NoOp::Always),
    OpDef::new("Resize", 19, (1, 4), resize::resize).attributes(attributes::RESIZE),
    OpDef::new("RotaryEmbedding", 23, (3, 4), attention::rotary).attributes(attributes::ROTARY),
    OpDef::new("ScatterND", 18, (3, 3), scatter::scatter_nd).attributes(attributes::SCATTER_ND),
    OpDef::new("Shape", 24, (1, 1), shape::shape).attributes(attributes::SHAPE),
    OpDef::new("Sigmoid", 13, (1, 1), elementwise::float_unary),
    OpDef::new("Sin", 22, (1, 1), elementwise::float_unary),
    OpDef::new("Slice", 13, (3, 5), slice::slice).attributes(attributes::SLICE).view(slice::slice_view),
    OpDef::new("Softmax", 13, (1, 1), softmax::softmax).attributes(attributes::AXIS),
    OpDef::new("Softplus", 22, (1, 1), elementwise::float_unary),
    OpDef::new("Split", 18, (1, 2), concat::split).attributes(attributes::SPLIT).outputs(ANY),
    OpDef::new("Sqrt", 13, (1, 1), elementwise::float_unary),
    OpDef::new("Squeeze", 24, (1, 2), layout::squeeze)
        .attributes(attributes::SQUEEZE)
        .view(layout::reshape_view)
        .no_op(NoOp::Always),
    OpDef::new("Sub", 14, (2, 2), elementwise::arithmetic).attributes(attributes::BROADCAST),
    OpDef::new("Sum", 13, (1, ANY), elementwise::sum),
    OpDef::new("Swish", 24, (1, 1), elementwise::float_unary).attributes(attributes::ALPHA),
    OpDef::new("Tanh", 13, (1, 1), elementwise::float_unary),
    OpDef::new("Tile", 13, (2, 2), concat::tile).no_op(NoOp::SameType),
    OpDef::new("Transpose", 24, (1, 1), layout::transpose)
        .attributes(attributes::TRANSPOSE)
        .view(layout::transpose_view),
    OpDef::new("Trilu", 14, (1, 2), layout::trilu).attributes(attributes::TRILU),
    OpDef::new("Unsqueeze", 24, (2, 2), layout::unsqueeze)
        .attributes(attributes::SQUEEZE)
        .view(layout::reshape_view)
        .no_op(NoOp::Always),
    OpDef::new("Where", 16, (3, 3), elementwise::select),
];

/// The facts about an operator of ONNX's own domain, if core knows it.
pub fn find(domain: &str, op: &str) -> Option<&'static OpDef> {
    if !matches!(domain, "" | "ai.onnx") {
        return None;
    }
    OPS.binary_search_by(|def| def.name.cmp(op)).ok().map(|index| &OPS[index])
}

/// The facts about `node`'s operator; an unknown one is an error.
pub fn definition(node: &Node) -> Result<&'static OpDef> {
    find(&node.domain, &node.op).ok_or_else(|| {
        Diagnostic::new(Code::UnknownOperator, format!("the operator {} is not known", node.qualified_op()))
            .hint("`docs/operators.md` lists those that are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_every_row_is_found() {
        assert!(OPS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for def in OPS {
            assert_eq!(find("", def.name).map(|found| found.name), Some(def.name));
            assert!(def.inputs.0 >= 1 && def.inputs.0 <= def.inputs.1 && def.outputs >= 1, "{}", def.name);
        }
        assert!(find("com.acme", "Conv").is_none());
        assert!(find("", "Conw").is_none());
    }
}
