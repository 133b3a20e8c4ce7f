//! Types of what a `Scan` gives.

use byoc_plugin_api::Dim;

use super::{Carried, Given, Inference, Node, Typed, bad, sliceable, stacked};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::ops::{Infer, Size};

impl Inference<'_> {
    pub(super) fn scan(&mut self, node: &Node<'_, '_>, body: usize) -> Result<Vec<Given>> {
        let (infer, own) = (node.infer, node.own);
        let scanned = usize::try_from(infer.node.int("num_scan_inputs", 0)).unwrap_or(0);
        let states = own.saturating_sub(scanned);
        let outputs = self.graphs[body].outputs.len().saturating_sub(states);
        let inputs = axes(infer, "scan_input_axes", "scan_input_directions", scanned)?;
        let outs = axes(infer, "scan_output_axes", "scan_output_directions", outputs)?;
        let mut length: Option<Dim> = None;
        let mut slices = Vec::with_capacity(scanned);
        for (index, axis) in (states..own).zip(inputs) {
            let typed = node.input(index)?;
            sliceable(&format!("input {index}"), &typed)?;
            let mut ty = typed.ty;
            let axis = axis_of(axis, ty.shape.len()).map_err(|cause| bad(format!("input {index} is {ty}: {cause}")))?;
            let size = ty.shape.remove(axis);
            length = Some(match length {
                None => size,
                Some(known) => dim::unify(&known, &size).ok_or_else(|| {
                    let cause = format!("input {index} has {size} elements along its axis {axis}, another one {known}");
                    Diagnostic::new(Code::ShapeMismatch, cause)
                })?,
            });
            slices.push(Typed::tensor(ty));
        }
        let mut carried = Carried::new(node, 0..states)?;
        let results = loop {
            let formals = carried.formals().chain(slices.iter().cloned()).collect();
            let results = self.body(node, body, formals)?;
            if !carried.widen(&results, &self.graphs[body])? {
                break results;
            }
        };
        let length = Size::Known(length.unwrap_or(Dim::Fixed(0)));
        let mut open = 0;
        let mut types = carried.results(&mut open);
        for (typed, axis) in results[states..].iter().zip(outs) {
            sliceable("a scan output", typed)?;
            let axis = axis_of(axis, typed.ty.shape.len() + 1)
                .map_err(|cause| bad(format!("a scan output of {typed}: {cause}")))?;
            types.push(Given::tensor(stacked(node, &typed.ty, axis, &length, &mut open)));
        }
        Ok(types)
    }
}

/// The axes along which tensors are scanned, as the node gives them. Directions are checked only: they change no size.
fn axes(infer: &Infer<'_>, axes: &str, directions: &str, count: usize) -> Result<Vec<i64>> {
    for name in [axes, directions] {
        if let Some(given) = infer.node.ints(name).map(<[i64]>::len).filter(|&given| given != count) {
            return Err(bad(format!("attribute '{name}' has {given} elements, expected {count}")));
        }
    }
    if let Some(&other) = infer.node.ints(directions).and_then(|all| all.iter().find(|way| !matches!(way, 0 | 1))) {
        return Err(bad(format!("attribute '{directions}' holds {other}, expected 0 or 1")));
    }
    Ok(infer.node.ints(axes).map_or_else(|| vec![0; count], <[i64]>::to_vec))
}

fn axis_of(axis: i64, rank: usize) -> std::result::Result<usize, String> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    let found = usize::try_from(from_front).ok().filter(|&axis| axis < rank);
    found.ok_or_else(|| format!("axis {axis} is out of range for {rank} dimensions"))
}
