//! A rectangle divided among sizes, in tiles that are as square as can be: the rule of Bruls, Huizing and van Wijk, "Squarified
//! Treemaps" (2000).

use serde::Serialize;

/// The whole rectangle.
pub(super) const WIDTH: f64 = 1000.0;
pub(super) const HEIGHT: f64 = 520.0;

/// A part of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Tile {
    /// What it is.
    pub(super) label: String,
    /// `stored`, `packed`, `code` or `other`.
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    /// What more there is to say.
    pub(super) text: String,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Gives each tile its place, the largest first. Tiles without bytes are left out.
pub(super) fn squarified(mut tiles: Vec<Tile>) -> Vec<Tile> {
    tiles.retain(|tile| tile.bytes > 0);
    tiles.sort_by_key(|tile| std::cmp::Reverse(tile.bytes));
    let total: f64 = tiles.iter().map(|tile| tile.bytes as f64).sum();
    let scale = WIDTH * HEIGHT / total.max(1.0);
    let (mut x, mut y, mut width, mut height) = (0.0, 0.0, WIDTH, HEIGHT);
    let mut start = 0;
    while start < tiles.len() {
        let side = f64::min(width, height);
        let area = |tile: &Tile| tile.bytes as f64 * scale;
        let mut end = start + 1;
        while end < tiles.len() && worst(&tiles[start..=end], scale, side) <= worst(&tiles[start..end], scale, side) {
            end += 1;
        }
        let row: f64 = tiles[start..end].iter().map(area).sum();
        let thick = row / side.max(f64::MIN_POSITIVE);
        let mut along = 0.0;
        for tile in &mut tiles[start..end] {
            let long = tile.bytes as f64 * scale / thick.max(f64::MIN_POSITIVE);
            (tile.x, tile.y, tile.width, tile.height) = match width >= height {
                true => (x, y + along, thick, long),
                false => (x + along, y, long, thick),
            };
            along += long;
        }
        match width >= height {
            true => (x, width) = (x + thick, width - thick),
            false => (y, height) = (y + thick, height - thick),
        }
        start = end;
    }
    for tile in &mut tiles {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        (tile.x, tile.y) = (rounded(tile.x), rounded(tile.y));
        (tile.width, tile.height) = (rounded(tile.width), rounded(tile.height));
    }
    tiles
}

/// The least square of the tiles in a row along a side: the ratio of its sides.
fn worst(row: &[Tile], scale: f64, side: f64) -> f64 {
    let areas = || row.iter().map(|tile| tile.bytes as f64 * scale);
    let sum: f64 = areas().sum();
    let ratio = |area: f64| f64::max(side * side * area / (sum * sum), sum * sum / (side * side * area));
    areas().map(ratio).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_rectangle_by_their_bytes() {
        let tile = |bytes| Tile { bytes, ..Tile::default() };
        let tiles = squarified([6, 6, 4, 3, 2, 2, 1, 0].map(tile).into());
        assert_eq!(tiles.len(), 7);
        for tile in &tiles {
            let area = tile.width * tile.height;
            let share = tile.bytes as f64 / 24.0 * WIDTH * HEIGHT;
            assert!((area - share).abs() < share * 0.01, "{tile:?}");
            assert!(tile.x >= 0.0 && tile.x + tile.width <= WIDTH + 0.1, "{tile:?}");
            assert!(tile.y >= 0.0 && tile.y + tile.height <= HEIGHT + 0.1, "{tile:?}");
            assert!(f64::max(tile.width / tile.height, tile.height / tile.width) < 4.0, "{tile:?}");
        }
        assert_eq!(squarified(Vec::new()), []);
    }
}
