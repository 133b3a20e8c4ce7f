//! What products of rows of A with panels of B read and write, in tiles of six rows.

use super::dot::Dot;
use super::finish::Finish;
use super::pack::{DEPTH, PANEL};
use super::stats::PanelStats;

/// Rows of a tile.
pub(super) const MOST_ROWS: usize = 6;

/// Calls `$tile::<P>(.., row)` for all rows of a range, [`MOST_ROWS`] at a time and then what is left.
#[cfg(target_arch = "x86_64")]
macro_rules! each_tile {
    ($rows:expr, $tile:ident $(::<$wide:literal>)?, $($argument:expr),+) => {{
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

/// Rows of A times panels of B.
pub(super) struct Tiles<'a> {
    /// Rows of `depth` elements; [`Dot::Wide`] does without.
    pub(super) bytes: &'a [u8],
    /// The same without their zero point; empty where the dot products do without.
    pub(super) wide: &'a [i16],
    /// The greatest byte of each tile, for [`Dot::Pairs`].
    pub(super) peaks: &'a [u8],
    /// The zero point of the bytes.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only vectors of x86-64 multiply bytes"))]
    pub(super) zero: u8,
    /// Panels of B, as many as [`Dot::panels`] at most.
    pub(super) b: &'a [i8],
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
        match dot {
            Dot::Wide => assert!(self.wide.len() == elements),
            Dot::Pairs => {
                assert!(self.bytes.len() == elements && self.stats.len() == panels);
                assert!(self.peaks.len() == rows.div_ceil(MOST_ROWS));
                let fits = |&peak| self.stats[0].chain(peak) > 0;
                assert!(self.wide.len() == elements || self.peaks.iter().all(fits));
            }
            Dot::Vnni256 | Dot::Vnni512 => assert!(self.bytes.len() == elements && self.stats.len() == panels),
        }
    }

    /// What the zero point of A takes off the columns of a panel whose products are those of bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn taken(&self, panel: usize) -> [i32; PANEL] {
        self.stats[panel].sums.map(|sum| sum.wrapping_mul(i32::from(self.zero)))
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
