//! Kernels of whole operators, and of several nodes at once, from memory to memory: the one list of them.

pub(crate) mod conv;
pub(crate) mod pool;
#[cfg(test)]
mod testing;
pub(crate) mod window;

use std::collections::BTreeSet;

use byoc_nvidia::attention;
use byoc_nvidia::build::Generated;
use byoc_nvidia::program::Place;
use byoc_plugin_api::{Node, Refusal, RefusalCode, Region};

use crate::lower::refused;

/// Operators that have a kernel of their own.
pub(crate) const OPERATORS: &[&str] = &["AveragePool", "Conv", "MaxPool"];

/// What a kernel computes.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Attention, in one node or in pieces.
    Attention(Box<attention::Spec>),
    /// A convolution, with what follows.
    Conv(Box<conv::ConvSpec>),
    /// A pooling.
    Pool(Box<pool::PoolSpec>),
}

/// Nodes that one kernel computes.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) kind: Kind,
    /// The region's nodes, the last of which gives the result.
    pub(crate) nodes: BTreeSet<usize>,
    /// The region's values that the kernel reads, in its order.
    pub(crate) inputs: Vec<usize>,
    /// The region's value that it writes.
    pub(crate) output: usize,
    /// Constants that decided what is computed.
    pub(crate) numbers: Vec<usize>,
}

/// Finds all of them in a region, none of which shares a node with another.
///
/// # Errors
///
/// When the kernel of an operator does not compute a node that has no other.
pub(crate) fn find(region: &Region) -> Result<Vec<Whole>, Refusal> {
    let mut found: Vec<Whole> = Vec::new();
    for (index, node) in region.nodes.iter().enumerate().filter(|(_, node)| node.domain.is_empty()) {
        let whole = match node.op.as_str() {
            "MatMul" | "Attention" => attention_at(region, node),
            "Conv" => conv::form::find(region, index, &taken(&found)),
            "AveragePool" | "MaxPool" => pool_at(region, index, node),
            _ => continue,
        };
        match whole {
            Ok(whole) => found.push(whole),
            // A product inside of attention is no attention, and is told about where it is none's.
            Err(_) if node.op == "MatMul" => {}
            Err(refusal) => return Err(crate::lower::at(&node.name, refusal)),
        }
    }
    Ok(found)
}

fn taken(found: &[Whole]) -> BTreeSet<usize> {
    found.iter().flat_map(|whole| &whole.nodes).copied().collect()
}

/// The nodes that read a value, and whether the region gives it.
fn readers(region: &Region, value: usize) -> (Vec<usize>, bool) {
    let reads = |node: &Node| node.inputs.contains(&Some(value));
    let readers = (0..region.nodes.len()).filter(|&index| reads(&region.nodes[index]));
    (readers.collect(), region.outputs.contains(&value))
}

/// The one node that reads a value which nothing else wants.
fn only_reader(region: &Region, value: usize) -> Option<(usize, &Node)> {
    match readers(region, value) {
        (readers, false) if readers.len() == 1 => Some((readers[0], &region.nodes[readers[0]])),
        _ => None,
    }
}

/// Attention that ends with a node, or with a Transpose behind it, or with a Reshape behind that.
fn attention_at(region: &Region, node: &Node) -> Result<Whole, Refusal> {
    let output = node.output(0).ok_or_else(|| refused(RefusalCode::Other, "it has no result"))?;
    let behind = |value: Option<usize>, op: &str| {
        only_reader(region, value?).filter(|(_, node)| node.op == op).and_then(|(_, node)| node.output(0))
    };
    let turned = behind(Some(output), "Transpose");
    let ends = [behind(turned, "Reshape"), turned].into_iter().flatten();
    let longest = ends.map(|end| attention::read_at(region, end)).find_map(Result::ok);
    let form = longest.map_or_else(|| attention::read_at(region, output), Ok)?;
    let inputs = [Some(form.q), Some(form.k), Some(form.v), form.mask].into_iter().flatten().collect();
    // What others want as well, such as transposed keys, is computed for them.
    let mut nodes: BTreeSet<usize> = form.nodes.iter().copied().collect();
    let wanted = |index: usize, nodes: &BTreeSet<usize>| {
        let mut outputs = region.nodes[index].outputs.iter().flatten().filter(|&&output| output != form.output);
        outputs.any(|&output| {
            let (readers, given) = readers(region, output);
            given || readers.iter().any(|reader| !nodes.contains(reader))
        })
    };
    while let Some(&index) = nodes.iter().rev().find(|&&index| wanted(index, &nodes)) {
        nodes.remove(&index);
    }
    let kind = Kind::Attention(Box::new(form.spec));
    Ok(Whole { kind, nodes, inputs, output: form.output, numbers: form.numbers })
}

fn pool_at(region: &Region, index: usize, node: &Node) -> Result<Whole, Refusal> {
    let kind = Kind::Pool(Box::new(pool::read(region, node)?));
    let inputs = node.input(0).into_iter().collect();
    let output = node.output(0).ok_or_else(|| refused(RefusalCode::Other, "it has no result"))?;
    Ok(Whole { kind, nodes: BTreeSet::from([index]), inputs, output, numbers: Vec::new() })
}

/// The kernel called `name`, which finds operands and result there.
pub(crate) fn write(kind: &Kind, name: &str, at: &[Place]) -> Result<Generated, String> {
    match kind {
        Kind::Attention(spec) => attention::generate(spec, name, at).map_err(|error| error.to_string()),
        Kind::Conv(spec) => Ok(conv::generate(spec, name, at)),
        Kind::Pool(spec) => Ok(pool::generate(spec, name, at)),
    }
}
