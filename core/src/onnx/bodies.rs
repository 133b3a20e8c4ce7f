//! Bodies of control flow as graphs of their own. What a body reads of the graphs around it becomes an input of its node and of
//! the body, a constant excepted, which it refers to like any reader. `Loop` always gets its limit and its condition.

use std::collections::HashSet;

use byoc_plugin_api::DType;

use super::builder::{Builder, Captured, Holds, List};
use super::early_types::EarlyType;
use super::flatten::{FlatBody, FlatNode};
use super::graph::{Contents, Importer};
use super::proto::ValueInfoProto;
use super::sort;
use super::values::defined;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Bodies, Graph, Node, ValueId};
use crate::ops::{attributes, control};

/// The names of the values around a node that its bodies read, in the order of first use.
pub(super) fn captured(node: &FlatNode) -> Vec<&str> {
    let mut names = Vec::new();
    let mut seen = HashSet::new();
    for body in &node.bodies {
        let own: HashSet<&str> = defined(&body.graph)
            .chain(body.nodes.iter().flat_map(|node| node.outputs.iter().map(String::as_str)))
            .collect();
        let inner = body.nodes.iter().flat_map(|node| {
            let inputs = node.inputs.iter().map(String::as_str);
            inputs.chain(captured(node)).collect::<Vec<_>>()
        });
        let outputs = body.graph.output.iter().filter_map(|info| info.name.as_deref());
        let free = inner.chain(outputs).filter(|name| !name.is_empty() && !own.contains(name));
        names.extend(free.filter(|&name| seen.insert(name)));
    }
    names
}

/// Adds a node of control flow with its bodies.
pub(super) fn add(
    builder: &mut Builder<'_>,
    importer: &mut Importer<'_>,
    mut node: Node,
    flat: (i64, Vec<FlatBody>, Vec<String>),
) -> Result<()> {
    let (version, bodies, captured) = flat;
    let Some(def) = control::find(&node.domain, &node.op) else { return Ok(()) };
    let place = |error: Diagnostic| error.within(format!("node '{}'", node.name));
    let names = node.attributes.keys().map(String::as_str);
    attributes::check_names_of(&node.op, def.attributes, version, names).map_err(place)?;
    // A Scan over sequences only, which has its directions under their former name (`flatten::batch_scan`).
    if let Some(directions) = node.attributes.remove("directions") {
        node.attributes.insert("scan_input_directions".into(), directions);
    }
    if version < def.since {
        let cause = format!("node '{}': operator {} version {version} is not supported", node.name, node.op);
        return Err(Diagnostic::new(Code::UnknownOperator, cause).hint("Export the model with a newer operator set"));
    }
    check_counts(def, &node)?;
    complete_loop(builder, &mut node);
    let own = node.inputs.len();
    // The nodes are in order: what a body reads is there.
    let mut around: Vec<(String, ValueId)> =
        captured.iter().filter_map(|name| builder.named(name).map(|id| (name.clone(), id))).collect();
    let lists = captured_lists(builder, &captured, &mut around);
    let variable = |id: &ValueId| builder.graph.value(*id).constant.is_none();
    node.inputs.extend(around.iter().map(|(_, id)| *id).filter(variable).map(Some));
    let captured = |(name, id): (String, ValueId)| Captured {
        name,
        value: builder.graph.value(id).clone(),
        early_type: builder.early_type(id),
        holds: builder.holds(id),
    };
    let around: Vec<Captured> = around.into_iter().map(captured).collect();
    let formals = formals(builder, &node, own)?;
    let mut graphs = Vec::with_capacity(bodies.len());
    let mut holds = Vec::new();
    for body in bodies {
        let path = match def.bodies.len() {
            1 => format!("{}/", node.name),
            _ => format!("{}/{}/", node.name, body.attribute),
        };
        let index = importer.reserve();
        let mut inner = builder.body(path);
        add_formals(&mut inner, &node, &body.graph.input, &formals)?;
        around.iter().for_each(|captured| inner.add_captured(captured));
        for (name, list, elements) in &lists {
            let values = elements.iter().filter_map(|element| inner.named(element)).collect();
            inner.add_list(name, list.with(values));
        }
        let (graph, given) = build(inner, importer, body)?;
        check_outputs(&node, own, &graph)?;
        importer.put(index, graph);
        graphs.push(index);
        holds = given;
    }
    if node.op == "Loop" {
        // Its condition is no output of the node.
        holds.remove(0);
    }
    if node.op != "SequenceMap" {
        node.outputs.iter().zip(holds).for_each(|(id, holds)| id.iter().for_each(|&id| builder.set_holds(id, holds)));
    }
    node.bodies = Some(Bodies { captured: node.inputs.len() - own, graphs });
    builder.push(node);
    Ok(())
}

/// The sequences among the captured names, each with the names of its elements, which are read as well.
fn captured_lists(
    builder: &Builder<'_>,
    captured: &[String],
    around: &mut Vec<(String, ValueId)>,
) -> Vec<(String, List, Vec<String>)> {
    let mut name_of = |id: ValueId| match around.iter().find(|(_, other)| *other == id) {
        Some((name, _)) => name.clone(),
        None => {
            // No name of a model has this character.
            let name = format!("\0{}", id.0);
            around.push((name.clone(), id));
            name
        }
    };
    let lists = captured.iter().filter_map(|name| Some((name, builder.list(name)?)));
    lists
        .map(|(name, list)| (name.clone(), list.clone(), list.values().iter().map(|&id| name_of(id)).collect()))
        .collect()
}

/// The graph of a body, and what its outputs hold.
fn build(mut builder: Builder<'_>, importer: &mut Importer<'_>, body: FlatBody) -> Result<(Graph, Vec<Option<Holds>>)> {
    let FlatBody { mut graph, nodes, .. } = body;
    let initializers = super::graph::initializers(&mut graph)?;
    let given =
        |name: &str| initializers.contains_key(name) || builder.named(name).is_some() || builder.list(name).is_some();
    let nodes = sort::topological(nodes, given)?;
    let outputs = graph.output.into_iter().map(|output| output.name.unwrap_or_default()).collect();
    importer.fill(&mut builder, Contents { initializers, inputs: vec![], nodes, outputs })?;
    builder.graph.calls = importer.calls.clone();
    let holds = builder.graph.outputs.iter().map(|&id| builder.holds(id)).collect();
    Ok((builder.graph, holds))
}

fn check_counts(def: &control::ControlDef, node: &Node) -> Result<()> {
    let (least, most) = def.inputs;
    if node.inputs.len() < least || node.inputs.len() > most {
        let (name, op, count) = (&node.name, &node.op, node.inputs.len());
        let range = if least == most { format!("{least}") } else { format!("at least {least}") };
        return Err(Diagnostic::new(
            Code::BadNode,
            format!("node '{name}' ({op}): has {count} inputs, expected {range}"),
        ));
    }
    let optional = if node.op == "Loop" { 2 } else { 0 };
    if let Some(absent) = node.inputs.iter().skip(optional).position(Option::is_none) {
        let (name, op, absent) = (&node.name, &node.op, absent + optional);
        let cause = format!("node '{name}' ({op}): input {absent} is absent, but the operator needs it");
        return Err(Diagnostic::new(Code::BadNode, cause));
    }
    Ok(())
}

/// Without a limit a `Loop` runs while its condition holds, without a condition up to its limit.
fn complete_loop(builder: &mut Builder<'_>, node: &mut Node) {
    if node.op != "Loop" {
        return;
    }
    node.inputs.resize(node.inputs.len().max(2), None);
    if node.inputs[0].is_none() {
        node.inputs[0] = Some(builder.scalar(&node.name, "limit", DType::I64, &i64::MAX.to_le_bytes()));
    }
    if node.inputs[1].is_none() {
        node.inputs[1] = Some(builder.scalar(&node.name, "condition", DType::Bool, &[1]));
    }
}

/// What is known early of an input of a body.
type Formal = (EarlyType, Option<Holds>);

/// What is known early of the inputs that a body has of its own; `own` inputs of the node are not captured.
fn formals(builder: &Builder<'_>, node: &Node, own: usize) -> Result<Vec<Formal>> {
    let given = node.inputs[..own].iter().flatten().map(|&id| (builder.early_type(id), builder.holds(id)));
    let given: Vec<Formal> = given.collect();
    Ok(match node.op.as_str() {
        "Loop" => {
            let scalar = |dtype| (EarlyType { rank: Some(0), dtype: Some(dtype) }, None);
            [scalar(DType::I64), scalar(DType::Bool)].into_iter().chain(given.into_iter().skip(2)).collect()
        }
        "Scan" => {
            let scanned = node.int("num_scan_inputs", 0);
            let states = usize::try_from(scanned).ok().and_then(|scanned| own.checked_sub(scanned));
            let states = states.filter(|_| scanned > 0).ok_or_else(|| {
                let cause = format!(
                    "node '{}' (Scan): attribute 'num_scan_inputs' is {scanned}, and it has {own} inputs",
                    node.name
                );
                Diagnostic::new(Code::BadNode, cause)
            })?;
            let sliced = |(index, (ty, holds)): (usize, Formal)| {
                let rank = ty.rank.and_then(|rank| if index < states { Some(rank) } else { rank.checked_sub(1) });
                (EarlyType { rank, dtype: ty.dtype }, holds)
            };
            given.into_iter().enumerate().map(sliced).collect()
        }
        // It gets an element of each sequence.
        "SequenceMap" => {
            let element = |(ty, holds): Formal| (holds.map_or(ty, |_| EarlyType::default()), None);
            given.into_iter().map(element).collect()
        }
        _ => Vec::new(),
    })
}

fn add_formals(builder: &mut Builder<'_>, node: &Node, declared: &[ValueInfoProto], formals: &[Formal]) -> Result<()> {
    if declared.len() != formals.len() {
        let (name, op, has, expected) = (&node.name, &node.op, declared.len(), formals.len());
        let cause = format!("node '{name}' ({op}): its body has {has} inputs, expected {expected}");
        return Err(Diagnostic::new(Code::BadNode, cause));
    }
    for (info, &(early_type, holds)) in declared.iter().zip(formals) {
        let name = info.name.as_deref().unwrap_or_default();
        if name.is_empty() || builder.named(name).is_some() {
            let cause = format!(
                "node '{}' ({}): two inputs of its body are called '{name}', or one has no name",
                node.name, node.op
            );
            return Err(Diagnostic::new(Code::BadNode, cause));
        }
        builder.add_formal(name, early_type, holds);
    }
    Ok(())
}

fn check_outputs(node: &Node, own: usize, body: &Graph) -> Result<()> {
    let (name, op, has) = (&node.name, &node.op, body.outputs.len());
    let bad = |cause: String| Err(Diagnostic::new(Code::BadNode, format!("node '{name}' ({op}): {cause}")));
    // The condition and the carried values, or the states.
    let least = match op.as_str() {
        "Loop" => own - 1,
        "Scan" => own - usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(own),
        _ => node.outputs.len(),
    };
    if has < least {
        return bad(format!("its body has {has} outputs, expected at least {least}"));
    }
    let most = has - usize::from(op == "Loop");
    let all = matches!(op.as_str(), "If" | "SequenceMap");
    if node.outputs.len() > most || all && node.outputs.len() != most {
        return bad(format!("has {} outputs, and its body gives {most}", node.outputs.len()));
    }
    Ok(())
}
