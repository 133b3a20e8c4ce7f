//! The stages up to the partition. Backends are offered calls of the model's own functions whole, as nodes; where no backend
//! takes such a node, these stages run once more with the function's body in its place.

use std::collections::BTreeSet;

use super::{Destination, Observer, Request, Stage, recover};
use crate::atomic_file::Scratch;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::fold;
use crate::ir::{self, CustomOperators, Graph, Model, TypedModel, ValueId};
use crate::onnx;
use crate::partition::{self, Avoid, Crashes, NodeRow, Partitioned};
use crate::passes;
use crate::spool::Spool;

/// What is compiled, as far as the passes have brought it.
pub(super) struct FrontEnd<'a> {
    pub(super) request: &'a Request,
    pub(super) destination: &'a Destination<'a>,
    pub(super) typed: TypedModel,
    /// The calls whose functions' bodies are in their place, with the reasons.
    expanded: Vec<NodeRow>,
    /// The warnings so far: what runs once more gives them again.
    warned: Vec<Diagnostic>,
}

/// Stage 2: the model in its canonical form.
pub(super) fn import(
    request: &Request,
    custom: CustomOperators,
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<Model> {
    observer.stage(Stage::Onnx);
    let model = match &request.model {
        Some(model) => {
            let mut model = Model { custom, ..model.clone() };
            // It cannot be read again, with bodies in place of calls.
            model.entries.iter_mut().for_each(|graph| graph.calls.clear());
            model
        }
        None => read(request, &custom)?,
    };
    destination.check(request, &model.inputs())?;
    observer.dump(Stage::Onnx, &|| ir::print(&model));
    Ok(model)
}

pub(super) fn read(request: &Request, custom: &CustomOperators) -> Result<Model> {
    let sources: Vec<_> = request.sources.iter().map(|(name, path)| (name.clone(), path.as_path())).collect();
    onnx::import(&sources, &request.import, custom)
}

/// The model with the functions' bodies in place of all calls, with the values of an entry that have these names.
pub(super) fn expanded(
    request: &Request,
    scratch: &Scratch,
    entry: &str,
    names: &BTreeSet<String>,
) -> Result<TypedModel> {
    let custom = request.custom_operators().with_calls(BTreeSet::new());
    let mut model = read(request, &custom)?;
    let graph = model.entries.iter_mut().find(|graph| graph.name == entry);
    let none = || Diagnostic::new(Code::UnknownName, format!("there is no entry '{entry}'"));
    let Graph { values, outputs, .. } = graph.ok_or_else(none)?;
    // What is an output keeps its name.
    let wanted = (0..values.len()).filter(|&index| names.contains(&values[index].name)).map(ValueId);
    let wanted: Vec<_> = wanted.filter(|value| !outputs.contains(value)).collect();
    outputs.extend(wanted);
    let typed = fold::simplify(model, request.folding_backend.as_ref(), &mut Spool::new(scratch)?)?;
    partition::parted_for(typed, &request.backends)
}

/// Stages 2 and 3.
fn simplify(
    request: &Request,
    custom: CustomOperators,
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<TypedModel> {
    let model = import(request, custom, destination, observer)?;
    observer.go_on()?;
    observer.stage(Stage::Passes);
    let mut spool = Spool::new(&destination.scratch)?;
    let typed = fold::simplify(model, request.folding_backend.as_ref(), &mut spool)?;
    observer.dump(Stage::Passes, &|| ir::print(typed.model()));
    Ok(typed)
}

impl<'a> FrontEnd<'a> {
    /// Runs the stages up to the passes.
    pub(super) fn new(
        request: &'a Request,
        destination: &'a Destination<'a>,
        observer: &mut dyn Observer,
    ) -> Result<FrontEnd<'a>> {
        let typed = simplify(request, request.custom_operators(), destination, observer)?;
        let warnings = passes::undeclared(typed.model());
        let mut front_end = FrontEnd { request, destination, typed, expanded: Vec::new(), warned: Vec::new() };
        front_end.warn(warnings, observer);
        Ok(front_end)
    }

    /// Stage 4. Each round expands at least one call that the one before did not, and a model has finitely many.
    pub(super) fn partition(&mut self, avoid: &[Avoid], observer: &mut dyn Observer) -> Result<Partitioned> {
        let (request, backends) = (self.request, &self.request.backends);
        loop {
            observer.stage(Stage::Partition);
            let crashes = Crashes { avoid, tolerated: request.fallback_on_crash };
            let mut partitioned = partition::partition(self.typed.clone(), backends, &crashes)?;
            if avoid.is_empty() {
                self.warn(recover::crashed_checks(&partitioned, backends), observer);
            }
            let untaken = partition::untaken_calls(&partitioned, backends);
            if untaken.is_empty() {
                partitioned.expanded.clone_from(&self.expanded);
                observer.dump(Stage::Partition, &|| partition::print(&partitioned, backends));
                return Ok(partitioned);
            }
            let mut custom = self.typed.model().custom.clone();
            custom.expand(untaken.iter().map(|call| (call.entry.clone(), call.node.clone())));
            self.expanded.extend(untaken);
            self.typed = simplify(request, custom, self.destination, observer)?;
            self.warn(passes::undeclared(self.typed.model()), observer);
        }
    }

    /// Tells the warnings that were not told before.
    pub(super) fn warn(&mut self, warnings: Vec<Diagnostic>, observer: &mut dyn Observer) {
        for warning in warnings {
            if !self.warned.contains(&warning) {
                observer.warning(&warning);
                self.warned.push(warning);
            }
        }
    }
}
