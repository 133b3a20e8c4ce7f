//! The differences that are not byoc's faults: the one list. What differs is made smaller first, to one node where that is
//! possible, so an entry looks at that node and what it reads, and accepts no element but those its reason tells of.

mod every;

use byoc_core::ops::cast::from_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::Tensor;

use super::compare;
use super::graph::{Case, Leaf, Node};
use super::judge::Difference;
use super::values::numbers;

/// Whether any graph meets the first depends on the processor, by which both sides choose their kernels; whether one meets the second,
/// on what was in onnxruntime's memory before.
const OF_SOME_RUNS: [&str; 2] = [
    "Softmax of numbers far below the largest is 0 to who drops numbers below the least normal one",
    "a product over nothing is 0; onnxruntime leaves MatMul's result as it finds the memory",
];

/// Whether a run of the usual graphs may be without it.
pub(crate) fn need_not_be_met(entry: &Accepted) -> bool {
    OF_SOME_RUNS.contains(&entry.reason) || every::OF_LONG_RUNS.contains(&entry.reason)
}

/// A difference that is not a fault.
pub(crate) struct Accepted {
    /// What differs, and who is right.
    pub(crate) reason: &'static str,
    /// Whether a smallest case is an instance of it.
    pub(crate) holds: fn(&Smallest<'_>) -> bool,
}

/// A difference in a case that cannot be made smaller.
pub(crate) struct Smallest<'a> {
    case: &'a Case,
    difference: &'a Difference,
    /// The elements that differ: where, byoc's and onnxruntime's.
    elements: Vec<(usize, f64, f64)>,
}

/// The entry of which a difference is an instance.
pub(crate) fn accepted(case: &Case, difference: &Difference) -> Option<&'static Accepted> {
    let (found, expected) = (numbers(&difference.found), numbers(&difference.expected));
    let places = compare::differing(case, &difference.found, &difference.expected);
    let elements = places.into_iter().map(|place| (place, found[place], expected[place])).collect();
    let smallest = Smallest { case, difference, elements };
    all().find(|entry| (entry.holds)(&smallest))
}

/// Every one of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Accepted> {
    ACCEPTED.iter().chain(every::ACCEPTED)
}

/// Those in the operators that were drawn first.
const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "a gate of a recurrent layer that is nearly closed lets something through; onnxruntime's sigmoid is 0 there",
        holds: |it| it.last(&["GRU", "LSTM"]).is_some() && it.elements(|a, b| a.abs() < 1e-4 && b.abs() < 1e-4),
    },
    Accepted {
        reason: "the larger of a number and a NaN is NaN, and so is its sign, as in ONNX's reference; onnxruntime drops it at times",
        holds: |it| {
            let op = it.only(&[
                "MaxPool",
                "GlobalMaxPool",
                "ReduceMax",
                "ReduceMin",
                "ReduceLogSumExp",
                "Max",
                "Min",
                "Clip",
                "ScatterElements",
                "ScatterND",
                "Sign",
            ]);
            // The index of a maximum is not a NaN itself.
            let kept = it.is_float() && it.elements(|a, b| a.is_nan() && !b.is_nan());
            let index = op.is_some_and(|node| node.op == "MaxPool") && !it.is_float();
            op.is_some() && (kept || index) && it.reads(f64::is_nan)
        },
    },
    Accepted {
        reason: "the largest of minus infinities is one, as in ONNX's reference; onnxruntime begins with the least number",
        holds: |it| {
            let least = |a: f64, b: f64| a == f64::NEG_INFINITY && b.is_finite() && b < -6e4;
            it.only(&["GlobalMaxPool"]).is_some() && it.elements(least)
        },
    },
    Accepted {
        reason: "a float out of an integer's range becomes the nearest in it; ONNX says nothing, onnxruntime wraps",
        holds: |it| {
            let Some((node, Some((low, high)))) = it.only(&["Cast"]).map(|node| (node, target(node))) else {
                return false;
            };
            it.from(node, |x, a, _| x < low && a == low || x > high && a == high)
        },
    },
    Accepted {
        reason: "Clip lets an infinity through where no finite bound is given, as ONNX's reference does; onnxruntime cuts it \
                 to the largest number",
        holds: |it| {
            let largest = |a: f64, b: f64| a.is_infinite() && b.is_finite() && a.signum() == b.signum();
            it.last(&["Clip"]).is_some() && it.elements(|a, b| largest(a, b) && b.abs() >= LARGEST_F16)
        },
    },
    Accepted {
        reason: "coordinates of Resize that need its size take it before it is rounded down, as ONNX's reference does",
        holds: |it| {
            let sized = ["align_corners", "pytorch_half_pixel"].map(|mode| Attribute::String(mode.to_owned()));
            let Some(node) = it.only(&["Resize"]) else { return false };
            let (Some(x), Some(scales)) = (it.leaf(node, 0), it.leaf(node, 2)) else { return false };
            let sizes =
                x.values[0].shape.iter().zip(numbers(&scales.values[0])).map(|(&size, scale)| size as f64 * scale);
            node.attributes.iter().any(|(_, value)| sized.contains(value))
                && sizes.into_iter().any(|size| size.fract() != 0.0)
        },
    },
    Accepted {
        reason: "f16 is rounded after each operator that is not fused; onnxruntime keeps f32 between some of them",
        holds: |it| {
            let f16 = it.case.leaves.iter().any(|leaf| leaf.dtype() == DType::F16);
            let has = |op: &str| it.case.nodes.iter().any(|node| node.op == op);
            // What it takes to overflow: a product of large numbers, an exponential, or 1 divided by a small one.
            let large = |value: f64| value.is_finite() && value.abs() >= if has("Exp") { 11.0 } else { 256.0 };
            let beyond = |value: f64| !value.is_finite() || value.abs() >= LARGEST_F16;
            let overflows = (it.reads(large) || has("Reciprocal")) && it.elements(|a, b| beyond(a) != beyond(b));
            // Numbers that are the same once they are rounded, and the angle of a large number.
            let compared = has("Cast") && it.last(&["Greater", "GreaterOrEqual", "Less", "LessOrEqual"]).is_some();
            let angle = it.reads(large) && has("Exp") && it.last(&["Sin", "Cos"]).is_some();
            // What is too small for an f16 is 0.
            let vanishes = has("Softmax") && it.last(&["Log", "Div"]).is_some() && it.elements(|a, _| !a.is_finite());
            f16 && it.case.nodes.len() > 1 && (overflows || compared || angle || vanishes)
        },
    },
    Accepted {
        reason: "Softplus of a large f16 is that number; onnxruntime's overflows",
        holds: |it| {
            let node = it.only(&["Softplus"]).filter(|_| it.difference.found.dtype == DType::F16);
            node.is_some_and(|node| it.from(node, |x, a, b| x > 11.0 && a == x && b == f64::INFINITY))
        },
    },
    Accepted {
        reason: "sums and products of numbers near the largest, or that cancel out, depend on the order of computing",
        holds: |it| {
            let sums = [
                "Gemm",
                "MatMul",
                "Conv",
                "ReduceSum",
                "ReduceMean",
                "ReduceProd",
                "ReduceSumSquare",
                "ReduceL1",
                "ReduceL2",
                "CumSum",
                "AveragePool",
                "GlobalAveragePool",
                "Sum",
            ];
            let Some(node) = it
                .last(&sums)
                .filter(|_| it.case.nodes.iter().all(|node| node.op == "Cast" || sums.contains(&node.op)))
            else {
                return false;
            };
            let product = ["Gemm", "MatMul", "Conv"].contains(&node.op);
            let least = match it.case.leaves.iter().map(Leaf::dtype).find(|dtype| dtype.is_float()) {
                Some(DType::F16) => 1e3,
                Some(DType::F64) => 1e300,
                _ => 1e30,
            };
            let huge = it.case.leaves.iter().any(|leaf| leaf.dtype().is_float() && largest(leaf) > least);
            // What rounding a term may change.
            let leaves = it.case.leaves.iter().filter(|leaf| !leaf.structural).map(largest);
            let term = if product { leaves.product() } else { leaves.fold(0.0, f64::max) };
            let rounded = compare::tolerance(it.case).step * term;
            it.elements(|a, b| huge && (!a.is_finite() || !b.is_finite()) || (a - b).abs() <= rounded)
        },
    },
    Accepted {
        reason: "Slice backwards to the largest integer takes nothing; for onnxruntime it means to the end, either way",
        holds: |it| {
            let Some(node) = it.only(&["Slice"]) else { return false };
            let (Some(ends), Some(steps)) = (it.integers(node, 2), it.integers(node, 4)) else { return false };
            ends.iter().zip(steps).any(|(&end, step)| end == i64::MAX && step < 0)
        },
    },
    Accepted {
        reason: "Gelu and Sigmoid of a number far below 0 are nearly 0, of few digits or either sign",
        holds: |it| {
            let near = |x: f64, a: f64, b: f64| x < -2.0 && (a - b).abs() <= 1e-6 * x.abs();
            let first = &it.case.nodes[0];
            let few_digits = |a: f64, b: f64| (a - b).abs() <= 0.1 * b.abs() || !a.is_finite() || !b.is_finite();
            let magnified = ["Gelu", "Sigmoid"].contains(&first.op)
                && it.case.nodes.len() == 2
                && it.last(&["Reciprocal", "Div", "Log", "Sqrt", "Slice"]).is_some()
                && it.reads(|x| x <= -4.0 || x == 0.0);
            it.only(&["Gelu", "Sigmoid"]).is_some_and(|node| it.from(node, near))
                || magnified && it.elements(few_digits)
        },
    },
    Accepted {
        reason: OF_SOME_RUNS[0],
        holds: |it| {
            let logarithm = it.case.nodes.len() == 2 && it.case.nodes[0].op == "Softmax" && it.last(&["Log"]).is_some();
            logarithm && it.elements(|a, b| a == f64::NEG_INFINITY && b < -87.0)
        },
    },
    Accepted {
        reason: "LayerNormalization magnifies what rounding leaves of elements that are the mean",
        holds: |it| {
            let nearly_none = |x: f64| x.abs() <= 1e-3;
            let first = it.case.nodes[0].op == "LayerNormalization";
            it.last(&["LayerNormalization"]).is_some() && it.elements(|a, b| nearly_none(a) && nearly_none(b))
                || first && it.last(&["Div", "Reciprocal"]).is_some() && it.elements(|a, _| !a.is_finite())
        },
    },
    Accepted {
        reason: "a zero has either sign, and the infinity that is 1 by it has too",
        holds: |it| it.last(&["Reciprocal", "Div"]).is_some() && it.elements(|a, b| a.is_infinite() && a == -b),
    },
    Accepted {
        reason: "integers are computed in integers, and wrap; onnxruntime takes Mod and sums of them through floats",
        holds: |it| {
            let Some(node) = it.only(&["Mod", "ReduceSum"]).filter(|_| !it.is_float()) else { return false };
            // Larger integers are not floats, or may have a sum that is none.
            let least = if node.op == "Mod" { 2f64.powi(53) } else { 1e9 };
            it.reads(|value| value.abs() > least)
        },
    },
    Accepted {
        reason: "Gemm of no columns is beta * C; onnxruntime gives C",
        holds: |it| {
            let node = it.only(&["Gemm"]);
            node.and_then(|node| it.leaf(node, 0)).is_some_and(|leaf| leaf.values[0].shape.contains(&0))
        },
    },
    Accepted {
        reason: OF_SOME_RUNS[1],
        holds: |it| {
            let product = it.case.nodes.iter().any(|node| ["MatMul", "MatMulInteger"].contains(&node.op));
            let none = it.case.leaves.iter().any(|leaf| leaf.values.iter().any(|value| value.shape.contains(&0)));
            // byoc's are 0, or what a Gemm adds to that.
            let added = it.last(&["Gemm"]).map_or_else(Vec::new, |gemm| it.addends(gemm));
            product
                && none
                && it.last(&["MatMul", "MatMulInteger", "Gemm", "Pad"]).is_some()
                && it.elements(|a, _| a == 0.0 || added.iter().any(|c| (a - c).abs() <= 1e-6 * c.abs()))
        },
    },
    Accepted {
        reason: "Attention that the mask lets see nothing gives 0, as ONNX's reference does; onnxruntime's of f64 gives NaN",
        holds: |it| {
            let node = it.only(&["Attention"]).filter(|_| it.difference.found.dtype == DType::F64);
            let masked = node.and_then(|node| it.leaf(node, 3)).is_some();
            masked && it.elements(|a, b| a == 0.0 && b.is_nan())
        },
    },
    Accepted {
        reason: "a mask of Attention for fewer keys than there are hides the rest, as in ONNX; onnxruntime spreads one for one \
                 key where there is a past",
        holds: |it| {
            let Some(node) = it.only(&["Attention"]) else { return false };
            let size = |input: usize, back: usize| it.read(it.leaf(node, input)?).shape.iter().rev().nth(back).copied();
            size(3, 0) == Some(1) && size(1, 1).zip(size(4, 1)).is_some_and(|(new, past)| new + past > 1)
        },
    },
    Accepted {
        reason: "Attention of f64 is scaled in f64; onnxruntime scales in f32",
        holds: |it| {
            let f64 = it.difference.found.dtype == DType::F64 && it.only(&["Attention"]).is_some();
            f64 && it.elements(|a, b| (a - b).abs() <= 1e-6 * (1.0 + b.abs()))
        },
    },
    Accepted {
        reason: "causal Attention lets the only query see the past and one key, as ONNX says; onnxruntime shows it all keys",
        holds: |it| {
            let Some(node) = it.only(&["Attention"]) else { return false };
            // The last dimension but one, whether the heads have one of their own or not.
            let length = |input: usize| it.read(it.leaf(node, input)?).shape.iter().rev().nth(1).copied();
            let causal = node.attributes.contains(&("is_causal", Attribute::Int(1)));
            let lonely = length(0) == Some(1) && length(1).is_some_and(|keys| keys > 1);
            let result = it.case.outputs[it.difference.output] == node.outputs[0];
            causal && lonely && result && it.leaf(node, 4).is_some() && it.elements(|a, _| a.is_finite())
        },
    },
];

const LARGEST_F16: f64 = 65504.0;

impl Smallest<'_> {
    /// The only node, if it is of one of these operators.
    fn only(&self, operators: &[&str]) -> Option<&Node> {
        match &self.case.nodes[..] {
            [node] if operators.contains(&node.op) => Some(node),
            _ => None,
        }
    }

    /// The node that makes what differs, if it is of one of these operators.
    fn last(&self, operators: &[&str]) -> Option<&Node> {
        let output = &self.case.outputs[self.difference.output];
        self.case.nodes.iter().find(|node| node.outputs.contains(output) && operators.contains(&node.op))
    }

    fn is_float(&self) -> bool {
        self.difference.found.dtype.is_float()
    }

    /// Whether every element that differs is such: byoc's and onnxruntime's.
    fn elements(&self, such: impl Fn(f64, f64) -> bool) -> bool {
        self.difference.found.shape == self.difference.expected.shape
            && self.elements.iter().all(|&(_, a, b)| such(a, b))
    }

    /// Whether every element that differs is such, with that of the first operand from which it is computed.
    fn from(&self, node: &Node, such: impl Fn(f64, f64, f64) -> bool) -> bool {
        let Some(x) = self.leaf(node, 0) else { return false };
        let read = numbers(self.read(x));
        self.elements.iter().all(|&(place, a, b)| read.get(place).is_some_and(|&x| such(x, a, b)))
    }

    /// The leaf that is an input of a node.
    fn leaf(&self, node: &Node, input: usize) -> Option<&Leaf> {
        self.case.leaves.iter().find(|leaf| node.inputs.get(input) == Some(&leaf.name))
    }

    /// The elements of beta * C of a Gemm, where C is a leaf.
    fn addends(&self, gemm: &Node) -> Vec<f64> {
        let beta = gemm.attributes.iter().find_map(|attribute| match attribute {
            ("beta", Attribute::Float(beta)) => Some(f64::from(*beta)),
            _ => None,
        });
        let Some(c) = self.leaf(gemm, 2) else { return Vec::new() };
        numbers(self.read(c)).iter().map(|c| c * beta.unwrap_or(1.0)).collect()
    }

    /// What a leaf is in the run that differs.
    fn read<'b>(&self, leaf: &'b Leaf) -> &'b Tensor {
        leaf.values.get(self.difference.run).unwrap_or(&leaf.values[0])
    }

    /// The i64 that are an input of a node.
    fn integers(&self, node: &Node, input: usize) -> Option<Vec<i64>> {
        let bytes = &self.leaf(node, input).filter(|leaf| leaf.dtype() == DType::I64)?.values[0].bytes;
        Some(bytes.as_chunks().0.iter().map(|&one| i64::from_le_bytes(one)).collect())
    }

    /// Whether some element that the graph reads is such.
    fn reads(&self, such: impl Fn(f64) -> bool) -> bool {
        self.case.leaves.iter().flat_map(|leaf| &leaf.values).flat_map(numbers).any(such)
    }
}

/// The largest finite number of a leaf, or 1 if that is more.
fn largest(leaf: &Leaf) -> f64 {
    let all = leaf.values.iter().flat_map(numbers);
    all.filter(|value| value.is_finite()).fold(1.0, |largest, value| value.abs().max(largest))
}

/// The range of the integers that a Cast makes.
fn target(cast: &Node) -> Option<(f64, f64)> {
    let (_, Attribute::Int(code)) = cast.attributes.first()? else { return None };
    range(from_onnx(*code)?)
}

/// The range of an integer type.
fn range(dtype: DType) -> Option<(f64, f64)> {
    let bits = dtype.unpacked_bytes() as i32 * 8;
    match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Some((0.0, 2f64.powi(bits) - 1.0)),
        _ => None,
    }
}
