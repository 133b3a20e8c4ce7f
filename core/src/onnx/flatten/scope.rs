//! The names and attributes of one call of a function, put into the nodes of its body.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::names::Names;
use super::super::proto::{AttributeProto, GraphProto, NodeProto};

/// The renaming of a function's body for one call.
pub(super) struct Call<'a> {
    /// What each value of the function is called in the caller's graph.
    pub(super) values: HashMap<String, String>,
    attributes: &'a BTreeMap<String, AttributeProto>,
    name: &'a str,
}

impl<'a> Call<'a> {
    /// A call by the node of that name with these attributes.
    pub(super) fn new(name: &'a str, attributes: &'a BTreeMap<String, AttributeProto>) -> Call<'a> {
        Call { values: HashMap::new(), attributes, name }
    }

    /// Puts the caller's names and attributes into a node of the function's body.
    pub(super) fn bind(&mut self, node: &mut NodeProto, taken: &mut Names) {
        self.bind_node(node, &HashSet::new(), taken);
    }

    /// `own` are the values of the graphs that the node is in, within the function's: they keep their names.
    fn bind_node(&mut self, node: &mut NodeProto, own: &HashSet<String>, taken: &mut Names) {
        for value in node.input.iter_mut().chain(&mut node.output) {
            self.rename(value, own, taken);
        }
        let bound = std::mem::take(&mut node.attribute).into_iter().filter_map(|attribute| {
            match attribute.ref_attr_name.as_deref().filter(|reference| !reference.is_empty()) {
                None => Some(attribute),
                // An optional attribute that the caller does not set stays unset.
                Some(reference) => {
                    let given = self.attributes.get(reference)?;
                    Some(AttributeProto { name: attribute.name, ..given.clone() })
                }
            }
        });
        node.attribute = bound.collect();
        for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut()) {
            self.bind_graph(graph, own, taken);
        }
    }

    fn bind_graph(&mut self, graph: &mut GraphProto, around: &HashSet<String>, taken: &mut Names) {
        let mut own = around.clone();
        own.extend(super::super::values::defined(graph).map(str::to_owned));
        for output in graph.output.iter_mut().filter_map(|info| info.name.as_mut()) {
            self.rename(output, &own, taken);
        }
        graph.node.iter_mut().for_each(|node| self.bind_node(node, &own, taken));
    }

    fn rename(&mut self, value: &mut String, own: &HashSet<String>, taken: &mut Names) {
        if value.is_empty() || own.contains(value) {
            return;
        }
        let known = self.values.entry(std::mem::take(value));
        *value = match known {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let unique = taken.unique(&format!("{}/{}", self.name, new.key()));
                new.insert(unique).clone()
            }
        };
    }
}
