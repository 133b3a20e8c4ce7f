//! Any operator by its reference kernel.

use byoc_plugin_api::{Error, Node};

use super::super::memory::Io;
use super::Call;
use super::unequal::Unequal;
use crate::reference;

/// One node.
pub(super) struct Reference {
    node: Node,
    /// What may be wrong if the node fails.
    unequal: Option<Unequal>,
}

impl Reference {
    pub(super) fn new(node: Node, unequal: Option<Unequal>) -> Self {
        Reference { node, unequal }
    }
}

impl Call for Reference {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let inputs = (0..io.inputs.len()).map(|index| io.inputs.view(index)).collect::<Result<Vec<_>, _>>()?;
        let count = io.outputs.len();
        let mut outputs = (0..count).map(|index| io.outputs.take_view(index)).collect::<Result<Vec<_>, _>>()?;
        reference::run(&self.node, &inputs, &mut outputs, io.texts).map_err(|error| match &self.unequal {
            Some(unequal) => unequal.explain(error),
            None => error,
        })
    }
}
