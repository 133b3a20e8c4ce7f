//! The table of shape makers: for each operator, what its inputs and attributes have to be for its first output to have
//! a wanted type and shape.

mod contributed;
mod layers;
mod random;
mod sized;
mod sweeps;
mod tables;
mod texts;
mod training;

use byoc_core::ops::Like;
use byoc_core::ops::attributes::Default as Missing;
use byoc_plugin_api::{Attribute, AttributeKind, AttributeTensor, DType, Operator, to_hex};

pub(crate) use self::sweeps::{Swept, sweep};
use crate::onnx::Fill;

/// What a tensor is to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// What an operand of a node has to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// A tensor of values like these.
    Tensor(Wish, Fill),
    /// These integers: shapes, axes and the like are constants of the model whatever the pattern says.
    Ints(Vec<i64>, Vec<usize>),
    /// This number, as a constant without dimensions.
    Number(f64, DType),
    /// Absent.
    Absent,
}

/// How a node comes to give what is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recipe {
    /// Every input that the operator needs, then optional ones that are worth a try.
    pub(crate) operands: Vec<Operand>,
    /// How many of the operands are needed.
    pub(crate) needed: usize,
    /// Attributes.
    pub(crate) attributes: Vec<(String, Attribute)>,
    /// Types of the outputs beside the first that the operator must have.
    pub(crate) more_outputs: Vec<DType>,
}

/// The size of an inner dimension that nobody sees.
const INNER: usize = 6;
/// The channels of the input of a convolution.
const CHANNELS: usize = 3;

fn any(dtype: DType, shape: &[usize]) -> Operand {
    filled(dtype, shape, Fill::Any)
}

fn filled(dtype: DType, shape: &[usize], fill: Fill) -> Operand {
    Operand::Tensor(Wish { dtype, shape: shape.to_vec() }, fill)
}

/// Indices below a limit.
fn below(limit: usize, shape: &[usize]) -> Operand {
    filled(DType::I64, shape, Fill::Below(limit as i64))
}

fn recipe(operands: Vec<Operand>, needed: usize) -> Option<Recipe> {
    Some(Recipe { operands, needed, ..Recipe::default() })
}

fn with(operands: Vec<Operand>, needed: usize, attributes: &[(&str, Attribute)]) -> Option<Recipe> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Some(Recipe { operands, needed, attributes, more_outputs: vec![] })
}

fn ints(values: &[i64]) -> Operand {
    Operand::Ints(values.to_vec(), vec![values.len()])
}

fn sizes(shape: &[usize]) -> Operand {
    Operand::Ints(shape.iter().map(|&size| size as i64).collect(), vec![shape.len()])
}

/// The shape with another last size.
fn last(shape: &[usize], size: usize) -> Vec<usize> {
    shape.iter().rev().skip(1).rev().copied().chain([size]).collect()
}

/// The recipe for `op` of ONNX's own domain, with operands of the same shape where `broadcast` is not set. `None` where
/// the operator cannot give what is wanted, or is not in the table.
pub(crate) fn find(op: &str, wish: &Wish, broadcast: bool) -> Option<Recipe> {
    elementwise(op, wish, broadcast)
        .or_else(|| linear(op, wish))
        .or_else(|| layers::find(op, wish))
        .or_else(|| normal(op, wish))
        .or_else(|| reduction(op, wish))
        .or_else(|| movement(op, wish))
        .or_else(|| selection(op, wish))
        .or_else(|| quantised(op, wish))
        .or_else(|| random::find(op, wish))
        .or_else(|| sized::find(op, wish))
        .or_else(|| texts::find(op, wish))
}

/// The recipe for `op` of another domain that many models have.
pub(crate) fn of_domain(domain: &str, op: &str, wish: &Wish) -> Option<Recipe> {
    match domain {
        "ai.onnx.ml" if op == "CategoryMapper" => texts::categories(wish),
        "ai.onnx.ml" => tables::find(op, wish),
        "ai.onnx.preview.training" => training::find(op, wish),
        "com.microsoft" => contributed::find(op, wish),
        _ => None,
    }
}

/// What an operator is to give that gives nothing of what others are asked for.
pub(crate) fn own_wishes(op: &str) -> Vec<Wish> {
    let wish = |dtype, shape: &[usize]| vec![Wish { dtype, shape: shape.to_vec() }];
    match op {
        "ConvInteger" => wish(DType::I32, &[2, 4, 6, 5]),
        "QLinearConv" => wish(DType::U8, &[2, 4, 6, 5]),
        "STFT" => wish(DType::F32, &[2, 3, 5, 2]),
        "StringConcat" | "StringSplit" => wish(DType::String, &[2, 3]),
        "StringNormalizer" => wish(DType::String, &[5]),
        "SVMRegressor" => wish(DType::F32, &[5, 1]),
        _ => sized::wish(op).or_else(|| contributed::wish(op)).into_iter().collect(),
    }
}

/// The recipe for an operator that the backend brings: every input is like the output that is wished for, and attributes
/// that a model must have are short. Nobody but the backend knows whether that suits it.
pub(crate) fn custom(operator: &Operator, wish: &Wish) -> Recipe {
    let count = operator.inputs + operator.optional_inputs + usize::from(operator.variadic);
    let numbers = || to_hex(&[0.5f32, -2.0].map(f32::to_le_bytes).concat());
    let attribute = |kind: AttributeKind| {
        Some(match kind {
            AttributeKind::Int => Attribute::Int(1),
            AttributeKind::Float => Attribute::Float(1.0),
            AttributeKind::String => Attribute::String(String::new()),
            AttributeKind::Ints => Attribute::Ints(vec![1]),
            AttributeKind::Floats => Attribute::Floats(vec![1.0]),
            AttributeKind::Strings => Attribute::Strings(vec![String::new()]),
            AttributeKind::Tensor => Attribute::Tensor { dtype: DType::F32, shape: vec![2], hex: numbers() },
            AttributeKind::Tensors => {
                Attribute::Tensors(vec![AttributeTensor { dtype: DType::F32, shape: vec![2], hex: numbers() }])
            }
            // A graph without inputs, outputs and nodes has no bytes.
            AttributeKind::Graph => Attribute::Graph(String::new()),
            // A kind that the kit does not know: the operator has no recipe that runs.
            _ => return None,
        })
    };
    let required = operator.attributes.iter().filter(|attribute| attribute.required);
    Recipe {
        operands: vec![Operand::Tensor(wish.clone(), Fill::Any); count],
        needed: operator.inputs,
        attributes: required.filter_map(|found| Some((found.name.clone(), attribute(found.kind)?))).collect(),
        more_outputs: vec![],
    }
}

/// Operators that work on each element by itself.
fn elementwise(op: &str, Wish { dtype, shape }: &Wish, broadcast: bool) -> Option<Recipe> {
    let second = if broadcast { &shape[shape.len().saturating_sub(1)..] } else { shape };
    let pair = |dtype| recipe(vec![any(dtype, shape), any(dtype, second)], 2);
    match op {
        "Log" | "Sqrt" => recipe(vec![filled(*dtype, shape, Fill::Positive)], 1),
        "Clip" => recipe(vec![any(*dtype, shape), Operand::Number(0.0, *dtype), Operand::Number(1.0, *dtype)], 1),
        "Add" | "Sub" | "Mul" | "Max" | "Min" | "Sum" => pair(*dtype),
        "Div" | "Mod" | "Pow" => {
            let positive = |shape: &[usize]| filled(*dtype, shape, Fill::Positive);
            let float = [("fmod", Attribute::Int(1))];
            let attributes = if op == "Mod" && dtype.is_float() { &float[..] } else { &[] };
            with(vec![positive(shape), positive(second)], 2, attributes)
        }
        "BitShift" | "BitwiseAnd" | "BitwiseNot" | "BitwiseOr" | "BitwiseXor"
            if dtype.is_float() || *dtype == DType::Bool =>
        {
            None
        }
        "BitShift" => {
            with(vec![any(*dtype, shape), any(*dtype, second)], 2, &[("direction", Attribute::String("RIGHT".into()))])
        }
        "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => pair(*dtype),
        "And" | "Or" | "Xor" | "Not" if *dtype != DType::Bool => None,
        "And" | "Or" | "Xor" => pair(DType::Bool),
        "Not" => recipe(vec![any(DType::Bool, shape)], 1),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" if *dtype == DType::Bool => pair(DType::F32),
        "IsInf" | "IsNaN" if *dtype == DType::Bool => recipe(vec![any(DType::F32, shape)], 1),
        "Where" => recipe(vec![any(DType::Bool, shape), any(*dtype, shape), any(*dtype, second)], 3),
        "Cast" => {
            let from = if *dtype == DType::F32 { DType::I32 } else { DType::F32 };
            with(vec![any(from, shape)], 1, &[("to", Attribute::Int(onnx_code(*dtype)))])
        }
        _ if is_function(op) => recipe(vec![any(*dtype, shape)], 1),
        _ => None,
    }
}

/// Whether the operator makes of its first input alone one of the same type and shape.
fn is_function(op: &str) -> bool {
    byoc_core::ops::find("", op).is_some_and(|def| {
        let asks_more = def.attributes.iter().any(|attribute| attribute.default == Missing::Required);
        def.like == Like::First && def.inputs.0 == 1 && !asks_more
    })
}

/// ONNX's number of an element type, for the attribute of `Cast`.
fn onnx_code(dtype: DType) -> i64 {
    byoc_core::onnx::write::to_onnx(dtype).into()
}

/// Products and windows.
fn linear(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let window = [("kernel_shape", Attribute::Ints(vec![3, 3])), ("pads", Attribute::Ints(vec![1, 1, 1, 1]))];
    match (op, shape.as_slice()) {
        ("MatMul", [.., _, columns]) => {
            recipe(vec![any(*dtype, &last(shape, INNER)), any(*dtype, &[INNER, *columns])], 2)
        }
        ("Gemm", &[rows, columns]) => {
            recipe(vec![any(*dtype, &[rows, INNER]), any(*dtype, &[INNER, columns]), any(*dtype, &[columns])], 2)
        }
        ("Conv", &[batch, channels, height, width]) => with(
            vec![
                any(*dtype, &[batch, CHANNELS, height, width]),
                filled(*dtype, &[channels, CHANNELS, 3, 3], Fill::Finite),
                any(*dtype, &[channels]),
            ],
            2,
            &window,
        ),
        ("MaxPool" | "AveragePool", [_, _, _, _]) => with(vec![any(*dtype, shape)], 1, &window),
        ("GlobalAveragePool" | "GlobalMaxPool", &[batch, channels, 1, 1]) => {
            recipe(vec![any(*dtype, &[batch, channels, 5, 4])], 1)
        }
        // Nearest neighbours as exporters write them.
        ("Resize", &[batch, channels, height, width]) if height % 2 == 0 && width % 2 == 0 => with(
            vec![
                any(*dtype, &[batch, channels, height / 2, width / 2]),
                Operand::Absent,
                Operand::Absent,
                sizes(shape),
            ],
            4,
            &[
                ("coordinate_transformation_mode", Attribute::String("asymmetric".into())),
                ("nearest_mode", Attribute::String("floor".into())),
            ],
        ),
        _ => None,
    }
}

/// Normalisation and attention.
fn normal(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let size = *shape.last()?;
    let scale = || any(*dtype, &[size]);
    match (op, shape.as_slice()) {
        ("BatchNormalization", [_, channels, ..]) => {
            let list = || any(*dtype, &[*channels]);
            let variance = filled(*dtype, &[*channels], Fill::Positive);
            recipe(vec![any(*dtype, shape), list(), list(), list(), variance], 5)
        }
        ("LayerNormalization", _) => recipe(vec![any(*dtype, shape), scale(), scale()], 2),
        ("RMSNormalization", _) => recipe(vec![any(*dtype, shape), scale()], 2),
        ("Attention", &[batch, heads, _, size]) => {
            let other = || any(*dtype, &[batch, heads, INNER, size]);
            recipe(vec![any(*dtype, shape), other(), other()], 3)
        }
        ("RotaryEmbedding", &[batch, _, length, size]) if size % 2 == 0 => {
            let cache = || any(*dtype, &[batch, length, size / 2]);
            recipe(vec![any(*dtype, shape), cache(), cache()], 3)
        }
        ("LRN", [_, _, _, _]) => with(vec![any(*dtype, shape)], 1, &[("size", Attribute::Int(3))]),
        _ => None,
    }
}

/// Operators that go along an axis.
fn reduction(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let longer: Vec<usize> = shape.iter().copied().chain([INNER]).collect();
    let flat = ("keepdims", Attribute::Int(0));
    match op {
        "ReduceL1" | "ReduceL2" | "ReduceMax" | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum"
        | "ReduceSumSquare" | "ReduceLogSumExp" => with(vec![any(*dtype, &longer), ints(&[-1])], 2, &[flat]),
        "ReduceLogSum" => {
            let positive = filled(*dtype, &longer, Fill::Positive);
            with(vec![positive, ints(&[-1])], 2, &[flat])
        }
        "ArgMax" | "ArgMin" if *dtype == DType::I64 => {
            with(vec![any(DType::F32, &longer)], 1, &[("axis", Attribute::Int(-1)), flat])
        }
        "CumSum" | "CumProd" if !shape.is_empty() => {
            recipe(vec![any(*dtype, shape), Operand::Ints(vec![-1], vec![])], 2)
        }
        _ => None,
    }
}

/// Operators that only move what they read.
fn movement(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let data = |shape: &[usize]| any(*dtype, shape);
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let elements = shape.iter().product::<usize>();
    let of = |operands| recipe(operands, 2);
    match (op, shape.as_slice()) {
        ("Reshape", [_, ..]) if elements > 0 => of(vec![data(&[elements]), sizes(shape)]),
        ("Flatten", &[rows, columns]) => with(vec![data(&[rows, columns, 1, 1])], 1, &[("axis", Attribute::Int(1))]),
        ("Squeeze", _) => of(vec![data(&[&[1], shape.as_slice()].concat()), ints(&[0])]),
        ("Unsqueeze", [1, rest @ ..]) => of(vec![data(rest), ints(&[0])]),
        ("Transpose", [_, _, ..]) => recipe(vec![data(&reversed)], 1),
        ("Concat", &[batch, channels, height, width]) if channels > 1 => {
            let part = |channels| data(&[batch, channels, height, width]);
            let parts = vec![part(channels / 2), part(channels - channels / 2)];
            with(parts, 2, &[("axis", Attribute::Int(1))])
        }
        ("Concat", [.., size]) if *size > 1 => {
            let (left, right) = (last(shape, size / 2), last(shape, size - size / 2));
            with(vec![data(&left), data(&right)], 2, &[("axis", Attribute::Int(-1))])
        }
        ("Split", [.., size]) => {
            let axis = [("axis", Attribute::Int(-1)), ("num_outputs", Attribute::Int(2))];
            with(vec![data(&last(shape, 2 * size))], 1, &axis)
                .map(|recipe| Recipe { more_outputs: vec![*dtype], ..recipe })
        }
        ("Slice", [.., size]) => {
            let end = *size as i64 + 1;
            recipe(vec![data(&last(shape, size + 2)), ints(&[1]), ints(&[end]), ints(&[-1])], 4)
        }
        ("Pad", [.., size]) if *size > 2 => {
            let before = std::iter::repeat_n(0, shape.len() - 1);
            let pads: Vec<i64> = before.clone().chain([1]).chain(before).chain([1]).collect();
            of(vec![data(&last(shape, size - 2)), ints(&pads)])
        }
        ("Expand", [.., _]) => of(vec![data(&last(shape, 1)), sizes(shape)]),
        ("Tile", [.., size]) if size % 2 == 0 => {
            let repeats: Vec<i64> = std::iter::repeat_n(1, shape.len() - 1).chain([2]).collect();
            of(vec![data(&last(shape, size / 2)), ints(&repeats)])
        }
        ("Trilu", [_, _, ..]) => recipe(vec![data(shape)], 1),
        _ => None,
    }
}

/// Quantisation, and products of integers.
fn quantised(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let one = |dtype| any(dtype, &[]);
    let bytes = |dtype, shape: &[usize]| filled(dtype, shape, Fill::Bytes);
    let scale = || filled(DType::F32, &[], Fill::Positive);
    let window = [("kernel_shape", Attribute::Ints(vec![3, 3])), ("pads", Attribute::Ints(vec![1, 1, 1, 1]))];
    match (op, shape.as_slice()) {
        ("QuantizeLinear", _) if matches!(dtype, DType::I8 | DType::U8) => {
            recipe(vec![any(DType::F32, shape), scale(), one(*dtype)], 3)
        }
        ("DynamicQuantizeLinear", _) if *dtype == DType::U8 => {
            let recipe = recipe(vec![any(DType::F32, shape)], 1)?;
            Some(Recipe { more_outputs: vec![DType::F32, DType::U8], ..recipe })
        }
        ("DequantizeLinear", _) if *dtype == DType::F32 => {
            recipe(vec![any(DType::U8, shape), scale(), one(DType::U8)], 3)
        }
        ("MatMulInteger", [.., _, columns]) if *dtype == DType::I32 => {
            let factors = [bytes(DType::U8, &last(shape, INNER)), bytes(DType::I8, &[INNER, *columns])];
            recipe([&factors[..], &[one(DType::U8), one(DType::I8)]].concat(), 2)
        }
        ("ConvInteger", &[batch, channels, height, width]) if *dtype == DType::I32 => {
            let x = bytes(DType::U8, &[batch, CHANNELS, height, width]);
            let w = bytes(DType::I8, &[channels, CHANNELS, 3, 3]);
            with(vec![x, w, one(DType::U8), one(DType::I8)], 2, &window)
        }
        ("QLinearMatMul", [.., _, columns]) if *dtype == DType::U8 => {
            let (a, b) = (any(DType::U8, &last(shape, INNER)), any(DType::I8, &[INNER, *columns]));
            recipe(vec![a, scale(), one(DType::U8), b, scale(), one(DType::I8), scale(), one(DType::U8)], 8)
        }
        ("QLinearConv", &[batch, channels, height, width]) if *dtype == DType::U8 => {
            let x = any(DType::U8, &[batch, CHANNELS, height, width]);
            let w = any(DType::I8, &[channels, CHANNELS, 3, 3]);
            let operands = vec![x, scale(), one(DType::U8), w, scale(), one(DType::I8), scale(), one(DType::U8)];
            with([operands, vec![any(DType::I32, &[channels])]].concat(), 8, &window)
        }
        _ => None,
    }
}

/// Operators that choose by index, and sizes as data.
fn selection(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let data = |shape: &[usize]| any(*dtype, shape);
    match (op, shape.as_slice()) {
        ("Gather", [rows, rest @ ..]) => recipe(vec![data(&[&[INNER], rest].concat()), below(INNER, &[*rows])], 2),
        ("GatherElements", [_, rest @ ..]) => recipe(vec![data(&[&[INNER], rest].concat()), below(INNER, shape)], 2),
        ("GatherND", [rows, rest @ ..]) => recipe(vec![data(&[&[INNER], rest].concat()), below(INNER, &[*rows, 1])], 2),
        ("ScatterND", [rows, rest @ ..]) if *rows > 0 => {
            recipe(vec![data(shape), Operand::Ints(vec![0], vec![1, 1]), data(&[&[1], rest].concat())], 3)
        }
        ("ScatterElements", [rows, rest @ ..]) if *rows > 0 => {
            let one = [&[1], rest].concat();
            recipe(vec![data(shape), below(*rows, &one), data(&one)], 3)
        }
        ("TopK", [.., size]) => recipe(vec![data(&last(shape, size + 2)), ints(&[*size as i64])], 2),
        ("OneHot", &[.., size]) if size > 0 => {
            let depth = Operand::Ints(vec![size as i64], vec![]);
            recipe(vec![any(DType::I64, &shape[..shape.len() - 1]), depth, data(&[2])], 3)
        }
        ("EyeLike", [_, _]) => recipe(vec![data(shape)], 1),
        ("ReverseSequence", [time, batch, ..]) if *time > 0 => {
            recipe(vec![data(shape), Operand::Ints(vec![1; *batch], vec![*batch])], 2)
        }
        ("Size", []) if *dtype == DType::I64 => recipe(vec![any(DType::F32, &[2, 3])], 1),
        ("Shape", [rank]) if *dtype == DType::I64 => recipe(vec![any(DType::F32, &vec![2; *rank])], 1),
        _ => None,
    }
}
