//! Control flow in the `graph` section, and what is done with sequences and optionals.

use std::collections::BTreeSet;

use byoc_plugin_api::Allowance;
use serde::{Deserialize, Serialize};

use super::{Entry, ListOp, Manifest};

/// A node that core runs itself. One of control flow runs bodies, which are entries behind the one that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The node's name in the model.
    pub name: String,
    /// How many of [`Entry::calls`] run before it.
    pub before: usize,
    /// What it runs.
    #[serde(flatten)]
    pub kind: ControlKind,
    /// Indices into [`Entry::values`]: what the node has in ONNX, both the limit and the condition of a loop included; then
    /// what its bodies read of the entry.
    pub inputs: Vec<usize>,
    /// Indices into [`Entry::values`], as the node has in ONNX; none for what nobody reads.
    pub outputs: Vec<Option<usize>>,
}

/// The kinds of control flow, as ONNX has them, and operators on sequences and optionals. Bodies are indices into
/// [`Manifest::entries`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum ControlKind {
    /// Runs one of two bodies.
    If {
        /// Where the condition holds.
        then_branch: usize,
        /// Where it does not.
        else_branch: usize,
    },
    /// Runs a body while its condition holds, up to a limit.
    Loop {
        /// What is run.
        body: usize,
        /// How many values each iteration hands to the next.
        carried: usize,
    },
    /// Runs a body for each slice of some tensors.
    Scan {
        /// What is run.
        body: usize,
        /// How many values each iteration hands to the next: the first inputs.
        carried: usize,
        /// How many tensors are sliced: the inputs behind those.
        scanned: usize,
        /// The axis of each tensor that is sliced; the first one where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input_axes: Vec<i64>,
        /// Whether each is sliced from its end; from its beginning where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input_directions: Vec<i64>,
        /// The axis along which each of the last outputs is put together; the first one where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        output_axes: Vec<i64>,
        /// Whether each is put together from its end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        output_directions: Vec<i64>,
    },
    /// Runs a body for each element of some sequences; what it gives are the elements of others.
    SequenceMap {
        /// What is run.
        body: usize,
        /// Of each input that the node has in ONNX whether the body gets its elements one by one.
        mapped: Vec<bool>,
    },
    /// Puts tensors into sequences and optionals, and takes them out.
    List(ListOp),
}

impl ControlKind {
    /// What it may run.
    pub fn bodies(&self) -> Vec<usize> {
        match *self {
            ControlKind::If { then_branch, else_branch } => vec![then_branch, else_branch],
            ControlKind::Loop { body, .. } | ControlKind::Scan { body, .. } | ControlKind::SequenceMap { body, .. } => {
                vec![body]
            }
            ControlKind::List(_) => vec![],
        }
    }
}

impl Manifest {
    /// The entries that a caller may run.
    pub fn callable(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.body)
    }

    /// The entry of that name, if a caller may run it.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.callable().find(|entry| entry.name == name)
    }

    /// How far a value of the entry may be off, since backends of regions that it depends on compute with fewer bits than the
    /// model has: the errors of all of them add up.
    pub fn allowance(&self, entry: &Entry, value: usize) -> Option<Allowance> {
        let mut needed = BTreeSet::from([value]);
        let (mut regions, mut bodies) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let before = needed.len();
            // Behind one another as a rule, so that one round does it.
            for control in entry.control.iter().rev() {
                if control.outputs.iter().flatten().any(|value| needed.contains(value)) {
                    needed.extend(&control.inputs);
                    bodies.extend(control.kind.bodies());
                }
            }
            for (index, call) in entry.calls.iter().enumerate().rev() {
                if call.outputs.iter().any(|value| needed.contains(value)) {
                    needed.extend(&call.inputs);
                    regions.insert(index);
                }
            }
            if needed.len() == before {
                break;
            }
        }
        let of_bodies = bodies.into_iter().flat_map(|body| self.with_bodies(&self.entries[body]));
        let calls = regions.into_iter().map(|index| &entry.calls[index]);
        let calls = calls.chain(of_bodies.flat_map(|body| &body.calls));
        calls.filter_map(|call| self.regions[call.region].precision).reduce(Allowance::and)
    }

    /// The entry and the bodies that it may run.
    pub fn with_bodies<'a>(&'a self, entry: &'a Entry) -> Vec<&'a Entry> {
        let mut all = vec![entry];
        let mut next = 0;
        while let Some(&entry) = all.get(next) {
            next += 1;
            let bodies = entry.control.iter().flat_map(|control| control.kind.bodies());
            for body in bodies.filter_map(|body| self.entries.get(body)) {
                // A body has one node that runs it, so none is met twice.
                all.push(body);
            }
        }
        all
    }
}
