//! Code of the host backend, with the constants that are bound to it and the shapes that it is run with: loaded and run.
//! Each tensor is in memory of its own, so that a step out of any of them is seen.

use std::path::Path;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::manifest::{Manifest, Region, ValueInfo};
use byoc_plugin_api::{Backend, BoundConstant, BoundConstants, ConstantId, DType, Environment, Options};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::owned::{Input, Output};
use crate::{Target, json, models, run};

pub(crate) const TARGET: Target =
    Target { name: "code", seeds, run: |input| take(input).is_some(), mutate: json::bytes };

/// A region, and how it is called.
#[derive(Serialize, Deserialize)]
struct Case {
    constants: Vec<Constant>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    code: Value,
}

#[derive(Serialize, Deserialize)]
struct Constant {
    id: ConstantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    dtype: DType,
    shape: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
struct Port {
    dtype: DType,
    shape: Vec<usize>,
}

fn take(input: &[u8]) -> Option<()> {
    let case: Case = serde_json::from_slice(input).ok()?;
    let largest = case.inputs.iter().flat_map(|port| &port.shape).copied().max().unwrap_or(1);
    if !run::is_small(&case.code, largest.max(run::SYMBOL)) {
        return None;
    }
    let code = case.code.to_string();
    let backend = models::REGISTRY.get("json").ok()?;
    let memory = case.constants.iter().map(|constant| Input::new(constant.dtype, &constant.shape));
    let memory = memory.collect::<Option<Vec<_>>>()?;
    let bound = case.constants.iter().zip(&memory).map(|(constant, memory)| {
        Some(BoundConstant { id: constant.id, layout: constant.layout.as_deref(), view: memory.view()? })
    });
    let bound = BoundConstants::new(bound.collect::<Option<Vec<_>>>()?);
    let environment = Environment { threads: 1, options: Options::default() };
    let mut executable = backend.backend.runtime().host().ok()?.load(code.as_bytes(), &bound, &environment).ok()?;
    let inputs = case.inputs.iter().map(|port| Input::new(port.dtype, &port.shape)).collect::<Option<Vec<_>>>()?;
    let outputs = case.outputs.iter().map(|port| Output::new(port.dtype, &port.shape));
    let mut outputs = outputs.collect::<Option<Vec<_>>>()?;
    for _ in 0..2 {
        let inputs = inputs.iter().map(Input::view).collect::<Option<Vec<_>>>()?;
        let mut outputs = outputs.iter_mut().map(Output::view).collect::<Option<Vec<_>>>()?;
        executable.run(&inputs, &mut outputs).ok()?;
    }
    Some(())
}

fn seeds() -> Vec<Vec<u8>> {
    let of = |file: Vec<u8>| {
        // Code of variants is that of artifacts.
        let Ok(artifact) = Artifact::from_bytes(Path::new("seed"), file.into()) else { return Vec::new() };
        let regions = artifact.manifest().regions.clone();
        let cases =
            regions.iter().filter(|region| region.backend == "json").filter_map(|region| case(&artifact, region));
        cases.map(|case| serde_json::to_vec(&case).expect("JSON")).collect::<Vec<_>>()
    };
    models::artifacts().into_iter().flat_map(of).collect()
}

fn case(artifact: &Artifact, region: &Region) -> Option<Case> {
    let code = serde_json::from_slice(&artifact.section(&region.code).ok()?).ok()?;
    let constants = constants(artifact.manifest(), region);
    Some(Case { constants, inputs: ports(&region.inputs)?, outputs: ports(&region.outputs)?, code })
}

fn constants(manifest: &Manifest, region: &Region) -> Vec<Constant> {
    let bound = region.constants.iter().filter_map(|binding| Some((binding, binding.used.as_ref()?)));
    let constant = bound.map(|(binding, used)| Constant {
        id: binding.id,
        layout: binding.layout.clone(),
        dtype: manifest.constants[used.constant].dtype,
        shape: used.view.shape.clone(),
    });
    constant.collect()
}

fn ports(values: &[ValueInfo]) -> Option<Vec<Port>> {
    let port = |value: &ValueInfo| {
        let shape = run::small(&value.shape, run::SYMBOL)?.iter().map(|&size| size as usize).collect();
        Some(Port { dtype: value.dtype, shape })
    };
    values.iter().map(port).collect()
}
