//! What is in a model, as core reads it: functions are inlined and operators are in their newest form.

use std::collections::BTreeMap;

use byoc_core::diagnostic::Result;
use byoc_core::ir::{CustomOperators, Graph, Model, ValueId};
use byoc_core::onnx::{self, FileInfo, ImportOptions};
use byoc_core::passes::infer::infer;
use serde_json::{Value, json};

use super::Args;
use super::views::by_count;
use crate::report::{self, count, size};

/// Prints it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let options = ImportOptions { shapes: args.shapes.shape.clone(), dims: args.shapes.dim.clone(), no_mmap: false };
    let info = onnx::file_info(&args.file)?;
    let model = onnx::import(&[("main".to_owned(), args.file.as_path())], &options, &CustomOperators::any())?;
    // A shape that cannot be inferred is no reason to show nothing: the types are then left out.
    let mut typed = model.clone();
    let model = if infer(&mut typed).is_ok() { typed } else { model };
    if args.json {
        return report::print_json(&json(&info, &model));
    }
    report::print(&format!("{}: {}", args.file.display(), text(&info, &model)))
}

fn text(info: &FileInfo, model: &Model) -> String {
    let opsets = info.opsets.iter().map(|(domain, version)| match domain.as_str() {
        "" => format!("opset {version}"),
        domain => format!("{domain} {version}"),
    });
    let mut text = format!("{}, IR version {}", opsets.collect::<Vec<_>>().join(", "), info.ir_version);
    if !info.producer.is_empty() {
        text += &format!(", from {}", info.producer);
    }
    text += "\n";
    for graph in model.entries.iter().filter(|graph| graph.body_of.is_none()) {
        let ports = [("input", &graph.inputs), ("output", &graph.outputs)];
        for (kind, &id) in ports.into_iter().flat_map(|(kind, ids)| ids.iter().map(move |id| (kind, id))) {
            let (name, ty) = port(graph, id);
            text += &format!("{kind:6} {name}{}\n", ty.map(|ty| format!(": {ty}")).unwrap_or_default());
        }
        text += &format!("{}: {}\n", count(nodes(model), "node"), by_count(&operators(model)));
    }
    let (constants, names, bytes) = weights(model);
    let aliases = if names > constants { format!(" under {names} names") } else { String::new() };
    text + &format!("constants {} in {}{aliases}, before compiling\n", size(bytes), count(constants, "tensor"))
}

fn json(info: &FileInfo, model: &Model) -> Value {
    let graph = |graph: &Graph| {
        let ports = |ids: &[ValueId]| {
            let port = |&id: &ValueId| {
                let (name, ty) = port(graph, id);
                json!({ "name": name, "type": ty })
            };
            ids.iter().map(port).collect::<Vec<_>>()
        };
        let (inputs, outputs, operators) = (ports(&graph.inputs), ports(&graph.outputs), operators(model));
        json!({ "inputs": inputs, "outputs": outputs, "nodes": nodes(model), "operators": operators })
    };
    let opsets: BTreeMap<_, _> = info.opsets.iter().cloned().collect();
    let (constants, names, bytes) = weights(model);
    json!({
        "opsets": opsets,
        "ir_version": info.ir_version,
        "producer": info.producer,
        "graph": model.entries.iter().map(graph).next(),
        "constants": { "different": constants, "names": names, "bytes": bytes },
    })
}

fn port(graph: &Graph, id: ValueId) -> (&str, Option<String>) {
    let value = graph.value(id);
    let list = value.list.as_ref().map(ToString::to_string);
    (&value.name, list.or_else(|| value.ty.as_ref().map(ToString::to_string)))
}

/// How many nodes the model has, those of the bodies of its control flow included.
fn nodes(model: &Model) -> usize {
    model.entries.iter().map(|graph| graph.nodes.len()).sum()
}

fn operators(model: &Model) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    model
        .entries
        .iter()
        .flat_map(|graph| &graph.nodes)
        .for_each(|node| *counts.entry(node.qualified_op()).or_default() += 1);
    counts
}

/// Different constants, their names, and their bytes, each counted once.
fn weights(model: &Model) -> (usize, usize, u64) {
    let bases = || model.constants.iter().map(|(_, base)| base);
    let (names, bytes) =
        (bases().map(|base| base.names.len()).sum(), bases().map(|base| base.bytes.len() as u64).sum());
    (bases().count(), names, bytes)
}
