//! A region as one product is read of it: what backends take decides which casts belong to it.

use std::ops::{Deref, DerefMut};

use byoc_plugin_api::{DType, Refusal, Region};

use super::{Takes, other};
use crate::nodes::Nodes;

pub(super) struct Graph<'a> {
    nodes: Nodes<'a>,
    pub(super) takes: Takes,
}

impl<'a> Deref for Graph<'a> {
    type Target = Nodes<'a>;

    fn deref(&self) -> &Nodes<'a> {
        &self.nodes
    }
}

impl DerefMut for Graph<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.nodes
    }
}

impl<'a> Graph<'a> {
    pub(super) fn new(region: &'a Region, takes: Takes) -> Self {
        Graph { nodes: Nodes::new(region), takes }
    }

    /// The f32 value that `output` is cast from, where the backend computes the sum before it.
    pub(super) fn narrowed(&mut self, output: usize) -> Option<usize> {
        let from = self.producer(output).filter(|_| self.takes.wide_bias)?.input(0)?;
        let is_wide = |value: usize| self.region.values[value].dtype == DType::F32;
        (is_wide(from) && !is_wide(output)).then(|| self.step(output, "Cast")).flatten().map(|_| from)
    }

    /// The product that a cast made `value` of.
    pub(super) fn widened(&mut self, value: usize) -> Result<usize, Refusal> {
        let cast = self.step(value, "Cast").and_then(|node| node.input(0));
        cast.ok_or_else(|| other("a sum in f32 that is cast, of no product that was cast"))
    }
}
