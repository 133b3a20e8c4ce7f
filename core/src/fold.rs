//! Constant folding. Core has no kernels: foldable nodes are compiled for a host backend and run there, through the same
//! interface as any region.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{DType, Dim, Error, INLINE_BYTES, SizedOutputs, TensorViewMut, Value};
use bytes::Bytes;

use crate::compute::{Compiled, Tensor};
use crate::constants::{BaseId, ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, Node, TensorType, TypedModel, ValueId};
use crate::ops;
use crate::partition::{self, RegionPlan};
use crate::passes::{self, Round};
use crate::plugin::{Selected, crashed};
use crate::spool::Spool;

/// Results up to this many bytes are always folded.
const SMALL_BYTES: usize = 64 << 10;

/// Stage 3: types for every value, nodes complete, constants folded, dead nodes gone. Without a `folding_backend`
/// nothing is computed; shapes and views still fold. Large results go to `spool`.
pub(crate) fn simplify(mut model: Model, folding_backend: Option<&Selected>, spool: &mut Spool) -> Result<TypedModel> {
    // A folded shape can make further shapes known, so the passes run to a fixed point.
    loop {
        let Round { mut changed, failed } = passes::infer_and_fold_views(&mut model)?;
        passes::complete(&mut model);
        if let Some(folding_backend) = folding_backend {
            for entry in 0..model.entries.len() {
                changed |= fold_entry(&mut model, entry, folding_backend, spool)?;
            }
        }
        passes::prune(&mut model);
        changed |= passes::settle_bodies(&mut model);
        if !changed {
            passes::capture_sizes(&mut model);
            return failed.map_or(Ok(TypedModel(model.into())), Err);
        }
    }
}

/// Folds the nodes of an entry; false if there were none.
fn fold_entry(model: &mut Model, entry: usize, folding_backend: &Selected, spool: &mut Spool) -> Result<bool> {
    let nodes = foldable(model, entry);
    if nodes.is_empty() {
        return Ok(false);
    }
    let mut done = BTreeSet::new();
    for nodes in partition::groups_for(model, entry, folding_backend, &nodes)? {
        let plan = partition::outline_for(model, entry, folding_backend, &nodes)?;
        let results = evaluate(&model.constants, &plan, folding_backend, spool)?;
        for ((bytes, ty), &value) in results.into_iter().zip(&plan.outputs) {
            let shape = ty.fixed_shape().unwrap_or_default();
            let name = model.entries[entry].value(value).name.clone();
            let constant = model.constants.insert(&name, ty.dtype, &shape, bytes);
            let value = &mut model.entries[entry].values[value.0];
            (value.constant, value.ty) = (Some(constant), Some(ty));
        }
        model.folded.extend(plan.constants.iter().map(|constant| constant.base));
        done.extend(nodes);
    }
    let mut index = 0;
    model.entries[entry].nodes.retain(|_| {
        index += 1;
        !done.contains(&(index - 1))
    });
    Ok(!done.is_empty())
}

/// Nodes that depend on constants only and whose results are worth storing: small ones, and those that replace constants
/// of as many bytes. Weights that stand quantised in the model stay so. No constant beyond a few bytes is folded while it has other readers, for then the file
/// would hold it in both forms.
fn foldable(model: &Model, entry: usize) -> BTreeSet<usize> {
    let graph = &model.entries[entry];
    let readings = readings(model);
    let mut nodes = BTreeSet::new();
    let mut folded: HashSet<ValueId> = HashSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let known = |value: &ValueId| graph.value(*value).constant.is_some() || folded.contains(value);
        // Core does not know custom operators, no backend runs control flow, and random numbers are drawn by each run.
        let known_operator = ops::find(&node.domain, &node.op).is_some_and(|def| !def.is_random(node));
        // No file holds texts but as what makes them.
        let text = |value: &ValueId| graph.value(*value).ty.as_ref().is_some_and(|ty| ty.dtype == DType::String);
        if node.outputs.iter().flatten().any(text) {
            continue;
        }
        // A branch that never runs has no types; it goes when its `If` does.
        let typed = |value: &ValueId| graph.value(*value).ty.is_some();
        if !node.inputs.iter().chain(&node.outputs).flatten().all(typed) {
            continue;
        }
        if !known_operator || passes::widens_weight(graph, node) || !node.inputs.iter().flatten().all(known) {
            continue;
        }
        let Some(bytes) = node.outputs.iter().flatten().map(|&value| bytes(graph, value)).sum::<Option<usize>>() else {
            // It tells sizes. What reads it waits for the next round, when they are known.
            if tells_little(model, graph, node) {
                nodes.insert(index);
            }
            continue;
        };
        if freed(model, graph, node, &readings).is_some_and(|freed| bytes <= freed.max(SMALL_BYTES)) {
            nodes.insert(index);
            folded.extend(node.outputs.iter().flatten());
        }
    }
    nodes
}

/// Whether all that a node reads are small constants. Operators that tell sizes when those are known choose among them.
fn tells_little(model: &Model, graph: &Graph, node: &Node) -> bool {
    let sizes = node.inputs.iter().flatten().map(|&value| {
        let constant = graph.value(value).constant.as_ref()?;
        Some(model.constants.get(constant.base).bytes.len())
    });
    sizes.sum::<Option<usize>>().is_some_and(|bytes| bytes <= SMALL_BYTES)
}

/// The bytes of the constants that folding the node makes unused; `None` where one keeps a reader.
fn freed(model: &Model, graph: &Graph, node: &Node, readings: &HashMap<BaseId, HashSet<Reading<'_>>>) -> Option<usize> {
    let mut freed = 0;
    for &value in node.inputs.iter().flatten() {
        let Some(constant) = &graph.value(value).constant else {
            // Computed in this round; a large result waits for the next one, when it is a constant with readers.
            bytes(graph, value).filter(|&bytes| bytes <= INLINE_BYTES)?;
            continue;
        };
        let size = model.constants.get(constant.base).bytes.len();
        if size > INLINE_BYTES && readings.get(&constant.base).is_none_or(|readings| readings.len() != 1) {
            return None;
        }
        freed += size;
    }
    Some(freed)
}

/// A use of a constant: equal uses fold to equal results.
#[derive(PartialEq, Eq, Hash)]
enum Reading<'a> {
    /// An operator, its attributes, and its inputs where they are constants.
    Node { domain: &'a str, op: &'a str, attributes: String, inputs: Vec<Option<&'a ConstantRef>> },
    /// An output of an entry.
    Output,
}

/// The different ways in which each base is read, over all entries.
fn readings(model: &Model) -> HashMap<BaseId, HashSet<Reading<'_>>> {
    let mut readings: HashMap<BaseId, HashSet<Reading<'_>>> = HashMap::new();
    for graph in &model.entries {
        for node in &graph.nodes {
            let constant = |value: &Option<ValueId>| graph.value((*value)?).constant.as_ref();
            let inputs: Vec<_> = node.inputs.iter().map(constant).collect();
            for found in inputs.iter().flatten() {
                let reading = Reading::Node {
                    domain: &node.domain,
                    op: &node.op,
                    attributes: format!("{:?}", node.attributes),
                    inputs: inputs.clone(),
                };
                readings.entry(found.base).or_default().insert(reading);
            }
        }
        for constant in graph.outputs.iter().filter_map(|&output| graph.value(output).constant.as_ref()) {
            readings.entry(constant.base).or_default().insert(Reading::Output);
        }
    }
    readings
}

fn bytes(graph: &Graph, value: ValueId) -> Option<usize> {
    let ty = graph.value(value).ty.as_ref()?;
    ty.dtype.bytes_of(&ty.fixed_shape()?)
}

/// The outputs of a region whose inputs are all constants. Large ones are in the spool.
fn evaluate(
    table: &ConstantTable,
    plan: &RegionPlan,
    folding_backend: &Selected,
    spool: &mut Spool,
) -> Result<Vec<(Bytes, TensorType)>> {
    let failed = |error| failed(plan, folding_backend, error);
    let compiled = Compiled::new(table, plan, folding_backend, spool, &failed)?;
    if plan.region.tells_sizes() {
        let mut told = Told {
            values: plan.region.outputs.iter().map(|&value| &plan.region.values[value]).collect(),
            results: Vec::new(),
        };
        told.results.resize_with(told.values.len(), || None);
        compiled.load().and_then(|mut executable| executable.run_sized(&[], &mut told)).map_err(failed)?;
        let results = told.results.into_iter().collect::<Option<Vec<_>>>();
        let results = results.ok_or_else(|| failed(Error::new("an output was not given")))?;
        return results.into_iter().map(|result| keep(result, spool)).collect();
    }
    let outputs = plan.region.outputs.iter().map(|&value| Tensor::zeros(&plan.region.values[value]));
    let mut results = outputs.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
    let mut views: Vec<_> = results.iter_mut().map(Tensor::view_mut).collect();
    compiled.load().and_then(|mut executable| executable.run(&[], &mut views)).map_err(failed)?;
    results.into_iter().map(|result| keep(result, spool)).collect()
}

/// The outputs of a region that tells their sizes.
struct Told<'a> {
    values: Vec<&'a Value>,
    results: Vec<Option<Tensor>>,
}

impl SizedOutputs for Told<'_> {
    fn allocate(&mut self, output: usize, shape: &[i64]) -> std::result::Result<TensorViewMut<'_>, Error> {
        let value = self.values.get(output).ok_or_else(|| Error::new(format!("there is no output {output}")))?;
        let size = |&size: &i64| usize::try_from(size).map(Dim::Fixed);
        let shape: std::result::Result<Vec<_>, _> = shape.iter().map(size).collect();
        let shape = shape.map_err(|_| Error::new(format!("a size of '{}' is negative", value.name)))?;
        let tensor = Tensor::zeros(&Value { shape, ..(*value).clone() })?;
        Ok(self.results[output].insert(tensor).view_mut())
    }
}

/// The bytes with their type: large ones move to the spool, so that what a large model folds does not pile up in memory.
fn keep(result: Tensor, spool: &mut Spool) -> Result<(Bytes, TensorType)> {
    let (name, ty) = (result.name.clone(), result.ty.clone());
    let (buffer, size) = result.into_buffer();
    let bytes = Bytes::from_owner(buffer).slice(..size);
    if size <= SMALL_BYTES {
        return Ok((bytes, ty));
    }
    let range = spool.append(&format!("the folded constant '{name}'"), &bytes)?;
    Ok((spool.bytes(range)?, ty))
}

fn failed(plan: &RegionPlan, folding_backend: &Selected, error: Error) -> Diagnostic {
    if error.crashed {
        return crashed(&format!("region {}", plan.region.symbol), folding_backend.name(), &error, "it was folded");
    }
    let node = error.node.or_else(|| plan.region.nodes.first().map(|node| node.name.clone())).unwrap_or_default();
    let message = format!("folding node '{node}' on backend '{}' failed: {}", folding_backend.name(), error.message);
    Diagnostic { code: Code::Folding, message, hint: error.hint }
}
