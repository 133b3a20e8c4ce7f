//! `Scan` of operator set 8, which runs over a batch: a `Scan` over the batch whose body is the `Scan` over the sequence.

use super::super::names::Names;
use super::super::proto::{GraphProto, ValueInfoProto};
use super::super::write;
use super::{FlatBody, FlatNode};
use crate::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::Attribute;

/// The operator set whose `Scan` is such a one.
const BATCHED: i64 = 8;

/// The node in the form of today. Names of new values and nodes are taken from the two lists.
pub(super) fn unbatched(node: FlatNode, values: &mut Names, nodes: &mut Names) -> Result<FlatNode> {
    if (node.domain.as_str(), node.op.as_str()) != ("", "Scan") || node.version != BATCHED {
        return Ok(node);
    }
    let mut given = node.inputs.clone().into_iter();
    if given.next().is_some_and(|lengths| !lengths.is_empty()) {
        let cause = format!("node '{}' (Scan): lengths of its sequences are not supported", node.name);
        return Err(Diagnostic::new(Code::UnknownOperator, cause).hint("Export the model with operator set 9 or newer"));
    }
    let given: Vec<String> = given.collect();
    let mut names = |what: &str, count: usize| -> Vec<String> {
        (0..count).map(|index| values.unique(&format!("{}/{what}{index}", node.name))).collect()
    };
    let (rows, results) = (names("row", given.len()), names("result", node.outputs.len()));
    let ports = |names: &[String]| {
        names.iter().map(|name| ValueInfoProto { name: Some(name.clone()), ..ValueInfoProto::default() }).collect()
    };
    let graph = GraphProto { input: ports(&rows), output: ports(&results), ..GraphProto::default() };
    let number = write::attribute("num_scan_inputs", &Attribute::Int(given.len() as i64));
    let (name, outputs) = (node.name.clone(), node.outputs.clone());
    let inner = FlatNode { name: nodes.unique(&format!("{name}/Scan")), inputs: rows, outputs: results, ..node };
    Ok(FlatNode {
        name,
        op: inner.op.clone(),
        domain: String::new(),
        version: BATCHED + 1,
        inputs: given,
        outputs,
        attributes: vec![number],
        bodies: vec![FlatBody { attribute: "body", graph, nodes: vec![inner] }],
    })
}
