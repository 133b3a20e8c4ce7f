//! A region as attention is read of it: through transpositions, splits, joins and factors around its products.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use byoc_dim as dim;
use byoc_plugin_api::{DType, Dim, Node, Region};

use super::STEP;
use crate::nodes::Nodes;

#[derive(Clone)]
pub(super) struct Graph<'a> {
    nodes: Nodes<'a>,
    /// How wide parts of rows are that are read there, by the rows and where a part begins.
    parts: HashMap<(usize, usize), Dim>,
}

/// Whether rows of heads that lie beside each other make up heads of that shape: `[..., heads, size]`.
pub(super) fn are_rows_of(rows: &[Dim], heads: &[Dim]) -> bool {
    let ([before @ .., width], [split @ .., count, size]) = (rows, heads) else { return false };
    let whole = |count: &Dim, size: &Dim| Some(Dim::Fixed(count.fixed()?.checked_mul(size.fixed()?)?));
    whole(count, size).as_ref() == Some(width) && same_count(before, split)
}

fn same_count(a: &[Dim], b: &[Dim]) -> bool {
    matches!((dim::product(a), dim::product(b)), (Ok(a), Ok(b)) if a == b)
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
    pub(super) fn new(region: &'a Region) -> Self {
        Graph { nodes: Nodes::new(region), parts: HashMap::new() }
    }

    pub(super) fn shape(&self, value: usize) -> &'a [Dim] {
        &self.region.values[value].shape
    }

    pub(super) fn dtype(&self, value: usize) -> DType {
        self.region.values[value].dtype
    }

    pub(super) fn name(&self, value: usize) -> &'a str {
        &self.region.values[value].name
    }

    /// The transposed value, if a node transposes it so. It counts as read.
    pub(super) fn transposed(&mut self, value: usize, perm: &[i64]) -> Option<usize> {
        self.producer(value).filter(|node| node.op == "Transpose" && node.ints("perm") == Some(perm))?;
        self.step(value, "Transpose")?.input(0)
    }

    /// The rows that a Reshape splits into heads to make a value of that shape, whose last two dimensions are heads and
    /// their columns: the same memory. The Reshape counts as read.
    pub(super) fn unsplit(&mut self, value: usize) -> Option<usize> {
        let rows = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        if !are_rows_of(self.shape(rows), self.shape(value)) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(rows)
    }

    /// The rows of which a Split along them makes a value that copies of 16 bytes reach: their value, how wide they are, and
    /// where the part begins. The Split counts as read, and a Reshape before it that leaves rows as they are.
    pub(super) fn whole_rows(&mut self, value: usize) -> Option<(usize, usize, usize)> {
        let makes = |node: &Node| node.outputs.iter().position(|&output| output == Some(value));
        let mut nodes = self.region.nodes.iter().enumerate();
        let (index, node, part) = nodes.find_map(|(index, node)| Some((index, node, makes(node)?)))?;
        let rows = node.input(0).filter(|_| node.op == "Split" && node.domain.is_empty())?;
        let rank = self.shape(rows).len() as i64;
        if ![-1, rank - 1].contains(&node.int("axis", 0)) {
            return None;
        }
        let width = |value: usize| self.shape(value).last()?.fixed();
        let before = node.outputs[..part].iter().map(|&output| width(output?));
        let (start, width) = (before.sum::<Option<usize>>()?, width(rows)?);
        if start % STEP != 0 || width % STEP != 0 {
            return None;
        }
        self.mark_node(index);
        let rows = self.unshaped(rows).unwrap_or(rows);
        self.parts.insert((rows, start), self.shape(value).last()?.clone());
        Some((rows, width, start))
    }

    /// The shape of what is read of a value from there on: its own, but for parts of its rows.
    pub(super) fn shape_from(&self, value: usize, start: usize) -> Vec<Dim> {
        let mut shape = self.shape(value).to_vec();
        if let (Some(part), Some(last)) = (self.parts.get(&(value, start)), shape.last_mut()) {
            last.clone_from(part);
        }
        shape
    }

    /// What a Reshape makes rows of as wide as they were. The Reshape counts as read.
    fn unshaped(&mut self, value: usize) -> Option<usize> {
        let inner = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        let ([before @ .., width], [after @ .., same]) = (self.shape(inner), self.shape(value)) else { return None };
        if width != same || !same_count(before, after) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(inner)
    }

    /// What a Reshape joins to rows, which it makes. The Reshape counts as read.
    pub(super) fn unjoined(&mut self, value: usize) -> Option<usize> {
        let heads = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        if !are_rows_of(self.shape(value), self.shape(heads)) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(heads)
    }

    /// Follows products with numbers and divisions by numbers, and gives the value without them and their product.
    pub(super) fn unscaled(&mut self, mut value: usize) -> (usize, f64) {
        let mut scale = 1.0;
        while let Some((inner, factor)) = self.factor(value) {
            (value, scale) = (inner, scale * factor);
        }
        (value, scale)
    }

    fn factor(&mut self, value: usize) -> Option<(usize, f64)> {
        let node = self.producer(value)?;
        let (a, b) = (node.input(0)?, node.input(1)?);
        let one = |value: usize| {
            let numbers = self.region.constant_floats(value)?;
            (numbers.len() == 1 && numbers[0].is_finite()).then(|| numbers[0])
        };
        let (inner, by, factor) = match (node.op.as_str(), one(a), one(b)) {
            ("Mul", _, Some(factor)) => (a, b, factor),
            ("Mul", Some(factor), None) => (b, a, factor),
            ("Div", _, Some(divisor)) if divisor != 0.0 => (a, b, 1.0 / divisor),
            _ => return None,
        };
        if self.shape(inner) != self.shape(value) {
            return None;
        }
        self.mark(value);
        self.decided_by(by);
        Some((inner, factor))
    }

    /// The value before a conversion between floating-point types. The conversion counts as read.
    pub(super) fn uncast(&mut self, value: usize) -> usize {
        let floats = [DType::F32, DType::F16, DType::BF16];
        match self.producer(value).and_then(|node| node.input(0).filter(|_| node.op == "Cast")) {
            Some(inner) if floats.contains(&self.dtype(inner)) && floats.contains(&self.dtype(value)) => {
                self.step(value, "Cast");
                inner
            }
            _ => value,
        }
    }
}
