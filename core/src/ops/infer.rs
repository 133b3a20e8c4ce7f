//! The interface of inference rules, and checks that most of them share. Messages name inputs by position; the pass adds
//! the node.

use std::collections::HashSet;

use byoc_plugin_api::{Attribute, DType, Dim};

use super::elements::{self, Scalar};
use super::{ANY, OpDef, ViewRule, attributes};
use crate::constants::View;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::Expr;
use crate::ir::{Node, TensorType};

/// The input and result of an inference rule. Input and output positions are ONNX's.
#[derive(Clone, Debug)]
pub struct Infer<'a> {
    /// The node, in canonical form.
    pub node: &'a Node,
    /// Type of each input, `None` where it is absent.
    pub inputs: Vec<Option<TensorType>>,
    /// The elements of each small input in row-major order, where they are known.
    pub elements: Vec<Option<Vec<Scalar>>>,
    /// Symbols that stand for a size of an input of the graph.
    pub taken: Option<&'a HashSet<String>>,
    /// Result: type of each output.
    pub outputs: Vec<Option<TensorType>>,
    /// Result: elements of each output, where they are known (of `Shape`, of `Gather` from a shape ...).
    pub output_elements: Vec<Option<Vec<Scalar>>>,
}

/// The floating-point types.
pub(super) const FLOAT: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::BF16];
/// Floating-point and signed integer types.
pub(super) const SIGNED: &[DType] =
    &[DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I16, DType::I32, DType::I64];
/// Every type but `bool`.
#[rustfmt::skip]
pub(super) const NUMERIC: &[DType] = &[
    DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I16, DType::I32, DType::I64,
    DType::U8, DType::U16, DType::U32, DType::U64,
];
/// Integers that Rust has.
#[rustfmt::skip]
pub(super) const INTEGER: &[DType] = &[
    DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64,
];
/// Floating-point types and integers of 32 and 64 bits: what ONNX allows in MatMul, Gemm and the reductions.
#[rustfmt::skip]
pub(super) const WIDE: &[DType] = &[
    DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U32, DType::U64,
];
/// The types that not every backend knows: where values are stored and not calculated.
#[rustfmt::skip]
pub(super) const SMALL: &[DType] = &[
    DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0, DType::F4E2M1, DType::I4, DType::U4,
    DType::I2, DType::U2,
];
/// Those of them that came first: floats of 8 bits that have a mantissa.
pub(super) const FLOAT8: &[DType] = &[DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ];
/// Complex numbers and texts: what is moved, and not calculated.
pub(super) const OPAQUE: &[DType] = &[DType::C64, DType::C128, DType::String];
/// `string` alone.
pub(super) const STRING: &[DType] = &[DType::String];
/// Types of an index.
pub(super) const INDEX: &[DType] = &[DType::I32, DType::I64];
/// `bool` alone.
pub(super) const BOOL: &[DType] = &[DType::Bool];

/// A node that its operator does not allow.
pub(super) fn bad(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::BadNode, message)
}

/// A valid form of an operator that is not supported.
pub(super) fn unsupported(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::UnknownOperator, message)
}

/// Shapes that do not fit.
pub(super) fn mismatch(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::ShapeMismatch, message)
}

/// A shape that depends on data.
pub(super) fn unknown(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::ShapeUnknown, message)
        .hint("Give the input as an initializer, or fix the shape with --shape or --dim")
}

/// An axis counted from the front; -1 is the last one.
pub(super) fn axis_in(axis: i64, rank: usize) -> Result<usize> {
    let limit = rank as i64;
    if axis < -limit || axis >= limit {
        return Err(bad(format!("axis {axis} is out of range for {rank} dimensions")));
    }
    Ok((if axis < 0 { axis + limit } else { axis }) as usize)
}

/// Several axes counted from the front, each once, in the order given.
pub(super) fn axes_in(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut found = Vec::with_capacity(axes.len().min(rank));
    for &axis in axes {
        let place = axis_in(axis, rank)?;
        if found.contains(&place) {
            return Err(bad(format!("axis {axis} is given twice")));
        }
        found.push(place);
    }
    Ok(found)
}

impl<'a> Infer<'a> {
    /// A node with the types and known elements of its inputs; nothing inferred yet.
    pub fn new(node: &'a Node, inputs: Vec<Option<TensorType>>, elements: Vec<Option<Vec<Scalar>>>) -> Self {
        let outputs = node.outputs.len();
        Infer {
            node,
            inputs,
            elements,
            taken: None,
            outputs: vec![None; outputs],
            output_elements: vec![None; outputs],
        }
    }

    /// Checks arity and attributes, applies the operator's rule and checks that each wanted output got a type.
    pub fn apply(&mut self, def: &OpDef) -> Result<()> {
        let (least, most) = (def.inputs.0, def.most_inputs());
        let count = self.inputs.len();
        if count < least || count > most {
            let range = match most {
                _ if most == least => format!("{least}"),
                ANY => format!("at least {least}"),
                _ => format!("{least} to {most}"),
            };
            return Err(bad(format!("has {count} inputs, expected {range}")));
        }
        let required = if most == ANY { count } else { least };
        if let Some(absent) = self.inputs[..required].iter().position(Option::is_none) {
            return Err(bad(format!("input {absent} is absent, but the operator needs it")));
        }
        if self.outputs.is_empty() || self.outputs.len() > def.outputs {
            let range = if def.outputs == 1 { "1".to_owned() } else { format!("1 to {}", def.outputs) };
            return Err(bad(format!("has {} outputs, expected {range}", self.outputs.len())));
        }
        let refused = |ty: &TensorType| !def.takes(ty.dtype);
        let input = self.inputs.iter().position(|ty| ty.as_ref().is_some_and(refused));
        if let Some((index, ty)) = input.and_then(|index| Some((index, self.inputs[index].as_ref()?))) {
            let text = format!("input {index} is {ty}, a type that the operator does not take");
            return Err(Diagnostic::new(Code::TypeMismatch, text));
        }
        attributes::check_kinds(def, self.node)?;
        match ((def.infer)(self), def.run_time) {
            (Err(error), Some(rule)) if error.code == Code::ShapeUnknown => {
                if !self.apply_run_time(rule)? {
                    return Err(error);
                }
            }
            (done, _) => done?,
        }
        let mut wanted = self.node.outputs.iter().zip(&self.outputs);
        if let Some(index) = wanted.position(|(output, ty)| output.is_some() && ty.is_none()) {
            return Err(bad(format!("output {index} is wanted, but the operator does not give it")));
        }
        if let (Some(rule), Some(None)) = (def.view, self.output_elements.first()) {
            self.output_elements[0] = self.viewed_elements(rule);
        }
        for (known, ty) in self.output_elements.iter_mut().zip(&self.outputs) {
            let fits = |values: &Vec<Scalar>| ty.as_ref().is_some_and(|ty| elements::fit(values, ty));
            *known = known.take().filter(fits);
        }
        Ok(())
    }

    /// An operator that only rearranges what it reads does so with known elements too.
    fn viewed_elements(&self, rule: ViewRule) -> Option<Vec<Scalar>> {
        let input = elements::fixed(&self.inputs.first()?.as_ref()?.shape)?;
        let output = elements::fixed(&self.outputs.first()?.as_ref()?.shape)?;
        let numbers = |values: &Option<Vec<Scalar>>| values.as_ref()?.iter().map(Scalar::as_i64).collect();
        let lists: Vec<_> = self.elements.iter().map(numbers).collect();
        elements::through(&rule(self.node, &View::contiguous(&input), &output, &lists)?, self.known(0)?)
    }

    /// Whether input `index` is there.
    pub(super) fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// The type of a required input.
    pub(super) fn input(&self, index: usize) -> Result<TensorType> {
        let ty = self.inputs.get(index).cloned().flatten();
        ty.ok_or_else(|| bad(format!("input {index} is absent, but the operator needs it")))
    }

    /// The type of an input that is one of `types`.
    pub(super) fn typed(&self, index: usize, types: &[DType]) -> Result<TensorType> {
        let ty = self.input(index)?;
        if types.contains(&ty.dtype) {
            return Ok(ty);
        }
        let names: Vec<_> = types.iter().map(|dtype| dtype.name()).collect();
        let one_of = if names.len() > 1 { "one of " } else { "" };
        let text = format!("input {index} is {ty}, expected {one_of}{}", names.join(", "));
        Err(Diagnostic::new(Code::TypeMismatch, text))
    }

    /// The type of an input that must have the element type of input 0.
    pub(super) fn like_first(&self, index: usize) -> Result<TensorType> {
        let first = self.input(0)?;
        let ty = self.input(index)?;
        if ty.dtype == first.dtype {
            return Ok(ty);
        }
        let text = format!("input {index} is {ty}, but input 0 is {first}: both must have the same element type");
        Err(Diagnostic::new(Code::TypeMismatch, text))
    }

    /// The type of an input that has one of `types` and `rank` dimensions.
    pub(super) fn ranked(&self, index: usize, types: &[DType], rank: usize) -> Result<TensorType> {
        let ty = self.typed(index, types)?;
        if ty.shape.len() == rank {
            return Ok(ty);
        }
        Err(mismatch(format!("input {index} is {ty}, expected {rank} dimensions")))
    }

    /// An integer attribute; one of another kind is an error.
    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    /// An integer attribute that may be absent.
    pub(super) fn optional_int(&self, name: &str) -> Result<Option<i64>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(bad(format!("attribute '{name}' must be an integer"))),
        }
    }

    /// A list of integers that may be absent.
    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(_) => Err(bad(format!("attribute '{name}' must be a list of integers"))),
        }
    }

    /// A text attribute that is one of `allowed`; the first of them is the default.
    pub(super) fn choice(&self, name: &str, allowed: &[&'static str]) -> Result<&'static str> {
        let found = match self.node.attributes.get(name) {
            None => return Ok(allowed.first().copied().unwrap_or_default()),
            Some(Attribute::String(text)) => text,
            Some(_) => return Err(bad(format!("attribute '{name}' must be a text"))),
        };
        let known = allowed.iter().find(|choice| *choice == found).copied();
        known.ok_or_else(|| bad(format!("attribute '{name}' is '{found}', expected one of {}", allowed.join(", "))))
    }

    /// The axis in attribute `name`, counted from the front.
    pub(super) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        axis_in(self.int(name, default)?, rank)
    }

    /// The elements of an input, if they are known.
    pub(super) fn known(&self, index: usize) -> Option<&[Scalar]> {
        self.elements.get(index)?.as_deref()
    }

    /// The elements of a list that decides the output's shape: integers or symbolic sizes. `what` names the list.
    pub(super) fn sizes(&self, index: usize, what: &str) -> Result<Vec<Expr>> {
        let ty = self.typed(index, INDEX)?;
        if ty.shape.len() > 1 {
            return Err(mismatch(format!("input {index} ({what}) is {ty}, expected one dimension")));
        }
        let read = |values: &[Scalar]| values.iter().map(|value| value.int().cloned()).collect::<Option<Vec<_>>>();
        self.known(index).and_then(read).ok_or_else(|| {
            unknown(format!(
                "the shape of the output depends on input {index} ({what}), which is known only at run time"
            ))
        })
    }

    /// As [`Infer::sizes`], for a list that must be numbers: axes, steps, repeats.
    pub(super) fn numbers(&self, index: usize, what: &str) -> Result<Vec<i64>> {
        let values = self.sizes(index, what)?;
        let numbers = values.iter().map(Expr::as_constant).collect::<Option<Vec<_>>>();
        numbers.ok_or_else(|| unknown(format!("input {index} ({what}) holds a symbolic size, expected numbers")))
    }

    /// As [`Infer::numbers`], for an optional input.
    pub(super) fn optional_numbers(&self, index: usize, what: &str) -> Result<Option<Vec<i64>>> {
        if self.has(index) { self.numbers(index, what).map(Some) } else { Ok(None) }
    }

    /// The shape of all inputs from `first` on, broadcast against each other.
    pub(super) fn broadcast(&self, first: usize) -> Result<Vec<Dim>> {
        let mut shape: Option<Vec<Dim>> = None;
        for (index, ty) in self.inputs.iter().enumerate().skip(first) {
            let Some(ty) = ty else { continue };
            shape = Some(match shape {
                None => ty.shape.clone(),
                Some(shape) => self.meet(&shape, &ty.shape).ok_or_else(|| {
                    let so_far = shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
                    mismatch(format!("input {index} is {ty}, which does not broadcast with [{so_far}]"))
                })?,
            });
        }
        Ok(shape.unwrap_or_default())
    }

    /// Sets the type of an output; one that the node does not have is left alone.
    pub(super) fn set(&mut self, index: usize, dtype: DType, shape: Vec<Dim>) {
        if let Some(output) = self.outputs.get_mut(index) {
            *output = Some(TensorType { dtype, shape });
        }
    }

    /// Sets the elements of output 0, where they are known.
    pub(super) fn set_elements(&mut self, elements: Option<Vec<Scalar>>) {
        if let Some(output) = self.output_elements.first_mut() {
            *output = elements;
        }
    }
}
