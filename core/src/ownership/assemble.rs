//! Puts the artifact's contents together: entries, regions and sections, once every constant has its home.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::{Claim, Dim};

use super::external::References;
use super::homes::{Home, Homes};
use super::settle::BackendIdentity;
use crate::artifact::manifest::{
    BackendRequirement, Binding, Call, Chosen, ClaimKind, ConstantValue, Entry, Manifest, NodeSummary, Port, Region,
    Requirements, Stored, ValueInfo, ValueType,
};
use crate::artifact::{self, Contents, Section};
use crate::codegen::{Generated, GeneratedRegion};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, ValueId};

/// The contents, still without a ledger. What is referred to has no section.
pub(super) fn assemble(
    generated: &Generated,
    backends: &[BackendIdentity],
    homes: &Homes,
    references: References,
) -> Result<Contents> {
    let regions = generated.regions.iter().enumerate();
    let regions = regions.map(|(index, region)| region_of(region, &backends[region.plan.backend], homes, index));
    let constants = homes.homes.iter().enumerate().map(|(index, home)| stored_of(index, home, &references));
    let constants: Vec<Stored> = constants.collect();
    let own = homes.homes.iter().zip(&constants).filter(|(_, stored)| stored.external.is_none());
    let own = own.map(|(home, stored)| Section::of_stored(stored, home.bytes.clone(), Some(home.digest)));
    let own: Vec<Section> = own.collect();
    let entries = (0..generated.model.entries.len()).map(|index| entry_of(generated, homes, index));
    let mut manifest = Manifest {
        format: artifact::FIRST_FORMAT,
        producer: concat!("byoc ", env!("CARGO_PKG_VERSION")).into(),
        requirements: requirements(generated, backends),
        entries: entries.collect::<Result<_>>()?,
        regions: regions.collect(),
        constants,
        files: references.files,
        ledger: Vec::new(),
    };
    let mut sections = artifact::code_sections(&mut manifest, |index, _| {
        Ok((generated.spool.bytes(generated.regions[index].code)?, None))
    })?;
    sections.extend(own);
    Ok(Contents { manifest, sections })
}

fn stored_of(index: usize, home: &Home, references: &References) -> Stored {
    Stored {
        section: artifact::constant_section(index),
        dtype: home.dtype,
        shape: home.shape.clone(),
        layout: home.layout.clone(),
        alignment: home.alignment,
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
    let claims = generated.regions.iter().flat_map(|region| &region.claims);
    let features: BTreeSet<&String> = claims
        .filter_map(|recorded| match &recorded.claim {
            Claim::Packed(packed) => Some(&packed.cpu_features),
            _ => None,
        })
        .flatten()
        .collect();
    Requirements { backends: backends.collect(), cpu_features: features.into_iter().cloned().collect() }
}

fn region_of(generated: &GeneratedRegion, backend: &BackendIdentity, homes: &Homes, index: usize) -> Region {
    let region = &generated.plan.region;
    let info = |&value: &usize| {
        let value = &region.values[value];
        ValueInfo { name: value.name.clone(), dtype: value.dtype, shape: value.shape.clone() }
    };
    let claims = region.constants.iter().zip(&generated.claims).zip(&homes.regions[index]);
    let bindings = claims.map(|((constant, recorded), used)| {
        let (claim, layout) = match &recorded.claim {
            Claim::Host => (ClaimKind::Host, None),
            Claim::Packed(packed) => (ClaimKind::Packed, Some(packed.layout.clone())),
            Claim::Embedded => (ClaimKind::Embedded, None),
            Claim::Unused => (ClaimKind::Unused, None),
        };
        Binding { id: constant.id, claim, used: used.clone(), layout }
    });
    let nodes = region.nodes.iter().map(|node| NodeSummary {
        name: node.name.clone(),
        op: if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) },
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
        constants: bindings.collect(),
        nodes: nodes.collect(),
        inputs: region.inputs.iter().map(info).collect(),
        outputs: region.outputs.iter().map(info).collect(),
    }
}

/// The values of an entry that exist outside regions, numbered as they are met.
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
        self.types.push(ValueType { dtype: ty.dtype, shape: ty.shape.clone() });
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

fn entry_of(generated: &Generated, homes: &Homes, index: usize) -> Result<Entry> {
    let graph = &generated.model.entries[index];
    let mut values = Values { graph, numbers: HashMap::new(), types: Vec::new() };
    let inputs = values.ports(&graph.inputs)?;
    let mut constants: Vec<ConstantValue> = Vec::new();
    let mut known = HashSet::new();
    for (position, used) in &homes.outputs[index] {
        let id = graph.outputs[*position];
        let value = values.number(id)?;
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
    let outputs = values.ports(&graph.outputs)?;
    Ok(Entry { name: graph.name.clone(), inputs, outputs, values: values.types, constants, calls })
}
