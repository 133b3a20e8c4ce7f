//! What the elements of quantised tensors stand for, as backends are told; and each reader a `DequantizeLinear` of its own,
//! where backends take it with its reader.

use std::collections::HashSet;

use byoc_plugin_api::{Expr, Node, Quantized, Region};

use crate::ir::Graph;

/// The quantised tensors of a region, each once.
pub(super) fn of(region: &Region) -> Vec<Quantized> {
    let mut found: Vec<Quantized> = Vec::new();
    for node in region.nodes.iter().filter(|node| node.domain.is_empty()) {
        let own = operands(node).into_iter().filter_map(|operand| described(region, node, operand));
        for quantized in own.collect::<Vec<_>>() {
            if !found.iter().any(|known| known.value == quantized.value) {
                found.push(quantized);
            }
        }
    }
    found
}

/// A tensor of a node with its scale and its zero point.
struct Operand {
    value: Option<usize>,
    scale: Option<usize>,
    zero_point: Option<usize>,
    /// The dimension along which there may be several scales.
    axis: i64,
}

fn operands(node: &Node) -> Vec<Operand> {
    let at = |value, scale: usize, axis| {
        let (scale, zero_point) = (node.input(scale), node.input(scale + 1));
        Operand { value, scale, zero_point, axis }
    };
    match node.op.as_str() {
        "QuantizeLinear" => vec![at(node.output(0), 1, node.int("axis", 1))],
        "DequantizeLinear" => vec![at(node.input(0), 1, node.int("axis", 1))],
        "DynamicQuantizeLinear" => {
            vec![Operand { value: node.output(0), scale: node.output(1), zero_point: node.output(2), axis: 0 }]
        }
        "QLinearConv" => vec![at(node.input(0), 1, 0), at(node.input(3), 4, 0), at(node.output(0), 6, 0)],
        "QLinearMatMul" => vec![at(node.input(0), 1, -2), at(node.input(3), 4, -1), at(node.output(0), 6, 0)],
        _ => vec![],
    }
}

fn described(region: &Region, node: &Node, operand: Operand) -> Option<Quantized> {
    let (value, scale) = (operand.value?, operand.scale?);
    let rank = region.values[value].shape.len() as i64;
    let single = region.values[scale].shape.iter().all(|size| size.fixed() == Some(1));
    let axis = if operand.axis < 0 { operand.axis + rank } else { operand.axis };
    let block_size = usize::try_from(node.int("block_size", 0)).ok().filter(|&size| size > 0);
    let axis = usize::try_from(axis).ok().filter(|_| !single || block_size.is_some());
    Some(Quantized { value, scale, zero_point: operand.zero_point, axis, block_size })
}

/// Whether a pattern has quantised operands.
pub(super) fn asks(pattern: &Expr) -> bool {
    match pattern {
        Expr::Dequantized { .. } => true,
        Expr::Any { .. } => false,
        Expr::Or(inner) | Expr::Node { operands: inner, .. } => inner.iter().any(asks),
    }
}

/// Whether some `DequantizeLinear` has several readers.
pub(super) fn shares(graph: &Graph) -> bool {
    let consumers = graph.consumers();
    let readers = |node: &crate::ir::Node| node.output(0).map_or(0, |value| readers(graph, &consumers, value.0));
    graph.nodes.iter().any(|node| node.domain.is_empty() && node.op == "DequantizeLinear" && readers(node) > 1)
}

fn readers(graph: &Graph, consumers: &[Vec<usize>], value: usize) -> usize {
    let outputs = graph.outputs.iter().filter(|output| output.0 == value).count();
    consumers[value].iter().collect::<HashSet<_>>().len() + outputs
}

/// Gives each reader of a `DequantizeLinear` one of its own: exporters let several share it, and a match takes its operands
/// whole. The first reader keeps the one that is there; an output of the graph does.
pub(super) fn part(graph: &mut Graph) {
    let consumers = graph.consumers();
    let mut names: HashSet<String> = graph.values.iter().map(|value| value.name.clone()).collect();
    names.extend(graph.nodes.iter().map(|node| node.name.clone()));
    let mut unique = |name: &str| {
        let name = (2..).map(|n| format!("{name}_{n}")).find(|name| !names.contains(name)).unwrap_or_default();
        names.insert(name.clone());
        name
    };
    let mut copies = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let Some(output) = node.output(0).filter(|_| node.domain.is_empty() && node.op == "DequantizeLinear") else {
            continue;
        };
        let kept = usize::from(!graph.outputs.contains(&output));
        let mut readers = consumers[output.0].clone();
        readers.dedup();
        copies.extend(readers.into_iter().skip(kept).map(|reader| (index, output, reader)));
    }
    let mut own = Vec::new();
    for (index, output, reader) in copies {
        let mut node = graph.nodes[index].clone();
        let value = graph.value(output).clone();
        let copy = graph.add_value(unique(&value.name), value.ty);
        node.name = unique(&node.name);
        node.outputs = vec![Some(copy)];
        for input in graph.nodes[reader].inputs.iter_mut().filter(|input| **input == Some(output)) {
            *input = Some(copy);
        }
        own.push((reader, node));
    }
    // Right before its reader, so that the order stays topological.
    own.sort_by_key(|(reader, _)| std::cmp::Reverse(*reader));
    for (reader, node) in own {
        graph.nodes.insert(reader, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(node: &str, outputs: &str) -> Region {
        let value = |(name, shape): &(&str, &str)| format!(r#"{{"name":"{name}","dtype":"u8","shape":{shape}}}"#);
        let values =
            [("x", "[2,3,4]"), ("one", "[]"), ("zero", "[]"), ("list", "[3]"), ("zeros", "[3]"), ("y", "[2,3,4]")];
        let text = format!(
            r#"{{"schema":"byoc-region/1","symbol":"s","values":[{}],"inputs":[0],"outputs":[5],"constants":[],"nodes":[
               {{"name":"n",{node},"outputs":{outputs}}}]}}"#,
            values.iter().map(value).collect::<Vec<_>>().join(",")
        );
        serde_json::from_str(&text).expect("a region")
    }

    /// Value and scale; zero point, axis and size of blocks.
    type Told = (usize, usize, [Option<usize>; 3]);

    fn told(node: &str, outputs: &str) -> Vec<Told> {
        let all = of(&region(node, outputs)).into_iter();
        all.map(|it| (it.value, it.scale, [it.zero_point, it.axis, it.block_size])).collect()
    }

    #[test]
    fn every_operator_tells_what_it_knows() {
        let quantize = |inputs: &str, attributes: &str| {
            told(&format!(r#""op":"QuantizeLinear","inputs":{inputs},"attributes":{attributes}"#), "[5]")
        };
        assert_eq!(quantize("[0,1,2]", r#"{"axis":{"int":1}}"#), [(5, 1, [Some(2), None, None])]);
        assert_eq!(quantize("[0,3]", r#"{"axis":{"int":1},"block_size":{"int":0}}"#), [(5, 3, [None, Some(1), None])]);
        let blocks = quantize("[0,3,4]", r#"{"axis":{"int":2},"block_size":{"int":2}}"#);
        assert_eq!(blocks, [(5, 3, [Some(4), Some(2), Some(2)])]);
        let dequantize = told(r#""op":"DequantizeLinear","inputs":[0,1]"#, "[5]");
        assert_eq!(dequantize, [(0, 1, [None, None, None])]);
        assert_eq!(told(r#""op":"DynamicQuantizeLinear","inputs":[0]"#, "[5,1,2]"), [(5, 1, [Some(2), None, None])]);
        assert_eq!(told(r#""op":"DynamicQuantizeLinear","inputs":[0]"#, "[5,null,2]"), []);
        let product = told(r#""op":"QLinearMatMul","inputs":[0,1,2,4,3,4,1,2]"#, "[5]");
        assert_eq!(
            product,
            [(0, 1, [Some(2), None, None]), (4, 3, [Some(4), Some(0), None]), (5, 1, [Some(2), None, None])]
        );
        let other = told(r#""op":"QuantizeLinear","domain":"com.acme","inputs":[0,1]"#, "[5]");
        assert_eq!(other, []);
    }
}
