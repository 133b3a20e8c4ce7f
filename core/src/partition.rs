//! Stage 4: cuts each graph into regions, in the order in which the user named the backends.

mod choose;
mod groups;
mod matcher;
mod merge;
mod outline;
mod quantized;
mod reason;
mod report;
mod run_time;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use byoc_plugin_api::{Constant, Region};

use self::choose::BackendPatterns;
use self::groups::Groups;
use self::outline::{Naming, Uses};
pub use self::reason::Reason;
pub(crate) use self::report::nodes_of_unknown;
pub(crate) use self::report::untaken_calls;
pub(crate) use self::report::unused;
pub use self::report::{Attempt, NodeRow, Outcome, explain};
use crate::constants::ConstantRef;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Model, TypedModel, ValueId, node_text};
use crate::plugin::Selected;

/// A region and where it came from.
#[derive(Clone, Debug)]
pub struct RegionPlan {
    /// Index into [`Model::entries`].
    pub entry: usize,
    /// Index of the backend in the list the user gave.
    pub backend: usize,
    /// Nodes of the entry's graph.
    pub nodes: BTreeSet<usize>,
    /// What the backend sees.
    pub region: Region,
    /// The constants of the region, parallel to [`Region::constants`].
    pub constants: Vec<ConstantRef>,
    /// Values of the entry's graph, parallel to [`Region::inputs`].
    pub inputs: Vec<ValueId>,
    /// Values of the entry's graph, parallel to [`Region::outputs`].
    pub outputs: Vec<ValueId>,
}

impl RegionPlan {
    /// The region's constants, each with what the model has for it.
    pub fn constants(&self) -> impl Iterator<Item = (&Constant, &ConstantRef)> {
        self.region.constants.iter().zip(&self.constants)
    }
}

/// A node of control flow, which core runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlan {
    /// Index into [`Model::entries`].
    pub entry: usize,
    /// The node of the entry's graph.
    pub node: usize,
    /// How many of the entry's regions run before it.
    pub before: usize,
}

/// A model whose nodes are in regions. The regions of an entry are in an order in which they can run.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The graphs and constants.
    pub model: Arc<Model>,
    /// The regions of all entries.
    pub regions: Vec<RegionPlan>,
    /// The control flow of all entries, in an order in which it can run.
    pub control: Vec<ControlPlan>,
    /// The attempts, for `explain`.
    pub attempts: Vec<Attempt>,
    /// Nodes that no backend takes, as (entry, node). Code can be generated only when there is none.
    pub left_over: Vec<(usize, usize)>,
    /// Calls of the model's own functions that no backend takes whole, which their bodies replace.
    pub expanded: Vec<NodeRow>,
}

/// Nodes that are kept from a backend: its process ended while it compiled them.
#[derive(Clone, Debug)]
pub struct Avoid {
    /// Index into [`Model::entries`].
    pub entry: usize,
    /// Index of the backend in the list the user gave.
    pub backend: usize,
    /// Names of nodes of the entry's graph: indices change where calls of functions are expanded.
    pub nodes: BTreeSet<String>,
}

/// Handling of backends whose process ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashes<'a> {
    /// The crashes so far.
    pub avoid: &'a [Avoid],
    /// Whether a crash in `check` counts as a refusal instead of an error.
    pub tolerated: bool,
}

/// The model as it is cut into regions for these backends: each reader of a `DequantizeLinear` has its own where a pattern has
/// quantised operands.
pub(crate) fn parted_for(typed: TypedModel, backends: &[Selected]) -> Result<TypedModel> {
    Ok(parted(typed, &BackendPatterns::all(backends)?))
}

/// The same whatever the backends take: it has the values of any artifact of the model.
pub(crate) fn parted_for_all(typed: TypedModel) -> TypedModel {
    let mut model = typed.0;
    if model.entries.iter().any(quantized::shares) {
        Arc::make_mut(&mut model).entries.iter_mut().for_each(quantized::part);
    }
    TypedModel(model)
}

fn parted(typed: TypedModel, patterns: &[BackendPatterns<'_>]) -> TypedModel {
    let mut model = typed.0;
    if patterns.iter().any(BackendPatterns::takes_quantised) && model.entries.iter().any(quantized::shares) {
        Arc::make_mut(&mut model).entries.iter_mut().for_each(quantized::part);
    }
    TypedModel(model)
}

/// Gives every node to the first backend of the list that takes it.
pub fn partition(typed: TypedModel, backends: &[Selected], crashes: &Crashes<'_>) -> Result<Partitioned> {
    let patterns = BackendPatterns::all(backends)?;
    let model = parted(typed, &patterns).0;
    let mut regions = Vec::new();
    let mut attempts = Vec::new();
    let mut left_over = Vec::new();
    let mut control = Vec::new();
    let mut numbers = vec![0; backends.len()];
    for (entry, graph) in model.entries.iter().enumerate() {
        // Regions of bodies are numbered with those of their entry, whose bodies are behind it.
        if graph.body_of.is_none() {
            numbers.fill(0);
        }
        let first = regions.len();
        let mut groups = Groups::new(graph);
        for (backend, (selected, asked)) in backends.iter().zip(&patterns).enumerate() {
            if selected.registered.description.host {
                choose::give_back_no_ops(graph, entry, &backends[..backend], &mut groups, &mut attempts);
            }
            choose::choose(&model, entry, asked, crashes, &mut groups, &mut attempts)?;
        }
        let (uses, sizing) = (Uses::of(graph), groups.sizing());
        for group in groups.order() {
            let nodes = &groups.groups[group].nodes;
            let Some(backend) = groups.groups[group].backend else {
                left_over.extend(nodes.iter().map(|&node| (entry, node)));
                continue;
            };
            if backend == groups::CORE {
                let before = regions.len() - first;
                control.extend(nodes.iter().map(|&node| ControlPlan { entry, node, before }));
                continue;
            }
            let naming = Naming { entry: graph.entry(), backend: backends[backend].name(), number: numbers[backend] };
            let mut plan = outline::outline(&model, entry, backend, nodes, &uses, naming)?;
            run_time::tell_sizes(graph, &sizing, &backends[backend], &mut plan);
            regions.push(plan);
            numbers[backend] += 1;
        }
    }
    left_over.sort_unstable();
    Ok(Partitioned { model, regions, control, attempts, left_over, expanded: Vec::new() })
}

/// The given nodes of an entry as groups that `backend` takes, in topological order.
pub(crate) fn groups_for(
    model: &Model,
    entry: usize,
    backend: &Selected,
    nodes: &BTreeSet<usize>,
) -> Result<Vec<BTreeSet<usize>>> {
    let mut groups = Groups::new(&model.entries[entry]);
    groups.reserve_others(nodes);
    for asked in BackendPatterns::all(std::slice::from_ref(backend))? {
        choose::choose(model, entry, &asked, &Crashes::default(), &mut groups, &mut Vec::new())?;
    }
    let order = groups.order().into_iter().filter(|&group| groups.groups[group].backend == Some(0));
    Ok(order.map(|group| groups.groups[group].nodes.clone()).collect())
}

/// The region of some nodes of an entry, to be computed ahead of time.
pub(crate) fn outline_for(
    model: &Model,
    entry: usize,
    backend: &Selected,
    nodes: &BTreeSet<usize>,
) -> Result<RegionPlan> {
    let naming = Naming { entry: model.entries[entry].entry(), backend: backend.name(), number: 0 };
    outline::outline(model, entry, 0, nodes, &Uses::of(&model.entries[entry]), naming)
}

impl Partitioned {
    /// Errors when a node is in no region, naming the first with the reason of the last backend that looked at it.
    pub fn require_complete(&self, backends: &[Selected]) -> Result<()> {
        if self.left_over.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = backends.iter().map(Selected::name).collect();
        let rows = explain(self, backends);
        let mut untaken = rows.iter().filter(|row| row.taken.is_none() && !row.expanded);
        // A backend that looked at the node has more to say than one that has no pattern for it.
        let telling = |row: &NodeRow| {
            let looked = row.refused.iter().rev().find(|(_, reason)| *reason != Reason::NoPattern);
            looked.or(row.refused.last()).cloned()
        };
        let Some(first) = untaken.next() else { return Ok(()) };
        let more = match untaken.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let mut text = format!("node '{}' ({}){more}", first.node, first.op);
        if let Some((backend, reason)) = telling(first) {
            text += &format!(": {backend}: {reason}");
        }
        let message = format!("no backend of the list {} takes {text}", names.join(","));
        let error = Diagnostic::new(Code::NoBackend, message);
        Err(if backends.iter().any(|selected| selected.registered.description.host) {
            error.hint("See byoc explain for every node")
        } else {
            error.hint("Add a host backend at the end of the list; byoc plugin list shows what there is")
        })
    }
}

/// The text form: each region with its nodes, in running order.
pub(crate) fn print(partitioned: &Partitioned, backends: &[Selected]) -> String {
    let mut text = String::new();
    for plan in &partitioned.regions {
        let graph = &partitioned.model.entries[plan.entry];
        text += &format!("region {} on {}\n", plan.region.symbol, backends[plan.backend].name());
        for &node in &plan.nodes {
            text += &format!("  {}\n", node_text(&partitioned.model, graph, &graph.nodes[node]));
        }
    }
    for &ControlPlan { entry, node, before } in &partitioned.control {
        let graph = &partitioned.model.entries[entry];
        let what = if graph.nodes[node].bodies.is_some() { "control flow" } else { "a sequence" };
        text += &format!("{what} behind {before} regions of {}\n", graph.name);
        text += &format!("  {}\n", node_text(&partitioned.model, graph, &graph.nodes[node]));
    }
    for &(entry, node) in &partitioned.left_over {
        let graph = &partitioned.model.entries[entry];
        text += &format!("unassigned\n  {}\n", node_text(&partitioned.model, graph, &graph.nodes[node]));
    }
    text
}

#[cfg(test)]
pub(crate) mod testing {
    //! Small graphs for the tests of this stage.

    use byoc_plugin_api::{DType, Dim};

    use crate::constants::{ConstantRef, ConstantTable, View};
    use crate::ir::{Graph, Node, TensorType, ValueId};

    /// A graph of nodes given as (operator, inputs, outputs); all values are f32 of shape [2].
    pub(crate) fn graph(inputs: &[&str], nodes: &[(&str, Vec<&str>, Vec<&str>)], outputs: &[&str]) -> Graph {
        let mut graph = Graph { name: "main".into(), ..Graph::default() };
        let id = |graph: &mut Graph, name: &str| -> ValueId {
            if let Some(index) = graph.values.iter().position(|value| value.name == name) {
                return ValueId(index);
            }
            let ty = TensorType { dtype: DType::F32, shape: vec![Dim::Fixed(2)] };
            graph.add_value(name, Some(ty))
        };
        graph.inputs = inputs.iter().map(|name| id(&mut graph, name)).collect();
        for (index, (op, inputs, outputs)) in nodes.iter().enumerate() {
            let inputs = inputs.iter().map(|name| Some(id(&mut graph, name))).collect();
            let outputs = outputs.iter().map(|name| Some(id(&mut graph, name))).collect();
            let name = format!("{op}_{index}");
            graph.nodes.push(Node { name, op: (*op).to_owned(), inputs, outputs, ..Node::default() });
        }
        graph.outputs = outputs.iter().map(|name| id(&mut graph, name)).collect();
        graph
    }

    /// Makes a value a constant, for matching only: its bytes are in no table.
    pub(crate) fn constant(graph: &mut Graph, name: &str) {
        let base = ConstantTable::default().insert(name, DType::F32, &[2], vec![0, 0, 0, 0, 1, 0, 0, 0].into()).base;
        let value = graph.values.iter_mut().find(|value| value.name == name).expect("a value of that name");
        value.constant = Some(ConstantRef { base, view: View::contiguous(&[2]) });
    }
}
