//! Nodes that tell sizes: the size of an output is known only when the node has run. Each is a region by itself, so that every
//! other region has sizes that follow from its inputs'.

use std::collections::{BTreeSet, HashSet};

use byoc_plugin_api::{Refusal, RefusalCode};

use super::RegionPlan;
use crate::dim;
use crate::ir::{Graph, TensorType, Value, ValueId};
use crate::passes::infer::input_symbols;
use crate::plugin::Selected;

/// For each node of a graph the first output that has such a size.
pub(super) fn sizing(graph: &Graph) -> Vec<Option<ValueId>> {
    let mut known: HashSet<String> = input_symbols(graph);
    let mut sizing = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let symbols = |value: &ValueId| graph.value(*value).ty.iter().flat_map(|ty| dim::symbols(&ty.shape));
        let mut outputs = node.outputs.iter().flatten().copied();
        let first = outputs.find(|value| symbols(value).any(|symbol| !known.contains(&symbol)));
        if first.is_some() {
            known.extend(node.outputs.iter().flatten().flat_map(symbols));
        }
        sizing.push(first);
    }
    sizing
}

/// Why a backend does not get nodes of which one tells a size.
pub(super) fn refusal(
    graph: &Graph,
    sizing: &[Option<ValueId>],
    nodes: &BTreeSet<usize>,
    selected: &Selected,
) -> Option<Refusal> {
    let (node, value) = nodes.iter().find_map(|&node| Some((node, sizing[node]?)))?;
    let name = &graph.value(value).name;
    let refusal = |cause: &str| {
        Some(Refusal::new(RefusalCode::Shape, format!("the size of '{name}' is known only at run time{cause}")))
    };
    let description = &selected.registered.description;
    if !description.run_time_sizes || description.domain.is_some() {
        return refusal("");
    }
    let reads = |other: &usize| {
        let mut made = graph.nodes[node].outputs.iter().flatten();
        made.any(|value| graph.nodes[*other].inputs.contains(&Some(*value)))
    };
    if nodes.iter().any(reads) {
        return refusal(", and another node of the match reads it");
    }
    None
}

/// Gives a region further inputs where those that it has do not tell all sizes in it, if its backend wants them: values that
/// have such a size by itself, which nothing in the region reads. A border may cut what has only `h*w` elements off from what
/// has `h` rows, or a list of sizes from the tensor that it was read from.
pub(super) fn tell_sizes(graph: &Graph, sizing: &[Option<ValueId>], selected: &Selected, plan: &mut RegionPlan) {
    let alone = plan.nodes.iter().any(|&node| sizing[node].is_some());
    if alone || !selected.registered.description.regions.size_inputs {
        return;
    }
    let region = &mut plan.region;
    loop {
        let known = dim::told(region.inputs.iter().map(|&input| region.values[input].shape.as_slice()));
        let missing =
            region.values.iter().flat_map(|value| dim::symbols(&value.shape)).find(|name| !known.contains(name));
        let Some(missing) = missing else { return };
        let tells = |value: &ValueId| {
            let known_type = |ty: &&TensorType| selected.registered.description.knows(ty.dtype);
            let ty = graph.value(*value).ty.as_ref().filter(known_type);
            ty.is_some_and(|ty| ty.shape.iter().any(|size| dim::teaches(size, &known).as_ref() == Some(&missing)))
        };
        // Whoever tells a size first is before all that has it.
        let made = graph.nodes.iter().zip(sizing).filter(|(_, told)| told.is_some());
        let made = made.flat_map(|(node, _)| node.outputs.iter().flatten().copied());
        let fits = |value: &ValueId| !plan.inputs.contains(value) && tells(value);
        let Some(teller) = graph.inputs.iter().copied().chain(made).find(fits) else { return };
        let Value { name, ty, .. } = graph.value(teller).clone();
        let Some(TensorType { dtype, shape }) = ty else { return };
        region.inputs.push(region.values.len());
        region.values.push(byoc_plugin_api::Value { name, dtype, shape });
        plan.inputs.push(teller);
    }
}
