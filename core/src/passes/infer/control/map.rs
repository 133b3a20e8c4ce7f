//! Types of what a `SequenceMap` gives: its body runs once for each element of the sequences, and gives an element of each result.

use byoc_plugin_api::Dim;

use super::{Given, Inference, Node, Typed, bad, stays};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::Expr;
use crate::ir::{ElementShape, ListType, TensorType};

impl Inference<'_> {
    pub(super) fn map(&mut self, node: &Node<'_, '_>, body: usize) -> Result<Vec<Given>> {
        let formals = (0..node.own).map(|index| element(node, index)).collect::<Result<_>>()?;
        if node.lists.first().is_none_or(|list| list.as_ref().is_none_or(|list| !list.sequence || list.optional)) {
            return Err(Diagnostic::new(
                Code::TypeMismatch,
                format!("input 0 is {}, expected a sequence", node.input(0)?),
            ));
        }
        let stays = stays(node.infer);
        let result = |typed: Typed| match typed.list {
            None => Ok(Given::list(ListType::sequence(typed.ty.dtype, ElementShape::of(&typed.ty, &stays)))),
            Some(list) => Err(Diagnostic::new(Code::TypeMismatch, format!("its body gives {list}, expected tensors"))),
        };
        self.body(node, body, formals)?.into_iter().map(result).collect()
    }
}

/// What the body gets of an input: an element of a sequence, all of a tensor. Sizes in which elements differ have symbols of their own.
fn element(node: &Node<'_, '_>, index: usize) -> Result<Typed> {
    let typed = node.input(index)?;
    let Some(list) = &typed.list else { return Ok(typed) };
    if list.optional || !list.sequence {
        return Err(bad(format!("input {index} is {list}, expected a sequence or a tensor")));
    }
    let name = &node.infer.node.name;
    let size = |(axis, size): (usize, &Option<Dim>)| {
        let symbol = || Dim::Symbolic(Expr::symbol(&format!("{name}_element{index}_{axis}")).to_string());
        size.clone().unwrap_or_else(symbol)
    };
    match &list.shape {
        ElementShape::Sizes(sizes) => {
            let shape = sizes.iter().enumerate().map(size).collect();
            Ok(Typed::tensor(TensorType { dtype: list.dtype, shape }))
        }
        // The body never runs, so any shape will do.
        ElementShape::Never => Ok(Typed::tensor(TensorType { dtype: list.dtype, shape: vec![Dim::Fixed(0)] })),
        ElementShape::Any => {
            let cause =
                format!("input {index} is {list}: how many dimensions its tensors have is known only at run time");
            Err(Diagnostic::new(Code::ShapeUnknown, cause))
        }
    }
}
