//! Assembles the artifact's contents: entries, regions and sections, from the settled constants.

mod control;

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{self as plugin, DType, Dim, Precision};

use super::external::References;
use super::storage::{OutsideUse, Storage, StoredConstant};
use crate::artifact::manifest::{
    BackendRequirement, Binding, Call, Chosen, ConstantValue, Entry, ListType, Manifest, Port, Region, Requirements,
    Stored, ValueInfo, ValueType,
};
use crate::artifact::{self, Contents, LedgerRow, NodeSummary, Section};
use crate::codegen::{Generated, GeneratedRegion};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{self, Graph, ValueId};
use crate::plugin::BackendIdentity;

/// The contents. External constants have no section.
pub(super) fn assemble(
    generated: &Generated,
    backends: &[BackendIdentity],
    storage: &Storage,
    references: References,
    ledger: Vec<LedgerRow>,
) -> Result<Contents> {
    let regions = generated.regions.iter().enumerate();
    let regions = regions.map(|(index, region)| region_of(region, &backends[region.plan.backend], storage, index));
    let constants = storage.constants.iter().enumerate().map(|(index, stored)| stored_of(index, stored, &references));
    let constants: Vec<Stored> = constants.collect();
    let own = storage.constants.iter().zip(&constants).filter(|(_, stored)| stored.external.is_none());
    let own = own.map(|(constant, stored)| Section::of_stored(stored, constant.bytes.clone(), Some(constant.digest)));
    let own: Vec<Section> = own.collect();
    let entries = (0..generated.model.entries.len()).map(|index| entry_of(generated, storage, index));
    let mut manifest = Manifest {
        format: artifact::PLAIN_FORMAT,
        producer: artifact::PRODUCER.into(),
        requirements: requirements(generated, backends),
        entries: entries.collect::<Result<_>>()?,
        regions: regions.collect(),
        constants,
        files: references.files,
    };
    let mut sections = artifact::code_sections(&mut manifest, |index, _| {
        Ok((generated.spool.bytes(generated.regions[index].code)?, None))
    })?;
    sections.extend(own);
    let nodes = generated.regions.iter().map(|region| nodes_of(&region.plan.region)).collect();
    Ok(Contents { manifest, ledger, nodes, sections })
}

fn stored_of(index: usize, constant: &StoredConstant, references: &References) -> Stored {
    Stored {
        section: artifact::constant_section(index),
        dtype: constant.dtype,
        shape: constant.shape.clone(),
        layout: constant.layout.clone(),
        alignment: constant.alignment,
        external: references.of(index).cloned(),
    }
}

/// Backends that generated nothing are not needed to run the file.
fn requirements(generated: &Generated, backends: &[BackendIdentity]) -> Requirements {
    let used = |index: usize| generated.regions.iter().any(|region| region.plan.backend == index);
    let backends =
        backends.iter().enumerate().filter(|&(index, _)| used(index)).map(|(_, backend)| BackendRequirement {
            name: backend.name.clone(),
            version: backend.version.clone(),
            code_version: backend.code_version,
            abi_version: backend.abi_version,
        });
    let constants = generated.regions.iter().flat_map(|region| &region.constants);
    let packed = constants.filter_map(|constant| constant.claim.packed());
    let features: BTreeSet<&String> = packed.flat_map(|packed| &packed.form.cpu_features).collect();
    Requirements { backends: backends.collect(), cpu_features: features.into_iter().cloned().collect() }
}

fn nodes_of(region: &plugin::Region) -> Vec<NodeSummary> {
    let summary = |node: &plugin::Node| NodeSummary {
        name: node.name.clone(),
        op: if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) },
    };
    region.nodes.iter().map(summary).collect()
}

fn region_of(generated: &GeneratedRegion, backend: &BackendIdentity, storage: &Storage, index: usize) -> Region {
    let region = &generated.plan.region;
    let info = |&value: &usize| {
        let value = &region.values[value];
        ValueInfo { name: value.name.clone(), dtype: value.dtype, shape: value.shape.clone() }
    };
    let bindings = storage.of_region(index, generated).map(|(constant, used)| {
        let layout = constant.claim.packed().map(|packed| packed.form.layout.clone());
        Binding { id: constant.id, claim: constant.claim.kind(), used: used.cloned(), layout }
    });
    Region {
        symbol: region.symbol.clone(),
        backend: backend.name.clone(),
        backend_version: backend.version.clone(),
        code_version: backend.code_version,
        abi_version: backend.abi_version,
        domain: backend.domain.clone(),
        options: backend.options.clone(),
        code: artifact::code_section(&region.symbol),
        chosen: backend.candidates.then_some(Chosen::Table),
        notes: generated.notes.clone(),
        precision: Precision::of_region(&backend.precision, region),
        strings: region.values.iter().any(|value| value.dtype == DType::String),
        constants: bindings.collect(),
        inputs: region.inputs.iter().map(info).collect(),
        outputs: region.outputs.iter().map(info).collect(),
    }
}

fn list_type(list: &ir::ListType) -> ListType {
    let shape = match &list.shape {
        ir::ElementShape::Sizes(sizes) => Some(sizes.clone()),
        ir::ElementShape::Never | ir::ElementShape::Any => None,
    };
    ListType { optional: list.optional, sequence: list.sequence, dtype: list.dtype, shape }
}

/// The values of an entry that exist outside regions, numbered in order of first use.
struct Values<'a> {
    graph: &'a Graph,
    numbers: HashMap<ValueId, usize>,
    types: Vec<ValueType>,
}

impl Values<'_> {
    fn number(&mut self, id: ValueId) -> Result<usize> {
        if let Some(&number) = self.numbers.get(&id) {
            return Ok(number);
        }
        let value = self.graph.value(id);
        let Some(ty) = &value.ty else {
            let message = format!("entry '{}': the type of '{}' is not known", self.graph.name, value.name);
            return Err(Diagnostic::new(Code::BadGraph, message));
        };
        let list = value.list.as_ref().map(list_type);
        self.types.push(ValueType { dtype: ty.dtype, shape: ty.shape.clone(), list });
        self.numbers.insert(id, self.types.len() - 1);
        Ok(self.types.len() - 1)
    }

    fn numbers(&mut self, ids: &[ValueId]) -> Result<Vec<usize>> {
        ids.iter().map(|&id| self.number(id)).collect()
    }

    fn ports(&mut self, ids: &[ValueId]) -> Result<Vec<Port>> {
        let graph = self.graph;
        ids.iter().map(|&id| Ok(Port { name: graph.value(id).name.clone(), value: self.number(id)? })).collect()
    }
}

fn entry_of(generated: &Generated, storage: &Storage, index: usize) -> Result<Entry> {
    let graph = &generated.model.entries[index];
    let mut values = Values { graph, numbers: HashMap::new(), types: Vec::new() };
    let inputs = values.ports(&graph.inputs)?;
    let mut constants: Vec<ConstantValue> = Vec::new();
    let mut known = HashSet::new();
    for OutsideUse { value: id, used, .. } in &storage.outside[index] {
        let value = values.number(*id)?;
        // The view is what the file holds, so its shape is the value's.
        values.types[value].shape = used.view.shape.iter().copied().map(Dim::Fixed).collect();
        if known.insert(value) {
            constants.push(ConstantValue { value, used: used.clone() });
        }
    }
    let mut calls = Vec::new();
    for (number, region) in generated.regions.iter().enumerate().filter(|(_, region)| region.plan.entry == index) {
        let inputs = values.numbers(&region.plan.inputs)?;
        calls.push(Call { region: number, inputs, outputs: values.numbers(&region.plan.outputs)? });
    }
    let plans = generated.control.iter().filter(|plan| plan.entry == index);
    let control = plans.map(|plan| control::of(generated, plan, &mut values)).collect::<Result<_>>()?;
    let outputs = values.ports(&graph.outputs)?;
    let (name, body) = (graph.name.clone(), graph.body_of.is_some());
    Ok(Entry { name, body, inputs, outputs, values: values.types, constants, calls, control })
}
