//! Types of what control flow gives. A body is inferred with the types that its node gives it; a size of a carried value
//! that changes from one iteration to the next is any, so the body is inferred again with a symbol in its place.

mod carried;
mod map;
mod scan;

use std::collections::HashSet;

use byoc_plugin_api::{DType, Dim};

use self::carried::Carried;
use super::lists::stays;
use super::{Inference, KnownElements};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::{self, Expr};
use crate::ir::{Bodies, ListType, TensorType, ValueId};
use crate::ops::{Infer, PartialType, Scalar, Size};

/// What is known of a value.
#[derive(Clone)]
struct Typed {
    ty: TensorType,
    elements: Option<Vec<Scalar>>,
    list: Option<ListType>,
}

/// What is known of an output; sizes may still be open.
struct Given {
    ty: PartialType,
    elements: Option<Vec<Scalar>>,
    list: Option<ListType>,
}

impl Typed {
    fn tensor(ty: TensorType) -> Typed {
        Typed { ty, elements: None, list: None }
    }

    fn is_like(&self, other: &Typed) -> bool {
        match (&self.list, &other.list) {
            (Some(list), Some(other)) => list.join(other).is_some(),
            (None, None) => self.ty.dtype == other.ty.dtype,
            _ => false,
        }
    }
}

impl std::fmt::Display for Typed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.list {
            Some(list) => list.fmt(f),
            None => self.ty.fmt(f),
        }
    }
}

impl Given {
    fn tensor(ty: PartialType) -> Given {
        Given { ty, elements: None, list: None }
    }

    fn list(list: ListType) -> Given {
        Given { list: Some(list), ..Given::tensor(known(ListType::handle())) }
    }
}

impl From<Typed> for Given {
    fn from(Typed { ty, elements, list }: Typed) -> Given {
        Given { ty: known(ty), elements, list }
    }
}

/// A node of control flow, with the lists among its inputs.
struct Node<'a, 'n> {
    infer: &'a Infer<'n>,
    lists: &'a [Option<ListType>],
    /// How many of its inputs are not captured.
    own: usize,
}

impl Node<'_, '_> {
    fn input(&self, index: usize) -> Result<Typed> {
        let ty = self.infer.inputs.get(index).cloned().flatten();
        let ty = ty.ok_or_else(|| bad(format!("input {index} is absent, but the operator needs it")))?;
        let list = self.lists.get(index).cloned().flatten();
        Ok(Typed { list, ..Typed::tensor(ty) })
    }

    /// Errors where an input is not one element of that type.
    fn require(&self, index: usize, dtype: DType, what: &str) -> Result<()> {
        let typed = self.input(index)?;
        // A size that is not known is told by the run.
        let one = typed.ty.shape.iter().all(|size| size.fixed().is_none_or(|size| size == 1));
        if typed.list.is_some() || typed.ty.dtype != dtype || !one {
            let cause = format!("input {index} ({what}) is {typed}, expected one element of {dtype}");
            return Err(Diagnostic::new(Code::TypeMismatch, cause));
        }
        Ok(())
    }

    /// The truth of an input, where it is known.
    fn condition(&self, index: usize) -> Option<bool> {
        self.infer.elements[index].as_ref()?.first()?.as_i64().map(|value| value != 0)
    }

    /// The symbols in the sizes of what the node reads: what else is in a body's types becomes known in it.
    fn outside(&self) -> HashSet<String> {
        self.infer.inputs.iter().flatten().flat_map(|ty| dim::symbols(&ty.shape)).collect()
    }
}

impl Inference<'_> {
    /// Gives each output of a node of control flow its type; of those that are lists also what they hold. `lists` are those that it is given.
    pub(super) fn control(
        &mut self,
        infer: &mut Infer<'_>,
        bodies: &Bodies,
        lists: &[Option<ListType>],
    ) -> Result<Vec<Option<ListType>>> {
        let own = infer.inputs.len() - bodies.captured;
        let node = Node { infer: &*infer, lists, own };
        let outputs = match infer.node.op.as_str() {
            "If" => self.branches(&node, bodies)?,
            "Loop" => self.iterations(&node, bodies.graphs[0])?,
            "SequenceMap" => self.map(&node, bodies.graphs[0])?,
            _ => self.scan(&node, bodies.graphs[0])?,
        };
        let count = infer.outputs.len();
        let mut lists = Vec::with_capacity(count);
        for (index, Given { ty, elements, list }) in outputs.into_iter().take(count).enumerate() {
            infer.outputs[index] = Some(infer.closed(ty));
            infer.output_elements[index] = elements;
            lists.push(list);
        }
        Ok(lists)
    }

    /// Infers a body whose own inputs have these types; the others are those that the node captures.
    fn body(&mut self, node: &Node<'_, '_>, index: usize, formals: Vec<Typed>) -> Result<Vec<Typed>> {
        let captured = (node.own..node.infer.inputs.len()).filter_map(|index| {
            let elements = node.infer.elements[index].clone();
            Some(Typed { elements, ..node.input(index).ok()? })
        });
        let mut given = KnownElements::new();
        let graph = &mut self.graphs[index];
        for (id, typed) in graph.inputs.clone().into_iter().zip(formals.into_iter().chain(captured)) {
            let Typed { ty, elements, list } = typed;
            (graph.values[id.0].ty, graph.values[id.0].list) = (Some(ty), list);
            if let Some(elements) = elements {
                given.insert(id, elements);
            }
        }
        self.graph(index, given)?;
        let (graph, known) = (&self.graphs[index], &self.known[index]);
        let output = |id: &ValueId| {
            let value = graph.value(*id);
            let none = || Diagnostic::new(Code::ShapeUnknown, format!("the type of '{}' is not known", value.name));
            let ty = value.ty.clone().ok_or_else(none)?;
            Ok(Typed { ty, elements: known.get(id).cloned(), list: value.list.clone() })
        };
        graph.outputs.iter().map(output).collect()
    }

    fn branches(&mut self, node: &Node<'_, '_>, bodies: &Bodies) -> Result<Vec<Given>> {
        node.require(0, DType::Bool, "the condition")?;
        let [then_branch, else_branch] = bodies.graphs[..] else { return Ok(Vec::new()) };
        let kept = |results: Vec<Typed>| results.into_iter().map(Given::from).collect();
        if let Some(condition) = node.condition(0) {
            // The other one never runs, and need not fit.
            let live = if condition { then_branch } else { else_branch };
            return self.body(node, live, Vec::new()).map(kept);
        }
        let both = [then_branch, else_branch].map(|branch| self.body(node, branch, Vec::new()));
        let (one, other) = match both {
            [Ok(one), Ok(other)] => (one, other),
            [Ok(one), Err(error)] | [Err(error), Ok(one)] => {
                self.failed.get_or_insert(error.within(format!("node '{}' (If)", node.infer.node.name)));
                return Ok(kept(one));
            }
            [Err(error), Err(_)] => return Err(error),
        };
        let outside = node.outside();
        let mut open = 0;
        let pairs = one.into_iter().zip(other).enumerate();
        pairs.map(|(index, pair)| meet(index, pair, &outside, &mut open)).collect()
    }

    fn iterations(&mut self, node: &Node<'_, '_>, body: usize) -> Result<Vec<Given>> {
        node.require(0, DType::I64, "the limit")?;
        node.require(1, DType::Bool, "the condition")?;
        let scalar = |dtype| Typed::tensor(TensorType { dtype, shape: vec![] });
        // The body runs only while the condition holds.
        let always = Typed { elements: Some(vec![Scalar::from(1)]), ..scalar(DType::Bool) };
        let first = [scalar(DType::I64), always];
        let mut carried = Carried::new(node, 2..node.own)?;
        let outputs = loop {
            let formals = first.iter().cloned().chain(carried.formals()).collect();
            let outputs = self.body(node, body, formals)?;
            if !carried.widen(&outputs[1..], &self.graphs[body])? {
                break outputs;
            }
        };
        if outputs[0].ty.dtype != DType::Bool {
            let cause = format!("output 0 of the body, the condition, is {}, expected bool", outputs[0]);
            return Err(Diagnostic::new(Code::TypeMismatch, cause));
        }
        let continues =
            |elements: &Option<Vec<Scalar>>| elements.as_ref().and_then(|all| all.first()?.as_i64()) == Some(1);
        let runs_on = node.condition(1) == Some(true) && continues(&outputs[0].elements);
        let limit = node.infer.elements[0].as_ref().and_then(|all| all.first()?.int().cloned()).filter(|_| runs_on);
        let mut open = 0;
        let mut results = carried.results(&mut open);
        let trips = match limit.and_then(trips) {
            Some(trips) => Size::Known(trips),
            None => next(&mut open),
        };
        for typed in &outputs[1 + carried.len()..] {
            sliceable("a scan output", typed)?;
            results.push(Given::tensor(stacked(node, &typed.ty, 0, &trips, &mut open)));
        }
        Ok(results)
    }
}

/// The type of an output of either branch.
fn meet(index: usize, (a, b): (Typed, Typed), outside: &HashSet<String>, open: &mut usize) -> Result<Given> {
    if !a.is_like(&b) || a.ty.shape.len() != b.ty.shape.len() {
        let what = format!("output {index} is {a} of one branch and {b} of the other");
        return Err(match a.is_like(&b) {
            true => Diagnostic::new(
                Code::ShapeUnknown,
                format!("{what}: how many dimensions it has is known only at run time"),
            )
            .hint("Fix the shapes of the inputs with --shape or --dim, if the condition depends on them"),
            false => Diagnostic::new(Code::TypeMismatch, what),
        });
    }
    if let (Some(one), Some(other)) = (&a.list, &b.list) {
        return Ok(one.join(other).map_or_else(|| Given::from(a.clone()), Given::list));
    }
    let size = |(a, b): (Dim, Dim)| match a == b && symbols_in(&a, outside) {
        true => Size::Known(a),
        false => next(open),
    };
    let shape = a.ty.shape.into_iter().zip(b.ty.shape).map(size).collect();
    let elements = a.elements.filter(|elements| Some(elements) == b.elements.as_ref());
    Ok(Given { elements, ..Given::tensor(PartialType { dtype: a.ty.dtype, shape }) })
}

/// Fails where slices of a tensor may begin within a byte, and for a sequence or an optional.
fn sliceable(what: &str, typed: &Typed) -> Result<()> {
    if typed.list.is_some() {
        return Err(Diagnostic::new(Code::TypeMismatch, format!("{what} is {typed}, expected a tensor")));
    }
    if !typed.ty.dtype.shares_bytes() {
        return Ok(());
    }
    let cause =
        format!("{what} is {typed}: elements that share bytes are not cut into slices, nor put together of them");
    Err(Diagnostic::new(Code::TypeMismatch, cause).hint("Cast it to i8 or u8 before, and back in the body"))
}

/// The type of what each iteration gives, put together along a new axis. Sizes that the body tells are known when it has run.
fn stacked(node: &Node<'_, '_>, ty: &TensorType, axis: usize, length: &Size, open: &mut usize) -> PartialType {
    let outside = node.outside();
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

fn bad(cause: String) -> Diagnostic {
    Diagnostic::new(Code::BadNode, cause)
}

fn known(ty: TensorType) -> PartialType {
    PartialType { dtype: ty.dtype, shape: ty.shape.into_iter().map(Size::Known).collect() }
}

fn next(open: &mut usize) -> Size {
    *open += 1;
    Size::Open(*open - 1)
}

fn symbols_in(size: &Dim, outside: &HashSet<String>) -> bool {
    dim::symbols(std::slice::from_ref(size)).all(|symbol| outside.contains(&symbol))
}
