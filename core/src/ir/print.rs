//! The text form of a model: what `--stop-after STAGE --print` shows and golden tests compare.

use std::fmt::Write;

use byoc_plugin_api::{Attribute, AttributeTensor, to_hex};

use super::literal::numbers;
use super::read::{BODIES, CAPTURED, special};
use super::{Graph, Model, Node, Value, ValueId};
use crate::constants::ConstantTable;

/// Constants of at most this many bytes are printed with their elements.
const SHOWN_BYTES: usize = 64;

/// Every entry of the model, one node a line.
pub fn print(model: &Model) -> String {
    model.entries.iter().map(|graph| graph_text(model, graph)).collect::<Vec<_>>().join("\n")
}

fn graph_text(model: &Model, graph: &Graph) -> String {
    let table = &model.constants;
    let mut text = format!("{} {}\n", if graph.body_of.is_some() { "body" } else { "entry" }, graph.name);
    for &input in &graph.inputs {
        let _ = writeln!(text, "  input  {}", typed(graph, input));
    }
    for node in &graph.nodes {
        let _ = writeln!(text, "  {}", node_text(model, graph, node));
    }
    for &output in &graph.outputs {
        let constant = graph.value(output).constant.is_some();
        let source = if constant { format!(" = {}", operand(graph, table, output)) } else { String::new() };
        let _ = writeln!(text, "  output {}{source}", typed(graph, output));
    }
    text
}

/// A node on one line: outputs with types, operator, attributes, operands. One of control flow has the names of its bodies as
/// attributes, and how many of its operands are captured.
pub(crate) fn node_text(model: &Model, graph: &Graph, node: &Node) -> String {
    let table = &model.constants;
    let absent = || "-".to_owned();
    let outputs: Vec<_> = node.outputs.iter().map(|output| output.map_or_else(absent, |id| typed(graph, id))).collect();
    let operands: Vec<_> =
        node.inputs.iter().map(|input| input.map_or_else(absent, |id| operand(graph, table, id))).collect();
    let mut attributes: Vec<_> =
        node.attributes.iter().map(|(name, value)| format!("{name}={}", attribute(value))).collect();
    if let Some(bodies) = &node.bodies {
        let names = bodies.graphs.iter().map(|&body| model.entries[body].name.clone()).collect();
        attributes.push(format!("{BODIES}={}", attribute(&Attribute::Strings(names))));
        attributes.push(format!("{CAPTURED}={}", bodies.captured));
    }
    let attributes = if attributes.is_empty() { String::new() } else { format!("{{{}}}", attributes.join(", ")) };
    format!("{} = {}{attributes}({})", outputs.join(", "), node.qualified_op(), operands.join(", "))
}

fn typed(graph: &Graph, id: ValueId) -> String {
    let value = graph.value(id);
    match (&value.list, &value.ty) {
        (Some(list), _) => format!("{}: {list}", name(value)),
        (None, Some(ty)) => format!("{}: {ty}", name(value)),
        (None, None) => format!("{}: ?", name(value)),
    }
}

/// The name of a value, in quotes where it could be taken for something else.
fn name(Value { name, .. }: &Value) -> String {
    if name.is_empty() || name == "-" || name.contains(special) { format!("{name:?}") } else { name.clone() }
}

/// A value by name; a constant with its type and either its elements or the start of its digest.
fn operand(graph: &Graph, table: &ConstantTable, id: ValueId) -> String {
    let value = graph.value(id);
    let (Some(constant), Some(ty)) = (&value.constant, &value.ty) else { return name(value) };
    let base = table.get(constant.base);
    if constant.view.bytes(base.dtype) <= SHOWN_BYTES {
        let bytes = table.materialize(constant);
        let elements =
            numbers(ty.dtype, &bytes, constant.view.elements()).unwrap_or_else(|| format!("0x{}", to_hex(&bytes)));
        return format!("{}<{}>", name(value), format!("{ty} {elements}").trim_end());
    }
    let whole = constant.view.is_contiguous() && constant.view.bytes(base.dtype) == base.bytes.len();
    let view = if whole { "" } else { " view" };
    format!("{}<{ty} #{}{view}>", name(value), to_hex(&base.digest[..4]))
}

fn attribute(value: &Attribute) -> String {
    match value {
        Attribute::Int(value) => value.to_string(),
        Attribute::Float(value) => format!("{value:?}"),
        Attribute::String(value) => format!("{value:?}"),
        Attribute::Ints(values) => format!("{values:?}").replace(' ', ""),
        Attribute::Floats(values) => format!("{values:?}").replace(' ', ""),
        Attribute::Strings(values) => format!("{values:?}"),
        Attribute::Tensor { dtype, shape, hex } => format!("{dtype}{shape:?} 0x{hex}"),
        Attribute::Tensors(tensors) => {
            let text = |AttributeTensor { dtype, shape, hex }: &AttributeTensor| format!("{dtype}{shape:?} 0x{hex}");
            format!("tensors({})", tensors.iter().map(text).collect::<Vec<_>>().join("; "))
        }
        Attribute::Graph(hex) => format!("graph 0x{hex}"),
        other => format!("{other:?}"),
    }
}
