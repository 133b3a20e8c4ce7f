//! What products of rows of A with panels of B read and write, in tiles of six rows.

use super::dot::Dot;
use super::finish::{Finish, Target};
use super::pack::{DEPTH, PANEL};
use super::stats::PanelStats;

/// Rows of a tile.
pub(super) const MOST_ROWS: usize = 6;

/// Calls `$tile::<P>(.., row)` for all rows of a range, [`MOST_ROWS`] at a time and then what is left.
#[cfg(target_arch = "x86_64")]
macro_rules! each_tile {
    ($rows:expr, $tile:ident $(::<$wide:tt>)?, $($argument:expr),+) => {{
        let std::ops::Range { start: mut row, end: rows } = $rows;
        while row + super::tile::MOST_ROWS <= rows {
            $tile::<{ super::tile::MOST_ROWS } $(, $wide)?>($($argument),+, row);
            row += super::tile::MOST_ROWS;
        }
        match rows - row {
            0 => {}
            1 => $tile::<1 $(, $wide)?>($($argument),+, row),
            2 => $tile::<2 $(, $wide)?>($($argument),+, row),
            3 => $tile::<3 $(, $wide)?>($($argument),+, row),
            4 => $tile::<4 $(, $wide)?>($($argument),+, row),
            _ => $tile::<5 $(, $wide)?>($($argument),+, row),
        }
    }};
}
#[cfg(target_arch = "x86_64")]
pub(super) use each_tile;

/// Rows of a tile of windows. Sizes of images are multiples of it more often than of [`MOST_ROWS`].
#[cfg(target_arch = "x86_64")]
pub(super) const MOST_WINDOWS: usize = 7;

/// Calls `$tile::<P>(.., row)` for `$rows` rows, in tiles of nearly as many each, [`MOST_WINDOWS`] at most.
#[cfg(target_arch = "x86_64")]
macro_rules! each_even_tile {
    ($rows:expr, $tile:ident $(::<$wide:tt>)?, $($argument:expr),+) => {{
        let (rows, tiles) = ($rows, $rows.div_ceil(super::tile::MOST_WINDOWS));
        for index in 0..tiles {
            let std::ops::Range { start: row, end } = crate::kernels::parallel::part(rows, tiles, index);
            match end - row {
                0 => {}
                1 => $tile::<1 $(, $wide)?>($($argument),+, row),
                2 => $tile::<2 $(, $wide)?>($($argument),+, row),
                3 => $tile::<3 $(, $wide)?>($($argument),+, row),
                4 => $tile::<4 $(, $wide)?>($($argument),+, row),
                5 => $tile::<5 $(, $wide)?>($($argument),+, row),
                6 => $tile::<6 $(, $wide)?>($($argument),+, row),
                _ => $tile::<{ super::tile::MOST_WINDOWS } $(, $wide)?>($($argument),+, row),
            }
        }
    }};
}
#[cfg(target_arch = "x86_64")]
pub(super) use each_even_tile;

/// Where the elements of rows of A are: lines of as many rows each, whose elements are in pieces of as many bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vectors of x86-64 multiply bytes"))]
pub(super) struct Places {
    /// How many lines.
    pub(super) lines: usize,
    /// Bytes from a line to the next.
    pub(super) line: usize,
    /// Bytes from a row of a line to the next.
    pub(super) row: usize,
    /// Pieces of a row.
    pub(super) pieces: usize,
    /// Bytes from a piece of a row to the next one.
    pub(super) piece: usize,
}

impl Places {
    /// Rows of so many bytes, one behind another.
    pub(super) fn dense(depth: usize) -> Places {
        Places { lines: 1, line: 0, row: depth, pieces: 1, piece: 0 }
    }

    /// Bytes from the first one of the first row to behind the last one of the last.
    fn reach(&self, rows: usize, depth: usize) -> usize {
        let rows_of_line = (rows / self.lines).saturating_sub(1) * self.row;
        (self.lines - 1) * self.line + rows_of_line + (self.pieces - 1) * self.piece + depth / self.pieces
    }
}

/// Rows of A times panels of B.
pub(super) struct Tiles<'a> {
    /// Rows of `depth` elements; [`Dot::Wide`] does without.
    pub(super) bytes: &'a [u8],
    /// Where they are; dense ones, unless [`Dot::takes_pieces`].
    pub(super) places: Places,
    /// Whether the panels of B that follow are to be asked for.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vectors of x86-64 multiply bytes"))]
    pub(super) ahead: bool,
    /// The same without their zero point; empty where the dot products do without.
    pub(super) wide: &'a [i16],
    /// The greatest byte of each tile, for [`Dot::Pairs`].
    pub(super) peaks: &'a [u8],
    /// The zero point of the bytes.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vectors of x86-64 multiply bytes"))]
    pub(super) zero: u8,
    /// Panels of B, as many as [`Dot::panels`] at most.
    pub(super) b: &'a [i8],
    /// Whether [`Dot::Vnni512`] is to find the sums of columns while it multiplies: they are not in `stats`.
    pub(super) finds: bool,
    /// What is known of each panel; [`Dot::Wide`] does without.
    pub(super) stats: &'a [PanelStats],
    /// Elements of a row: a multiple of [`DEPTH`].
    pub(super) depth: usize,
    /// What follows, for as many rows and the columns of all panels.
    pub(super) finish: Finish<'a>,
}

impl Tiles<'_> {
    /// # Panics
    /// If a length is not what the dot products read.
    pub(super) fn check(&self, dot: Dot) {
        let (rows, panels) = (self.finish.rows, self.finish.columns.len().div_ceil(PANEL));
        assert!(self.depth.is_multiple_of(DEPTH) && (1..=dot.panels()).contains(&panels));
        assert!(self.b.len() == panels * self.depth * PANEL);
        let elements = rows * self.depth;
        let dense = self.places == Places::dense(self.depth);
        assert!(dense || dot.takes_pieces() && !self.finds);
        assert!(!self.finds || dot == Dot::Vnni512);
        match dot {
            Dot::Wide => assert!(self.wide.len() == elements),
            Dot::Pairs => {
                assert!(self.bytes.len() == elements && self.stats.len() == panels);
                assert!(self.peaks.len() == rows.div_ceil(MOST_ROWS));
                let fits = |&peak| self.stats[0].chain(peak) > 0;
                assert!(self.wide.len() == elements || self.peaks.iter().all(fits));
            }
            Dot::Vnni256 => assert!(self.bytes.len() == elements && self.stats.len() == panels),
            Dot::Vnni512 | Dot::Amx => {
                let Places { lines, pieces, .. } = self.places;
                assert!(lines > 0 && rows.is_multiple_of(lines) && self.stats.len() == panels);
                assert!(pieces > 0 && self.depth.is_multiple_of(pieces * DEPTH));
                let plain = !self.finish.e.needs_sums() && !matches!(self.finish.out, Target::Sums(_));
                assert!(plain || dense);
                assert!(self.bytes.len() >= self.places.reach(rows, self.depth));
            }
        }
    }

    /// What the zero point of A takes off the columns of a panel whose products are those of bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn taken(&self, panel: usize) -> [i32; PANEL] {
        self.stats[panel].sums.map(|sum| sum.wrapping_mul(i32::from(self.zero)))
    }

    /// One of its lines.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn line(&self, index: usize) -> Tiles<'_> {
        let (rows, places) = (self.finish.rows / self.places.lines, self.places);
        let finish = Finish { rows, row: self.finish.row + index * rows, ..self.finish.clone() };
        let bytes = &self.bytes[index * places.line..];
        Tiles { bytes, places: Places { lines: 1, ..places }, ahead: self.ahead && index == 0, finish, ..*self }
    }

    /// What all instruction sets compute, by its definition: from 16 bits.
    ///
    /// # Safety
    /// The rows and columns of `finish` are in C, and nothing else accesses them.
    pub(super) unsafe fn portable(&self) {
        for index in 0..self.finish.rows {
            let mut product = [0i32; PANEL];
            let row = &self.wide[index * self.depth..][..self.depth];
            for (a, b) in row.chunks_exact(DEPTH).zip(self.b.chunks_exact(DEPTH * PANEL)) {
                for (sum, b) in product.iter_mut().zip(b.chunks_exact(DEPTH)) {
                    for (&a, &b) in a.iter().zip(b) {
                        *sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                    }
                }
            }
            // SAFETY: the caller vouches for C.
            unsafe { self.finish.row(index, &product) };
        }
    }
}
