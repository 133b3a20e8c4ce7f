//! Cuts a region out of a graph: its values get their own numbers, and every constant becomes a parameter.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{Constant, ConstantId, INLINE_BYTES, Node, Region, SCHEMA, Value, to_hex};

use super::{RegionPlan, quantized};
use crate::constants::{ConstantRef, ConstantTable};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, ValueId};

/// The parts of a region's symbol.
pub(super) struct Naming<'a> {
    pub(super) entry: &'a str,
    pub(super) backend: &'a str,
    pub(super) number: usize,
}

struct Outline<'a> {
    graph: &'a Graph,
    table: &'a ConstantTable,
    values: Vec<Value>,
    index_of: HashMap<ValueId, usize>,
    constants: Vec<(Constant, ConstantRef)>,
    by_constant: HashMap<ConstantRef, usize>,
}

/// The region of these nodes of an entry. Inputs are in the order of first use, outputs in the order in which they
/// are made, so the same nodes give the same region.
pub(super) fn outline(
    model: &Model,
    entry: usize,
    backend: usize,
    nodes: &BTreeSet<usize>,
    uses: &Uses,
    naming: Naming<'_>,
) -> Result<RegionPlan> {
    let graph = &model.entries[entry];
    let mut outline = Outline {
        graph,
        table: &model.constants,
        values: Vec::new(),
        index_of: HashMap::new(),
        constants: Vec::new(),
        by_constant: HashMap::new(),
    };
    let mut region_nodes = Vec::with_capacity(nodes.len());
    let mut inputs = Vec::new();
    for &node in nodes {
        let node = &graph.nodes[node];
        for &value in node.inputs.iter().flatten() {
            let known = outline.index_of.contains_key(&value);
            outline.index(value)?;
            if !known && graph.value(value).constant.is_none() && !uses.made_by(value, nodes) {
                inputs.push(value);
            }
        }
        region_nodes.push(Node {
            name: node.name.clone(),
            op: node.op.clone(),
            domain: node.domain.clone(),
            version: node.version,
            inputs: outline.indices(&node.inputs)?,
            outputs: outline.indices(&node.outputs)?,
            attributes: node.attributes.clone(),
        });
    }
    let made_in_order = nodes.iter().flat_map(|&node| graph.nodes[node].outputs.iter().flatten().copied());
    let outputs: Vec<_> = made_in_order.filter(|&value| uses.outside(value, nodes)).collect();
    let (constants, refs) = std::mem::take(&mut outline.constants).into_iter().unzip();
    let mut region = Region {
        schema: SCHEMA.into(),
        symbol: format!("byoc_{}_{}_{}", naming.entry, naming.backend, naming.number),
        inputs: inputs.iter().map(|value| outline.index_of[value]).collect(),
        outputs: outputs.iter().map(|value| outline.index_of[value]).collect(),
        values: outline.values,
        constants,
        nodes: region_nodes,
        ..Region::default()
    };
    region.quantized = quantized::of(&region);
    Ok(RegionPlan { entry, backend, nodes: nodes.clone(), region, constants: refs, inputs, outputs })
}

/// Producer and readers of each value of a graph, computed once for all regions.
pub(super) struct Uses {
    producers: Vec<Option<usize>>,
    consumers: Vec<Vec<usize>>,
    outputs: HashSet<ValueId>,
}

impl Uses {
    pub(super) fn of(graph: &Graph) -> Uses {
        let outputs = graph.outputs.iter().copied().collect();
        Uses { producers: graph.producers(), consumers: graph.consumers(), outputs }
    }

    /// Whether one of `nodes` makes the value.
    fn made_by(&self, value: ValueId, nodes: &BTreeSet<usize>) -> bool {
        self.producers[value.0].is_some_and(|node| nodes.contains(&node))
    }

    /// Whether anything but `nodes` reads the value.
    fn outside(&self, value: ValueId, nodes: &BTreeSet<usize>) -> bool {
        self.outputs.contains(&value) || self.consumers[value.0].iter().any(|consumer| !nodes.contains(consumer))
    }
}

impl Outline<'_> {
    fn indices(&mut self, ids: &[Option<ValueId>]) -> Result<Vec<Option<usize>>> {
        ids.iter().map(|id| id.map(|id| self.index(id)).transpose()).collect()
    }

    /// The region's number of a value. Constants of equal bytes and view share one number, whatever their names.
    fn index(&mut self, id: ValueId) -> Result<usize> {
        if let Some(&index) = self.index_of.get(&id) {
            return Ok(index);
        }
        let value = self.graph.value(id);
        let known = value.constant.as_ref().and_then(|constant| self.by_constant.get(constant));
        let index = match known {
            Some(&index) => index,
            None => self.add(id)?,
        };
        self.index_of.insert(id, index);
        Ok(index)
    }

    fn add(&mut self, id: ValueId) -> Result<usize> {
        let value = self.graph.value(id);
        let ty = value.ty.clone().ok_or_else(|| {
            Diagnostic::new(Code::ShapeUnknown, format!("the type of value '{}' is not known", value.name))
        })?;
        let index = self.values.len();
        self.values.push(Value { name: value.name.clone(), dtype: ty.dtype, shape: ty.shape });
        if let Some(constant) = &value.constant {
            let bytes = constant.view.bytes(ty.dtype);
            let inline = (bytes <= INLINE_BYTES).then(|| to_hex(&self.table.materialize(constant)));
            let id = ConstantId(self.constants.len() as u64);
            self.constants.push((Constant { id, value: index, inline, shared: false }, constant.clone()));
            self.by_constant.insert(constant.clone(), index);
        }
        Ok(index)
    }
}
