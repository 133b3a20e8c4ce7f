//! One model file as one graph over the shared constants, with one more for each body of control flow.

use std::collections::{BTreeSet, HashSet};

use indexmap::IndexMap;

use super::builder::{Builder, TakenNames};
use super::external::ExternalFiles;
use super::flatten::{self, FlatNode, Opsets};
use super::inputs::{Input, ShapeOptions};
use super::names::Names;
use super::proto::{GraphProto, ModelProto, TensorProto};
use super::{attribute, bodies, canonical, inputs, lists, sort, supported_ops, tensor};
use crate::constants::ConstantTable;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{CustomOperators, Graph, Node, ValueId};
use crate::ops;

/// What the graphs of one model are made with.
pub(super) struct Importer<'a> {
    custom: &'a CustomOperators,
    files: &'a mut ExternalFiles,
    /// The names of nodes that call a function.
    pub(super) calls: BTreeSet<String>,
    /// How many graphs there are before those of this entry.
    first: usize,
    /// The bodies of control flow, each behind the graph that runs it.
    bodies: Vec<Graph>,
}

/// What a graph is filled with.
pub(super) struct Contents {
    pub(super) initializers: IndexMap<String, TensorProto>,
    pub(super) inputs: Vec<Input>,
    /// In topological order.
    pub(super) nodes: Vec<FlatNode>,
    pub(super) outputs: Vec<String>,
}

/// Builds the graph of the entry called `entry`, which is the `first` of the model's, and those of its bodies. Declared types of
/// inner values are ignored and inferred again; those of outputs are kept for a comparison.
pub(super) fn build(
    (first, entry): (usize, &str),
    model: ModelProto,
    custom: &CustomOperators,
    shapes: &mut ShapeOptions<'_>,
    files: &mut ExternalFiles,
    constants: &mut ConstantTable,
) -> Result<Vec<Graph>> {
    let opsets = Opsets::of_model(&model.opset_import, model.ir_version.unwrap_or(0))?;
    let mut graph = model.graph.unwrap_or_default();
    let names = value_names(&graph);
    let flat = flatten::flatten(entry, std::mem::take(&mut graph.node), model.functions, &opsets, custom, names)?;
    supported_ops::check(&flat.nodes, custom)?;
    let initializers = initializers(&mut graph)?;
    // An initializer that is listed as an input too is a constant; before IR version 4 all of them were.
    graph.input.retain(|input| !initializers.contains_key(input.name.as_deref().unwrap_or_default()));
    let inputs = shapes.types(&graph.input)?;
    let given = given(&initializers, &inputs)?;
    let nodes = sort::topological(flat.nodes, |name| given.contains(name))?;
    let declared = graph.output.iter().map(inputs::declared_output).collect();
    let outputs = graph.output.into_iter().map(|output| output.name.unwrap_or_default()).collect();
    let mut names = TakenNames { values: flat.value_names, nodes: flat.node_names };
    let mut builder = Builder::new(entry, constants, &mut names);
    let mut importer = Importer { custom, files, calls: flat.calls, first, bodies: Vec::new() };
    importer.fill(&mut builder, Contents { initializers, inputs, nodes, outputs })?;
    builder.graph.declared = declared;
    builder.graph.calls = importer.calls;
    Ok(std::iter::once(builder.graph).chain(importer.bodies).collect())
}

impl Importer<'_> {
    /// A place for a body, by its index among the graphs of the model.
    pub(super) fn reserve(&mut self) -> usize {
        self.bodies.push(Graph::default());
        self.first + self.bodies.len()
    }

    /// Puts a body into its place.
    pub(super) fn put(&mut self, index: usize, body: Graph) {
        self.bodies[index - self.first - 1] = body;
    }

    /// Adds inputs, constants, nodes and outputs to a graph.
    pub(super) fn fill(&mut self, builder: &mut Builder<'_>, contents: Contents) -> Result<()> {
        let Contents { initializers, inputs, nodes, outputs } = contents;
        let read = nodes.iter().flat_map(|node| node.inputs.iter().map(String::as_str).chain(bodies::captured(node)));
        let used: HashSet<String> = read.chain(outputs.iter().map(String::as_str)).map(str::to_owned).collect();
        for (name, proto) in initializers {
            match (used.contains(&name), tensor::read(&format!("tensor '{name}'"), proto, self.files)) {
                (true, constant) => drop(builder.add_constant(&name, constant?)),
                (false, Ok(constant)) => builder.add_unread(&name, constant),
                // It has no reader, so its type need not be supported.
                (false, Err(_)) => {}
            }
        }
        for Input { name, ty, list } in inputs {
            let id = builder.add_value(&name, Some(ty));
            builder.graph.values[id.0].list = list;
            builder.graph.inputs.push(id);
        }
        for node in nodes {
            self.add_node(builder, node, &used)?;
        }
        set_outputs(builder, &outputs)
    }

    /// Adds one node in canonical form, or the constant that it stands for.
    fn add_node(&mut self, builder: &mut Builder<'_>, node: FlatNode, used: &HashSet<String>) -> Result<()> {
        let captured = bodies::captured(&node).into_iter().map(str::to_owned).collect();
        let FlatNode { name, op, domain, version, inputs, outputs, attributes, bodies } = node;
        if domain.is_empty() && op == "Constant" {
            let tensor = attribute::constant(&name, attributes, self.files)?;
            if let Some(output) = outputs.first().filter(|output| used.contains(*output)) {
                builder.add_constant(output, tensor);
            }
            return Ok(());
        }
        let node = FlatNode { name, op, domain, version, inputs, outputs, attributes, bodies };
        if lists::takes(builder, &node) {
            return lists::add(builder, node, |node| {
                let attributes = attribute::read_all(&node.name, std::mem::take(&mut node.attributes), self.files)?;
                Ok(Node { name: node.name.clone(), op: node.op.clone(), attributes, ..Node::default() })
            });
        }
        let FlatNode { name, op, domain, version, inputs, outputs, attributes, bodies } = node;
        if !bodies.is_empty() {
            for input in &inputs {
                builder.list_value(input);
            }
        }
        let mut inputs = inputs.iter().map(|input| input_value(builder, &name, input)).collect::<Result<Vec<_>>>()?;
        while let Some(None) = inputs.last() {
            inputs.pop();
        }
        // Output 0 stays even if it is unused, so that every node has one; the prune pass drops dead nodes.
        let wanted = |(index, output): (usize, &String)| {
            let wanted = !output.is_empty() && (index == 0 || used.contains(output));
            wanted.then(|| builder.add_value(output, None))
        };
        let outputs: Vec<_> = outputs.iter().enumerate().map(wanted).collect();
        if outputs.is_empty() {
            return Err(Diagnostic::new(Code::BadNode, format!("node '{name}': it has no output")));
        }
        let attributes = attribute::read_all(&name, attributes, self.files)?;
        let node = Node { name, op, domain, inputs, outputs, attributes, version: None, bodies: None };
        if !bodies.is_empty() {
            return bodies::add(builder, self, node, (version, bodies, captured));
        }
        match supported_ops::is_canonical(&node.domain, &node.op) {
            true => canonical::add(builder, node, version),
            false => add_custom(builder, Node { version: Some(version), ..node }, self.custom),
        }
    }
}

/// Every value name of the file, so that made-up ones keep clear of them.
fn value_names(graph: &GraphProto) -> Names {
    let mut names = Names::default();
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        let nodes = graph.node.iter().flat_map(|node| node.output.iter().chain(&node.input));
        let edges = graph.input.iter().chain(&graph.output).filter_map(|info| info.name.as_ref());
        let initializers = graph.initializer.iter().filter_map(|tensor| tensor.name.as_ref());
        for name in nodes.chain(edges).chain(initializers) {
            names.take(name);
        }
        open.extend(graph.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.g.as_ref()));
    }
    names
}

/// The initializers by name, in the file's order.
pub(super) fn initializers(graph: &mut GraphProto) -> Result<IndexMap<String, TensorProto>> {
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().and_then(|values| values.name.as_deref()).unwrap_or_default();
        let cause = format!("tensor '{name}' is sparse, which is not supported");
        return Err(Diagnostic::new(Code::BadTensor, cause).hint("Export the model with dense tensors"));
    }
    let mut initializers = IndexMap::with_capacity(graph.initializer.len());
    for tensor in graph.initializer.drain(..) {
        let name = tensor.name.clone().unwrap_or_default();
        if name.is_empty() {
            return Err(bad("an initializer has no name".into()));
        }
        if initializers.insert(name.clone(), tensor).is_some() {
            return Err(bad(format!("initializer '{name}' is defined twice")));
        }
    }
    Ok(initializers)
}

/// The names of all values that no node makes.
fn given(initializers: &IndexMap<String, TensorProto>, inputs: &[Input]) -> Result<HashSet<String>> {
    let mut given: HashSet<String> = initializers.keys().cloned().collect();
    for Input { name, .. } in inputs {
        if name.is_empty() {
            return Err(bad("an input has no name".into()));
        }
        if !given.insert(name.clone()) {
            return Err(bad(format!("input '{name}' is listed twice")));
        }
    }
    Ok(given)
}

/// Adds a node that core does not know, with its attributes checked by what the backend that brings it says.
fn add_custom(builder: &mut Builder<'_>, mut node: Node, custom: &CustomOperators) -> Result<()> {
    if let Some(brought) = custom.find(&node.domain, &node.op, node.version) {
        let completed = ops::custom::complete(brought, &mut node.attributes);
        completed.map_err(|error| error.within(format!("node '{}' ({})", node.name, node.qualified_op())))?;
    }
    builder.push(node);
    Ok(())
}

/// The value that a node's input names; an empty name is an input left out.
fn input_value(builder: &Builder<'_>, node: &str, name: &str) -> Result<Option<ValueId>> {
    if name.is_empty() {
        return Ok(None);
    }
    let undefined = || match builder.list(name) {
        None => bad(format!("node '{node}': nothing defines its input '{name}'")),
        Some(_) => lists::not_a_tensor(&format!("node '{node}': its input '{name}'")),
    };
    builder.named(name).map(Some).ok_or_else(undefined)
}

fn set_outputs(builder: &mut Builder<'_>, outputs: &[String]) -> Result<()> {
    if outputs.is_empty() {
        return Err(bad("the graph has no outputs".into()));
    }
    let mut seen = HashSet::new();
    for name in outputs {
        let undefined = || bad(format!("nothing defines the output '{name}'"));
        let id = builder.named(name).or_else(|| builder.list_value(name)).ok_or_else(undefined)?;
        // A body may hand a value on and give it as well.
        if !seen.insert(id) && builder.graph.body_of.is_none() {
            return Err(bad(format!("output '{name}' is listed twice")));
        }
        builder.graph.outputs.push(id);
    }
    Ok(())
}

pub(super) fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadGraph, message)
}
