//! Keeps bodies of control flow in step with the graphs around them: what is a constant outside is one inside, what no body
//! reads is not captured, a branch that is known to run stands in the place of its node, and bodies that no node runs go.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::infer::KnownElements;
use crate::dim;
use crate::ir::{Bodies, Graph, Model, Node, Value, ValueId};

/// Puts branches that are known to run in the places of their nodes; whether there were any.
pub(super) fn resolve(model: &mut Model, known: &[KnownElements]) -> bool {
    let mut changed = false;
    for (index, known) in known.iter().enumerate() {
        let nodes = std::mem::take(&mut model.entries[index].nodes);
        for node in nodes {
            match live_branch(&node, known) {
                Some(branch) => {
                    let branch = model.entries[branch].clone();
                    inline(&mut model.entries[index], &node, branch);
                    changed = true;
                }
                None => model.entries[index].nodes.push(node),
            }
        }
    }
    changed
}

/// The branch of an `If` that runs, where that is known.
fn live_branch(node: &Node, known: &KnownElements) -> Option<usize> {
    let bodies = node.bodies.as_ref().filter(|_| node.op == "If")?;
    let condition = known.get(&node.input(0)?)?.first()?.as_i64()?;
    bodies.graphs.get(usize::from(condition == 0)).copied()
}

/// Adds a branch to the graph in place of its node. Names in it are unique in the entry.
fn inline(graph: &mut Graph, node: &Node, branch: Graph) {
    let captured = node.inputs.iter().skip(1).copied().flatten();
    let mut places: HashMap<ValueId, ValueId> = branch.inputs.iter().copied().zip(captured).collect();
    for (index, value) in branch.values.into_iter().enumerate() {
        places.entry(ValueId(index)).or_insert_with(|| {
            graph.values.push(value);
            ValueId(graph.values.len() - 1)
        });
    }
    let moved =
        |ids: Vec<Option<ValueId>>| ids.into_iter().map(|id| id.and_then(|id| places.get(&id).copied())).collect();
    for inner in branch.nodes {
        let (inputs, outputs) = (moved(inner.inputs), moved(inner.outputs));
        graph.nodes.push(Node { inputs, outputs, ..inner });
    }
    for (index, (output, inner)) in node.outputs.iter().zip(branch.outputs).enumerate() {
        if output.is_some() {
            let name = format!("{}/output_{index}", node.name);
            let inputs = vec![places.get(&inner).copied()];
            graph.nodes.push(Node { name, op: "Identity".into(), inputs, outputs: vec![*output], ..Node::default() });
        }
    }
}

/// Drops what bodies do not read and bodies that no node runs, and makes constants of what is constant around them; whether
/// a node reads less than before.
pub(crate) fn settle(model: &mut Model) -> bool {
    let mut changed = false;
    // Each is behind the graph that runs it: what an inner one does not read, no graph around it needs.
    for index in (0..model.entries.len()).rev() {
        let mut graph = std::mem::take(&mut model.entries[index]);
        for node in &mut graph.nodes {
            let Some(mut bodies) = node.bodies.take() else { continue };
            changed |= settle_node(&graph.values, node, &mut bodies, &mut model.entries);
            node.bodies = Some(bodies);
        }
        model.entries[index] = graph;
    }
    drop_unused(model);
    changed
}

fn settle_node(values: &[Value], node: &mut Node, bodies: &mut Bodies, graphs: &mut [Graph]) -> bool {
    let mut changed = false;
    let own = node.inputs.len() - bodies.captured;
    let read: Vec<HashSet<ValueId>> = bodies.graphs.iter().map(|&body| read(&graphs[body])).collect();
    for position in (own..node.inputs.len()).rev() {
        // The last inputs of each body are those that are captured.
        let from_end = node.inputs.len() - position;
        let constant = node.inputs[position].map(|id| &values[id.0]).filter(|value| value.constant.is_some());
        let of = |graph: &Graph| graph.inputs[graph.inputs.len() - from_end];
        let unread = bodies.graphs.iter().zip(&read).all(|(&body, read)| !read.contains(&of(&graphs[body])));
        if !unread && constant.is_none() {
            continue;
        }
        for &body in &bodies.graphs {
            let graph = &mut graphs[body];
            let inner = graph.inputs.remove(graph.inputs.len() - from_end);
            if let Some(value) = constant {
                (graph.values[inner.0].constant, graph.values[inner.0].ty) = (value.constant.clone(), value.ty.clone());
            }
        }
        node.inputs.remove(position);
        bodies.captured -= 1;
        changed = true;
    }
    changed
}

/// Lets bodies capture, beside what they read, values that tell the sizes in them: so the sizes of a body follow from its inputs, as
/// those of any entry do. A value with `h*w` elements tells neither.
pub(crate) fn capture_sizes(model: &mut Model) {
    // What an inner body needs, the one around it captures too.
    for index in (0..model.entries.len()).rev() {
        let mut graph = std::mem::take(&mut model.entries[index]);
        let mut nodes = std::mem::take(&mut graph.nodes);
        for position in 0..nodes.len() {
            let (before, rest) = nodes.split_at_mut(position);
            let node = &mut rest[0];
            let Some(mut bodies) = node.bodies.take() else { continue };
            for &body in &bodies.graphs.clone() {
                while let Some(teller) = missing_size(&graph, before, &model.entries[body]) {
                    node.inputs.push(Some(teller));
                    bodies.captured += 1;
                    for &body in &bodies.graphs {
                        let value = graph.value(teller);
                        let inner = model.entries[body].add_value(value.name.clone(), value.ty.clone());
                        model.entries[body].inputs.push(inner);
                    }
                }
            }
            node.bodies = Some(bodies);
        }
        graph.nodes = nodes;
        model.entries[index] = graph;
    }
}

/// A value of the graph around a body that tells a size in it which its inputs do not tell; `before` are the nodes before the
/// one that runs it.
fn missing_size(graph: &Graph, before: &[Node], body: &Graph) -> Option<ValueId> {
    let shape = |graph: &Graph, id: ValueId| graph.value(id).ty.as_ref().map_or_else(Vec::new, |ty| ty.shape.clone());
    let inputs: Vec<_> = body.inputs.iter().map(|&id| shape(body, id)).collect();
    let told = dim::told(inputs.iter().map(Vec::as_slice));
    let within: BTreeSet<String> = body
        .nodes
        .iter()
        .flat_map(|node| node.inputs.iter().chain(&node.outputs).flatten())
        .flat_map(|&id| dim::symbols(&shape(body, id)).collect::<Vec<_>>())
        .filter(|symbol| !told.contains(symbol))
        .collect();
    let made = before.iter().flat_map(|node| node.outputs.iter().flatten().copied());
    let tellers: Vec<ValueId> = graph.inputs.iter().copied().chain(made).collect();
    within.iter().find_map(|symbol| {
        let tells =
            |id: &ValueId| shape(graph, *id).iter().any(|size| dim::teaches(size, &told).as_ref() == Some(symbol));
        tellers.iter().copied().find(tells)
    })
}

/// What the nodes of a graph read, and its outputs.
fn read(graph: &Graph) -> HashSet<ValueId> {
    let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    read.chain(&graph.outputs).copied().collect()
}

/// Drops the bodies that no node runs.
fn drop_unused(model: &mut Model) {
    let mut wanted: Vec<bool> = model.entries.iter().map(|graph| graph.body_of.is_none()).collect();
    for index in 0..wanted.len() {
        let inner = model.entries[index].nodes.iter().filter_map(|node| node.bodies.as_ref());
        if wanted[index] {
            inner.flat_map(|bodies| &bodies.graphs).for_each(|&body| wanted[body] = true);
        }
    }
    if wanted.iter().all(|&wanted| wanted) {
        return;
    }
    let number = |old: usize| wanted[..old].iter().filter(|&&wanted| wanted).count();
    let bodies = model.entries.iter_mut().flat_map(|graph| &mut graph.nodes).filter_map(|node| node.bodies.as_mut());
    bodies.flat_map(|bodies| &mut bodies.graphs).for_each(|body| *body = number(*body));
    let mut index = 0;
    model.entries.retain(|_| {
        index += 1;
        wanted[index - 1]
    });
}
