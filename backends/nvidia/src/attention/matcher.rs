//! Looks through the nodes around attention's products that move no data or only scale: Transpose, Reshape, Split, Cast,
//! and products with numbers.

use std::collections::HashMap;

use byoc_dim as dim;
use byoc_plugin_api::{DType, Dim, Node};

use super::STEP;
use crate::region_matcher::RegionMatcher;

/// Widths of parts of rows, by the value of the rows and the column where a part begins.
pub(super) type Parts = HashMap<(usize, usize), Dim>;

pub(super) type Matcher<'a> = RegionMatcher<'a, Parts>;

/// Whether `rows` is `[..., heads * size]` and `heads` the same split: `[..., heads, size]`.
pub(super) fn are_rows_of(rows: &[Dim], heads: &[Dim]) -> bool {
    let ([before @ .., width], [split @ .., count, size]) = (rows, heads) else { return false };
    let whole = |count: &Dim, size: &Dim| Some(Dim::Fixed(count.fixed()?.checked_mul(size.fixed()?)?));
    whole(count, size).as_ref() == Some(width) && same_count(before, split)
}

fn same_count(a: &[Dim], b: &[Dim]) -> bool {
    matches!((dim::product(a), dim::product(b)), (Ok(a), Ok(b)) if a == b)
}

impl<'a> Matcher<'a> {
    pub(super) fn shape(&self, value: usize) -> &'a [Dim] {
        &self.region.values[value].shape
    }

    pub(super) fn dtype(&self, value: usize) -> DType {
        self.region.values[value].dtype
    }

    pub(super) fn name(&self, value: usize) -> &'a str {
        &self.region.values[value].name
    }

    /// The input of the Transpose that makes a value by this permutation. Each method marks the nodes that it looks through.
    pub(super) fn transposed(&mut self, value: usize, perm: &[i64]) -> Option<usize> {
        self.producer(value).filter(|node| node.op == "Transpose" && node.ints("perm") == Some(perm))?;
        self.step(value, "Transpose")?.input(0)
    }

    /// The rows that a Reshape splits into heads, `[..., heads, size]`, without moving them.
    pub(super) fn unsplit(&mut self, value: usize) -> Option<usize> {
        let rows = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        if !are_rows_of(self.shape(rows), self.shape(value)) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(rows)
    }

    /// The rows of which a value is one part of a Split, aligned to 16 bytes: their value, their width, and the part's first
    /// column. Looks through a Reshape before the Split, too, which keeps rows.
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
        self.state.insert((rows, start), self.shape(value).last()?.clone());
        Some((rows, width, start))
    }

    /// The shape of a value, or of the part of its rows that begins at this column.
    pub(super) fn shape_from(&self, value: usize, start: usize) -> Vec<Dim> {
        let mut shape = self.shape(value).to_vec();
        if let (Some(part), Some(last)) = (self.state.get(&(value, start)), shape.last_mut()) {
            last.clone_from(part);
        }
        shape
    }

    /// The input of a Reshape that keeps the width of rows.
    fn unshaped(&mut self, value: usize) -> Option<usize> {
        let inner = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        let ([before @ .., width], [after @ .., same]) = (self.shape(inner), self.shape(value)) else { return None };
        if width != same || !same_count(before, after) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(inner)
    }

    /// The heads that a Reshape joins to rows.
    pub(super) fn unjoined(&mut self, value: usize) -> Option<usize> {
        let heads = self.producer(value).filter(|node| node.op == "Reshape")?.input(0)?;
        if !are_rows_of(self.shape(value), self.shape(heads)) {
            return None;
        }
        self.step(value, "Reshape")?;
        Some(heads)
    }

    /// A value before it is multiplied or divided by numbers, and the product of these.
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
        self.read_number(by);
        Some((inner, factor))
    }

    /// The value before a conversion between floating-point types.
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
