//! Trees are looked at when they are imported: a file may name nodes that are not there, or lead in circles.

use std::collections::HashMap;

use byoc_plugin_api::{Attribute, DType, from_hex};

use super::bad;
use crate::diagnostic::{Diagnostic, Result};
use crate::ir::Node;
use crate::onnx::builder::Builder;
use crate::ops::ml::MODES;

/// Where a branch leads.
#[derive(Clone, Copy)]
enum Next {
    Node(usize),
    Leaf,
}

/// TreeEnsembleRegressor.
pub(super) fn regressor(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    named_nodes(builder, node, "target", node.int("n_targets", 1))
}

/// TreeEnsembleClassifier.
pub(super) fn classifier(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    let texts = match node.attributes.get("classlabels_strings") {
        Some(Attribute::Strings(texts)) => texts.len(),
        _ => 0,
    };
    let labels = texts + node.ints("classlabels_int64s").map_or(0, <[i64]>::len);
    named_nodes(builder, node, "class", i64::try_from(labels).unwrap_or(i64::MAX))
}

/// The trees of the versions before 5, whose nodes have the numbers of their tree and of themselves.
fn named_nodes(builder: &Builder<'_>, node: &mut Node, what: &str, targets: i64) -> Result<()> {
    for name in ["nodes_hitrates", "nodes_hitrates_as_tensor"] {
        node.attributes.remove(name);
    }
    let numbers = |name: &str| node.ints(name).unwrap_or_default();
    let (trees, ids) = (numbers("nodes_treeids"), numbers("nodes_nodeids"));
    let (yes, no) = (numbers("nodes_truenodeids"), numbers("nodes_falsenodeids"));
    let modes: &[String] =
        if let Some(Attribute::Strings(modes)) = node.attributes.get("nodes_modes") { modes } else { &[] };
    let all = ["nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"];
    lengths(node, "nodes_treeids", &all, &["nodes_missing_value_tracks_true"], "nodes_values")?;
    let [of_tree, of_node, of_target] = ["treeids", "nodeids", "ids"].map(|list| format!("{what}_{list}"));
    lengths(node, &of_tree, &[&of_node, &of_target], &[], &format!("{what}_weights"))?;
    features(builder, node)?;
    if modes.iter().any(|mode| mode == MODES[6]) {
        return Err(bad(node, format!("only TreeEnsemble has the mode '{}'", MODES[6])));
    }
    let mut places = HashMap::new();
    for (place, key) in trees.iter().zip(ids).enumerate() {
        if places.insert(key, place).is_some() {
            return Err(bad(node, format!("tree {} has two nodes {}", key.0, key.1)));
        }
    }
    let next = |place: usize| {
        let child = |id: &i64| {
            let found = places
                .get(&(&trees[place], id))
                .map(|&place| if modes[place] == MODES[7] { Next::Leaf } else { Next::Node(place) });
            found.ok_or_else(|| {
                bad(node, format!("tree {}: node {} leads to node {id}, which is not there", trees[place], ids[place]))
            })
        };
        if modes[place] == MODES[7] { Ok([Next::Leaf; 2]) } else { Ok([child(&yes[place])?, child(&no[place])?]) }
    };
    let branches = (0..ids.len()).map(next).collect::<Result<Vec<_>>>()?;
    if let Some(place) = circle(&branches) {
        return Err(bad(node, format!("tree {}: what follows node {} leads back to it", trees[place], ids[place])));
    }
    for ((tree, id), target) in numbers(&of_tree).iter().zip(numbers(&of_node)).zip(numbers(&of_target)) {
        if !places.contains_key(&(tree, id)) {
            return Err(bad(
                node,
                format!("attribute '{what}_weights' is for node {id} of tree {tree}, which is not there"),
            ));
        }
        if !(0..targets).contains(target) {
            return Err(bad(node, format!("attribute '{of_target}' has {target}, and there are {targets}")));
        }
    }
    Ok(())
}

/// TreeEnsemble, whose nodes and leaves are known by their places.
pub(super) fn ensemble(builder: &mut Builder<'_>, node: &mut Node, _: i64) -> Result<()> {
    node.attributes.remove("nodes_hitrates");
    let all = [
        "nodes_truenodeids",
        "nodes_falsenodeids",
        "nodes_trueleafs",
        "nodes_falseleafs",
        "nodes_modes",
        "nodes_splits",
    ];
    lengths(node, "nodes_featureids", &all, &["nodes_missing_value_tracks_true"], "")?;
    lengths(node, "leaf_targetids", &["leaf_weights"], &[], "")?;
    features(builder, node)?;
    let numbers = |name: &str| node.ints(name).unwrap_or_default();
    let (nodes, leaves) = (numbers("nodes_featureids").len(), numbers("leaf_targetids").len());
    let next = |place: usize, child: i64, leaf: i64| {
        let (what, count) = if leaf != 0 { ("leaf", leaves) } else { ("node", nodes) };
        let child = usize::try_from(child).ok().filter(|&child| child < count).ok_or_else(|| {
            bad(node, format!("node {place} of its trees leads to {what} {child}, and there are {count}"))
        })?;
        Ok::<_, Diagnostic>(if leaf != 0 { Next::Leaf } else { Next::Node(child) })
    };
    let (yes, no) = (numbers("nodes_truenodeids"), numbers("nodes_falsenodeids"));
    let (yes_leaf, no_leaf) = (numbers("nodes_trueleafs"), numbers("nodes_falseleafs"));
    let both = |place: usize| Ok([next(place, yes[place], yes_leaf[place])?, next(place, no[place], no_leaf[place])?]);
    let branches = (0..nodes).map(both).collect::<Result<Vec<_>>>()?;
    if let Some(place) = circle(&branches) {
        return Err(bad(node, format!("what follows node {place} of its trees leads back to it")));
    }
    if let Some(root) =
        numbers("tree_roots").iter().find(|&&root| usize::try_from(root).is_ok_and(|root| root >= nodes) || root < 0)
    {
        return Err(bad(node, format!("attribute 'tree_roots' has {root}, and there are {nodes} nodes")));
    }
    let targets = node.int("n_targets", 1);
    if let Some(target) = numbers("leaf_targetids").iter().find(|target| !(0..targets).contains(target)) {
        return Err(bad(node, format!("attribute 'leaf_targetids' has {target}, and there are {targets}")));
    }
    modes_and_sets(node)
}

/// Fails where a mode is not one, or the sets are not as many as the nodes that ask for membership.
fn modes_and_sets(node: &Node) -> Result<()> {
    let Some(Attribute::Tensor { dtype: DType::U8, hex, .. }) = node.attributes.get("nodes_modes") else {
        return Err(bad(node, "attribute 'nodes_modes' must be a tensor of u8"));
    };
    let modes = from_hex(hex).unwrap_or_default();
    if let Some(mode) = modes.iter().find(|&&mode| mode > 6) {
        return Err(bad(node, format!("attribute 'nodes_modes' has {mode}, expected 0 to 6")));
    }
    let members = modes.iter().filter(|&&mode| mode == 6).count();
    let ends = match node.attributes.get("membership_values") {
        Some(Attribute::Tensor { dtype, hex, .. }) => {
            let bytes = from_hex(hex).unwrap_or_default();
            let is_nan = |element: &[u8]| match dtype {
                DType::F32 => element.try_into().is_ok_and(|bytes| f32::from_le_bytes(bytes).is_nan()),
                DType::F64 => element.try_into().is_ok_and(|bytes| f64::from_le_bytes(bytes).is_nan()),
                DType::F16 => element.try_into().is_ok_and(|bytes| half::f16::from_le_bytes(bytes).is_nan()),
                _ => false,
            };
            let elements: Vec<_> = bytes.chunks_exact(dtype.unpacked_bytes()).map(is_nan).collect();
            // The end of the last set may be left out.
            elements.iter().filter(|&&end| end).count() + usize::from(elements.last() == Some(&false))
        }
        _ => 0,
    };
    if ends < members {
        return Err(bad(
            node,
            format!("attribute 'membership_values' has {ends} sets, and {members} nodes ask for one"),
        ));
    }
    Ok(())
}

/// How many elements an attribute has, if it is there.
fn length(node: &Node, name: &str) -> Option<usize> {
    match node.attributes.get(name)? {
        Attribute::Ints(values) => Some(values.len()),
        Attribute::Floats(values) => Some(values.len()),
        Attribute::Strings(values) => Some(values.len()),
        Attribute::Tensor { shape, .. } => Some(shape.iter().product()),
        _ => None,
    }
}

/// Fails where lists have another length than the first; optional ones may be absent or empty. The numbers called `numbers` are a
/// list or a tensor.
fn lengths(node: &Node, first: &str, others: &[&str], optional: &[&str], numbers: &str) -> Result<()> {
    let expected = length(node, first).filter(|&length| length > 0);
    let expected = expected.ok_or_else(|| bad(node, format!("attribute '{first}' is missing")))?;
    let wrong = |name: &str, found: usize| {
        bad(node, format!("attribute '{name}' has {found} elements, and '{first}' {expected}"))
    };
    for name in others {
        let found = length(node, name).unwrap_or(0);
        if found != expected {
            return Err(wrong(name, found));
        }
    }
    for name in optional {
        if let Some(found) = length(node, name).filter(|&found| found != 0 && found != expected) {
            return Err(wrong(name, found));
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let forms = [length(node, numbers), length(node, &format!("{numbers}_as_tensor"))];
    match forms.into_iter().flatten().filter(|&length| length > 0).collect::<Vec<_>>()[..] {
        [found] if found == expected => Ok(()),
        [found] => Err(wrong(numbers, found)),
        [] => Err(wrong(numbers, 0)),
        _ => Err(bad(node, format!("attributes '{numbers}' and '{numbers}_as_tensor' are both there"))),
    }
}

/// Fails where a node looks at a feature that the table does not have, as far as its width is known.
fn features(builder: &Builder<'_>, node: &Node) -> Result<()> {
    let ty = node.input(0).and_then(|x| builder.graph.value(x).ty.as_ref());
    let columns = ty.and_then(|ty| ty.shape.last()?.fixed());
    let outside = |feature: &&i64| {
        usize::try_from(**feature).map_or(true, |feature| columns.is_some_and(|columns| feature >= columns))
    };
    match node.ints("nodes_featureids").unwrap_or_default().iter().find(outside) {
        Some(feature) => {
            let there = columns.map_or_else(String::new, |columns| format!(", and there are {columns}"));
            Err(bad(node, format!("attribute 'nodes_featureids' has {feature}{there}")))
        }
        None => Ok(()),
    }
}

/// A node that can be reached from itself.
fn circle(branches: &[[Next; 2]]) -> Option<usize> {
    // Of each node: not seen, on the way, done.
    let mut state = vec![0u8; branches.len()];
    for start in 0..branches.len() {
        let mut way = vec![(start, 0)];
        while let Some((place, taken)) = way.last_mut() {
            let at = *place;
            if *taken == 0 && state[at] != 0 {
                way.pop();
                continue;
            }
            state[at] = 1;
            match branches[at].get(*taken) {
                None => {
                    state[at] = 2;
                    way.pop();
                }
                Some(next) => {
                    *taken += 1;
                    if let Next::Node(child) = *next {
                        match state[child] {
                            1 => return Some(child),
                            0 => way.push((child, 0)),
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    None
}
