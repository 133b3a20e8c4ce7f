//! The list of standalone kernels, each written by hand for one operator or a group of nodes: attention, Conv and pooling.

pub(crate) mod conv;
pub(crate) mod pool;
#[cfg(test)]
mod testing;
pub(crate) mod window;

use std::collections::BTreeSet;

use byoc_nvidia::attention;
use byoc_nvidia::build::GeneratedKernel;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{Node, Refusal, RefusalCode, Region};

use crate::lower::refused;

/// Operators that a standalone kernel computes.
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

/// A standalone kernel, and the nodes that it computes.
#[derive(Clone, Debug)]
pub(crate) struct StandaloneKernel {
    pub(crate) kind: Kind,
    /// The region's nodes, the last of which makes the result.
    pub(crate) nodes: BTreeSet<usize>,
    /// The region's values that the kernel reads, in the order of its parameters.
    pub(crate) inputs: Vec<usize>,
    /// The region's value that it writes.
    pub(crate) output: usize,
    /// Constants whose numbers are in the kernel's source.
    pub(crate) numbers: Vec<usize>,
}

/// Finds the standalone kernels of a region. No two share a node.
///
/// # Errors
///
/// When a node needs a standalone kernel that does not support it.
pub(crate) fn find(region: &Region) -> Result<Vec<StandaloneKernel>, Refusal> {
    let mut found: Vec<StandaloneKernel> = Vec::new();
    for (index, node) in region.nodes.iter().enumerate().filter(|(_, node)| node.domain.is_empty()) {
        let kernel = match node.op.as_str() {
            "MatMul" | "Attention" => attention_at(region, node),
            "Conv" => conv::epilogue::find(region, index, &taken(&found)),
            "AveragePool" | "MaxPool" => pool_at(region, index, node),
            _ => continue,
        };
        match kernel {
            Ok(kernel) => found.push(kernel),
            // A MatMul that does not end attention may be inside of it; `lower` refuses it otherwise.
            Err(_) if node.op == "MatMul" => {}
            Err(refusal) => return Err(crate::lower::at(&node.name, refusal)),
        }
    }
    Ok(found)
}

fn taken(found: &[StandaloneKernel]) -> BTreeSet<usize> {
    found.iter().flat_map(|kernel| &kernel.nodes).copied().collect()
}

/// The nodes that read a value, and whether it is an output of the region.
fn readers(region: &Region, value: usize) -> (Vec<usize>, bool) {
    let reads = |node: &Node| node.inputs.contains(&Some(value));
    let readers = (0..region.nodes.len()).filter(|&index| reads(&region.nodes[index]));
    (readers.collect(), region.outputs.contains(&value))
}

/// The only node that reads a value, which is not an output.
fn only_reader(region: &Region, value: usize) -> Option<(usize, &Node)> {
    match readers(region, value) {
        (readers, false) if readers.len() == 1 => Some((readers[0], &region.nodes[readers[0]])),
        _ => None,
    }
}

/// Attention whose last node this is, or a Transpose after it, or a Reshape after that.
fn attention_at(region: &Region, node: &Node) -> Result<StandaloneKernel, Refusal> {
    let output = node.output(0).ok_or_else(|| refused(RefusalCode::Other, "it has no result"))?;
    let behind = |value: Option<usize>, op: &str| {
        only_reader(region, value?).filter(|(_, node)| node.op == op).and_then(|(_, node)| node.output(0))
    };
    let turned = behind(Some(output), "Transpose");
    let ends = [behind(turned, "Reshape"), turned].into_iter().flatten();
    let longest = ends.map(|end| attention::read_at(region, end)).find_map(Result::ok);
    let matched = longest.map_or_else(|| attention::read_at(region, output), Ok)?;
    let inputs = [Some(matched.q), Some(matched.k), Some(matched.v), matched.mask].into_iter().flatten().collect();
    // Nodes whose results others read, too, such as transposed keys, are computed separately as well.
    let mut nodes: BTreeSet<usize> = matched.nodes.iter().copied().collect();
    let wanted = |index: usize, nodes: &BTreeSet<usize>| {
        let mut outputs = region.nodes[index].outputs.iter().flatten().filter(|&&output| output != matched.output);
        outputs.any(|&output| {
            let (readers, given) = readers(region, output);
            given || readers.iter().any(|reader| !nodes.contains(reader))
        })
    };
    while let Some(&index) = nodes.iter().rev().find(|&&index| wanted(index, &nodes)) {
        nodes.remove(&index);
    }
    let kind = Kind::Attention(Box::new(matched.spec));
    Ok(StandaloneKernel { kind, nodes, inputs, output: matched.output, numbers: matched.numbers })
}

fn pool_at(region: &Region, index: usize, node: &Node) -> Result<StandaloneKernel, Refusal> {
    let kind = Kind::Pool(Box::new(pool::read(region, node)?));
    let inputs = node.input(0).into_iter().collect();
    let output = node.output(0).ok_or_else(|| refused(RefusalCode::Other, "it has no result"))?;
    Ok(StandaloneKernel { kind, nodes: BTreeSet::from([index]), inputs, output, numbers: Vec::new() })
}

/// Writes the kernel called `name`; `at` are its operands and its result.
pub(crate) fn write(kind: &Kind, name: &str, at: &[BufferRef]) -> Result<GeneratedKernel, String> {
    match kind {
        Kind::Attention(spec) => attention::generate(spec, name, at).map_err(|error| error.to_string()),
        Kind::Conv(spec) => Ok(conv::generate(spec, name, at)),
        Kind::Pool(spec) => Ok(pool::generate(spec, name, at)),
    }
}
