//! What a region computes, as values of which each is an expression of the values before it: an element of a value is asked
//! for by its coordinates, and asks its operands for theirs. Nothing here says what is kept in memory.

use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Dim};

/// The position of a value.
pub(crate) type Id = usize;

/// A tensor.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<Dim>,
    pub(crate) def: Def,
    /// The operator whose result it is; none for a step within an operator.
    pub(crate) op: Option<String>,
}

/// How a value comes to be.
#[derive(Clone, Debug)]
pub(crate) enum Def {
    /// It is in memory from the start, with these distances from element to element.
    Memory(BufferRef, Vec<i64>),
    /// Contiguous memory from the start.
    Input(usize),
    /// Each element is made of the elements of operands that are broadcast against each other: C++ with `{0}` for the
    /// first of them.
    Each(String, Vec<Id>),
    /// Each element is one of the operands' elements, or none of them.
    Move(Move, Vec<Id>),
    /// The axes of an operand folded into one element, which leaves them at size 1.
    Fold(Fold, Id, Vec<usize>),
    /// The result of a kernel of its own: the position of its call.
    Standalone(usize),
}

/// Where an element comes from.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// Same elements in the same order.
    Reshape,
    /// Axis `k` is the operand's axis `[k]`.
    Transpose(Vec<usize>),
    /// Repeated along axes of size 1.
    Broadcast,
    /// Along each axis from a start on in steps.
    Slice(Vec<(Start, i64)>),
    /// Repeated along axes of any size.
    Tile,
    /// Operands one after another along an axis.
    Concat(usize),
    /// Surrounded: how many elements lie before the first one along each axis, and how they are made. A second operand is
    /// what constant ones are.
    Pad(Vec<i64>, Edge),
    /// By index along an axis.
    Gather(usize),
    /// By an index for each element along an axis.
    GatherElements(usize),
    /// By tuples of indices behind that many axes of batch.
    GatherNd(usize),
    /// A triangle, from the diagonal of that number on: `true` for the upper one.
    Triangle(bool, i64),
    /// Start and step are the operands.
    Range,
    /// The same everywhere: C++ for it.
    Fill(String),
    /// The sizes themselves.
    Sizes(Vec<Dim>),
    /// Behind the last axis one more, along which lie those elements of an axis that are added up: exclusive, reverse.
    Sums(usize, bool, bool),
    /// Pairs of elements turned by an angle.
    Rotary(Rotary),
}

/// The first element of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Counted from the front.
    Front(i64),
    /// Counted from the back.
    Back(i64),
}

/// What lies around a padded tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Constant,
    Nearest,
    Reflect,
    Wrap,
}

/// The attributes of a rotary embedding. Operands are the tensor as batch, heads, tokens, size; cosines and sines with a row
/// for each token of a batch, or, with positions, for each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotary {
    pub(crate) turned: i64,
    pub(crate) interleaved: bool,
}

/// What is made of many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Max,
    /// The index of the greatest: the last of equal ones if so.
    ArgMax(bool),
}

impl Value {
    /// The operands.
    pub(crate) fn operands(&self) -> &[Id] {
        match &self.def {
            Def::Memory(..) | Def::Input(_) | Def::Standalone(..) => &[],
            Def::Each(_, operands) | Def::Move(_, operands) => operands,
            Def::Fold(_, operand, _) => std::slice::from_ref(operand),
        }
    }
}

/// The type in which elements are computed.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// C++ for elements in memory.
pub(crate) fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "int",
        DType::I64 => "i64",
        DType::U8 | DType::Bool => "u8",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
    }
}

/// C++ for elements in registers.
pub(crate) fn computed(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        other => stored(wide(other)),
    }
}

/// C++ for a number.
pub(crate) fn number(value: f64, dtype: DType) -> String {
    let (float, suffix) = (wide(dtype) == DType::F32, if wide(dtype) == DType::F32 { "f" } else { "" });
    if !dtype.is_float() {
        return format!("{}({})", computed(dtype), value as i64);
    }
    if value.is_finite() {
        let digits = if float { format!("{:?}", value as f32) } else { format!("{value:?}") };
        return format!("{digits}{suffix}");
    }
    let bits = if value.is_nan() { "0x7fc00000u" } else { "0x7f800000u" };
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}(float_of_bits({bits}))", computed(dtype))
}
