//! The constants of the new model by name, in the form in which an artifact stores them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use byoc_plugin_api::{DType, to_hex};
use bytes::Bytes;

use crate::artifact::Artifact;
use crate::constants::{ConstantRef, ConstantTable, digest};
use crate::diagnostic::Result;
use crate::ir::CustomOperators;
use crate::onnx::{self, ImportOptions};
use crate::overwrite::Input;

/// What is to be taken from the new model.
pub(super) struct NewModel {
    table: ConstantTable,
    by_name: HashMap<String, Vec<Named>>,
    /// Names of what nodes make.
    computed: HashSet<String>,
    /// The files that it was read from.
    pub(super) inputs: Vec<Input>,
    /// The model as messages have it.
    pub(super) label: String,
}

/// A constant of the new model under one of its names.
pub(super) struct Named {
    pub(super) dtype: DType,
    pub(super) constant: ConstantRef,
    /// Whether a node or an output reads it.
    pub(super) read: bool,
    /// Constants are numbered as they are found.
    position: usize,
}

/// Elements as an artifact stores them.
#[derive(Clone)]
pub(super) struct Content {
    pub(super) bytes: Bytes,
    /// As the ledger has it.
    pub(super) digest: String,
}

impl NewModel {
    /// Reads the model files. What shapes they leave open does not matter for their constants. Calls of functions that are
    /// nodes of the artifact are nodes here: the constants of the functions' bodies are not in it.
    pub(super) fn import(paths: &[PathBuf], artifact: &Artifact) -> Result<NewModel> {
        let sources: Vec<(String, &Path)> =
            paths.iter().enumerate().map(|(index, path)| (index.to_string(), path.as_path())).collect();
        let nodes = artifact.nodes()?.iter().flatten();
        let custom = CustomOperators::any().with_calls(nodes.map(|node| node.name.clone()).collect());
        let model = onnx::import(&sources, &ImportOptions::default(), &custom)?;
        let label = match paths {
            [path] => format!("'{}'", path.display()),
            _ => "the new models".to_owned(),
        };
        let mut by_name: HashMap<String, Vec<Named>> = HashMap::new();
        let (mut computed, mut position) = (HashSet::new(), 0);
        for graph in &model.entries {
            let made: HashSet<_> = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
            let inputs = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
            let read: HashSet<_> = inputs.chain(&graph.outputs).copied().collect();
            computed.extend(made.iter().map(|&id| graph.value(id).name.clone()));
            for (index, value) in graph.values.iter().enumerate() {
                let Some(constant) = value.constant.clone() else { continue };
                let dtype = model.constants.get(constant.base).dtype;
                let read = read.contains(&crate::ir::ValueId(index));
                by_name.entry(value.name.clone()).or_default().push(Named { dtype, constant, read, position });
                position += 1;
            }
        }
        Ok(NewModel { inputs: model.inputs(), table: model.constants, by_name, computed, label })
    }

    /// The constants of that name: one for each model that has it.
    pub(super) fn named(&self, name: &str) -> &[Named] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every name of a constant, in the order in which they are found.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_by_key(|name| self.position(name));
        names
    }

    /// When the name was found; names that are not those of constants come last.
    pub(super) fn position(&self, name: &str) -> usize {
        self.named(name).first().map_or(usize::MAX, |named| named.position)
    }

    /// Whether a node makes a value of that name.
    pub(super) fn computes(&self, name: &str) -> bool {
        self.computed.contains(name)
    }

    /// All elements in row-major order, without a copy where they are so.
    pub(super) fn elements(&self, named: &Named, transposed: bool) -> Content {
        let base = self.table.get(named.constant.base);
        let mut constant = named.constant.clone();
        if transposed && constant.view.shape.len() == 2 {
            constant.view = constant.view.transpose(&[1, 0]);
        }
        let view = &constant.view;
        let all = view.bytes(base.dtype) == base.bytes.len();
        if all && view.offset == 0 && view.is_contiguous() {
            return content(base.bytes.clone(), &base.digest);
        }
        let bytes = Bytes::from(self.table.materialize(&constant));
        let digest = digest(&bytes);
        content(bytes, &digest)
    }

    /// The element that stands for all, if they are equal.
    pub(super) fn splat(&self, named: &Named) -> Option<Content> {
        let base = self.table.get(named.constant.base);
        (Some(base.bytes.len()) == base.dtype.element_bytes()).then(|| content(base.bytes.clone(), &base.digest))
    }
}

fn content(bytes: Bytes, digest: &[u8; 32]) -> Content {
    Content { bytes, digest: to_hex(&digest[..16]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A constant that the artifact has transposed is laid out as it has it, whichever way round the new model's table
    /// has it.
    #[test]
    fn contents_stand_as_the_artifact_has_them() {
        let mut table = ConstantTable::default();
        let wide = table.insert("wide", DType::U8, &[2, 3], Bytes::from_static(&[1, 2, 3, 4, 5, 6]));
        let high = ConstantRef { base: wide.base, view: wide.view.transpose(&[1, 0]) };
        let splat = table.insert("splat", DType::U8, &[2, 3], Bytes::from_static(&[7; 6]));
        let (computed, inputs, label) = (HashSet::new(), Vec::new(), String::new());
        let new = NewModel { table, by_name: HashMap::new(), computed, inputs, label };
        let cases: [(&ConstantRef, bool, &[u8]); 6] = [
            (&wide, false, &[1, 2, 3, 4, 5, 6]),
            (&wide, true, &[1, 4, 2, 5, 3, 6]),
            (&high, true, &[1, 2, 3, 4, 5, 6]),
            (&high, false, &[1, 4, 2, 5, 3, 6]),
            (&splat, false, &[7; 6]),
            (&splat, true, &[7; 6]),
        ];
        for (constant, transposed, expected) in cases {
            let named = Named { dtype: DType::U8, constant: constant.clone(), read: true, position: 0 };
            let content = new.elements(&named, transposed);
            assert_eq!(content.bytes, expected, "{constant:?} {transposed}");
            assert_eq!(content.digest, to_hex(&digest(expected)[..16]));
            assert_eq!(new.splat(&named).is_some(), constant == &splat);
        }
    }
}
