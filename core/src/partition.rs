//! Stage 4: cuts each graph into regions, in the order in which the user named the backends.

use byoc_plugin_api::Region;

use crate::constants::ConstantRef;
use crate::ir::{Model, ValueId};

/// A region and where it came from.
#[derive(Clone, Debug)]
pub struct RegionPlan {
    /// Index into [`Model::entries`].
    pub entry: usize,
    /// Index of the backend in the list the user gave.
    pub backend: usize,
    /// What the backend sees.
    pub region: Region,
    /// The constants of the region, parallel to [`Region::constants`].
    pub constants: Vec<ConstantRef>,
    /// Values of the entry's graph, parallel to [`Region::inputs`].
    pub inputs: Vec<ValueId>,
    /// Values of the entry's graph, parallel to [`Region::outputs`].
    pub outputs: Vec<ValueId>,
}

/// A model in which every node is in a region. The regions of an entry stand in an order in which they can run.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The graphs and constants.
    pub model: Model,
    /// The regions of all entries.
    pub regions: Vec<RegionPlan>,
}
