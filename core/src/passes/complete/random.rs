//! Seeds of random numbers.

use std::collections::HashSet;

use byoc_plugin_api::Attribute;

use crate::ir::{Model, Node};
use crate::ops::attributes::Kind;
use crate::ops::{self, OpDef};

/// A seed has this many bits, so that it is a whole number as a float too.
const BITS: u32 = 24;

/// Gives each node of random numbers that has no seed one of its own. It follows from the node's name: the same model always
/// has the same numbers.
pub(super) fn complete(model: &mut Model) {
    let seed = |node: &Node| match node.attributes.get("seed") {
        Some(Attribute::Int(seed)) => Some(*seed),
        Some(Attribute::Float(seed)) => Some(*seed as i64),
        _ => None,
    };
    let mut taken: HashSet<i64> = model.entries.iter().flat_map(|graph| graph.nodes.iter().filter_map(seed)).collect();
    for node in model.entries.iter_mut().flat_map(|graph| &mut graph.nodes) {
        let random = |def: &&OpDef| def.is_random(node) && seed(node).is_none();
        let Some(def) = ops::find(&node.domain, &node.op).filter(random) else { continue };
        let mut seed = hash(&node.name);
        while !taken.insert(seed) {
            seed = (seed + 1) % (1 << BITS);
        }
        let float = def.attribute("seed").is_some_and(|attribute| attribute.kind == Kind::Float);
        let value = if float { Attribute::Float(seed as f32) } else { Attribute::Int(seed) };
        node.attributes.insert("seed".into(), value);
    }
}

/// FNV-1a (G. Fowler, L. Noll and K. Vo, RFC 9923), folded to the bits of a seed.
fn hash(name: &str) -> i64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    ((hash ^ (hash >> BITS) ^ (hash >> (2 * BITS))) % (1 << BITS)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Graph;

    #[test]
    fn nodes_without_a_seed_get_different_ones_by_their_names() {
        let node = |name: &str, op: &str, seed: Option<Attribute>, inputs: usize| Node {
            name: name.into(),
            op: op.into(),
            inputs: vec![None; inputs],
            attributes: seed.map(|seed| ("seed".to_owned(), seed)).into_iter().collect(),
            ..Node::default()
        };
        let nodes = vec![
            node("a", "RandomNormal", None, 0),
            node("b", "RandomNormal", None, 0),
            // The same name, as in another entry.
            node("a", "Bernoulli", None, 1),
            node("c", "Dropout", None, 3),
            node("d", "RandomUniform", Some(Attribute::Float(0.5)), 0),
            node("e", "Dropout", None, 1),
            node("f", "Relu", None, 1),
        ];
        let mut model = Model { entries: vec![Graph { nodes, ..Graph::default() }], ..Model::default() };
        complete(&mut model);
        let once = model.clone();
        complete(&mut model);
        let seeds: Vec<_> = model.entries[0].nodes.iter().map(|node| node.attributes.get("seed").cloned()).collect();
        assert_eq!(
            seeds,
            once.entries[0].nodes.iter().map(|node| node.attributes.get("seed").cloned()).collect::<Vec<_>>()
        );
        let a = hash("a");
        assert_eq!(seeds[0], Some(Attribute::Float(a as f32)));
        assert_eq!(seeds[1], Some(Attribute::Float(hash("b") as f32)));
        assert_eq!(seeds[2], Some(Attribute::Float((a + 1) as f32)));
        assert_eq!(seeds[3], Some(Attribute::Int(hash("c"))));
        assert_eq!(seeds[4], Some(Attribute::Float(0.5)));
        assert_eq!(seeds[5..], [None, None]);
    }
}
