//! Types of what control flow gives. A body is inferred with the types that its node gives it; a size of a carried value
//! that changes from one iteration to the next is any, so the body is inferred again with a symbol in its place.

use std::collections::HashSet;

use byoc_plugin_api::{DType, Dim};

use super::{Inference, KnownElements};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::{self, Expr};
use crate::ir::{Bodies, Graph, TensorType, ValueId};
use crate::ops::{Infer, PartialType, Scalar, Size};

/// A type, and the elements that are known.
type Typed = (TensorType, Option<Vec<Scalar>>);

impl Inference<'_> {
    /// Gives each output of a node of control flow its type.
    pub(super) fn control(&mut self, infer: &mut Infer<'_>, bodies: &Bodies) -> Result<()> {
        let own = infer.inputs.len() - bodies.captured;
        let outputs = match infer.node.op.as_str() {
            "If" => self.branches(infer, bodies, own)?,
            "Loop" => self.iterations(infer, bodies.graphs[0], own)?,
            _ => self.scan(infer, bodies.graphs[0], own)?,
        };
        for (index, (ty, elements)) in outputs.into_iter().take(infer.outputs.len()).enumerate() {
            infer.outputs[index] = Some(infer.closed(ty));
            infer.output_elements[index] = elements;
        }
        Ok(())
    }

    /// Infers a body whose own inputs have these types; the others are those that the node captures.
    fn body(&mut self, infer: &Infer<'_>, index: usize, own: usize, formals: Vec<Typed>) -> Result<Vec<Typed>> {
        let captured = infer.inputs[own..].iter().zip(&infer.elements[own..]);
        let captured = captured.filter_map(|(ty, elements)| Some((ty.clone()?, elements.clone())));
        let mut given = KnownElements::new();
        let graph = &mut self.graphs[index];
        for (id, (ty, elements)) in graph.inputs.clone().into_iter().zip(formals.into_iter().chain(captured)) {
            graph.values[id.0].ty = Some(ty);
            if let Some(elements) = elements {
                given.insert(id, elements);
            }
        }
        self.graph(index, given)?;
        let (graph, known) = (&self.graphs[index], &self.known[index]);
        let output = |id: &ValueId| {
            let value = graph.value(*id);
            let none = || Diagnostic::new(Code::ShapeUnknown, format!("the type of '{}' is not known", value.name));
            Ok((value.ty.clone().ok_or_else(none)?, known.get(id).cloned()))
        };
        graph.outputs.iter().map(output).collect()
    }

    fn branches(
        &mut self,
        infer: &Infer<'_>,
        bodies: &Bodies,
        own: usize,
    ) -> Result<Vec<(PartialType, Option<Vec<Scalar>>)>> {
        require(infer, 0, DType::Bool, "the condition")?;
        let [then_branch, else_branch] = bodies.graphs[..] else { return Ok(Vec::new()) };
        let kept = |(ty, elements): Typed| (known(ty), elements);
        if let Some(condition) = condition(infer, 0) {
            // The other one never runs, and need not fit.
            let live = if condition { then_branch } else { else_branch };
            return Ok(self.body(infer, live, own, Vec::new())?.into_iter().map(kept).collect());
        }
        let both = [then_branch, else_branch].map(|branch| self.body(infer, branch, own, Vec::new()));
        let (one, other) = match both {
            [Ok(one), Ok(other)] => (one, other),
            [Ok(one), Err(error)] | [Err(error), Ok(one)] => {
                self.failed.get_or_insert(error.within(format!("node '{}' (If)", infer.node.name)));
                return Ok(one.into_iter().map(kept).collect());
            }
            [Err(error), Err(_)] => return Err(error),
        };
        let outside = outside(infer);
        let mut open = 0;
        let meet = |(index, (one, other)): (usize, (Typed, Typed))| {
            let ((a, a_elements), (b, b_elements)) = (one, other);
            if a.dtype != b.dtype || a.shape.len() != b.shape.len() {
                let what = format!("output {index} is {a} of one branch and {b} of the other");
                return Err(match a.dtype == b.dtype {
                    true => Diagnostic::new(
                        Code::ShapeUnknown,
                        format!("{what}: how many dimensions it has is known only at run time"),
                    )
                    .hint("Fix the shapes of the inputs with --shape or --dim, if the condition depends on them"),
                    false => Diagnostic::new(Code::TypeMismatch, what),
                });
            }
            let size = |(a, b): (Dim, Dim)| match a == b && symbols_in(&a, &outside) {
                true => Size::Known(a),
                false => next(&mut open),
            };
            let shape = a.shape.into_iter().zip(b.shape).map(size).collect();
            Ok((PartialType { dtype: a.dtype, shape }, a_elements.filter(|a| Some(a) == b_elements.as_ref())))
        };
        one.into_iter().zip(other).enumerate().map(meet).collect()
    }

    fn iterations(
        &mut self,
        infer: &Infer<'_>,
        body: usize,
        own: usize,
    ) -> Result<Vec<(PartialType, Option<Vec<Scalar>>)>> {
        require(infer, 0, DType::I64, "the limit")?;
        require(infer, 1, DType::Bool, "the condition")?;
        let scalar = |dtype| TensorType { dtype, shape: vec![] };
        // The body runs only while the condition holds.
        let always = Some(vec![Scalar::from(1)]);
        let first = [(scalar(DType::I64), None), (scalar(DType::Bool), always)];
        let mut carried = Carried::new(infer, 2..own)?;
        let outputs = loop {
            let formals = first.iter().cloned().chain(carried.formals()).collect();
            let outputs = self.body(infer, body, own, formals)?;
            if !carried.widen(&outputs[1..], &self.graphs[body])? {
                break outputs;
            }
        };
        if outputs[0].0.dtype != DType::Bool {
            let cause = format!("output 0 of the body, the condition, is {}, expected bool", outputs[0].0);
            return Err(Diagnostic::new(Code::TypeMismatch, cause));
        }
        let continues =
            |elements: &Option<Vec<Scalar>>| elements.as_ref().and_then(|all| all.first()?.as_i64()) == Some(1);
        let runs_on = condition(infer, 1) == Some(true) && continues(&outputs[0].1);
        let limit = infer.elements[0].as_ref().and_then(|all| all.first()?.int().cloned()).filter(|_| runs_on);
        let trips = limit.and_then(trips);
        let mut open = 0;
        let mut results = carried.results(&mut open);
        let trips = match trips {
            Some(trips) => Size::Known(trips),
            None => next(&mut open),
        };
        for (ty, _) in &outputs[1 + carried.types.len()..] {
            sliceable("a scan output", ty)?;
            results.push((stacked(infer, ty, 0, &trips, &mut open), None));
        }
        Ok(results)
    }

    fn scan(&mut self, infer: &Infer<'_>, body: usize, own: usize) -> Result<Vec<(PartialType, Option<Vec<Scalar>>)>> {
        let scanned = usize::try_from(infer.node.int("num_scan_inputs", 0)).unwrap_or(0);
        let states = own.saturating_sub(scanned);
        let outputs = self.graphs[body].outputs.len().saturating_sub(states);
        let inputs = scan_axes(infer, "scan_input_axes", "scan_input_directions", scanned)?;
        let outs = scan_axes(infer, "scan_output_axes", "scan_output_directions", outputs)?;
        let mut length: Option<Dim> = None;
        let mut slices = Vec::with_capacity(scanned);
        for (index, axis) in (states..own).zip(inputs) {
            let mut ty = input(infer, index)?;
            sliceable(&format!("input {index}"), &ty)?;
            let axis = axis_of(axis, ty.shape.len()).map_err(|cause| bad(format!("input {index} is {ty}: {cause}")))?;
            let size = ty.shape.remove(axis);
            length = Some(match length {
                None => size,
                Some(known) => dim::unify(&known, &size).ok_or_else(|| {
                    let cause = format!("input {index} has {size} elements along its axis {axis}, another one {known}");
                    Diagnostic::new(Code::ShapeMismatch, cause)
                })?,
            });
            slices.push((ty, None));
        }
        let mut carried = Carried::new(infer, 0..states)?;
        let results = loop {
            let formals = carried.formals().chain(slices.iter().cloned()).collect();
            let results = self.body(infer, body, own, formals)?;
            if !carried.widen(&results, &self.graphs[body])? {
                break results;
            }
        };
        let length = Size::Known(length.unwrap_or(Dim::Fixed(0)));
        let mut open = 0;
        let mut types = carried.results(&mut open);
        for ((ty, _), axis) in results[states..].iter().zip(outs) {
            sliceable("a scan output", ty)?;
            let axis =
                axis_of(axis, ty.shape.len() + 1).map_err(|cause| bad(format!("a scan output of {ty}: {cause}")))?;
            types.push((stacked(infer, ty, axis, &length, &mut open), None));
        }
        Ok(types)
    }
}

/// Values that an iteration hands to the next.
struct Carried {
    types: Vec<TensorType>,
    /// The sizes that change on the way, as (value, axis), with symbols in `types`.
    open: HashSet<(usize, usize)>,
    node: String,
}

impl Carried {
    /// Those that begin as these inputs of the node.
    fn new(infer: &Infer<'_>, inputs: std::ops::Range<usize>) -> Result<Carried> {
        let types = inputs.map(|index| input(infer, index)).collect::<Result<_>>()?;
        Ok(Carried { types, open: HashSet::new(), node: infer.node.name.clone() })
    }

    fn formals(&self) -> impl Iterator<Item = Typed> + '_ {
        self.types.iter().map(|ty| (ty.clone(), None))
    }

    /// Opens the sizes that an iteration changes; whether there were any. `results` begin with the values that are handed on.
    fn widen(&mut self, results: &[Typed], body: &Graph) -> Result<bool> {
        let mut changed = false;
        for (index, (before, (after, _))) in self.types.iter_mut().zip(results).enumerate() {
            if before.dtype != after.dtype || before.shape.len() != after.shape.len() {
                let what = format!(
                    "carried value {index} is {before} before an iteration of '{}' and {after} behind it",
                    body.name
                );
                return Err(match before.dtype == after.dtype {
                    true => Diagnostic::new(
                        Code::ShapeUnknown,
                        format!("{what}: how many dimensions it has is known only at run time"),
                    ),
                    false => Diagnostic::new(Code::TypeMismatch, what),
                });
            }
            for (axis, (before, after)) in before.shape.iter_mut().zip(&after.shape).enumerate() {
                if before != after && self.open.insert((index, axis)) {
                    *before = Dim::Symbolic(Expr::symbol(&format!("{}_carried{index}_{axis}", self.node)).to_string());
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Their types behind the last iteration.
    fn results(&self, open: &mut usize) -> Vec<(PartialType, Option<Vec<Scalar>>)> {
        let result = |(index, ty): (usize, &TensorType)| {
            let size = |(axis, size): (usize, &Dim)| match self.open.contains(&(index, axis)) {
                true => next(open),
                false => Size::Known(size.clone()),
            };
            (PartialType { dtype: ty.dtype, shape: ty.shape.iter().enumerate().map(size).collect() }, None)
        };
        self.types.iter().enumerate().map(result).collect()
    }
}

/// Fails where slices of a tensor may begin within a byte.
fn sliceable(what: &str, ty: &TensorType) -> Result<()> {
    if !ty.dtype.shares_bytes() {
        return Ok(());
    }
    let cause = format!("{what} is {ty}: elements that share bytes are not cut into slices, nor put together of them");
    Err(Diagnostic::new(Code::TypeMismatch, cause).hint("Cast it to i8 or u8 before, and back in the body"))
}

/// The type of what each iteration gives, put together along a new axis. Sizes that the body tells are known when it has run.
fn stacked(infer: &Infer<'_>, ty: &TensorType, axis: usize, length: &Size, open: &mut usize) -> PartialType {
    let outside = outside(infer);
    let size = |size: &Dim| match symbols_in(size, &outside) {
        true => Size::Known(size.clone()),
        false => next(open),
    };
    let mut shape: Vec<_> = ty.shape.iter().map(size).collect();
    shape.insert(axis.min(shape.len()), length.clone());
    PartialType { dtype: ty.dtype, shape }
}

/// The number of iterations of a loop that runs to its limit; `None` where that is no number to count to.
fn trips(limit: Expr) -> Option<Dim> {
    if limit.as_constant() == Some(i64::MAX) {
        return None;
    }
    limit.larger(&Expr::of(&Dim::Fixed(0)).ok()?).ok()?.to_dim().ok()
}

/// The axes along which tensors are scanned, as the node gives them. Directions are checked only: they change no size.
fn scan_axes(infer: &Infer<'_>, axes: &str, directions: &str, count: usize) -> Result<Vec<i64>> {
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

fn bad(cause: String) -> Diagnostic {
    Diagnostic::new(Code::BadNode, cause)
}

fn input(infer: &Infer<'_>, index: usize) -> Result<TensorType> {
    infer.inputs[index].clone().ok_or_else(|| bad(format!("input {index} is absent, but the operator needs it")))
}

/// Errors where an input is not one element of that type.
fn require(infer: &Infer<'_>, index: usize, dtype: DType, what: &str) -> Result<()> {
    let ty = input(infer, index)?;
    // A size that is not known is told by the run.
    let one = ty.shape.iter().all(|size| size.fixed().is_none_or(|size| size == 1));
    if ty.dtype != dtype || !one {
        let cause = format!("input {index} ({what}) is {ty}, expected one element of {dtype}");
        return Err(Diagnostic::new(Code::TypeMismatch, cause));
    }
    Ok(())
}

/// The truth of an input, where it is known.
fn condition(infer: &Infer<'_>, index: usize) -> Option<bool> {
    infer.elements[index].as_ref()?.first()?.as_i64().map(|value| value != 0)
}

fn known(ty: TensorType) -> PartialType {
    PartialType { dtype: ty.dtype, shape: ty.shape.into_iter().map(Size::Known).collect() }
}

fn next(open: &mut usize) -> Size {
    *open += 1;
    Size::Open(*open - 1)
}

/// The symbols in the sizes of what the node reads: what else is in a body's types becomes known in it.
fn outside(infer: &Infer<'_>) -> HashSet<String> {
    infer.inputs.iter().flatten().flat_map(|ty| dim::symbols(&ty.shape)).collect()
}

fn symbols_in(size: &Dim, outside: &HashSet<String>) -> bool {
    dim::symbols(std::slice::from_ref(size)).all(|symbol| outside.contains(&symbol))
}
