//! Computes ahead of time what depends on constants only. Core has no kernels: the nodes are compiled for a host
//! backend and run there, through the same interface as any region.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{
    BoundConstant, BoundConstants, Claim, Claims, Environment, Error, Executable, INLINE_BYTES, TensorView,
    TensorViewMut, contiguous_strides,
};
use bytes::Bytes;

use crate::buffer::Buffer;
use crate::claims::{RecordedClaim, Recorder};
use crate::constants::{BaseId, ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, Node, TensorType, TypedModel, ValueId};
use crate::lend::ConstantViews;
use crate::ops;
use crate::partition::{self, RegionPlan};
use crate::passes;
use crate::plugin::Selected;
use crate::spool::Spool;

/// Results up to this many bytes are computed ahead of time whatever they are computed from.
const SMALL_BYTES: usize = 64 << 10;

/// Stage 3: types for every value, constants folded, dead nodes gone. Without a `folder` nothing is computed; shapes
/// and views still fold. What is computed goes to `spool` where it is large.
pub(crate) fn simplify(mut model: Model, folder: Option<&Selected>, spool: &mut Spool) -> Result<TypedModel> {
    // A folded shape can make further shapes known, so the passes run until nothing moves.
    loop {
        let mut changed = passes::infer_and_fold_views(&mut model)?;
        if let Some(folder) = folder {
            for entry in 0..model.entries.len() {
                changed |= fold_entry(&mut model, entry, folder, spool)?;
            }
        }
        passes::prune(&mut model);
        if !changed {
            return Ok(TypedModel(model));
        }
    }
}

/// Computes the foldable nodes of an entry; whether there were any.
fn fold_entry(model: &mut Model, entry: usize, folder: &Selected, spool: &mut Spool) -> Result<bool> {
    let nodes = foldable(model, entry);
    if nodes.is_empty() {
        return Ok(false);
    }
    let mut done = BTreeSet::new();
    for nodes in partition::groups_for(model, entry, folder, &nodes)? {
        let plan = partition::outline_for(model, entry, folder, &nodes)?;
        let results = evaluate(&model.constants, &plan, folder, spool)?;
        for ((bytes, ty), &value) in results.into_iter().zip(&plan.outputs) {
            let shape = ty.fixed_shape().unwrap_or_default();
            let name = model.entries[entry].value(value).name.clone();
            let constant = model.constants.insert(&name, ty.dtype, &shape, bytes);
            model.entries[entry].values[value.0].constant = Some(constant);
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
/// of as many bytes. No constant beyond a few bytes is folded while anybody else needs it as it is, for then the file
/// would hold it in both forms.
fn foldable(model: &Model, entry: usize) -> BTreeSet<usize> {
    let graph = &model.entries[entry];
    let readings = readings(model);
    let mut nodes = BTreeSet::new();
    let mut folded: HashSet<ValueId> = HashSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let known = |value: &ValueId| graph.value(*value).constant.is_some() || folded.contains(value);
        let foldable = ops::find(&node.domain, &node.op).is_some();
        if !foldable || !node.inputs.iter().flatten().all(known) {
            continue;
        }
        let Some(bytes) = node.outputs.iter().flatten().map(|&value| bytes(graph, value)).sum::<Option<usize>>() else {
            continue;
        };
        if freed(model, graph, node, &readings).is_some_and(|freed| bytes <= freed.max(SMALL_BYTES)) {
            nodes.insert(index);
            folded.extend(node.outputs.iter().flatten());
        }
    }
    nodes
}

/// The bytes of the constants that nobody needs any more once the node is folded; `None` where somebody would.
fn freed(model: &Model, graph: &Graph, node: &Node, readings: &HashMap<BaseId, HashSet<Reading<'_>>>) -> Option<usize> {
    let mut freed = 0;
    for &value in node.inputs.iter().flatten() {
        let Some(constant) = &graph.value(value).constant else {
            // Computed in this round; what is large waits for the next one, when it is a constant with readers.
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

/// What is done with a constant: readers that do the same agree on what it may be folded into.
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
    ty.fixed_shape()?.iter().try_fold(ty.dtype.size(), |bytes, &size| bytes.checked_mul(size))
}

/// The outputs of a region whose inputs are all constants. Large ones lie in the spool.
fn evaluate(
    table: &ConstantTable,
    plan: &RegionPlan,
    folder: &Selected,
    spool: &mut Spool,
) -> Result<Vec<(Bytes, TensorType)>> {
    let backend = &folder.registered.backend;
    let failed = |error| failed(plan, folder, error);
    let views = ConstantViews::new(table, plan, true);
    let constants = views.constants();
    let mut code = Vec::new();
    backend.codegen(&plan.region, &constants, &folder.options, &mut code).map_err(failed)?;
    let mut recorder = Recorder::new(&plan.region, folder.name(), spool);
    let outcome =
        backend.constant_updater(&plan.region, &constants, &code, &folder.options, &mut Claims::new(&mut recorder));
    let claims = recorder.finish(outcome.map_err(failed))?;
    let packed = claims.iter().map(|claim| PackedBytes::of(claim, spool)).collect::<Result<Vec<_>>>()?;
    let bound = bind(&views, &claims, &packed);
    let environment = Environment { threads: 1, options: folder.options.clone() };
    let mut executable = backend.load(&code, &BoundConstants::new(bound), &environment).map_err(failed)?;
    run(plan, executable.as_mut()).map_err(failed)?.into_iter().map(|result| result.keep(spool)).collect()
}

/// The bytes of a packed claim with what a view of them borrows.
struct PackedBytes {
    bytes: Buffer,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl PackedBytes {
    fn of(recorded: &RecordedClaim, spool: &Spool) -> Result<Option<PackedBytes>> {
        let Claim::Packed(packed) = &recorded.claim else { return Ok(None) };
        let shape: Vec<_> = packed.shape.iter().map(|&size| size as i64).collect();
        // Aligned as in a mapped artifact.
        let bytes = Buffer::copy_of(&spool.bytes(recorded.packed.unwrap_or_default())?);
        Ok(Some(PackedBytes { bytes, strides: contiguous_strides(&shape), shape }))
    }
}

/// What the claims have bound at load.
fn bind<'a>(
    views: &'a ConstantViews<'_>,
    claims: &'a [RecordedClaim],
    packed: &'a [Option<PackedBytes>],
) -> Vec<BoundConstant<'a>> {
    let mut bound = Vec::new();
    for (((id, view), recorded), bytes) in views.iter().zip(claims).zip(packed) {
        match (&recorded.claim, bytes) {
            (Claim::Host, _) => bound.push(BoundConstant { id, layout: None, view }),
            (Claim::Packed(packed), Some(PackedBytes { bytes, shape, strides })) => {
                // SAFETY: the recorder saw to it that the bytes are as many as shape and type say.
                let view = unsafe { TensorView::from_raw(bytes.as_ptr(), packed.dtype, shape, strides) };
                bound.push(BoundConstant { id, layout: Some(&packed.layout), view });
            }
            _ => {}
        }
    }
    bound
}

/// A computed tensor.
struct Computed {
    name: String,
    ty: TensorType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    buffer: Buffer,
    size: usize,
}

impl Computed {
    /// The bytes with their type: large ones move to the spool, so that what a large model folds does not pile up in
    /// memory.
    fn keep(self, spool: &mut Spool) -> Result<(Bytes, TensorType)> {
        let Computed { name, ty, buffer, size, .. } = self;
        let bytes = Bytes::from_owner(buffer).slice(..size);
        if size <= SMALL_BYTES {
            return Ok((bytes, ty));
        }
        let range = spool.append(&format!("the folded constant '{name}'"), &bytes)?;
        Ok((spool.bytes(range)?, ty))
    }
}

fn run(plan: &RegionPlan, executable: &mut dyn Executable) -> std::result::Result<Vec<Computed>, Error> {
    let mut results = Vec::with_capacity(plan.region.outputs.len());
    for value in plan.region.outputs.iter().map(|&value| &plan.region.values[value]) {
        let shape = value.fixed_shape().ok_or_else(|| Error::new(format!("'{}' has no fixed shape", value.name)))?;
        let size = shape.iter().product::<usize>() * value.dtype.size();
        let shape: Vec<_> = shape.iter().map(|&size| size as i64).collect();
        let ty = TensorType { dtype: value.dtype, shape: value.shape.clone() };
        let strides = contiguous_strides(&shape);
        results.push(Computed { name: value.name.clone(), ty, shape, strides, buffer: Buffer::new(size), size });
    }
    let views = results.iter_mut().map(|result| {
        let Computed { ty, shape, strides, buffer, .. } = result;
        // SAFETY: each buffer is as large as its shape says, and is written through this one view only.
        unsafe { TensorViewMut::from_raw(buffer.as_mut_ptr(), ty.dtype, shape, strides) }
    });
    executable.run(&[], &mut views.collect::<Vec<_>>())?;
    Ok(results)
}

fn failed(plan: &RegionPlan, folder: &Selected, error: Error) -> Diagnostic {
    let node = error.node.or_else(|| plan.region.nodes.first().map(|node| node.name.clone())).unwrap_or_default();
    let message = format!("folding node '{node}' on backend '{}' failed: {}", folder.name(), error.message);
    Diagnostic { code: Code::Folding, message, hint: error.hint }
}
