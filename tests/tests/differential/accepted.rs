//! The differences that are no fault of byoc's: the one list. What differs is made smaller first, so that an entry need
//! only look at one or two nodes.

use byoc_core::ops::cast::from_onnx;
use byoc_plugin_api::{Attribute, DType};

use super::graph::{Case, Leaf, Node};
use super::judge::Difference;
use super::values::numbers;

/// A difference that is no fault.
pub(crate) struct Accepted {
    /// What differs, and who is right.
    pub(crate) reason: &'static str,
    /// Whether a smallest case is an instance of it.
    pub(crate) holds: fn(&Case, &Difference) -> bool,
}

/// Every one of them.
pub(crate) const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "the larger of a number and a NaN is NaN, as in ONNX's reference; onnxruntime drops it at times",
        holds: |case, _| {
            has(case, &["MaxPool", "ReduceMax", "Max", "Min", "Clip", "ScatterND"]) && reads(case, f64::is_nan)
        },
    },
    Accepted {
        reason: "a float out of an integer's range becomes the nearest in it; ONNX says nothing, onnxruntime wraps",
        holds: |case, _| case.nodes.iter().any(|node| node.op == "Cast" && cut_off(case, node)),
    },
    Accepted {
        reason: "Clip without a bound lets an infinity through, as ONNX's reference does; onnxruntime cuts it to the largest",
        holds: |case, _| {
            let open = |node: &Node| node.inputs.len() < 3 || node.inputs.iter().any(String::is_empty);
            case.nodes.iter().any(|node| node.op == "Clip" && open(node)) && reads(case, f64::is_infinite)
        },
    },
    Accepted {
        reason: "coordinates of Resize that need its size take it before it is rounded down, as ONNX's reference does",
        holds: |case, _| {
            let sized = ["align_corners", "pytorch_half_pixel"].map(text);
            let sized = |node: &Node| node.attributes.iter().any(|(_, value)| sized.contains(value));
            let fraction = |leaf: &Leaf| numbers(&leaf.values[0]).iter().any(|scale| scale.fract() != 0.0);
            case.nodes.iter().any(sized) && case.leaves.iter().filter(|leaf| leaf.structural).any(fraction)
        },
    },
    Accepted {
        reason: "f16 is rounded after each operator that is not fused; onnxruntime keeps f32 between some of them",
        holds: |case, difference| {
            let beyond = |value: f64| !value.is_finite() || value.abs() > LARGEST_F16;
            let f16 = case.leaves.iter().any(|leaf| leaf.dtype() == DType::F16);
            f16 && differing(difference).all(|(a, b)| beyond(a) || beyond(b))
        },
    },
    Accepted {
        reason: "sums and products near the largest float overflow in the order in which they are computed",
        holds: |case, difference| {
            let sums = ["Gemm", "MatMul", "Conv", "ReduceSum", "ReduceMean", "CumSum", "AveragePool", "Sum", "Softmax"];
            has(case, &sums) && differing(difference).all(|(a, b)| !a.is_finite() || !b.is_finite())
        },
    },
    Accepted {
        reason: "Slice backwards to the largest integer takes nothing; for onnxruntime it means to the end, either way",
        holds: |case, _| has(case, &["Slice"]) && case.leaves.iter().any(reads_limit),
    },
    Accepted {
        reason: "Gelu and Sigmoid of a number far below 0 are small; onnxruntime's approximations leave few digits",
        holds: |case, difference| has(case, &["Gelu", "Sigmoid"]) && differing(difference).next().is_none(),
    },
    Accepted {
        reason: "Sin and Cos of a large number turn its last digit into another result",
        holds: |case, _| has(case, &["Sin", "Cos"]) && has(case, &["Exp", "Range", "Pow", "Mul"]),
    },
    Accepted {
        reason: "integers are computed in integers, and wrap; onnxruntime takes Mod and sums of them through floats",
        holds: |case, _| has(case, &["Mod", "ReduceSum"]) && case.leaves.iter().any(large),
    },
    Accepted {
        reason: "Gemm of no columns is beta * C; onnxruntime gives C",
        holds: |case, _| has(case, &["Gemm"]) && case.leaves.iter().any(|leaf| leaf.values[0].shape.contains(&0)),
    },
    Accepted {
        reason: "Attention of f64 is scaled in f64; onnxruntime scales in f32",
        holds: |case, difference| {
            has(case, &["Attention"]) && difference.found.dtype == DType::F64 && differing(difference).next().is_none()
        },
    },
];

const LARGEST_F16: f64 = 65504.0;

fn text(value: &str) -> Attribute {
    Attribute::String(value.to_owned())
}

/// Whether some node is of one of these operators.
fn has(case: &Case, operators: &[&str]) -> bool {
    case.nodes.iter().any(|node| operators.contains(&node.op))
}

/// The elements that are not equal: byoc's and onnxruntime's.
fn differing(difference: &Difference) -> impl Iterator<Item = (f64, f64)> {
    let pairs = numbers(&difference.found).into_iter().zip(numbers(&difference.expected));
    let (relative, least) = (1e-2, 1e-3);
    pairs.filter(move |(a, b)| !(a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= least + relative * b.abs()))
}

/// Whether a leaf holds the largest i64.
fn reads_limit(leaf: &Leaf) -> bool {
    leaf.dtype() == DType::I64
        && leaf.values[0].bytes.as_chunks().0.iter().any(|&one| i64::from_le_bytes(one) == i64::MAX)
}

/// Whether a leaf holds an integer that no f64 holds exactly, or nearly so.
fn large(leaf: &Leaf) -> bool {
    !leaf.dtype().is_float() && leaf.values.iter().flat_map(numbers).any(|value| value.abs() > 1e9)
}

/// Whether some float that the graph reads is such.
fn reads(case: &Case, such: fn(f64) -> bool) -> bool {
    let floats = case.leaves.iter().flat_map(|leaf| &leaf.values).filter(|value| value.dtype.is_float());
    floats.into_iter().any(|value| numbers(value).into_iter().any(such))
}

/// Whether a Cast reads a float of the graph that the type it gives cannot hold.
fn cut_off(case: &Case, cast: &Node) -> bool {
    let Some((_, Attribute::Int(code))) = cast.attributes.first() else { return false };
    let Some((low, high)) = from_onnx(*code).and_then(range) else { return false };
    let read = case.leaves.iter().filter(|leaf| leaf.name == cast.inputs[0] && leaf.dtype().is_float());
    read.flat_map(|leaf| &leaf.values).flat_map(numbers).any(|value| !(low..=high).contains(&value.trunc()))
}

/// The range of an integer type.
fn range(dtype: DType) -> Option<(f64, f64)> {
    let bits = dtype.size() as i32 * 8;
    match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Some((0.0, 2f64.powi(bits) - 1.0)),
        _ => None,
    }
}
