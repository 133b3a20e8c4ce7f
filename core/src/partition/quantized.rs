//! What the elements of quantised tensors stand for, as backends are told; and each reader a `DequantizeLinear` of its own,
//! where backends take it with its reader.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{DType, Expr, Node, Quantized, Region};

use crate::ir::{self, Graph, Value, ValueId};

/// The quantised tensors of a region, each once; none of which two nodes say different things.
pub(super) fn of(region: &Region) -> Vec<Quantized> {
    let mut found: Vec<Quantized> = Vec::new();
    let mut unclear = HashSet::new();
    for node in region.nodes.iter().filter(|node| node.domain.is_empty()) {
        let own = operands(node).into_iter().filter_map(|operand| described(region, node, operand));
        for quantized in own.collect::<Vec<_>>() {
            match found.iter().find(|known| known.value == quantized.value) {
                None => found.push(quantized),
                Some(known) if *known == quantized => {}
                Some(_) => drop(unclear.insert(quantized.value)),
            }
        }
    }
    found.retain(|quantized| !unclear.contains(&quantized.value));
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
    // Scales of each row of a batch are not along one dimension.
    if block_size.is_none() && !single && region.values[scale].shape.len() > 1 {
        return None;
    }
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

/// The output of a node that dequantises a tensor of 8 bits by constant scales and zero points: what a quantised operand is.
pub(super) fn dequantized(graph: &Graph, node: &ir::Node) -> Option<ValueId> {
    let is_constant = |value: ValueId| graph.value(value).constant.is_some();
    let x = node.input(0).filter(|_| node.domain.is_empty() && node.op == "DequantizeLinear")?;
    let narrow = matches!(graph.value(x).ty.as_ref()?.dtype, DType::I8 | DType::U8);
    let scales = node.inputs[1..].iter().copied().flatten().all(is_constant);
    node.output(0).filter(|_| narrow && scales)
}

/// The result of a node that quantises or dequantises.
pub(super) fn converts(node: &ir::Node) -> Option<ValueId> {
    let converts = node.domain.is_empty() && matches!(node.op.as_str(), "QuantizeLinear" | "DequantizeLinear");
    node.output(0).filter(|_| converts)
}

/// The nodes that read a value, each once, and whether it is an output of the graph.
fn readers(graph: &Graph, consumers: &[Vec<usize>], value: ValueId) -> (Vec<usize>, bool) {
    let mut readers = consumers[value.0].clone();
    readers.dedup();
    (readers, graph.outputs.contains(&value))
}

/// Whether some quantised operand has several readers.
pub(super) fn shares(graph: &Graph) -> bool {
    let consumers = graph.consumers();
    graph.nodes.iter().filter_map(|node| dequantized(graph, node)).any(|value| {
        let (readers, output) = readers(graph, &consumers, value);
        readers.len() + usize::from(output) > 1
    })
}

/// Gives each reader of a quantised operand a `DequantizeLinear` of its own: exporters let several share it, and a match takes
/// its operands whole. The first reader keeps the one that is there; an output of the graph does.
pub(super) fn part(graph: &mut Graph) {
    let consumers = graph.consumers();
    let mut names = UniqueNames::of(graph);
    // For each reader, what it is to read in place of what.
    let mut own: HashMap<usize, Vec<(usize, ValueId)>> = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let Some(value) = dequantized(graph, node) else { continue };
        let (readers, output) = readers(graph, &consumers, value);
        for reader in readers.into_iter().skip(usize::from(!output)) {
            own.entry(reader).or_default().push((index, value));
        }
    }
    let originals = graph.nodes.clone();
    for (reader, mut node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        for (index, value) in own.remove(&reader).unwrap_or_default() {
            let mut copy = originals[index].clone();
            let Value { name, ty, .. } = graph.value(value).clone();
            let output = graph.add_value(names.unique(&name), ty);
            (copy.name, copy.outputs) = (names.unique(&copy.name), vec![Some(output)]);
            node.inputs.iter_mut().filter(|input| **input == Some(value)).for_each(|input| *input = Some(output));
            // Right before its reader, so that the order stays topological.
            graph.nodes.push(copy);
        }
        graph.nodes.push(node);
    }
}

/// Names of nodes and values, and the next number of each.
struct UniqueNames {
    taken: HashSet<String>,
    next: HashMap<String, usize>,
}

impl UniqueNames {
    fn of(graph: &Graph) -> UniqueNames {
        let values = graph.values.iter().map(|value| value.name.clone());
        let taken = values.chain(graph.nodes.iter().map(|node| node.name.clone())).collect();
        UniqueNames { taken, next: HashMap::new() }
    }

    fn unique(&mut self, name: &str) -> String {
        let next = self.next.entry(name.to_owned()).or_insert(2);
        loop {
            let unique = format!("{name}_{next}");
            *next += 1;
            if self.taken.insert(unique.clone()) {
                return unique;
            }
        }
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
        // A scale for each row of a batch, and a tensor of which the node says two things.
        let batch = told(r#""op":"QLinearMatMul","inputs":[0,0,2,4,3,4,1,2]"#, "[5]");
        assert_eq!(batch, [(4, 3, [Some(4), Some(0), None]), (5, 1, [Some(2), None, None])]);
        assert_eq!(told(r#""op":"QLinearMatMul","inputs":[0,1,2,0,3,4,1,2]"#, "[5]"), [(5, 1, [Some(2), None, None])]);
    }
}
