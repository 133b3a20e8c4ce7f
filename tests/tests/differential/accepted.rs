//! The differences that are no fault of byoc's: the one list. What differs is made smaller first, to one node where that is
//! possible, so an entry looks at that node and what it reads, and accepts no element but those its reason tells of.

use byoc_core::ops::cast::from_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::Tensor;

use super::compare;
use super::graph::{Case, Leaf, Node};
use super::judge::Difference;
use super::values::numbers;

/// A difference that is no fault.
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
    ACCEPTED.iter().find(|entry| (entry.holds)(&smallest))
}

/// Every one of them.
pub(crate) const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "the larger of a number and a NaN is NaN, as in ONNX's reference; onnxruntime drops it at times",
        holds: |it| {
            let op = it.only(&["MaxPool", "ReduceMax", "Max", "Min", "Clip", "ScatterND"]);
            // The index of a maximum is no NaN itself.
            let kept = it.is_float() && it.elements(|a, b| a.is_nan() && !b.is_nan());
            let index = op.is_some_and(|node| node.op == "MaxPool") && !it.is_float();
            op.is_some() && (kept || index) && it.reads(f64::is_nan)
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
        reason: "Clip without a bound lets an infinity through, as ONNX's reference does; onnxruntime cuts it to the largest",
        holds: |it| {
            let node = it.only(&["Clip"]);
            node.is_some_and(|node| it.from(node, |x, a, b| x.is_infinite() && a == x && b.abs() >= LARGEST_F16))
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
            // What it takes to overflow: a product of large numbers, or an exponential.
            let exp = it.case.nodes.iter().any(|node| node.op == "Exp");
            let large = |value: f64| value.is_finite() && value.abs() >= if exp { 11.0 } else { 256.0 };
            let beyond = |value: f64| !value.is_finite() || value.abs() >= LARGEST_F16;
            f16 && it.case.nodes.len() > 1 && it.reads(large) && it.elements(|a, b| beyond(a) != beyond(b))
        },
    },
    Accepted {
        reason: "sums and products near the largest float overflow in the order in which they are computed",
        holds: |it| {
            let sums = [
                "Gemm",
                "MatMul",
                "Conv",
                "ReduceSum",
                "ReduceMean",
                "CumSum",
                "AveragePool",
                "GlobalAveragePool",
                "Sum",
            ];
            let huge = |leaf: &Leaf| {
                let least = match leaf.dtype() {
                    DType::F16 => 1e3,
                    DType::F32 | DType::BF16 => 1e30,
                    _ => 1e300,
                };
                leaf.values.iter().flat_map(numbers).any(|value| value.is_finite() && value.abs() > least)
            };
            let huge = it.case.leaves.iter().filter(|leaf| leaf.dtype().is_float()).any(huge);
            huge && it.only(&sums).is_some() && it.elements(|a, b| !a.is_finite() || !b.is_finite())
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
            let of_zero = match &it.case.nodes[..] {
                [first, then] => first.op == "Gelu" && ["Reciprocal", "Div"].contains(&then.op),
                _ => false,
            };
            it.only(&["Gelu", "Sigmoid"]).is_some_and(|node| it.from(node, near))
                || of_zero && it.elements(|a, b| a.is_infinite() && a == -b)
        },
    },
    Accepted {
        reason: "integers are computed in integers, and wrap; onnxruntime takes Mod and sums of them through floats",
        holds: |it| {
            let Some(node) = it.only(&["Mod", "ReduceSum"]).filter(|_| !it.is_float()) else { return false };
            // Larger integers are no floats, or may have a sum that is none.
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

/// The range of the integers that a Cast makes.
fn target(cast: &Node) -> Option<(f64, f64)> {
    let (_, Attribute::Int(code)) = cast.attributes.first()? else { return None };
    range(from_onnx(*code)?)
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
