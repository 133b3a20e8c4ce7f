//! Consistency of operators on sequences and optionals: a list is a handle, which only these, control flow and inputs make.

use byoc_plugin_api::DType;

use super::Checked;
use super::control::Form;
use crate::artifact::manifest::{Entry, ListOp, ListType, ValueType};

/// Checks that values which are lists are handles, and that no constant is one.
pub(super) fn check_values(entry: &Entry) -> Checked {
    let is_handle = |value: &ValueType| value.dtype == DType::U64 && value.shape.is_empty();
    if let Some(index) = entry.values.iter().position(|value| value.list.is_some() && !is_handle(value)) {
        return Err(format!("value {index} is a sequence or an optional, and not one u64"));
    }
    match entry.constants.iter().find(|constant| entry.values[constant.value].list.is_some()) {
        Some(constant) => Err(format!("value {} is a sequence or an optional, and a constant", constant.value)),
        None => Ok(()),
    }
}

/// Checks that an operator gets and gives lists and tensors of the types that it says; `results` has the only one, if it is read.
pub(super) fn check(op: &ListOp, given: &[&ValueType], results: &[Option<&ValueType>]) -> Checked {
    let (least, most) = op.inputs();
    if given.len() < least || given.len() > most || results.len() != 1 {
        return Err("it has a wrong number of values".into());
    }
    let Some(result) = results[0] else { return Ok(()) };
    if fits(op, given, result) { Ok(()) } else { Err("its values are not of the types that it needs".into()) }
}

fn fits(op: &ListOp, given: &[&ValueType], result: &ValueType) -> bool {
    let list = |index: usize| given.get(index).and_then(|value| value.list.as_ref());
    let sequence = || list(0).is_some_and(|list| list.sequence && !list.optional);
    let tensor = |index: usize| given.get(index).filter(|value| value.list.is_none()).map(|value| value.dtype);
    // Of what is left out nothing is asked.
    let position = |index: usize| index >= given.len() || matches!(tensor(index), Some(DType::I64 | DType::I32));
    let holds =
        |of: &ListType| result.list.as_ref().is_some_and(|list| (list.sequence, list.dtype) == (of.sequence, of.dtype));
    let element = || result.list.is_none() && list(0).is_some_and(|list| list.dtype == result.dtype);
    let scalar = |dtype: DType| Form::of(result) == Form::tensor(dtype, 0);
    let made = result.list.as_ref();
    match op {
        ListOp::Construct => {
            made.is_some_and(|made| made.sequence && (0..given.len()).all(|index| tensor(index) == Some(made.dtype)))
        }
        ListOp::Insert => {
            sequence() && list(0).is_some_and(|list| holds(list) && tensor(1) == Some(list.dtype)) && position(2)
        }
        ListOp::Erase => sequence() && list(0).is_some_and(holds) && position(1),
        ListOp::At => sequence() && element() && position(1),
        ListOp::Length => sequence() && scalar(DType::I64),
        ListOp::Concat { .. } => sequence() && element(),
        ListOp::Split { .. } => made.is_some_and(|made| made.sequence && tensor(0) == Some(made.dtype)) && position(1),
        ListOp::Wrap => match given.first() {
            None => made.is_some_and(|made| made.optional),
            Some(value) => match (&value.list, made) {
                (Some(list), _) => holds(list),
                (None, Some(made)) => !made.sequence && made.dtype == value.dtype,
                (None, None) => false,
            },
        },
        ListOp::HasElement => scalar(DType::Bool),
        ListOp::GetElement => match list(0) {
            Some(list) if list.sequence => holds(list),
            Some(_) => element(),
            None => false,
        },
    }
}
