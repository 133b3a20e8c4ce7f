//! Values that an iteration hands to the next.

use std::collections::HashSet;

use byoc_plugin_api::Dim;

use super::{Given, Node, Typed, next};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::Expr;
use crate::ir::Graph;
use crate::ops::{PartialType, Size};

/// Values that an iteration hands to the next.
pub(super) struct Carried {
    values: Vec<Typed>,
    /// The sizes that change on the way, as (value, axis), with symbols in `values`.
    open: HashSet<(usize, usize)>,
    node: String,
}

impl Carried {
    /// Those that begin as these inputs of the node.
    pub(super) fn new(node: &Node<'_, '_>, inputs: std::ops::Range<usize>) -> Result<Carried> {
        let values = inputs.map(|index| node.input(index)).collect::<Result<_>>()?;
        Ok(Carried { values, open: HashSet::new(), node: node.infer.node.name.clone() })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn formals(&self) -> impl Iterator<Item = Typed> + '_ {
        self.values.iter().cloned()
    }

    /// Opens the sizes that an iteration changes; whether there were any. `results` begin with the values that are handed on.
    pub(super) fn widen(&mut self, results: &[Typed], body: &Graph) -> Result<bool> {
        let mut changed = false;
        for (index, (before, after)) in self.values.iter_mut().zip(results).enumerate() {
            if !before.is_like(after) || before.ty.shape.len() != after.ty.shape.len() {
                let what = format!(
                    "carried value {index} is {before} before an iteration of '{}' and {after} behind it",
                    body.name
                );
                return Err(match before.is_like(after) {
                    true => Diagnostic::new(
                        Code::ShapeUnknown,
                        format!("{what}: how many dimensions it has is known only at run time"),
                    ),
                    false => Diagnostic::new(Code::TypeMismatch, what),
                });
            }
            if let (Some(list), Some(other)) = (&mut before.list, &after.list)
                && let Some(joined) = list.join(other).filter(|joined| joined != list)
            {
                *list = joined;
                changed = true;
            }
            for (axis, (before, after)) in before.ty.shape.iter_mut().zip(&after.ty.shape).enumerate() {
                if before != after && self.open.insert((index, axis)) {
                    *before = Dim::Symbolic(Expr::symbol(&format!("{}_carried{index}_{axis}", self.node)).to_string());
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Their types behind the last iteration.
    pub(super) fn results(&self, open: &mut usize) -> Vec<Given> {
        let result = |(index, typed): (usize, &Typed)| {
            let size = |(axis, size): (usize, &Dim)| match self.open.contains(&(index, axis)) {
                true => next(open),
                false => Size::Known(size.clone()),
            };
            let shape = typed.ty.shape.iter().enumerate().map(size).collect();
            Given { list: typed.list.clone(), ..Given::tensor(PartialType { dtype: typed.ty.dtype, shape }) }
        };
        self.values.iter().enumerate().map(result).collect()
    }
}
