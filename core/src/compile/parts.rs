//! Parts of a model, each a model of its own: what computes some of its values from others. `byoc verify` runs them one after the
//! other by reference kernels, so that no more values are in memory than are still to be read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use byoc_plugin_api::Dim;

use super::{Request, front_end};
use crate::atomic_file::Scratch;
use crate::constants::{BaseId, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::fold;
use crate::ir::{CustomOperators, Graph, Model, Node, TensorType, ValueId};
use crate::onnx::{self, ImportOptions};
use crate::partition;
use crate::spool::Spool;

/// Values with their shapes.
type Known<'s> = BTreeMap<ValueId, &'s [usize]>;

/// Known values, wanted ones, and the nodes that compute these from those.
type Part<'s> = (Known<'s>, Vec<ValueId>, BTreeSet<usize>);

/// A model of which parts are taken.
pub struct Parts {
    model: Arc<Model>,
    /// Index of the entry.
    entry: usize,
    producers: Vec<Option<usize>>,
    by_name: HashMap<String, ValueId>,
}

impl Parts {
    /// The model of a request up to the passes, with the functions' bodies in place of all calls. Its values have the names that
    /// those of an artifact of the model have.
    pub fn new(request: &Request, entry: &str) -> Result<Parts> {
        let custom = request.custom_operators().with_calls(BTreeSet::new());
        let model = front_end::read(request, &custom)?;
        let mut spool = Spool::new(&Scratch::temporary())?;
        let typed = fold::simplify(model, request.folding_backend.as_ref(), &mut spool)?;
        let model = partition::parted_for_all(typed).0;
        let index = model.entries.iter().position(|graph| graph.name == entry);
        let none = || Diagnostic::new(Code::UnknownName, format!("there is no entry '{entry}'"));
        let entry = index.ok_or_else(none)?;
        let graph = &model.entries[entry];
        let named = graph.values.iter().enumerate().map(|(index, value)| (value.name.clone(), ValueId(index)));
        Ok(Parts { producers: graph.producers(), by_name: named.collect(), entry, model })
    }

    /// Whether the entry has a value of that name.
    pub fn has(&self, value: &str) -> bool {
        self.by_name.contains_key(value)
    }

    /// The names of what a node gives, as it has them in ONNX, none for what is not used; nothing where the entry has no such node.
    pub fn outputs_of(&self, node: &str) -> Vec<Option<String>> {
        let graph = self.graph();
        let outputs = graph.nodes.iter().find(|other| other.name == node).map(|node| node.outputs.as_slice());
        let name = |value: &Option<ValueId>| value.map(|id| graph.value(id).name.clone());
        outputs.unwrap_or_default().iter().map(name).collect()
    }

    /// The part that computes `outputs` from values of these names and shapes, as a model of one entry, `main`. It takes those of
    /// the values that it reads. Errors where it needs others.
    pub fn between(&self, inputs: &[(&str, Vec<usize>)], outputs: &[&str]) -> Result<Model> {
        let (known, wanted, nodes) = self.part(inputs, outputs)?;
        let own = nodes.into_iter().map(|node| self.graph().nodes[node].clone()).collect();
        self.model_of(own, &known, wanted)
    }

    /// The names and operators of the nodes that compute `outputs` from `inputs`, in the order in which they run.
    pub fn nodes(&self, inputs: &[(&str, Vec<usize>)], outputs: &[&str]) -> Result<Vec<(String, String)>> {
        let (_, _, nodes) = self.part(inputs, outputs)?;
        let graph = self.graph();
        let node = |node: usize| (graph.nodes[node].name.clone(), graph.nodes[node].qualified_op());
        Ok(nodes.into_iter().map(node).collect())
    }

    /// The first `count` of these nodes, as a model that gives what the others read and what is among `outputs`.
    pub fn first_nodes(&self, inputs: &[(&str, Vec<usize>)], outputs: &[&str], count: usize) -> Result<Model> {
        let graph = self.graph();
        let (known, wanted, nodes) = self.part(inputs, outputs)?;
        let all: Vec<&Node> = nodes.iter().map(|&node| &graph.nodes[node]).collect();
        let (first, rest) = all.split_at(count.min(all.len()));
        let read: BTreeSet<ValueId> = rest.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
        let made = first.iter().flat_map(|node| node.outputs.iter().flatten().copied());
        let given = made.filter(|id| read.contains(id) || wanted.contains(id)).collect();
        self.model_of(first.iter().map(|&node| node.clone()).collect(), &known, given)
    }

    /// What is known, what is wanted, and the nodes between.
    fn part<'s>(&self, inputs: &'s [(&str, Vec<usize>)], outputs: &[&str]) -> Result<Part<'s>> {
        let known = inputs.iter().map(|(name, shape)| Ok((self.value(name)?, shape.as_slice())));
        let known: Known<'s> = known.collect::<Result<_>>()?;
        let wanted: Vec<ValueId> = outputs.iter().map(|name| self.value(name)).collect::<Result<_>>()?;
        let nodes = self.nodes_between(&known, &wanted)?;
        Ok((known, wanted, nodes))
    }

    fn graph(&self) -> &Graph {
        &self.model.entries[self.entry]
    }

    fn value(&self, name: &str) -> Result<ValueId> {
        let none = || Diagnostic::new(Code::UnknownName, format!("the model has no value '{name}'"));
        self.by_name.get(name).copied().ok_or_else(none)
    }

    /// The nodes that compute the wanted values, back to those that are known.
    fn nodes_between(&self, known: &Known<'_>, wanted: &[ValueId]) -> Result<BTreeSet<usize>> {
        let graph = self.graph();
        let mut nodes = BTreeSet::new();
        let mut open = wanted.to_vec();
        while let Some(value) = open.pop() {
            if known.contains_key(&value) || graph.value(value).constant.is_some() {
                continue;
            }
            let Some(node) = self.producers[value.0] else {
                let message = format!("'{}' is not computed from the values that are given", graph.value(value).name);
                return Err(Diagnostic::new(Code::BadGraph, message));
            };
            if nodes.insert(node) {
                open.extend(graph.nodes[node].inputs.iter().flatten());
            }
        }
        Ok(nodes)
    }

    /// A model of these nodes. Only what is given has a type: the others follow from it, for its shapes are those of this run.
    fn model_of(&self, nodes: Vec<Node>, known: &Known<'_>, wanted: Vec<ValueId>) -> Result<Model> {
        let graph = self.graph();
        let read: BTreeSet<ValueId> = nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
        // What is a constant here need not be given.
        let is_taken = |(id, _): &(&ValueId, &&[usize])| {
            graph.value(**id).constant.is_none() && (read.contains(id) || wanted.contains(id))
        };
        let taken: Vec<(ValueId, Vec<usize>)> =
            known.iter().filter(is_taken).map(|(&id, &shape)| (id, shape.to_vec())).collect();
        let inputs = taken.iter().map(|(id, _)| *id).collect();
        let mut main = Graph { name: "main".into(), nodes, inputs, outputs: wanted, ..Graph::default() };
        main.values.clone_from(&graph.values);
        keep_used(&mut main);
        for (id, (_, shape)) in main.inputs.iter().zip(taken) {
            let value = &mut main.values[id.0];
            let dtype = value.ty.as_ref().map(|ty| ty.dtype).ok_or_else(|| untyped(&value.name))?;
            value.ty = Some(TensorType { dtype, shape: shape.into_iter().map(Dim::Fixed).collect() });
        }
        let mut entries = vec![main];
        // Bodies come behind the graph whose node runs them.
        let mut next = 0;
        while next < entries.len() {
            forget_types(&mut entries[next]);
            let mut nodes = std::mem::take(&mut entries[next].nodes);
            for body in nodes.iter_mut().filter_map(|node| node.bodies.as_mut()).flat_map(|it| &mut it.graphs) {
                let mut graph = self.model.entries[*body].clone();
                graph.body_of = Some("main".into());
                *body = entries.len();
                entries.push(graph);
            }
            entries[next].nodes = nodes;
            next += 1;
        }
        let constants = part_of(&self.model.constants, &mut entries);
        Ok(Model { entries, constants, ..Model::default() })
    }
}

fn untyped(value: &str) -> Diagnostic {
    Diagnostic::new(Code::TypeMismatch, format!("value '{value}' has no type"))
}

/// Drops the values that no node has, and gives the others new numbers.
fn keep_used(graph: &mut Graph) {
    let mut used: BTreeSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    used.extend(graph.nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs).flatten().copied()));
    let numbers: HashMap<ValueId, ValueId> =
        used.iter().enumerate().map(|(number, &id)| (id, ValueId(number))).collect();
    let renumber = |id: &mut ValueId| *id = numbers[id];
    graph.inputs.iter_mut().for_each(renumber);
    graph.outputs.iter_mut().for_each(renumber);
    for node in &mut graph.nodes {
        node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(renumber);
    }
    let mut values: Vec<_> = std::mem::take(&mut graph.values).into_iter().map(Some).collect();
    graph.values = used.iter().filter_map(|id| values[id.0].take()).collect();
}

/// Leaves the types of what is given and of constants; those of a body follow from the node that runs it.
fn forget_types(graph: &mut Graph) {
    for (index, value) in graph.values.iter_mut().enumerate() {
        let given = graph.body_of.is_none() && graph.inputs.contains(&ValueId(index));
        if value.constant.is_none() && !given {
            (value.ty, value.list) = (None, None);
        }
    }
}

/// A table of the constants that the graphs have, which refer to it from then on.
fn part_of(table: &ConstantTable, graphs: &mut [Graph]) -> ConstantTable {
    let (mut part, mut moved) = (ConstantTable::default(), HashMap::<BaseId, BaseId>::new());
    for constant in graphs.iter_mut().flat_map(|graph| &mut graph.values).filter_map(|value| value.constant.as_mut()) {
        let base = constant.base;
        constant.base = *moved.entry(base).or_insert_with(|| part.take_over(table.get(base)));
    }
    part
}

/// The options by which the model at `path` is read as one whose inputs have these shapes, as an artifact that it was compiled to has
/// them: sizes that are numbers there and have a name in the model.
pub fn sizes_like(path: &Path, inputs: &[(String, Vec<Dim>)]) -> Result<ImportOptions> {
    let fixed = |(name, shape): &(String, Vec<Dim>)| {
        Some((name.clone(), shape.iter().map(Dim::fixed).collect::<Option<Vec<usize>>>()?))
    };
    let all = ImportOptions { shapes: inputs.iter().filter_map(fixed).collect(), ..ImportOptions::default() };
    let custom = CustomOperators::any();
    let model = onnx::import(&[("main".to_owned(), path)], &all, &custom)?;
    let graph = &model.entries[0];
    let mut dims = BTreeMap::new();
    for (name, shape) in inputs {
        let own = graph.inputs.iter().map(|&id| graph.value(id)).find(|value| value.name == *name);
        let Some(own) = own.and_then(|value| value.ty.as_ref()) else { continue };
        for (own, size) in own.shape.iter().zip(shape) {
            if let (Dim::Symbolic(symbol), Some(size)) = (own, size.fixed()) {
                dims.insert(symbol.clone(), size);
            }
        }
    }
    // Only what the model leaves open has to be said.
    let open = onnx::import(&[("main".to_owned(), path)], &ImportOptions::default(), &custom);
    let is_open = |name: &str| match &open {
        Ok(model) => {
            let graph = &model.entries[0];
            let own = graph.inputs.iter().map(|&id| graph.value(id)).find(|value| value.name == name);
            own.and_then(|value| value.ty.as_ref()).is_none_or(|ty| ty.fixed_shape().is_none())
        }
        Err(_) => true,
    };
    let shapes = all.shapes.into_iter().filter(|(name, _)| is_open(name)).collect();
    Ok(ImportOptions { shapes, dims: dims.into_iter().collect(), no_mmap: false })
}
