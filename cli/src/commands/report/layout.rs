//! Places for the nodes of a graph: in layers from top to bottom, each below all that it reads, and in a layer near those; where
//! there are many layers, in columns from left to right.

use serde::Serialize;

/// Distance from one node to the next, across and down, in the units of the page.
const ACROSS: f64 = 190.0;
const DOWN: f64 = 76.0;

/// Between columns.
const GUTTER: f64 = 40.0;

/// The width of a screen over its height.
const SCREEN: f64 = 2.0;

/// A graph of so many layers is one column.
const FEW: usize = 10;

/// About how many heights of columns are tried.
const TRIED: usize = 200;

/// Rounds in which nodes are put nearer to their neighbours.
const ROUNDS: usize = 4;

/// The middle of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Places of `count` nodes with these edges, each from a node to a later one.
pub(super) fn places(count: usize, edges: &[(usize, usize)]) -> Vec<Place> {
    let (mut before, mut after) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for &(from, to) in edges {
        before[to].push(from);
        after[from].push(to);
    }
    let mut layer = vec![0; count];
    for node in 0..count {
        layer[node] = before[node].iter().map(|&from| layer[from] + 1).max().unwrap_or(0);
    }
    // What reads nothing that is computed stands right above its first reader.
    for node in (0..count).rev().filter(|&node| before[node].is_empty()) {
        layer[node] = after[node].iter().map(|&to| layer[to] - 1).min().unwrap_or(0);
    }
    let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
    (0..count).for_each(|node| layers[layer[node]].push(node));
    let mut x = vec![0.0; count];
    layers.iter().for_each(|nodes| spread(nodes, &mut x));
    for round in 0..ROUNDS {
        let (neighbours, order): (_, Vec<usize>) = match round % 2 {
            0 => (&before, (0..layers.len()).collect()),
            _ => (&after, (0..layers.len()).rev().collect()),
        };
        for at in order {
            let wanted = |node: usize| match neighbours[node].as_slice() {
                [] => x[node],
                near => near.iter().map(|&other| x[other]).sum::<f64>() / near.len() as f64,
            };
            let mut wanted: Vec<_> = layers[at].iter().map(|&node| (wanted(node), node)).collect();
            // A stable sort: nodes with the same wish stay in order.
            wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
            layers[at] = wanted.iter().map(|&(_, node)| node).collect();
            let middle = wanted.iter().map(|(wish, _)| wish).sum::<f64>() / wanted.len().max(1) as f64;
            spread(&layers[at], &mut x);
            layers[at].iter().for_each(|&node| x[node] += middle);
        }
    }
    let columns = Columns::of(&layers, &x);
    let place =
        |node: usize| Place { x: (x[node] + columns.shift(layer[node])).round(), y: columns.row(layer[node]) * DOWN };
    (0..count).map(place).collect()
}

/// What a frame needs above its nodes for its name, and on its other sides.
const TITLE: f64 = 34.0;
const MARGIN: f64 = 12.0;

/// The size of a node.
const NODE: (f64, f64) = (166.0, 42.0);

/// A group of nodes in rows, in their order, and the frame around them.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) places: Vec<Place>,
    pub(super) from: Place,
    pub(super) to: Place,
}

/// Blocks of so many nodes each, with these edges, each from a block to a later one: placed as nodes are, with the room that they take.
pub(super) fn blocks(counts: &[usize], edges: &[(usize, usize)]) -> Vec<Block> {
    let coarse = places(counts.len(), edges);
    // As many rows as columns: nodes are wider than high, as screens are.
    let across = |count: usize| (1..).find(|wide| wide * wide >= count).unwrap_or(1);
    let height = |count: usize| count.div_ceil(across(count)) as f64 * DOWN + TITLE;
    let widest = counts.iter().map(|&count| across(count)).max().unwrap_or(1) as f64;
    // Each row of blocks is as high as the highest block in it.
    let mut rows: std::collections::BTreeMap<i64, f64> = std::collections::BTreeMap::new();
    for (place, &count) in coarse.iter().zip(counts) {
        let row = rows.entry((place.y / DOWN).round() as i64).or_default();
        *row = row.max(height(count) + GUTTER);
    }
    let top = |place: &Place| rows.range(..(place.y / DOWN).round() as i64).map(|(_, height)| height).sum::<f64>();
    let block = |(place, &count): (&Place, &usize)| {
        let wide = across(count);
        let (left, top) = (place.x * widest - (wide as f64 - 1.0) * ACROSS / 2.0, top(place));
        let at = |index: usize| Place {
            x: (left + (index % wide) as f64 * ACROSS).round(),
            y: top + (index / wide) as f64 * DOWN,
        };
        let last = top + (count.div_ceil(wide) as f64 - 1.0) * DOWN;
        let (half, up) = (NODE.0 / 2.0 + MARGIN, NODE.1 / 2.0);
        let from = Place { x: (left - half).round(), y: top - up - TITLE };
        let to = Place { x: (left + (wide as f64 - 1.0) * ACROSS + half).round(), y: last + up + MARGIN };
        Block { places: (0..count).map(at).collect(), from, to }
    };
    coarse.iter().zip(counts).map(block).collect()
}

/// A graph of many layers is not a ribbon: it is cut into columns, so that the whole is about as wide as a screen.
struct Columns {
    /// Layers of a column.
    rows: usize,
    /// What is added to the place of each column's layers.
    shifts: Vec<f64>,
}

impl Columns {
    fn of(layers: &[Vec<usize>], x: &[f64]) -> Columns {
        let edges: Vec<(f64, f64)> = layers
            .iter()
            .map(|nodes| {
                let (left, right) = nodes
                    .iter()
                    .fold((0.0, 0.0), |(left, right), &node| (f64::min(left, x[node]), f64::max(right, x[node])));
                (left - ACROSS / 2.0, right + ACROSS / 2.0)
            })
            .collect();
        let cut = |rows: usize| {
            let extent = |part: &[(f64, f64)]| {
                part.iter().fold((0.0, 0.0), |(left, right), it| (f64::min(left, it.0), f64::max(right, it.1)))
            };
            edges.chunks(rows).map(extent).collect::<Vec<_>>()
        };
        let shape = |rows: usize| {
            let width: f64 = cut(rows).iter().map(|(left, right)| right - left + GUTTER).sum();
            (width / (rows as f64 * DOWN) / SCREEN).ln().abs()
        };
        // Some hundred heights are tried and not all: each looks at every layer.
        let step = layers.len() / TRIED + 1;
        let shapes = (FEW..=layers.len().max(FEW)).step_by(step).map(|rows| (shape(rows), rows));
        let rows = shapes.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(FEW, |(_, rows)| rows);
        let mut from = 0.0;
        let shifts = cut(rows)
            .iter()
            .map(|(left, right)| {
                let shift = from - left;
                from += right - left + GUTTER;
                shift
            })
            .collect();
        Columns { rows, shifts }
    }

    fn shift(&self, layer: usize) -> f64 {
        self.shifts.get(layer / self.rows).copied().unwrap_or_default()
    }

    fn row(&self, layer: usize) -> f64 {
        (layer % self.rows) as f64
    }
}

/// Side by side, around the middle.
fn spread(nodes: &[usize], x: &mut [f64]) {
    let half = (nodes.len() as f64 - 1.0) / 2.0;
    nodes.iter().enumerate().for_each(|(index, &node)| x[node] = (index as f64 - half) * ACROSS);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn nodes_stand_below_what_they_read() {
        // A diamond, and a node that only the last one reads.
        let places = places(5, &[(0, 1), (0, 2), (1, 4), (2, 4), (3, 4)]);
        let rows: Vec<_> = places.iter().map(|place| place.y / DOWN).collect();
        assert_eq!(rows, [0.0, 1.0, 1.0, 1.0, 2.0]);
        let mut across: Vec<_> = places[1..4].iter().map(|place| place.x).collect();
        across.sort_by(f64::total_cmp);
        assert!(across.windows(2).all(|pair| pair[1] - pair[0] >= ACROSS), "{across:?}");
    }

    #[test]
    fn a_short_chain_is_a_line_and_a_long_one_fills_a_screen() {
        let chain = |count: usize| places(count, &(1..count).map(|node| (node - 1, node)).collect::<Vec<_>>());
        assert!(chain(10).windows(2).all(|pair| pair[0].x == pair[1].x && pair[1].y - pair[0].y == DOWN));
        let places = chain(400);
        let [width, height] = [|place: &Place| place.x, |place: &Place| place.y].map(|of: fn(&Place) -> f64| {
            places.iter().map(of).fold(0.0, f64::max) - places.iter().map(of).fold(f64::MAX, f64::min)
        });
        assert!((1.5..2.5).contains(&(width / height)), "{width} by {height}");
        assert_eq!(super::places(0, &[]), []);
    }

    #[test]
    fn blocks_hold_their_nodes_and_do_not_overlap() {
        let blocks = blocks(&[85, 1, 3, 20], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        for (index, block) in blocks.iter().enumerate() {
            let inside =
                |at: &Place| block.from.x < at.x && at.x < block.to.x && block.from.y < at.y && at.y < block.to.y;
            assert!(block.places.iter().all(inside), "{block:?}");
            let apart = |other: &Block| {
                other.to.x <= block.from.x
                    || block.to.x <= other.from.x
                    || other.to.y <= block.from.y
                    || block.to.y <= other.from.y
            };
            assert!(blocks[index + 1..].iter().all(apart), "{blocks:?}");
        }
        assert_eq!(blocks.iter().map(|block| block.places.len()).collect::<Vec<_>>(), [85, 1, 3, 20]);
    }

    #[test]
    fn large_graphs_take_no_time() {
        let start = Instant::now();
        let edges: Vec<_> = (1..50_000).flat_map(|node| [(node / 2, node), (node - 1, node)]).collect();
        assert_eq!(places(50_000, &edges).len(), 50_000);
        // A part of a second: a bound that only a rule that is worse than linear in layers, of which there are as many, would break.
        assert!(start.elapsed().as_secs() < 20);
    }
}
